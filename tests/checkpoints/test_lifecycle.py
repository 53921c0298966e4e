"""What holds for every command: one event, one version, one way through the state table, and final is final."""

from datetime import timedelta

import pytest

from checkpoints import answers, errors, events, lifecycle, machine
from checkpoints.models import Checkpoint, Status
from tests.checkpoints.stories import again, events_of, last, story

FINAL = [status for status in Status if status != Status.PENDING]
# What a command is called in the history.
TOLD_AS = {
    "resolve": "resolved",
    "cancel": "cancelled",
    "supersede": "cancelled",
    "reassign": "reassigned",
    "claim": "claimed",
    "release": "released",
    "extend": "extended",
    "remind": "reminded",
    "comment": "commented",
    "expire": "expired",
    "escalate": "escalated",
    "reroute": "rerouted",
}
NEW_ASSIGNMENT = {"reassign", "escalate", "reroute"}


@pytest.fixture
def waiting(ask, finance):
    """A checkpoint to which every command can be given."""
    return ask(assignee="group:finance", options=["approve", "reject"], timeout="1h")


@pytest.fixture
def give(ask, as_person, approver, tenant_admin, program):
    """Gives one command by its name in the state table."""

    def claimed(row):
        return lifecycle.claim(row, actor=as_person(approver)) if row.is_pending else row

    def escalate(row):
        Checkpoint.objects.filter(pk=row.pk).update(expiry_action="escalate", escalation_target="role:tenant_admin")
        return lifecycle.expire_one(again(row), at=row.expires_at)

    def reroute(row):
        approver.memberships.get().groups.get().members.clear()
        return lifecycle.reroute(row, at=row.created_at)

    admin = as_person(tenant_admin)
    commands = {
        "resolve": lambda row: lifecycle.resolve(row, actor=as_person(approver), answer=answers.Answer("approve")),
        "cancel": lambda row: lifecycle.cancel(row, actor=admin),
        "supersede": lambda row: ask(supersedes=row.pk),
        "reassign": lambda row: lifecycle.reassign(row, actor=admin, assignee="role:tenant_admin"),
        "claim": lambda row: lifecycle.claim(row, actor=as_person(approver)),
        "release": lambda row: lifecycle.release(claimed(row), actor=as_person(approver)),
        "extend": lambda row: lifecycle.extend(row, actor=admin, timeout="2h"),
        "remind": lambda row: lifecycle.remind(row, actor=admin),
        "comment": lambda row: lifecycle.comment(row, actor=admin, text="Why?"),
        "expire": lambda row: lifecycle.expire_one(row, at=row.expires_at),
        "escalate": escalate,
        "reroute": reroute,
    }
    return lambda command, row: commands[command](row)


@pytest.fixture
def end(colleague, tenant_admin, as_person):
    """Brings a checkpoint into a final state."""
    ways = {
        Status.RESOLVED: lambda row: lifecycle.resolve(
            row, actor=as_person(colleague), answer=answers.Answer("reject")
        ),
        Status.CANCELLED: lambda row: lifecycle.cancel(row, actor=as_person(tenant_admin), reason="not needed"),
        Status.EXPIRED: lambda row: lifecycle.expire_one(row, at=row.expires_at),
    }
    return lambda status, row: ways[status](row)


def columns(row):
    return Checkpoint.objects.values().get(pk=row.pk)


@pytest.mark.parametrize("command", machine.TABLE)
def test_each_command_moves_the_version_by_one_and_writes_one_event(command, waiting, give):
    claimed_first = 1 if command == "release" else 0
    give(command, waiting)
    row = again(waiting)
    assert row.row_version == 2 + claimed_first
    assert story(row)[1 + claimed_first :] == [TOLD_AS[command]]
    assert row.event_count == row.row_version
    assert row.event_head == last(row).digest
    assert row.updated_at == last(row).at
    assert events.first_broken(events_of(row)) is None


