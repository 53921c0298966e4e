"""Create: a program suspends and asks (semantics §1, §3)."""

import uuid
from datetime import UTC, datetime, timedelta

import pytest

from checkpoints import answers, errors, lifecycle
from checkpoints.models import Checkpoint, Event, Priority
from tenants import actors, keys
from tenants.models import Core
from tests.checkpoints.stories import again, events_of, last, story


def test_a_new_checkpoint_is_pending_with_one_event(ask, finance, program):
    row = again(ask(assignee="group:finance", priority="high", flow_name="refund", block_index=4))
    assert (row.status, row.row_version, row.assignment_version, row.event_count) == ("pending", 1, 1, 1)
    assert (row.assignee_type, row.assignee_value, row.assignee_raw) == ("group", "finance", "group:finance")
    assert row.assignee_resolved == {"type": "group", "value": "finance", "reason": None}
    assert (row.priority, row.flow_name, row.block_index) == (Priority.HIGH, "refund", 4)
    assert (row.created_by, row.created_by_key) == ("key:refund-agent", program.key.family)
    created = last(row)
    assert (created.type, created.sequence, created.previous_digest) == ("checkpoint.created", 1, "")
    assert row.event_head == created.digest
    assert row.created_at == row.updated_at == created.at


def test_ids_grow_with_time(ask):
    rows = [ask() for _ in range(20)]
    assert [row.pk for row in Checkpoint.objects.order_by("id")] == [row.pk for row in rows]


def test_a_core_is_created_on_first_use_and_used_again(ask, acme):
    first, second = ask(core_id="brand-new"), ask(core_id="brand-new")
    assert first.core == second.core
    assert Core.objects.for_tenant(acme).filter(slug="brand-new").count() == 1


def test_the_same_core_name_in_two_tenants_is_two_cores(ask, foreign_program):
    assert ask(core_id="shared").core != ask(core_id="shared", actor=foreign_program).core


def test_a_checkpoint_for_nobody_is_never_lost(ask):
    row = again(ask(assignee="team:blue"))
    assert row.is_unrouted
    assert row.unrouted_reason.startswith("Nobody knows the prefix “team:”")
    assert list(Checkpoint.objects.for_tenant(row.tenant).unrouted()) == [row]


def test_what_somebody_outside_resumes_stays_out_of_the_queue(ask):
    row = ask(routing="external")
    assert not Checkpoint.objects.for_tenant(row.tenant).unrouted().exists()


def test_a_relative_timeout_keeps_its_text_and_an_absolute_one_its_span(ask):
    relative = ask(timeout="15m")
    assert relative.expires_at == relative.created_at + timedelta(minutes=15)
    assert (relative.timeout_raw, relative.window_s) == ("15m", 900)

    absolute = ask(expires_at=datetime.now(UTC) + timedelta(hours=2))
    assert absolute.timeout_raw == ""
    assert absolute.window_s == pytest.approx(7200, abs=2)


def test_a_reminder_interval_sets_the_first_reminder(ask):
    row = ask(reminder_interval_m=30)
    assert row.next_reminder_at == row.created_at + timedelta(minutes=30)


def test_a_chain_alone_starts_with_its_first_link(ask):
    row = ask(timeout="1h", expiry_action="escalate", escalation_chain=["role:tenant_admin", "user:boss@acme"])
    assert (row.escalation_target, row.escalation_chain) == ("role:tenant_admin", ["user:boss@acme"])


def test_only_programs_create(tenant_admin, as_person):
    with pytest.raises(errors.NotAllowed, match="created by programs"):
        lifecycle.create(lifecycle.Draft(core_id="x", prompt="?"), actor=as_person(tenant_admin))


def test_a_key_without_the_scope_creates_nothing(acme):
    narrow = actors.program(keys.create(acme, name="reader", scopes=["checkpoints:read"]).row)
    with pytest.raises(errors.NotAllowed, match="lacks the scope checkpoints:create"):
        lifecycle.create(lifecycle.Draft(core_id="x", prompt="?"), actor=narrow)
    assert not Core.objects.for_tenant(acme).exists()


