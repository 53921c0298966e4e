"""The batch functions behind the jobs. Each can be repeated at any time; a second run finds nothing left to do."""

import logging
from dataclasses import dataclass
from datetime import datetime

from django.conf import settings
from django.db import OperationalError
from django.utils import timezone

from checkpoints import idempotency, lifecycle, stranded
from checkpoints.errors import Refusal
from checkpoints.models import Checkpoint, CheckpointSet
from tenants.transactions import asks_for_another_try

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class Outcome:
    done: int = 0
    failed: int = 0


def expire_checkpoints(*, now: datetime | None = None, batch: int | None = None) -> Outcome:
    """Ends or escalates everything that is due. After downtime it catches up, batch by batch."""
    at = now or timezone.now()
    size = batch or settings.SWEEP_BATCH
    outcome = Outcome()
    while True:
        try:
            rows = lifecycle.expire_batch(at=at, size=size)
        except Exception:
            # Whatever is wrong is wrong with a row: find it, set it aside, and let the others pass.
            logger.exception("A batch of due checkpoints failed; going on row by row")
            part = _expire_row_by_row(at=at, size=size)
            outcome.done += part.done
            outcome.failed += part.failed
            if not part.done and not part.failed:
                return outcome
            continue
        outcome.done += len(rows)
        if len(rows) < size:
            return outcome


def _expire_row_by_row(*, at: datetime, size: int) -> Outcome:
    outcome = Outcome()
    due = Checkpoint.objects.due(at)
    # Only the keys: a row that cannot even be read must not stop the others.
    for key in list(due.order_by("expires_at").values_list("pk", flat=True)[:size]):
        try:
            lifecycle.expire_one(Checkpoint.objects.select_related("core", "tenant").get(pk=key), at=at)
            outcome.done += 1
        except Exception as error:
            if isinstance(error, OperationalError) and asks_for_another_try(error):
                continue  # the fault of the moment, not of the row: it stays due
            if isinstance(error, Refusal) and not due.filter(pk=key).exists():
                outcome.done += 1  # somebody decided it in the meantime
                continue
            logger.exception("Checkpoint %s could not be expired", key)
            lifecycle.set_aside(key, error=f"{type(error).__name__}: {error}", at=at)
            outcome.failed += 1
    return outcome


def reroute(*, now: datetime | None = None, batch: int | None = None) -> Outcome:
    """Rows on which nobody can act any more go to the queue; a delegation that moved takes its rows along."""
    at = now or timezone.now()
    size = batch or settings.SWEEP_BATCH
    outcome = Outcome()
    # Read to the end before anything is written: SQLite refuses a write while an older read is still open.
    for suspected in list(stranded.suspects(at=at)):
        _reroute_each(suspected.order_by("id"), outcome, at=at, size=size)
    return outcome


def forget_answers(*, now: datetime | None = None) -> Outcome:
    """Answers kept for repeats are kept for a day."""
    return Outcome(done=idempotency.forget(now=now))


def _reroute_each(suspected: CheckpointSet, outcome: Outcome, *, at: datetime, size: int) -> None:
    rows = list(suspected.select_related("core", "tenant")[:size])
    while rows:
        for row in rows:
            try:
                after = lifecycle.reroute(row, at=at)
            except Refusal:
                continue  # decided in the meantime
            outcome.done += after.row_version != row.row_version
        rows = list(suspected.filter(id__gt=rows[-1].pk).select_related("core", "tenant")[:size])