@pytest.mark.parametrize("command", machine.TABLE)
def test_only_a_new_assignment_ends_the_validity_of_links(command, waiting, give):
    give(command, waiting)
    assert again(waiting).assignment_version == (2 if command in NEW_ASSIGNMENT else 1)


@pytest.mark.parametrize("command", machine.TABLE)
def test_each_command_leads_where_the_table_says(command, waiting, give):
    give(command, waiting)
    assert again(waiting).status in machine.TABLE[command][Status.PENDING]


@pytest.mark.parametrize("status", FINAL)
@pytest.mark.parametrize("command", machine.TABLE)
def test_a_final_state_is_final(command, status, waiting, give, end):
    end(status, waiting)
    before, told, rows = columns(waiting), story(waiting), Checkpoint.objects.count()
    if command == "escalate":
        before |= {"expiry_action": "escalate", "escalation_target": "role:tenant_admin"}
    with pytest.raises(machine.ENDED[status]) as refused:
        give(command, again(waiting))
    assert refused.value.checkpoint.pk == waiting.pk
    assert columns(waiting) == before
    assert story(waiting) == told
    assert Checkpoint.objects.count() == rows


@pytest.mark.parametrize("status", FINAL)
@pytest.mark.parametrize("command", machine.TABLE)
def test_a_command_on_a_row_read_before_it_ended_is_refused_too(command, status, waiting, give, end):
    """The copy in hand still says pending; the guard of the swap finds out."""
    stale = again(waiting)
    end(status, waiting)
    told = story(waiting)
    if command == "release":
        stale.claimed_by, stale.claimed_at = "approver@acme.example", stale.created_at
    with pytest.raises(machine.ENDED[status]):
        give(command, stale)
    assert story(waiting) == told


def test_every_state_but_pending_has_a_name_for_its_refusal():
    assert set(machine.ENDED) == set(FINAL)
    assert all(set(ways) == {Status.PENDING} for ways in machine.TABLE.values())


def test_the_refusals_say_who_did_what_and_when(waiting, ask, end, give):
    decided = end(Status.RESOLVED, waiting)
    with pytest.raises(errors.AlreadyResolved) as refused:
        give("cancel", decided)
    when = f"{decided.resolved_at:%Y-%m-%d %H:%M:%S} UTC"
    assert refused.value.detail == f"Already decided: user:colleague@acme.example chose “reject” at {when}."

    cancelled = end(Status.CANCELLED, ask(timeout="1h"))
    with pytest.raises(errors.AlreadyCancelled, match=r"Cancelled by user:admin@acme\.example at .* \(not needed\)\."):
        give("extend", cancelled)

    expired = end(Status.EXPIRED, ask(timeout="1h"))
    with pytest.raises(errors.AlreadyExpired, match=r"Expired at \d{4}-\d\d-\d\d"):
        give("extend", expired)


def test_the_event_tells_actor_way_address_before_and_after(waiting, tenant_admin, acme):
    from tenants import actors

    admin = actors.person(tenant_admin, acme, via="admin", address="192.0.2.7")
    lifecycle.cancel(waiting, actor=admin, reason="duplicate")
    event = last(waiting)
    assert (event.type, event.actor, event.via, event.address) == (
        "checkpoint.cancelled",
        "user:admin@acme.example",
        "admin",
        "192.0.2.7",
    )
    assert event.data["detail"] == {"reason": "duplicate"}
    assert (event.data["before"]["status"], event.data["after"]["status"]) == ("pending", "cancelled")
    assert event.data["after"]["close_reason"] == "duplicate"


@pytest.mark.parametrize("command", ["resolve", "cancel", "reassign", "claim", "extend", "remind", "comment"])
def test_a_command_bound_to_another_version_is_stale(command, waiting, as_person, tenant_admin, approver):
    extra = {
        "resolve": {"answer": answers.Answer("approve")},
        "reassign": {"assignee": "role:tenant_admin"},
        "extend": {"timeout": "2h"},
        "comment": {"text": "Why?"},
    }.get(command, {})
    actor = as_person(approver if command == "claim" else tenant_admin)
    with pytest.raises(errors.Stale, match="it is at version 1 now"):
        getattr(lifecycle, command)(waiting, actor=actor, if_version=7, **extra)
    getattr(lifecycle, command)(waiting, actor=actor, if_version=1, **extra)
    assert again(waiting).row_version == 2


