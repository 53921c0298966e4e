"""Several processes at once: exactly one outcome each, whoever comes first (semantics §3, §4)."""

from collections import Counter
from datetime import timedelta

import pytest
from django.db import connection, transaction
from django.utils import timezone

from checkpoints import events, lifecycle, sweeps
from checkpoints.models import Checkpoint, Event
from tenants import setup
from tests.checkpoints.stories import again, story
from tests.racing import Race, keys

pytestmark = [pytest.mark.both_databases, pytest.mark.django_db(transaction=True)]

ENDINGS = ["checkpoint.resolved", "checkpoint.cancelled", "checkpoint.expired"]
MANY = 50


@pytest.fixture
def crowd(acme):
    """Eight people who may all decide."""
    return [setup.add_person(acme, f"voter{number}@acme.example", groups=["finance"]) for number in range(8)]


@pytest.fixture
def questions(ask, crowd):
    return lambda count=MANY, **fields: [ask(assignee="group:finance", **fields) for _ in range(count)]


def expect_one_outcome_each(rows):
    """One terminal event, the row in that state, and a history that holds together."""
    endings = Counter(
        Event.objects.filter(subject_id__in=keys(rows), type__in=ENDINGS).values_list("subject_id", flat=True)
    )
    assert endings == {row.pk: 1 for row in rows}
    for row in map(again, rows):
        assert row.status != "pending"
        assert story(row)[-1] == row.status
        assert events.trouble_with(row) == ""


def winners(results, row):
    return [place for place, result in enumerate(results) if result[str(row.pk)] == "won"]


@pytest.mark.parametrize("count", [2, 8])
def test_however_many_decide_at_once_exactly_one_wins(questions, crowd, count):
    rows = questions()
    with Race() as race:
        for place, user in enumerate(crowd[:count]):
            # Half of them from the other end, so that nobody wins just by being first.
            ids = keys(rows) if place % 2 else keys(reversed(rows))
            race.enter("decide", ids=ids, email=user.email, decision=f"choice-{place}")
        results = race.results()
    expect_one_outcome_each(rows)
    for row in map(again, rows):
        [winner] = winners(results, row)
        assert row.resolved_by == f"user:{crowd[winner].email}"
        assert row.resolution["decision"] == f"choice-{winner}"
        assert [result[str(row.pk)] for result in results].count("already_resolved") == count - 1


def test_the_same_decision_from_two_processes_of_one_person_is_one_decision(questions, crowd):
    rows = questions()
    with Race() as race:
        for _ in range(3):
            race.enter("decide", ids=keys(rows), email=crowd[0].email, decision="approve")
        results = race.results()
    expect_one_outcome_each(rows)
    assert all(set(result.values()) == {"won"} for result in results)


def test_a_decision_and_the_sweep_never_both_and_never_neither(questions, crowd):
    laps = [questions(4, timeout=f"{hours}h") for hours in range(1, 16)]
    rows = [row for lap in laps for row in lap]
    ends = [lap[-1].expires_at for lap in laps]
    with Race() as race:
        first = race.enter("decide", laps=[keys(lap) for lap in laps], email=crowd[0].email, decision="approve")
        second = race.enter("decide", laps=[keys(lap) for lap in laps], email=crowd[1].email, decision="reject")
        sweeper = race.enter("sweep", laps=ends, batch=1)
        race.start(laps=len(laps))
        decided, rejected, swept = first.result(), second.result(), sweeper.result()
    expect_one_outcome_each(rows)
    by_hand = 0
    for row in map(again, rows):
        outcomes = {decided[str(row.pk)], rejected[str(row.pk)]}
        if row.status == "resolved":
            by_hand += 1
            assert outcomes == {"won", "already_resolved"}
        else:
            assert outcomes == {"already_expired"}
    assert (swept["done"], swept["failed"]) == (len(rows) - by_hand, 0)


@pytest.mark.parametrize(
    ("action", "code"), [("cancel", "already_cancelled"), ("approve", "already_resolved"), ("escalate", None)]
)
def test_a_decision_and_every_other_wish_of_the_deadline(questions, crowd, tenant_admin, action, code):
    extra = {"escalation_target": "group:finance"} if action == "escalate" else {}
    rows = questions(40, timeout="1h", expiry_action=action, **extra)
    now = timezone.now() + timedelta(minutes=90)
    with Race() as race:
        decider = race.enter("decide", ids=keys(rows), email=crowd[0].email, decision="yes")
        for _ in range(2):
            race.enter("sweep", now=now, batch=3)
        race.start()
        decided = decider.result()
        assert [sweeper.result()["failed"] for sweeper in race.racers[1:]] == [0, 0]
    expect_one_outcome_each(rows)
    # Escalated to the same people, it may still be decided: then both happened, one after the other.
    assert set(decided.values()) <= {"won", code}
    for row in map(again, rows):
        by_hand = row.resolved_by == f"user:{crowd[0].email}"
        assert by_hand == (decided[str(row.pk)] == "won")


