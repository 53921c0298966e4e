"""Time without anybody's word: expire, escalate, reroute in batches (semantics §2, §4)."""

from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from checkpoints import events, lifecycle, sweeps
from checkpoints.models import Checkpoint, Event, ExpiryAction
from tenants.models import Delegation, Membership
from tests.checkpoints.stories import again, detail, events_of, last, story

pytestmark = [pytest.mark.both_databases, pytest.mark.django_db]


@pytest.fixture
def due(ask, finance):
    """Waits for finance and is due after an hour: ``due(expiry_action="cancel")``."""
    return lambda **fields: ask(**({"assignee": "group:finance", "timeout": "1h"} | fields))


@pytest.fixture
def sweep():
    """The sweep as it will run in so many hours."""
    return lambda hours=1, **how: sweeps.expire_checkpoints(now=timezone.now() + timedelta(hours=hours), **how)


@pytest.fixture
def boss(acme):
    from tenants import setup

    return setup.add_person(acme, "boss@acme.example", roles=["board"])


# --- What the deadline does -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("action", ["none", "reject"])
def test_without_another_wish_it_expires(due, sweep, action):
    row = due(expiry_action=action)
    assert (sweep().done, again(row).status) == (1, "expired")
    row = again(row)
    assert (row.close_reason, row.closed_by) == ("expired", "timeout")
    assert row.closed_at == last(row).at >= row.expires_at
    assert (row.resolution, row.resolved_at) == (None, None)
    assert (last(row).type, last(row).actor, last(row).via) == ("checkpoint.expired", "timeout", "timeout")


def test_it_is_cancelled_when_asked_for(due, sweep):
    row = due(expiry_action="cancel")
    sweep()
    row = again(row)
    assert (row.status, row.close_reason, row.closed_by) == ("cancelled", "expired", "timeout")
    assert story(row) == ["created", "cancelled"]


@pytest.mark.parametrize("option", ["reject", None])
def test_the_default_is_chosen_and_never_the_first_option(due, sweep, option):
    row = due(expiry_action="default_option", options=["approve", "reject"], default_option=option)
    sweep()
    row = again(row)
    assert (row.status, row.resolved_by) == ("resolved", "timeout")
    assert row.resolution == {"decision": "default", "auto_expired": True, "option": option}
    assert row.closed_at is None


def test_time_approves_only_when_asked_for(due, sweep):
    row = due(expiry_action="approve", options=["approve", "reject"])
    sweep()
    row = again(row)
    assert (row.status, row.resolution["decision"], row.resolved_by) == ("resolved", "approve", "timeout")
    assert row.resolution["auto_expired"] is True


@pytest.mark.parametrize("action", ExpiryAction.values)
def test_whatever_the_deadline_does_ends_the_claim(due, sweep, approver, as_person, action):
    extra = {"escalation_target": "role:approver"} if action == "escalate" else {}
    row = due(expiry_action=action, reminder_interval_m=5, **extra)
    lifecycle.claim(row, actor=as_person(approver))
    sweep()
    row = again(row)
    assert (row.claimed_by, row.claimed_at) == ("", None)
    assert (row.next_reminder_at is not None) == (action == "escalate")
    assert story(row)[1] == "claimed"
    assert len(story(row)) == 3


def test_what_is_not_due_is_left_alone(due, ask, sweep, refund, decide, approver):
    early, undated, decided = due(timeout="2h"), ask(), due()
    decide(decided, approver, "approve")
    assert sweep().done == 0
    assert [again(row).row_version for row in (early, undated, decided)] == [1, 1, 2]


def test_a_second_run_finds_nothing_left_to_do(due, sweep):
    rows = [due(expiry_action=action) for action in ("none", "cancel", "default_option", "approve")]
    assert sweep().done == 4
    versions = [again(row).row_version for row in rows]
    assert (sweep().done, sweep(hours=99).done) == (0, 0)
    assert [again(row).row_version for row in rows] == versions