def test_the_condition_is_checked_again_on_the_row_that_won(waiting, as_person, tenant_admin):
    mine, theirs = again(waiting), again(waiting)
    lifecycle.comment(theirs, actor=as_person(tenant_admin), text="First.")
    with pytest.raises(errors.Stale, match="it is at version 2 now"):
        lifecycle.cancel(mine, actor=as_person(tenant_admin), if_version=1)
    assert again(waiting).is_pending


def test_a_command_on_a_copy_that_is_behind_builds_on_the_present_row(waiting, as_person, tenant_admin):
    behind = again(waiting)
    lifecycle.comment(waiting, actor=as_person(tenant_admin), text="First.")
    after = lifecycle.remind(behind, actor=as_person(tenant_admin))
    assert (after.row_version, after.reminder_count) == (3, 1)
    assert story(waiting) == ["created", "commented", "reminded"]
    assert events.first_broken(events_of(waiting)) is None


def test_a_row_that_never_stands_still_is_busy_and_nothing_is_written(waiting, as_person, tenant_admin, monkeypatch):
    """Somebody else gets in between, every single time."""
    from checkpoints.lifecycle import change

    def always_lost(*args, **kwargs):
        raise change.Lost

    monkeypatch.setattr(change, "_write", always_lost)
    with pytest.raises(errors.Busy):
        lifecycle.remind(waiting, actor=as_person(tenant_admin))
    assert again(waiting).row_version == 1


@pytest.mark.django_db(transaction=True)
def test_row_and_event_are_written_together_or_not_at_all(waiting, as_person, tenant_admin, monkeypatch):
    def broken(*args, **kwargs):
        raise RuntimeError("the disk is full")

    monkeypatch.setattr("checkpoints.lifecycle.change.insert", broken)
    with pytest.raises(RuntimeError):
        lifecycle.cancel(again(waiting), actor=as_person(tenant_admin))
    row = again(waiting)
    assert (row.status, row.row_version, row.event_count, story(row)) == ("pending", 1, 1, ["created"])


def test_a_try_that_was_rolled_back_leaves_the_row_in_memory_as_it_was(waiting, as_person, tenant_admin, monkeypatch):
    def broken(*args, **kwargs):
        raise RuntimeError("the disk is full")

    monkeypatch.setattr("checkpoints.lifecycle.change.insert", broken)
    with pytest.raises(RuntimeError):
        lifecycle.cancel(waiting, actor=as_person(tenant_admin))
    assert (waiting.status, waiting.row_version, waiting.closed_at) == ("pending", 1, None)


def test_a_foreign_checkpoint_does_not_exist_for_any_command(waiting, foreign_program, outsider, globex):
    from tenants import actors

    for actor in (foreign_program, actors.person(outsider, globex, via="admin")):
        with pytest.raises(errors.NotFound, match="There is no such checkpoint"):
            lifecycle.resolve(waiting, actor=actor, answer=answers.Answer("approve"))
        with pytest.raises(errors.NotFound):
            lifecycle.cancel(waiting, actor=actor)
    assert story(waiting) == ["created"]


def test_a_deadline_alone_ends_nothing(ask, finance, approver, as_person, later):
    """The sweep, not the clock, ends it: a decision after the deadline counts."""
    row = ask(assignee="group:finance", timeout="1h")
    later(hours=5)
    assert row.is_overdue(at=row.expires_at + timedelta(hours=4))
    lifecycle.resolve(row, actor=as_person(approver), answer=answers.Answer("approve"))
    assert again(row).status == Status.RESOLVED
