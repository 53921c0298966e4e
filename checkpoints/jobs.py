"""What runs by itself, on one list: each job is a sweep that can be run again at any time, and leaves a heartbeat.

Rooms that know this one add their own with ``register``. Whatever runs them (django-q2, ``manage.py sweep``, cron)
runs them through ``run``.
"""

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass

from django.conf import settings
from django.db import Error, close_old_connections, connection
from django.utils import timezone

from checkpoints import distribution, sweeps
from checkpoints.models import JobBeat
from checkpoints.sweeps import Outcome
from tenants import limits, lockout

logger = logging.getLogger("jobs")


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


# In the order in which one prepares the next: `manage.py sweep --once` leaves nothing for a second run.
register("expire_checkpoints", sweeps.expire_checkpoints, every="SWEEP_EXPIRE_SECONDS")
register("reroute", sweeps.reroute, every="SWEEP_REROUTE_SECONDS")
register("distribute_events", distribution.distribute_events, every="SWEEP_DISTRIBUTE_SECONDS", nudged=True)
register("forget_answers", sweeps.forget_answers, every="SWEEP_FORGET_SECONDS")
register("forget_counts", forget_counts, every="SWEEP_FORGET_SECONDS")


def run(name: str) -> Outcome:
    """One job now, with its heartbeat. A database that is away for a while must not end the worker."""
    if not connection.in_atomic_block:
        close_old_connections()
    began, started_at = time.monotonic(), timezone.now()
    outcome, trouble = Outcome(), ""
    try:
        outcome = JOBS[name].work()
    except Error as error:
        logger.exception("%s failed", name)
        trouble = f"{type(error).__name__}: {error}"[:2000]
    if outcome.done or outcome.failed:
        logger.info("%s: %s done, %s set aside", name, outcome.done, outcome.failed)
    try:
        JobBeat.objects.update_or_create(
            name=name,
            defaults={
                "started_at": started_at,
                **({} if trouble else {"finished_at": timezone.now()}),
                "took_ms": int(1000 * (time.monotonic() - began)),
                "done": outcome.done,
                "failed": outcome.failed,
                "error": trouble,
            },
        )
    except Error:
        logger.exception("The heartbeat of %s could not be written", name)
    return outcome