def test_rows_of_every_tenant_are_swept_under_their_own_name(due, ask, sweep, foreign_program, globex):
    mine, theirs = due(), ask(actor=foreign_program, timeout="1h")
    assert sweep().done == 2
    assert (last(mine).tenant_id, last(theirs).tenant_id) == (mine.tenant_id, globex.pk)


# --- Escalation -----------------------------------------------------------------------------------------------------


def test_an_escalation_passes_the_question_on(due, sweep, tenant_admin):
    row = due(expiry_action="escalate", escalation_target="role:tenant_admin", reminder_interval_m=30)
    sweep()
    row = again(row)
    at = last(row).at
    assert (row.status, row.assignee_raw, row.assignee_type) == ("pending", "role:tenant_admin", "role")
    assert (row.assignment_version, row.escalation_step, row.escalation_target) == (2, 1, None)
    assert (row.expires_at, row.next_reminder_at) == (at + timedelta(hours=1), at + timedelta(minutes=30))
    assert (last(row).type, detail(row)["from"], detail(row)["to"]) == (
        "checkpoint.escalated",
        "group:finance",
        "role:tenant_admin",
    )


def test_a_chain_is_climbed_round_by_round_and_then_it_expires(due, sweep, tenant_admin, boss):
    row = due(
        expiry_action="escalate",
        escalation_target="role:tenant_admin",
        escalation_chain=["user:boss@acme.example", "role:board"],
    )
    seen = []
    for hours in (1, 2, 3, 4):
        assert sweep(hours).done == 1
        row = again(row)
        seen.append((row.status, row.assignee_raw, row.escalation_step, row.escalation_target))
    assert seen == [
        ("pending", "role:tenant_admin", 1, "user:boss@acme.example"),
        ("pending", "user:boss@acme.example", 2, "role:board"),
        ("pending", "role:board", 3, None),
        ("expired", "role:board", 3, None),
    ]
    assert story(row) == ["created", "escalated", "escalated", "escalated", "expired"]
    assert events.first_broken(events_of(row)) is None


def test_the_next_round_of_an_absolute_deadline_takes_as_long_as_the_first(ask, sweep, tenant_admin):
    row = ask(
        expires_at=timezone.now() + timedelta(minutes=90),
        expiry_action="escalate",
        escalation_target="role:tenant_admin",
    )
    sweep(hours=2)
    row = again(row)
    assert row.expires_at == last(row).at + timedelta(minutes=90)


def test_a_fractional_timeout_escalates_too(due, sweep, tenant_admin):
    row = due(timeout=90.5, expiry_action="escalate", escalation_target="role:tenant_admin")
    assert (sweep().done, again(row).escalation_step) == (1, 1)


def test_after_a_long_pause_one_sweep_is_one_step(due, sweep, tenant_admin):
    row = due(expiry_action="escalate", escalation_target="role:tenant_admin")
    assert sweep(hours=500).done == 1
    assert again(row).is_pending


def test_a_target_that_leads_to_nobody_goes_to_the_queue(due, sweep):
    row = due(expiry_action="escalate", escalation_target="group:nowhere")
    outcome = sweep()
    row = again(row)
    assert (outcome.done, outcome.failed, row.sweep_error) == (1, 0, "")
    assert row.is_unrouted
    assert row.assignee_raw == "group:nowhere"
    assert row.unrouted_reason == "There is no group “nowhere” in Acme."
    assert list(Checkpoint.objects.unrouted()) == [row]


# --- Batches --------------------------------------------------------------------------------------------------------


def test_after_downtime_it_catches_up_batch_by_batch(due, sweep):
    rows = [due() for _ in range(11)]
    assert sweep(batch=3).done == 11
    assert {again(row).status for row in rows} == {"expired"}


