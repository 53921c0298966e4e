"""One tick with nothing due is a handful of indexed queries, whatever is stored; on both databases."""

import json
import re
import uuid
from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from checkpoints import jobs
from checkpoints.models import Checkpoint, Event
from notifications import deliveries
from notifications.models import Delivery, UnroutedNotice
from tenants.fields import new_id
from tenants.models import Core, Tenant

pytestmark = [pytest.mark.both_databases, pytest.mark.django_db(transaction=True)]
MANY = 3000
BIG = {model._meta.db_table for model in (Checkpoint, Event, Delivery, UnroutedNotice)}
# Each writes a heartbeat beside its look: one read and one write.
HEARTBEAT = 4
MOST_QUERIES = {"reroute": 9} | dict.fromkeys(
    ["expire_checkpoints", "distribute_events", "send_checkpoint_reminders", "tell_of_unrouted", "send_deliveries"], 5
)


@pytest.fixture
def crowded(acme: Tenant) -> Tenant:
    """Thousands of checkpoints, events and messages, all of them dealt with; some wait for tomorrow."""
    now = timezone.now()
    core = Core.objects.create(tenant=acme, slug="agent")
    rows = [
        Checkpoint(
            id=new_id(),
            tenant=acme,
            core=core,
            prompt="?",
            assignee_type="user",
            assignee_value=f"person{number}@acme.example",
            assignee_raw=f"person{number}@acme.example",
            next_reminder_at=now + timedelta(days=1) if number % 10 == 0 else None,
            expires_at=now + timedelta(days=1),
            **({} if number % 10 == 0 else {"status": "cancelled", "closed_at": now}),
        )
        for number in range(MANY)
    ]
    Checkpoint.objects.bulk_create(rows, batch_size=500)
    Event.objects.bulk_create(
        [
            Event(tenant=acme, subject_id=uuid.uuid4(), sequence=1, type="x", at=now, digest="x", distributed_at=now)
            for _ in range(MANY)
        ],
        batch_size=500,
    )
    Delivery.objects.bulk_create(
        [
            Delivery(
                tenant=acme,
                dedupe_key=str(number),
                checkpoint=rows[number],
                occasion="created",
                kind="email",
                lane="email",
                status="waiting" if number % 50 == 0 else "sent",
                next_try_at=now + timedelta(hours=1) if number % 50 == 0 else None,
            )
            for number in range(MANY)
        ],
        batch_size=500,
    )
    UnroutedNotice.objects.bulk_create(
        [UnroutedNotice(tenant=acme, checkpoint=row, assignment_version=1, told_at=now) for row in rows],
        batch_size=500,
    )
    # SQLite keeps no figures of its tables unless somebody asks for them, and nobody does.
    if connection.vendor == "mysql":
        with connection.cursor() as cursor:
            for table in BIG:
                cursor.execute(f"ANALYZE TABLE {table}")
                cursor.fetchall()
    return acme


def read_whole(statement: str) -> list[str]:
    """The big tables that this statement reads from one end to the other."""
    with connection.cursor() as cursor:
        if connection.vendor == "mysql":
            cursor.execute(f"EXPLAIN FORMAT=JSON {statement}")
            plan = json.dumps(json.loads(cursor.fetchone()[0]))
            found = re.findall(r'"table_name": "(\w+)",\s*"access_type": "(\w+)"', plan)
            return [table for table, access in found if table in BIG and access in {"ALL", "index"}]
        cursor.execute(f"EXPLAIN QUERY PLAN {statement}")
        return [table for row in cursor.fetchall() for table in BIG if re.search(rf"SCAN {table}\b", row[3])]


@pytest.mark.parametrize("name", MOST_QUERIES)
def test_a_look_with_nothing_due_is_a_handful_of_indexed_queries(crowded: Tenant, name: str) -> None:
    jobs.run(name)
    with CaptureQueriesContext(connection) as queries:
        outcome = jobs.run(name)

    assert (outcome.done, outcome.failed) == (0, 0)
    statements = [query["sql"] for query in queries if query["sql"].startswith(("SELECT", "WITH"))]
    assert len(statements) <= MOST_QUERIES[name] + HEARTBEAT
    assert [(read, statement) for statement in statements for read in read_whole(statement)] == []


def test_the_check_finds_a_table_that_is_read_whole(crowded: Tenant) -> None:
    with CaptureQueriesContext(connection) as queries:
        list(Delivery.objects.filter(last_error="nothing like it"))

    assert read_whole(queries[0]["sql"]) == [Delivery._meta.db_table]


def test_the_queue_of_messages_is_read_in_order_off_its_index(crowded: Tenant) -> None:
    with CaptureQueriesContext(connection) as queries:
        deliveries._candidates("email")

    assert read_whole(queries[0]["sql"]) == []


def test_all_jobs_that_wait_for_something_are_looked_at_here() -> None:
    cleaning = {name for name in jobs.JOBS if name.startswith("forget_")}
    assert set(MOST_QUERIES) == set(jobs.JOBS) - cleaning
