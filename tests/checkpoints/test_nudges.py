"""After a change its messages are looked after at once, and nobody who changes anything waits for that."""

import threading

import pytest
from django.db import transaction
from django_q.models import OrmQ

from checkpoints import jobs, lifecycle, nudges
from checkpoints.errors import Refusal

pytestmark = [pytest.mark.both_databases, pytest.mark.django_db(transaction=True)]


@pytest.fixture
def nudger(settings, monkeypatch):
    """As in production, with shorter pauses; ended with the test, so that no thread keeps a connection."""
    settings.JOBS_NUDGE = True
    monkeypatch.setattr(nudges, "PAUSE_SECONDS", 0.05)
    own = nudges.Nudger()
    monkeypatch.setattr(nudges, "_nudger", own)
    yield own
    own.stop()


@pytest.fixture
def asked(nudger, monkeypatch):
    """Counts what was asked for, and says when: ``asked.acquire(timeout=9)``."""
    done = threading.Semaphore(0)
    enqueue = nudges.enqueue

    def counted():
        found = enqueue()
        done.release()
        return found

    monkeypatch.setattr(nudges, "enqueue", counted)
    return done


def test_a_create_and_a_decision_are_passed_on(refund, approver, decide, asked, ask):
    ask(assignee="group:finance")
    assert asked.acquire(timeout=20)
    decide(refund, approver, "approve")
    assert asked.acquire(timeout=20)
    assert {task.func() for task in OrmQ.objects.all()} == {nudges.CALLS}
    assert f"{jobs.__name__}.{jobs.run_nudged.__name__}" == nudges.CALLS


def test_very_many_changes_are_few_nudges(asked, nudger):
    for _ in range(500):
        nudges.nudge()
    assert asked.acquire(timeout=20)
    nudger.stop()
    assert 1 <= OrmQ.objects.count() <= 3


def test_what_comes_while_one_is_passed_on_is_passed_on_next(nudger, monkeypatch):
    under_way, go_on, twice = threading.Event(), threading.Event(), threading.Event()

    def enqueue():
        if under_way.is_set():
            twice.set()
        under_way.set()
        return go_on.wait(20)

    monkeypatch.setattr(nudges, "enqueue", enqueue)
    nudges.nudge()
    assert under_way.wait(20)
    nudges.nudge()
    go_on.set()
    assert twice.wait(20)


def test_nobody_waits_for_a_queue_that_does_not_answer(nudger, monkeypatch, ask):
    asked, answers = threading.Event(), threading.Event()

    def enqueue():
        asked.set()
        return answers.wait(20)

    monkeypatch.setattr(nudges, "enqueue", enqueue)
    ask()
    assert asked.wait(20)
    for _ in range(3):
        ask()
    assert not answers.is_set()
    answers.set()


def test_a_change_that_was_taken_back_nudges_nobody(asked, ask):
    with transaction.atomic():
        ask()
        transaction.set_rollback(True)
    assert not asked.acquire(timeout=0.2)
    assert OrmQ.objects.count() == 0


def test_nothing_piles_up_where_no_cluster_runs(nudger):
    for _ in range(3 * nudges.FEW):
        nudges.enqueue()
    assert OrmQ.objects.count() == nudges.FEW


def test_a_queue_that_is_away_harms_nobody(nudger, monkeypatch, caplog, ask):
    asked = threading.Event()

    def away():
        asked.set()
        raise ConnectionError("refused")

    monkeypatch.setattr(nudges, "enqueue", away)
    assert ask().is_pending
    assert asked.wait(20)
    nudger.stop()
    assert "the next sweep finds what it was for" in caplog.text


def test_it_can_be_switched_off(asked, settings, ask):
    settings.JOBS_NUDGE = False
    ask()
    settings.JOBS_NUDGE = True
    with nudges.silenced():
        ask()
    assert not asked.acquire(timeout=0.2)
    ask()
    assert asked.acquire(timeout=20)


def test_a_refused_command_nudges_nobody(refund, approver, decide, asked, program):
    decide(refund, approver, "approve")
    assert asked.acquire(timeout=20)
    with pytest.raises(Refusal):
        lifecycle.cancel(refund, actor=program)
    assert not asked.acquire(timeout=0.2)
