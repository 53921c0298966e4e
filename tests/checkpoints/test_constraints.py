"""The database holds the invariants, not only Python (semantics §1)."""

import re
from datetime import UTC, datetime

import pytest
from django.apps import apps
from django.db import DataError, IntegrityError, connection, models, transaction

from checkpoints.models import Checkpoint, Event
from tenants.models import Core, User
from tests.checkpoints.stories import again, events_of

pytestmark = [pytest.mark.both_databases, pytest.mark.django_db]

NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)
DECIDED = {"status": "resolved", "resolution": {"decision": "approve"}, "resolved_at": NOON}
# What breaks each constraint, written past all of lifecycle.
BROKEN = {
    "checkpoint_status_known": [{"status": word} for word in ("open", "", "Pending", "pending ", "PENDING")],
    "checkpoint_routing_known": [{"routing": "nowhere"}, {"routing": "People"}],
    "checkpoint_priority_known": [{"priority": 4}, {"priority": -1}],
    "checkpoint_assignee_type_known": [{"assignee_type": "team"}, {"assignee_type": "User"}],
    "checkpoint_expiry_action_known": [{"expiry_action": "explode"}, {"expiry_action": ""}],
    "checkpoint_resolution_iff_resolved": [
        {"status": "resolved"},
        {"status": "resolved", "resolution": {"decision": "approve"}},
        {"status": "resolved", "resolved_at": NOON},
        {"resolution": {}},
        {"resolved_at": NOON},
        {"status": "cancelled", "closed_at": NOON, "resolved_at": NOON},
        {"status": "expired", "closed_at": NOON, "resolution": {"decision": "approve"}},
    ],
    "checkpoint_closed_iff_ended": [
        {"status": "cancelled"},
        {"status": "expired"},
        {"closed_at": NOON},
        DECIDED | {"closed_at": NOON},
    ],
    "checkpoint_escalate_needs_target": [{"expiry_action": "escalate"}],
    "checkpoint_counts_not_negative": [
        {"row_version": 0},
        {"row_version": -1},
        {"assignment_version": 0},
        {"event_count": -1},
        {"reminder_count": -1},
        {"escalation_step": -1},
        {"required_approvals": 0},
        {"rejections_allowed": -1},
        {"window_s": -1},
        {"state_size": -1},
    ],
    "checkpoint_block_index_not_negative": [{"block_index": -1}],
    "checkpoint_reminder_interval_positive": [{"reminder_interval_m": 0}, {"reminder_interval_m": -5}],
}
ALLOWED = [
    DECIDED,
    {"status": "cancelled", "closed_at": NOON},
    {"status": "expired", "closed_at": NOON},
    {"expiry_action": "escalate", "escalation_target": "role:x"},
    {"expiry_action": "escalate", "escalation_step": 1},
    {"block_index": 0},
    {"reminder_interval_m": 1},
]
# MariaDB has columns without a sign: a negative number does not even fit.
REFUSED = (IntegrityError, DataError)


@pytest.mark.parametrize(
    ("name", "columns"), [(name, columns) for name, cases in BROKEN.items() for columns in cases], ids=str
)
def test_the_database_refuses(name, columns, unrouted):
    with pytest.raises(REFUSED), transaction.atomic():
        Checkpoint.objects.filter(pk=unrouted.pk).update(**columns)
    assert Checkpoint.objects.filter(pk=unrouted.pk, status="pending", row_version=1).exists()


@pytest.mark.parametrize("columns", ALLOWED, ids=str)
def test_the_database_takes_what_is_right(columns, unrouted):
    assert Checkpoint.objects.filter(pk=unrouted.pk).update(**columns) == 1


@pytest.mark.parametrize("columns", [{"status": "open"}, {"status": "resolved"}, {"expiry_action": "escalate"}])
def test_an_insert_is_held_to_the_same(columns, unrouted):
    fields = {field.attname: getattr(unrouted, field.attname) for field in Checkpoint._meta.concrete_fields}
    fields |= {"id": None} | columns
    fields.pop("id")
    with pytest.raises(IntegrityError), transaction.atomic():
        Checkpoint.objects.bulk_create([Checkpoint(**fields)])
    assert Checkpoint.objects.count() == 1


def test_every_check_of_the_row_has_a_case_that_breaks_it():
    checks = {one.name for one in Checkpoint._meta.constraints if isinstance(one, models.CheckConstraint)}
    assert set(BROKEN) == checks


def names_the_database_has(table):
    with connection.cursor() as cursor:
        if connection.vendor == "mysql":
            return set(connection.introspection.get_constraints(cursor, table))
        # Django's own reading of a table with "IN (…)" in a check fails on SQLite.
        cursor.execute("SELECT type, name, sql FROM sqlite_master WHERE tbl_name = %s", [table])
        found = cursor.fetchall()
    definition = next(text for kind, _, text in found if kind == "table")
    return {name for kind, name, _ in found if kind == "index"} | set(re.findall(r'CONSTRAINT "(\w+)"', definition))


@pytest.mark.parametrize("app", ["tenants", "checkpoints"])
def test_no_constraint_or_index_was_silently_left_out(app, db):
    for model in apps.get_app_config(app).get_models():
        declared = {one.name for one in [*model._meta.constraints, *model._meta.indexes]}
        assert declared <= names_the_database_has(model._meta.db_table)


def test_a_state_belongs_to_one_checkpoint_of_a_tenant(ask, foreign_program):
    first, second, foreign = ask(), ask(), ask(actor=foreign_program)
    ask()  # and any number without a state
    Checkpoint.objects.filter(pk=first.pk).update(state_s3_key="states/1")
    Checkpoint.objects.filter(pk=foreign.pk).update(state_s3_key="states/1")
    Checkpoint.objects.filter(pk=second.pk).update(state_s3_key="states/1 ")
    with pytest.raises(IntegrityError), transaction.atomic():
        Checkpoint.objects.filter(pk=second.pk).update(state_s3_key="states/1")
    assert Checkpoint.objects.filter(state_s3_key=None).count() == 1


def test_names_that_differ_in_case_or_a_trailing_blank_are_different(ask, acme):
    for name in ("exec-1", "Exec-1", "exec-1 ", "exec-1é"):
        ask(execution_id=name)
    for name in ("exec-1", "Exec-1", "exec-1 "):
        assert [row.execution_id for row in Checkpoint.objects.filter(execution_id=name)] == [name]
    assert not Checkpoint.objects.filter(execution_id="exec-1e").exists()
    ask(core_id="Agent"), ask(core_id="agent")
    assert Core.objects.for_tenant(acme).filter(slug__in=["Agent", "agent"]).count() == 2


def test_an_address_has_one_account(approver):
    with pytest.raises(IntegrityError), transaction.atomic():
        User(email="approver@acme.example").save(force_insert=True)


def test_an_event_has_its_own_place_in_the_history(unrouted):
    event = events_of(unrouted)[0]
    event.pk = None
    with pytest.raises(IntegrityError), transaction.atomic():
        event.save(force_insert=True)
    assert Event.objects.count() == 1


def test_a_checkpoint_keeps_its_tenant_and_core(unrouted):
    for owner in (unrouted.core, unrouted.tenant):
        with pytest.raises(models.ProtectedError):
            owner.delete()
    assert again(unrouted).core == unrouted.core