def test_two_admins_claim_the_same_unrouted_ones(ask, tenant_admin, second_admin):
    rows = [ask(assignee="team:blue") for _ in range(MANY)]
    with Race() as race:
        for user, ids in ((tenant_admin, keys(rows)), (second_admin, keys(reversed(rows)))):
            race.enter("claim", ids=ids, email=user.email)
        results = race.results()
    for row in map(again, rows):
        assert sorted(result[str(row.pk)] for result in results) == ["claimed_by_other", "won"]
        [winner] = winners(results, row)
        owner = (tenant_admin, second_admin)[winner].email
        assert (row.assignee_value, row.claimed_by) == (owner, owner)
        assert (row.assignment_version, story(row)) == (2, ["created", "claimed"])


def test_nothing_that_is_said_at_once_is_lost(ask, crowd):
    rows = [ask(assignee="group:finance") for _ in range(8)]
    with Race() as race:
        for user in crowd:
            race.enter("comment", ids=keys(rows), email=user.email)
        results = race.results()
    assert all(set(result.values()) == {"won"} for result in results)
    for row in map(again, rows):
        assert (row.row_version, row.event_count) == (9, 9)
        assert events.trouble_with(row) == ""
        assert Event.objects.filter(subject_id=row.pk).values("actor").distinct().count() == 9


def test_two_sweepers_share_the_work_and_nothing_is_done_twice(questions):
    laps = [questions(6, timeout=f"{hours}h") for hours in range(1, 11)]
    rows = [row for lap in laps for row in lap]
    with Race() as race:
        for _ in range(3):
            race.enter("sweep", laps=[lap[-1].expires_at for lap in laps], batch=2)
        race.start(laps=len(laps))
        results = [racer.result() for racer in race.racers]
    assert sum(result["done"] > 0 for result in results) > 1
    expect_one_outcome_each(rows)
    assert sum(result["done"] for result in results) == len(rows)
    assert sum(result["failed"] for result in results) == 0


def test_two_sweepers_meet_bad_rows_and_still_nothing_is_done_twice(questions):
    rows = questions(40, timeout="1h")
    bad = questions(4, timeout="1h", expiry_action="escalate", escalation_target="group:finance")
    Checkpoint.objects.filter(pk__in=keys(bad)).update(timeout_raw="whenever")
    with Race() as race:
        for _ in range(2):
            race.enter("sweep", now=timezone.now() + timedelta(hours=2), batch=7)
        race.results()
    expect_one_outcome_each(rows)
    assert all(again(row).sweep_error.startswith("UnreadableSpan") for row in bad)
    assert not Checkpoint.objects.filter(pk__in=keys(rows)).exclude(sweep_error="").exists()


def test_a_sweeper_that_is_killed_in_the_middle_leaves_nothing_half_done(questions):
    rows = questions(40, timeout="1h")
    now = timezone.now() + timedelta(hours=2)
    with Race() as race:
        victim = race.enter("sweep_and_hang", now=now, batch=10)
        race.start()
        assert victim.hear() == "hanging"
        victim.kill()
    assert Checkpoint.objects.filter(status="expired").count() == 10
    wait_for_the_locks_of_the_dead()
    with Race() as race:
        race.enter("sweep", now=now, batch=10)
        [result] = race.results()
    assert result == {"done": 30, "failed": 0}
    expect_one_outcome_each(rows)


def wait_for_the_locks_of_the_dead():
    """MariaDB rolls back when it notices that the client is gone; SQLite's locks die with the process."""
    if connection.vendor == "mysql":
        with transaction.atomic():
            list(Checkpoint.objects.select_for_update().filter(status="pending").values("pk"))


def test_the_same_new_core_from_many_programs_is_one_core(program):
    drafts = [{"core_id": f"agent-{number}", "prompt": "?"} for number in range(20)]
    with Race() as race:
        for _ in range(4):
            race.enter("create", key=program.key.pk, drafts=drafts)
        results = race.results()
    assert results == [["won"] * 20] * 4
    assert Checkpoint.objects.values("core").distinct().count() == 20
    assert Checkpoint.objects.count() == 80


def test_an_older_checkpoint_is_superseded_by_one_newer_one(ask, program):
    older = [ask() for _ in range(20)]
    drafts = [{"core_id": "refund-agent", "prompt": "?", "supersedes": str(row.pk)} for row in older]
    with Race() as race:
        for _ in range(3):
            race.enter("create", key=program.key.pk, drafts=drafts)
        results = race.results()
    expect_one_outcome_each(older)
    for outcomes in zip(*results, strict=True):
        assert sorted(outcomes) == ["already_cancelled", "already_cancelled", "won"]
    assert Checkpoint.objects.filter(supersedes__isnull=False).count() == 20


def test_a_reroute_among_other_writers_is_not_locked_out(ask, program, finance, monkeypatch):
    """Somebody else writes between each of its reads and writes."""
    for spelling in ("group:finance", "Group:finance", "GROUP:FINANCE"):
        ask(assignee=spelling)
    finance.members.clear()
    reroute = lifecycle.reroute

    def after_somebody_wrote(row, *, at):
        with Race() as race:
            race.enter("create", key=program.key.pk, drafts=[{"core_id": "busy", "prompt": "?"}])
            assert race.results() == [["won"]]
        return reroute(row, at=at)

    monkeypatch.setattr(lifecycle, "reroute", after_somebody_wrote)
    assert sweeps.reroute().done == 3