@pytest.mark.parametrize(
    ("fields", "where"),
    [
        ({"core_id": "no blanks"}, "core_id"),
        ({"core_id": ""}, "core_id"),
        ({"prompt": ""}, "prompt"),
        ({"prompt": " \n "}, "prompt"),
        ({"prompt": "x" * 100_001}, "prompt"),
        ({"options": "approve"}, "options"),
        ({"options": ["approve", "approve"]}, "options"),
        ({"options": ["approve", {"id": "approve"}]}, "options"),
        ({"options": ["default"]}, "options"),
        ({"options": [""]}, "options"),
        ({"options": [3]}, "options"),
        ({"options": [{"label": "Approve"}]}, "options"),
        ({"options": [{"id": "a", "colour": "red"}]}, "options"),
        ({"options": [{"id": "a", "requires_comment": "yes"}]}, "options"),
        ({"options": ["x" * 101]}, "options"),
        ({"options": [str(number) for number in range(101)]}, "options"),
        ({"options": ["approve"], "default_option": "reject"}, "default_option"),
        ({"default_option": "reject"}, "default_option"),
        ({"options": ["yes", "no"], "timeout": "1h", "expiry_action": "approve"}, "expiry_action"),
        ({"expiry_action": "cancel"}, "expiry_action"),
        ({"timeout": "1h", "expiry_action": "escalate"}, "escalation_target"),
        ({"timeout": "1h", "expiry_action": "escalate", "escalation_target": "  "}, "escalation_target"),
        ({"timeout": "1h", "escalation_target": "role:x"}, "escalation_target"),
        ({"timeout": "1h", "escalation_chain": ["role:x"]}, "escalation_chain"),
        ({"timeout": "1h", "expiry_action": "escalate", "escalation_chain": ["role:x", " "]}, "escalation_chain"),
        ({"timeout": "1h", "expiry_action": "escalate", "escalation_chain": ["role:x"] * 21}, "escalation_chain"),
        ({"timeout": "soon"}, "timeout"),
        ({"timeout": -5}, "timeout"),
        ({"timeout": "1h", "expires_at": datetime(2099, 1, 1, tzinfo=UTC)}, "timeout"),
        ({"expires_at": datetime(2001, 1, 1, tzinfo=UTC)}, "expires_at"),
        ({"expires_at": datetime(2999, 1, 1, tzinfo=UTC)}, "expires_at"),
        ({"reminder_interval_m": 0}, "reminder_interval_m"),
        ({"forbid_requester": True}, "requested_by"),
        ({"requested_by": "group:finance"}, "requested_by"),
        ({"requested_by": "İ" * 240 + "@x"}, "requested_by"),
        ({"supersedes": uuid.UUID(int=7)}, "supersedes"),
        ({"assignee": "x" * 301}, "assignee"),
        ({"timeout": "1h", "expiry_action": "escalate", "escalation_target": "x" * 301}, "escalation_target"),
    ],
)
def test_a_wrong_draft_is_refused_by_field_and_leaves_nothing(ask, fields, where):
    with pytest.raises(errors.InvalidInput) as refused:
        ask(**fields)
    assert list(refused.value.errors) == [where]
    assert refused.value.errors[where][0].endswith(".")
    assert not Checkpoint.objects.exists()
    assert not Core.objects.exists()


def test_every_fault_is_named_at_once(ask):
    with pytest.raises(errors.InvalidInput) as refused:
        ask(core_id="?", prompt="", options=["default"], timeout="soon", requested_by="role:x")
    assert set(refused.value.errors) == {"core_id", "prompt", "options", "timeout", "requested_by"}


def test_a_breakpoint_needs_no_prompt(ask):
    assert again(ask(prompt="", checkpoint_type="debug_breakpoint")).is_pending


@pytest.mark.parametrize(
    ("given", "stored"),
    [("Approver@ACME.example", "approver@acme.example"), ("user: Approver@acme.example ", "approver@acme.example")],
)
def test_the_requester_has_one_spelling(ask, given, stored):
    assert ask(requested_by=given).requested_by == stored


def test_any_json_survives_the_way_to_the_database_and_back(ask):
    context = {
        "half": 0.1,
        "whole": 1.0,
        "tiny": 5e-324,
        "minus": -0.0,
        "large": 2**80,
        "words": "é ü 漢字 \U0001f600 \\ \" ' \u2028 %s %%",
        "nothing": None,
        "deep": {"list": [1, [2, [3, {"4": []}]]]},
        "": "an empty name",
    }
    row = again(ask(context=context, options=["é", "\U0001f600"]))
    assert row.context == context
    assert row.options == ["é", "\U0001f600"]


def test_superseding_cancels_the_older_one_in_the_same_breath(ask, program):
    older = ask(assignee="team:blue")
    newer = ask(supersedes=older.pk)
    older = again(older)
    assert (older.status, older.close_reason, older.closed_by) == ("cancelled", "superseded", "key:refund-agent")
    assert last(older).data["detail"] == {"reason": "superseded", "superseded_by": str(newer.pk)}
    assert events_of(newer)[0].data["detail"]["supersedes"] == str(older.pk)
    assert again(newer).supersedes == older


def test_superseding_what_has_ended_creates_nothing(ask, refund, approver, as_person):
    lifecycle.resolve(refund, actor=as_person(approver), answer=answers.Answer("approve"))
    with pytest.raises(errors.AlreadyResolved):
        ask(supersedes=refund.pk)
    assert Checkpoint.objects.count() == 1
    assert Event.objects.count() == 2


@pytest.mark.django_db(transaction=True)
def test_superseding_goes_both_ways_or_not_at_all(ask, monkeypatch):
    older = ask()

    def broken(*args, **kwargs):
        raise RuntimeError("the disk is full")

    monkeypatch.setattr("checkpoints.lifecycle.creating.insert", broken)
    with pytest.raises(RuntimeError):
        ask(supersedes=older.pk)
    assert again(older).is_pending
    assert story(older) == ["created"]
    assert Checkpoint.objects.count() == 1


def test_a_foreign_checkpoint_cannot_be_superseded(ask, unrouted, foreign_program):
    with pytest.raises(errors.InvalidInput, match="There is no such checkpoint"):
        ask(supersedes=unrouted.pk, actor=foreign_program)
    assert again(unrouted).is_pending


def test_a_key_that_may_only_create_supersedes_only_its_own(ask, acme, unrouted):
    narrow = actors.program(keys.create(acme, name="other", scopes=["checkpoints:create"]).row)
    with pytest.raises(errors.NotAllowed, match="a key cancels only what it created"):
        ask(supersedes=unrouted.pk, actor=narrow)
    own = ask(actor=narrow)
    ask(supersedes=own.pk, actor=narrow)
    assert again(own).status == "cancelled"
    assert again(unrouted).is_pending