def test_a_batch_of_every_kind_is_one_event_and_one_version_each(due, sweep, tenant_admin, foreign_program, ask):
    rows = [
        due(expiry_action="none"),
        due(expiry_action="cancel"),
        due(expiry_action="default_option"),
        due(expiry_action="approve"),
        due(expiry_action="reject"),
        due(expiry_action="escalate", escalation_target="role:tenant_admin"),
        due(expiry_action="escalate", escalation_target="group:nowhere", reminder_interval_m=3),
        ask(actor=foreign_program, timeout="1h"),
    ]
    assert sweep().done == len(rows)
    for row in map(again, rows):
        assert (row.row_version, row.event_count, row.event_head) == (2, 2, last(row).digest)
        assert events.first_broken(events_of(row)) is None
        assert row.updated_at == last(row).at


def test_nothing_due_costs_next_to_nothing(due, sweep):
    due(timeout="9h")
    with CaptureQueriesContext(connection) as queries:
        sweep()
    assert len(queries) <= 5


def test_a_bigger_batch_takes_no_more_queries(due, sweep, tenant_admin):
    def cost(count):
        for number in range(count):
            due(**({"expiry_action": "escalate", "escalation_target": "role:tenant_admin"} if number % 2 else {}))
        with CaptureQueriesContext(connection) as queries:
            assert sweep(batch=500).done >= count
        Checkpoint.objects.pending().update(expires_at=None)
        return len(queries)

    few, many = cost(10), cost(100)
    # SQLite takes at most 999 values in one statement: the events of a hundred rows need two.
    assert many <= few + 2


# --- Bad rows -------------------------------------------------------------------------------------------------------


def poison(row, **columns):
    """Past every check that the product makes, as a restored dump or an older version might."""
    Checkpoint.objects.filter(pk=row.pk).update(**columns)
    return row


@pytest.fixture
def bad(due):
    return poison(due(expiry_action="escalate", escalation_target="role:approver"), timeout_raw="whenever \U0001f600")


def test_a_bad_row_is_set_aside_with_its_error_and_the_others_pass(due, bad, sweep):
    good = [due() for _ in range(5)]
    outcome = sweep()
    assert (outcome.done, outcome.failed) == (5, 1)
    assert {again(row).status for row in good} == {"expired"}
    row = again(bad)
    assert (row.status, row.row_version, story(row)) == ("pending", 1, ["created"])
    assert row.sweep_error.startswith("UnreadableSpan: “whenever \U0001f600” is not a span of time.")
    assert row.sweep_retry_at > timezone.now()


@pytest.mark.parametrize(
    "columns",
    [
        {"escalation_chain": {"not": "a list"}},
        {"escalation_chain": "role:x"},
        {"timeout_raw": "P"},
        {"timeout_raw": "99999999d"},
    ],
)
def test_many_kinds_of_bad_rows_stop_nobody(due, sweep, columns):
    first, bad, second = due(), due(expiry_action="escalate", escalation_target="role:approver"), due()
    poison(bad, **columns)
    outcome = sweep()
    assert (outcome.done, outcome.failed) == (2, 1)
    assert [again(row).status for row in (first, bad, second)] == ["expired", "pending", "expired"]
    assert again(bad).sweep_error


def test_more_bad_rows_than_a_batch_holds_do_not_block_the_way(due, sweep):
    bad = [poison(due(expiry_action="escalate", escalation_target="role:x"), timeout_raw="?") for _ in range(5)]
    good = [due() for _ in range(5)]
    outcome = sweep(batch=2)
    assert (outcome.done, outcome.failed) == (5, 5)
    assert all(again(row).sweep_error for row in bad)
    assert {again(row).status for row in good} == {"expired"}


def test_a_row_set_aside_is_not_tried_again_at_once_but_later(bad, sweep):
    assert sweep().failed == 1
    assert (sweep().failed, sweep(hours=1.5).failed) == (0, 0)
    assert sweep(hours=2.5).failed == 1
    assert story(bad) == ["created"]


