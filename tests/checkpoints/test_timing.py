"""Extend and remind: time, on a person's word (semantics §3)."""

from datetime import UTC, datetime, timedelta

import pytest

from checkpoints import errors, events, lifecycle
from checkpoints.models import Checkpoint
from tests.checkpoints.stories import again, detail, story


@pytest.fixture
def dated(ask):
    return ask(timeout="1h")


def test_a_deadline_is_moved_by_a_moment_or_by_a_span_from_now(dated, program):
    moment = dated.expires_at + timedelta(hours=3)
    first = dated.expires_at
    lifecycle.extend(dated, actor=program, expires_at=moment)
    assert again(dated).expires_at == moment
    assert detail(dated) == {"from": events.moment(first), "to": events.moment(moment)}

    row = lifecycle.extend(dated, actor=program, timeout="2d")
    assert row.expires_at == row.updated_at + timedelta(days=2)


def test_an_overdue_checkpoint_can_be_extended_while_it_is_pending(dated, program, later):
    later(hours=5)
    row = lifecycle.extend(dated, actor=program, timeout="1h")
    assert not row.is_overdue(at=row.updated_at)


def test_a_longer_deadline_does_not_change_what_the_program_wrote(dated, program):
    row = again(lifecycle.extend(dated, actor=program, timeout="2d"))
    assert (row.timeout_raw, row.window_s) == ("1h", 3600)


def test_extending_takes_away_the_mark_of_a_failed_sweep(dated, program):
    Checkpoint.objects.filter(pk=dated.pk).update(sweep_error="UnreadableSpan", sweep_retry_at=dated.expires_at)
    row = again(lifecycle.extend(again(dated), actor=program, timeout="2h"))
    assert (row.sweep_error, row.sweep_retry_at) == ("", None)


def test_a_deadline_only_moves_to_later(dated, program):
    for wrong in (dated.expires_at, dated.expires_at - timedelta(minutes=1)):
        with pytest.raises(errors.InvalidInput, match="must be later than the present one"):
            lifecycle.extend(dated, actor=program, expires_at=wrong)
    with pytest.raises(errors.InvalidInput, match="must be later than the present one"):
        lifecycle.extend(dated, actor=program, timeout="5m")
    assert story(dated) == ["created"]


@pytest.mark.parametrize(
    ("given", "where", "says"),
    [
        ({}, "expires_at", "one of them"),
        ({"expires_at": datetime(2099, 1, 1, tzinfo=UTC), "timeout": "1h"}, "expires_at", "one of them"),
        ({"expires_at": datetime(2001, 1, 1, tzinfo=UTC)}, "expires_at", "has passed"),
        ({"expires_at": datetime(2999, 1, 1, tzinfo=UTC)}, "expires_at", "ten years"),
        ({"timeout": "soon"}, "timeout", "not a span"),
        ({"timeout": 0}, "timeout", "at least one second"),
    ],
)
def test_a_wrong_deadline_is_refused_by_field(dated, program, given, where, says):
    with pytest.raises(errors.InvalidInput, match=says) as refused:
        lifecycle.extend(dated, actor=program, **given)
    assert list(refused.value.errors) == [where]


def test_without_a_deadline_there_is_nothing_to_extend(ask, program):
    with pytest.raises(errors.InvalidInput, match="has no deadline to extend"):
        lifecycle.extend(ask(), actor=program, timeout="1h")


@pytest.mark.parametrize("person", ["approver", "bystander", "auditor"])
def test_only_admins_extend_and_remind(ask, finance, person, request, as_person):
    row = ask(assignee="group:finance", timeout="1h")
    actor = as_person(request.getfixturevalue(person))
    with pytest.raises(errors.NotAllowed, match="Only a tenant admin may extend a deadline"):
        lifecycle.extend(row, actor=actor, timeout="2h")
    with pytest.raises(errors.NotAllowed, match="Only a tenant admin may ask for a reminder"):
        lifecycle.remind(row, actor=actor)


def test_each_reminder_is_counted(refund, tenant_admin, as_person):
    for count in (1, 2):
        row = again(lifecycle.remind(refund, actor=as_person(tenant_admin)))
        assert (row.reminder_count, detail(row)) == (count, {"count": count})


def test_nobody_is_reminded_of_what_somebody_outside_resumes(ask, program):
    with pytest.raises(errors.NobodyToRemind):
        lifecycle.remind(ask(routing="external"), actor=program)
