"""What runs by itself, on one list: each job is a sweep that can be run again at any time, and leaves a heartbeat.

Rooms that know this one add their own with ``register``. Whatever runs them (django-q2, ``manage.py sweep``, cron)
runs them through ``run``.
"""

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.conf import settings
from django.db import Error, close_old_connections, connection
from django.utils import timezone
from django_q.models import Failure, OrmQ, Success

from checkpoints import distribution, sweeps
from checkpoints.models import JobBeat
from checkpoints.sweeps import Outcome
from tenants import limits, lockout

logger = logging.getLogger("jobs")

KEEP_FINISHED, KEEP_FAILED, KEEP_QUEUED = timedelta(days=1), timedelta(days=7), timedelta(days=1)
# What one job finds another may leave behind, such as the event that a message was sent. More rounds mean trouble.
MOST_ROUNDS = 5


@dataclass(frozen=True, slots=True)
class Job:
    name: str
    work: Callable[[], Outcome]
    # The setting that holds its interval.
    every: str
    # Runs also as soon as something was committed.
    nudged: bool = False

    @property
    def seconds(self) -> int:
        return int(getattr(settings, self.every))


JOBS: dict[str, Job] = {}


def register(name: str, work: Callable[[], Outcome], *, every: str, nudged: bool = False) -> None:
    JOBS[name] = Job(name, work, every, nudged)


def forget_counts() -> Outcome:
    """What rate limits and the lockout have counted, and nobody asks for any more."""
    return Outcome(done=limits.remove_old_counts() + lockout.remove_old_tries())


def forget_tasks(*, now: datetime | None = None) -> Outcome:
    """What django-q2 keeps of tasks that are over, and what waits for a cluster that nobody runs any more."""
    at = now or timezone.now()
    old = (
        Success.objects.filter(stopped__lt=at - KEEP_FINISHED),
        Failure.objects.filter(stopped__lt=at - KEEP_FAILED),
        OrmQ.objects.filter(lock__lt=at - KEEP_QUEUED),
    )
    return Outcome(done=sum(tasks.delete()[0] for tasks in old))


# In the order in which one prepares the next: `manage.py sweep --once` leaves nothing for a second run.
register("expire_checkpoints", sweeps.expire_checkpoints, every="SWEEP_EXPIRE_SECONDS")
register("reroute", sweeps.reroute, every="SWEEP_REROUTE_SECONDS")
register("distribute_events", distribution.distribute_events, every="SWEEP_DISTRIBUTE_SECONDS", nudged=True)
register("forget_answers", sweeps.forget_answers, every="SWEEP_FORGET_SECONDS")
register("forget_counts", forget_counts, every="SWEEP_FORGET_SECONDS")
register("forget_tasks", forget_tasks, every="SWEEP_FORGET_SECONDS")


def run(name: str) -> Outcome | None:
    """One job now, with its heartbeat; None when it failed. Whatever that was must not end the worker."""
    if not connection.in_atomic_block:
        close_old_connections()
    began, started_at = time.monotonic(), timezone.now()
    outcome, trouble = Outcome(), ""
    try:
        outcome = JOBS[name].work()
    except Exception as error:
        logger.exception("%s failed", name)
        trouble = _storable(f"{type(error).__name__}: {error}")
    if outcome.done or outcome.failed:
        logger.info("%s: %s done, %s set aside", name, outcome.done, outcome.failed)
    beat = {
        "started_at": started_at,
        "took_ms": int(1000 * (time.monotonic() - began)),
        "done": outcome.done,
        "failed": outcome.failed,
        "error": trouble,
    }
    try:
        _write_beat(name, beat if trouble else beat | {"finished_at": timezone.now()})
    except Error:
        logger.exception("The heartbeat of %s could not be written", name)
    return None if trouble else outcome


def run_scheduled(name: str) -> None:
    """What a schedule calls. People hear of what it changed at once, not a minute later."""
    if name not in JOBS:
        # A schedule that an older version wrote; the next migrate removes it.
        logger.warning("There is no job %r", name)
        return
    outcome = run(name)
    if outcome is not None and outcome.done and not JOBS[name].nudged:
        run_nudged()


def run_nudged() -> None:
    """What follows from a change: those who shall hear of it are found, and told."""
    for name, job in JOBS.items():
        if job.nudged:
            run(name)


def run_all() -> dict[str, Outcome | None]:
    """Every job once, in order, and those that pass on what others did until there is nothing left to pass on."""
    found = {name: run(name) for name in JOBS}
    nudged = [name for name, job in JOBS.items() if job.nudged]
    for _ in range(MOST_ROUNDS):
        again = {name: run(name) for name in nudged if found[name] is not None}
        for name, outcome in again.items():
            found[name] = _sum(found[name], outcome)
        if not any(outcome.done for outcome in again.values() if outcome is not None):
            break
    return found


def _sum(one: Outcome | None, other: Outcome | None) -> Outcome | None:
    if one is None or other is None:
        return None
    return Outcome(done=one.done + other.done, failed=one.failed + other.failed)


def _write_beat(name: str, beat: dict[str, object]) -> None:
    # Not update_or_create, whose locks two workers that run the same job would wait for.
    if not JobBeat.objects.filter(pk=name).update(**beat):
        JobBeat.objects.bulk_create([JobBeat(name=name, **beat)], ignore_conflicts=True)


def _storable(text: str) -> str:
    """Whatever is in an error, the database must be able to hold it."""
    return text[:2000].encode("utf-8", "backslashreplace").decode().replace("\x00", "")
