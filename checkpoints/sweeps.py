"""The batch functions behind the jobs. Each can be repeated at any time; a second run finds nothing left to do."""

import logging
from dataclasses import dataclass
from datetime import datetime

from django.conf import settings
from django.utils import timezone

from checkpoints import lifecycle
from checkpoints.errors import Refusal
from checkpoints.models import AssigneeType, Checkpoint, Routing

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
    rows = Checkpoint.objects.due(at).select_related("core", "tenant").order_by("expires_at")
    for row in rows[:size]:
        try:
            lifecycle.expire_one(row, at=at)
            outcome.done += 1
        except Refusal as refusal:
            if not Checkpoint.objects.due(at).filter(pk=row.pk).exists():
                outcome.done += 1  # somebody decided it in the meantime
                continue
            lifecycle.set_aside(row, error=f"{type(refusal).__name__}: {refusal}", at=at)
            outcome.failed += 1
        except Exception as error:
            logger.exception("Checkpoint %s could not be expired", row.pk)
            lifecycle.set_aside(row, error=f"{type(error).__name__}: {error}", at=at)
            outcome.failed += 1
    return outcome


def reroute(*, now: datetime | None = None) -> Outcome:
    """Rows on which nobody can act any more go to the queue; a delegation that moved takes its rows along.

    One look per distinct assignment that waits, not one per row.
    """
    at = now or timezone.now()
    outcome = Outcome()
    waiting = (
        Checkpoint.objects.pending()
        .filter(routing=Routing.PEOPLE)
        .exclude(assignee_type=AssigneeType.UNROUTED)
        .order_by()
    )
    groups = waiting.values_list("tenant", "core", "assignee_type", "assignee_value", "assignee_raw").distinct()
    for tenant, core, kind, value, raw in groups.iterator():
        sample = waiting.filter(
            tenant=tenant, core=core, assignee_type=kind, assignee_value=value, assignee_raw=raw
        ).select_related("core", "tenant")
        for row in sample.iterator():
            before = row.row_version
            try:
                after = lifecycle.reroute(row, at=at)
            except Refusal:
                continue  # decided in the meantime
            if after.row_version == before:
                break  # this assignment still leads to somebody: so do its other rows
            outcome.done += 1
    return outcome