def test_a_row_that_was_mended_goes_through_at_the_next_try_and_loses_its_mark(bad, sweep):
    sweep()
    poison(bad, timeout_raw="2h")
    assert sweep(hours=3).done == 1
    row = again(bad)
    assert (row.escalation_step, row.sweep_error, row.sweep_retry_at) == (1, "", None)


def test_a_row_that_was_mended_by_a_simpler_wish_loses_its_mark_too(bad, sweep):
    sweep()
    poison(bad, expiry_action="cancel")
    sweep(hours=3)
    row = again(bad)
    assert (row.status, row.sweep_error, row.sweep_retry_at) == ("cancelled", "", None)


def test_a_row_set_aside_can_be_extended_decided_and_cancelled(due, sweep, program, decide):
    rows = [poison(due(expiry_action="escalate", escalation_target="role:x"), timeout_raw="?") for _ in range(3)]
    sweep()
    extended, decided, cancelled = map(again, rows)
    lifecycle.extend(extended, actor=program, timeout="9h")
    decide(decided, program, "approve")
    lifecycle.cancel(cancelled, actor=program)
    assert (again(extended).sweep_error, again(extended).sweep_retry_at) == ("", None)
    assert (again(decided).status, again(cancelled).status) == ("resolved", "cancelled")
    assert sweep(hours=3).failed == 0


def test_a_very_long_error_is_cut(due):
    row = due()
    lifecycle.set_aside(row.pk, error="x" * 100_000 + "\ud800\x00", at=timezone.now())
    assert len(again(row).sweep_error) == 2000
    lifecycle.set_aside(row.pk, error="half \ud800 and NUL \x00", at=timezone.now())
    assert again(row).sweep_error == "half \\ud800 and NUL "


def test_what_was_decided_is_never_set_aside(refund, approver, decide):
    decide(refund, approver, "approve")
    lifecycle.set_aside(refund.pk, error="late", at=timezone.now())
    assert again(refund).sweep_error == ""


def test_a_row_decided_between_the_look_and_the_try_counts_as_done(due, sweep, bad, approver, decide, monkeypatch):
    row = due()
    expire_one = lifecycle.expire_one

    def decided_first(checkpoint, *, at):
        if checkpoint.pk == row.pk:
            decide(again(row), approver, "approve")
        return expire_one(checkpoint, at=at)

    monkeypatch.setattr(lifecycle, "expire_one", decided_first)
    outcome = sweep()
    assert (outcome.done, outcome.failed) == (1, 1)
    assert (again(row).status, again(row).sweep_error) == ("resolved", "")


def test_a_row_extended_between_the_look_and_the_try_is_left_alone(due, sweep, bad, program, monkeypatch):
    row = due()
    expire_one = lifecycle.expire_one

    def extended_first(checkpoint, *, at):
        if checkpoint.pk == row.pk:
            lifecycle.extend(again(row), actor=program, timeout="9h")
        return expire_one(checkpoint, at=at)

    monkeypatch.setattr(lifecycle, "expire_one", extended_first)
    sweep()
    assert again(row).is_pending
    assert story(row) == ["created", "extended"]


# --- Reroute --------------------------------------------------------------------------------------------------------


@pytest.fixture
def delegated(acme, core, approver):
    return Delegation.objects.create(
        tenant=acme,
        core=core,
        delegate=Membership.objects.get(user=approver),
        starts_at=timezone.now() - timedelta(days=1),
    )


def test_a_group_that_was_emptied_sends_its_rows_to_the_queue(ask, finance, approver, as_person):
    rows = [ask(assignee="group:finance") for _ in range(7)]
    lifecycle.claim(rows[0], actor=as_person(approver))
    finance.members.clear()
    assert sweeps.reroute(batch=3).done == 7
    for row in map(again, rows):
        assert row.is_unrouted
        assert row.unrouted_reason == "The group “finance” has no active members."
        assert (row.assignee_raw, row.assignment_version, row.claimed_by) == ("group:finance", 2, "")
        assert (last(row).type, last(row).actor) == ("checkpoint.rerouted", "sweep")
    assert sweeps.reroute().done == 0


