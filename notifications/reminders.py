"""Those who have not answered are asked again, at the interval the program gave. A person may have enough of it."""

import logging
from datetime import datetime

from django.conf import settings
from django.db import OperationalError
from django.utils import timezone

from checkpoints import lifecycle
from checkpoints.models import Checkpoint
from checkpoints.sweeps import Outcome
from notifications.models import Mute
from tenants.models import normal_email
from tenants.transactions import asks_for_another_try

logger = logging.getLogger(__name__)


def send_checkpoint_reminders(*, now: datetime | None = None, batch: int | None = None) -> Outcome:
    """Once per due reminder however many run this, and no burst after downtime."""
    at = now or timezone.now()
    size = batch or settings.SWEEP_BATCH
    outcome = Outcome()
    while True:
        try:
            looked_at, reminded = lifecycle.remind_batch(at=at, size=size)
        except Exception:
            logger.exception("A batch of due reminders failed; going on row by row")
            part = _row_by_row(at=at, size=size)
            outcome.done += part.done
            outcome.failed += part.failed
            if not part.done and not part.failed:
                return outcome
            continue
        outcome.done += reminded
        if looked_at < size:
            return outcome


def _row_by_row(*, at: datetime, size: int) -> Outcome:
    outcome = Outcome()
    due = Checkpoint.objects.pending().filter(next_reminder_at__lte=at).order_by("next_reminder_at")
    for key in list(due.values_list("pk", flat=True)[:size]):
        try:
            outcome.done += lifecycle.remind_one(key, at=at)
        except Exception as error:
            if isinstance(error, OperationalError) and asks_for_another_try(error):
                continue
            logger.exception("Nobody could be reminded of checkpoint %s", key)
            lifecycle.put_reminder_off(key, at=at)
            outcome.failed += 1
    return outcome


def mute(checkpoint: Checkpoint, *, email: str) -> None:
    """No more reminders of this one to this person; everything else still arrives."""
    Mute.objects.get_or_create(checkpoint=checkpoint, email=normal_email(email), defaults={"tenant": checkpoint.tenant})


def unmute(checkpoint: Checkpoint, *, email: str) -> None:
    Mute.objects.filter(checkpoint=checkpoint, email=normal_email(email)).delete()


def is_muted(checkpoint: Checkpoint, *, email: str) -> bool:
    return bool(Mute.objects.filter(checkpoint=checkpoint, email=normal_email(email)).exists())
