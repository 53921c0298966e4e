"""Queue, lists and sweep are read off an index, on both databases, however many rows there are."""

import json
import re
from dataclasses import dataclass
from datetime import timedelta
from urllib.parse import parse_qs, urlsplit

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from checkpoints import stranded, sweeps
from checkpoints.models import Checkpoint, Priority
from tenants.models import Core

pytestmark = [pytest.mark.both_databases, pytest.mark.django_db(transaction=True)]

TABLE = Checkpoint._meta.db_table
MANY = 4000


@pytest.fixture
def crowded(acme, globex):
    """Some thousands of rows, spread as in real life: most are decided, few are pending, some of another tenant."""
    now = timezone.now()
    cores = {
        tenant.pk: [Core.objects.create(tenant=tenant, slug=f"agent-{number}") for number in range(20)]
        for tenant in (acme, globex)
    }
    ended = {
        "resolved": {"status": "resolved", "resolution": {"decision": "approve"}, "resolved_at": now},
        "expired": {"status": "expired", "closed_at": now},
        "cancelled": {"status": "cancelled", "closed_at": now},
        "pending": {"status": "pending"},
    }
    words = ["resolved"] * 6 + ["expired", "cancelled", "pending", "pending"]
    rows = []
    for number in range(MANY):
        tenant = globex if number % 4 == 3 else acme
        routed = number % 3 != 0
        rows.append(
            Checkpoint(
                tenant=tenant,
                core=cores[tenant.pk][number % 20],
                prompt="?",
                execution_id=f"exec-{number // 5}",
                assignee_type="group" if routed else "unrouted",
                assignee_value=f"group-{number % 50}" if routed else "",
                assignee_resolved={"type": "unrouted", "value": None, "reason": None},
                priority=Priority.values[number % 4],
                expires_at=now + timedelta(minutes=number % 4000) if number % 2 else None,
                **ended[words[number // 7 % 10]],
            )
        )
    Checkpoint.objects.bulk_create(rows, batch_size=500)
    # On SQLite nobody does this in production, and what it finds would stay for the tests that follow.
    if connection.vendor == "mysql":
        with connection.cursor() as cursor:
            cursor.execute(f"ANALYZE TABLE {TABLE}")
            cursor.fetchall()
    return acme


@dataclass
class Plan:
    text: str
    indexes: list[str]
    sorts: bool
    scans: bool


def plan_of(statement):
    with connection.cursor() as cursor:
        if connection.vendor == "mysql":
            cursor.execute(f"EXPLAIN FORMAT=JSON {statement}")
            text = cursor.fetchone()[0]
            parts = [part for part in tables_in(json.loads(text)) if part["table_name"] == TABLE]
            return Plan(
                text,
                # Also below the table: where two indexes are merged, each has its own part.
                re.findall(r'"key": "(\w+)"', json.dumps(parts)),
                "filesort" in text or "temporary_table" in text,
                any(part["access_type"] == "ALL" for part in parts),
            )
        cursor.execute(f"EXPLAIN QUERY PLAN {statement}")
        text = "\n".join(row[3] for row in cursor.fetchall())
    return Plan(
        text,
        re.findall(rf"{TABLE} USING (?:COVERING )?INDEX (\w+)", text),
        "TEMP B-TREE" in text,
        f"SCAN {TABLE}" in text,
    )


def tables_in(plan):
    if isinstance(plan, dict):
        if "table_name" in plan:
            yield plan
        for part in plan.values():
            yield from tables_in(part)
    elif isinstance(plan, list):
        for part in plan:
            yield from tables_in(part)


def read_by(act):
    """The one statement by which an act looks for checkpoints, and its plan."""
    with CaptureQueriesContext(connection) as queries:
        act()
    looks = [query["sql"] for query in queries if f"FROM {connection.ops.quote_name(TABLE)}" in query["sql"]]
    [statement] = looks
    assert "COUNT(" not in statement.upper()
    assert " OFFSET " not in statement.upper()
    return plan_of(statement)


def test_the_queue_is_read_off_its_index(crowded):
    plan = read_by(lambda: list(Checkpoint.objects.for_tenant(crowded).unrouted().most_urgent_first()[:51]))
    assert plan.indexes == ["checkpoint_queue"], plan.text
    assert not plan.sorts, plan.text


# Where the order itself comes from the index, and a page costs the same at any size.
READ_IN_ORDER = [
    {"order": "newest"},
    {"order": "urgent"},
    {"order": "newest", "status": "pending"},
    {"order": "urgent", "status": "pending"},
    {"order": "urgent", "status": "resolved"},
]
# Where the index finds the rows; few enough are left to be sorted.
FOUND_BY_INDEX = [
    {"order": order} | filters
    for order in ("newest", "urgent")
    for filters in (
        {"assignee": "group:group-4"},
        {"execution_id": "exec-8"},
        {"core_id": "agent-4"},
        {"status": "pending", "assignee": "group:group-4"},
        {"status": "pending", "core_id": "agent-4"},
        {"status": "pending", "execution_id": "exec-8"},
    )
]


def test_the_lists_are_read_off_an_index(crowded, api):
    for filters in READ_IN_ORDER + FOUND_BY_INDEX:
        plan = read_by(lambda filters=filters: api.list(**filters))
        assert plan.indexes, (filters, plan.text)
        assert not plan.scans, (filters, plan.text)
        if filters in READ_IN_ORDER:
            assert not plan.sorts, (filters, plan.text)


def test_the_next_page_is_read_off_the_same_index(crowded, api):
    for filters in READ_IN_ORDER:
        following = api.list(**filters).json()["next"]
        cursor = parse_qs(urlsplit(following).query)["cursor"][0]
        plan = read_by(lambda filters=filters, cursor=cursor: api.list(**filters, cursor=cursor))
        assert plan.indexes, (filters, plan.text)
        assert not plan.sorts, (filters, plan.text)


def test_the_sweep_looks_at_nothing_but_what_is_due(crowded):
    plan = read_by(sweeps.expire_checkpoints)
    assert plan.indexes == ["checkpoint_due"], plan.text
    assert not plan.sorts, plan.text


def test_reroute_reads_no_row_to_know_what_waits_for_whom(crowded):
    with CaptureQueriesContext(connection) as queries:
        list(stranded.suspects(at=timezone.now()))
    looks = [query["sql"] for query in queries if connection.ops.quote_name(TABLE) in query["sql"]]
    plans = [plan_of(statement) for statement in looks]
    assert len(plans) == 4
    assert not [plan.text for plan in plans if plan.scans or "SCAN later" in plan.text]
    if connection.vendor == "mysql":
        # Whether it jumps or reads the index from row to row, MariaDB decides by how much they differ.
        assert (plans[0].indexes, '"using_index": true' in plans[0].text) == (["checkpoint_assignments"], True)
    else:
        # Each jump knows all but the last of the columns it has come to.
        assert re.search(r"checkpoint_assignments \(status=\?.* AND core_id=\? AND assignee_value>\?\)", plans[0].text)
