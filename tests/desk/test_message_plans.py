"""The record of messages is read off its indexes, on both databases, however long it is."""

import json
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from checkpoints.models import Checkpoint
from notifications.distributing import email_channel
from notifications.models import Delivery
from tenants.fields import new_id
from tenants.models import Core, Tenant

pytestmark = [pytest.mark.both_databases, pytest.mark.django_db(transaction=True)]
TABLE = Delivery._meta.db_table
LIST = "/admin/notifications/delivery/"
MANY = 3000


@pytest.fixture
def crowded(acme: Tenant) -> Checkpoint:
    now = timezone.now()
    core = Core.objects.create(tenant=acme, slug="agent")
    rows = [Checkpoint(tenant=acme, core=core, prompt="?") for _ in range(MANY // 10)]
    Checkpoint.objects.bulk_create(rows)
    mail = email_channel(acme)
    states = ["failed"] + ["waiting"] + ["sent"] * 48
    Delivery.objects.bulk_create(
        [
            Delivery(
                id=new_id(),
                tenant=acme,
                dedupe_key=str(number),
                checkpoint=rows[number // 10],
                occasion="created",
                kind="email",
                lane="email",
                channel=mail,
                recipient=f"p{number % 300}@acme.example",
                status=(status := states[number % 50]),
                next_try_at=now + timedelta(days=1) if status == "waiting" else None,
                sent_at=now if status == "sent" else None,
            )
            for number in range(MANY)
        ],
        batch_size=500,
    )
    if connection.vendor == "mysql":
        with connection.cursor() as cursor:
            cursor.execute(f"ANALYZE TABLE {TABLE}")
            cursor.fetchall()
    return rows[0]


def plans_of(desk: Client, address: str) -> list[str]:
    """How each statement of this page that looks for messages is answered."""
    with CaptureQueriesContext(connection) as queries:
        assert desk.get(address).status_code == 200
    looks = [query["sql"] for query in queries if f"FROM {connection.ops.quote_name(TABLE)}" in query["sql"]]
    assert looks
    assert not [look for look in looks if "COUNT(" in look.upper()]
    return [plan_of(look) for look in looks]


def plan_of(statement: str) -> str:
    with connection.cursor() as cursor:
        if connection.vendor == "mysql":
            cursor.execute(f"EXPLAIN FORMAT=JSON {statement}")
            return json.dumps(json.loads(cursor.fetchone()[0]))
        cursor.execute(f"EXPLAIN QUERY PLAN {statement}")
        return "\n".join(row[3] for row in cursor.fetchall())


def reads_all(plan: str) -> bool:
    return f"SCAN {TABLE}" in plan or f'"table_name": "{TABLE}", "access_type": "ALL"' in plan


def sorts(plan: str) -> bool:
    return "TEMP B-TREE" in plan or "filesort" in plan


@pytest.mark.parametrize(
    ("query", "index"),
    [
        ("", "delivery_newest"),
        ("?status=failed", "delivery_by_status"),
        ("?status=complained", "delivery_by_status"),
        ("?kind=email&status=waiting", "delivery_by_status"),
    ],
)
def test_the_list_comes_sorted_off_its_index(desk: Client, crowded: Any, query: str, index: str) -> None:
    for plan in plans_of(desk, f"{LIST}{query}"):
        assert index in plan
        assert not sorts(plan), plan
        assert not reads_all(plan), plan


def test_search_and_the_filter_by_kind_do_not_read_everything(desk: Client, crowded: Checkpoint) -> None:
    for query in ("q=p7@acme.example", "q=nobody@acme.example", f"q={crowded.pk}", "kind=chat"):
        for plan in plans_of(desk, f"{LIST}?{query}"):
            assert not reads_all(plan), plan


def test_the_page_of_a_checkpoint_reads_its_own_messages(desk: Client, crowded: Checkpoint) -> None:
    [plan] = plans_of(desk, f"/admin/checkpoints/checkpoint/{crowded.pk}/change/")
    assert "delivery_by_checkpoint" in plan
    assert not sorts(plan), plan