def test_a_disabled_user_loses_their_rows_to_the_queue(ask, approver):
    row = ask(assignee=f"user:{approver.pk}")
    approver.is_active = False
    approver.save()
    sweeps.reroute()
    assert again(row).unrouted_reason == "The account of approver@acme.example is disabled."


def test_a_role_that_nobody_holds_any_more(ask, approver):
    row = ask(assignee="role:approver")
    Membership.objects.get(user=approver).roles.clear()
    sweeps.reroute()
    assert again(row).unrouted_reason == "Nobody in Acme holds the role “approver”."


def test_a_delegation_that_ended_sends_its_rows_to_the_queue(ask, delegated):
    row = ask(assignee="delegated_user")
    delegated.ends_at = timezone.now()
    delegated.save()
    sweeps.reroute()
    row = again(row)
    assert row.is_unrouted
    assert row.unrouted_reason == "The core “refund-agent” is not delegated to anybody active at the moment."


def test_a_delegation_that_moved_takes_its_rows_along(ask, acme, core, colleague, delegated):
    rows = [ask(assignee="delegated_user"), ask(assignee="Delegated_User:")]
    assert rows[0].assignee_value == "approver@acme.example"
    Delegation.objects.create(tenant=acme, core=core, delegate=Membership.objects.get(user=colleague))
    assert sweeps.reroute().done == 2
    for row in map(again, rows):
        assert (row.assignee_type, row.assignee_value) == ("delegated_user", "colleague@acme.example")
        assert (row.assignment_version, story(row)) == (2, ["created", "rerouted"])
    assert sweeps.reroute().done == 0


def test_rows_on_which_somebody_can_act_are_not_touched(ask, finance, approver, tenant_admin, delegated, decide):
    rows = [
        ask(assignee="group:finance"),
        ask(assignee="role:tenant_admin"),
        ask(assignee="stranger@elsewhere.example"),
        ask(assignee="delegated_user"),
        ask(assignee="team:blue"),
        ask(assignee="group:nowhere"),
    ]
    outside = ask(assignee="group:finance", routing="external")
    done = decide(ask(assignee="group:finance"), approver, "approve")
    assert sweeps.reroute().done == 0
    finance.members.remove(Membership.objects.get(user=approver))
    assert sweeps.reroute().done == 0
    finance.members.clear()
    assert sweeps.reroute().done == 1
    assert [again(row).row_version for row in rows] == [2, 1, 1, 1, 1, 1]
    assert (again(outside).row_version, again(done).row_version) == (1, 2)


def test_a_group_of_another_tenant_is_judged_by_its_own_members(ask, finance, globex, foreign_program):
    from tenants import setup

    setup.add_person(globex, "trader@globex.example", groups=["finance"])
    mine, theirs = ask(assignee="group:finance"), ask(assignee="group:finance", actor=foreign_program)
    finance.members.clear()
    assert sweeps.reroute().done == 1
    assert (again(mine).is_unrouted, again(theirs).is_unrouted) == (True, False)


def test_one_look_per_assignment_not_one_per_row(ask, finance):
    def cost():
        with CaptureQueriesContext(connection) as queries:
            assert sweeps.reroute().done == 0
        return len(queries)

    ask(assignee="group:finance")
    one = cost()
    for _ in range(20):
        ask(assignee="group:finance")
    assert cost() == one


def test_the_events_of_a_sweep_can_be_told_apart_from_peoples(due, sweep):
    due()
    sweep()
    assert set(Event.objects.filter(type="checkpoint.expired").values_list("actor", "via")) == {("timeout", "timeout")}
