"""The outbox: events go to those who registered for them, and are marked once everybody has had them.

Those who register are idempotent and quick: they write rows of their own, in the transaction that marks the events.
Whatever is slow happens later, from those rows.
"""

import logging
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta

from django.conf import settings
from django.db import OperationalError, connection
from django.db.models import Q
from django.utils import timezone

from checkpoints.models import Event
from checkpoints.sweeps import Outcome
from tenants.transactions import asks_for_another_try, attempt

logger = logging.getLogger(__name__)

Consumer = Callable[[Sequence[Event], datetime], None]
RETRY_AFTER = timedelta(minutes=5)
_consumers: list[Consumer] = []


def register(consumer: Consumer) -> None:
    if consumer not in _consumers:
        _consumers.append(consumer)


def distribute_events(*, now: datetime | None = None, batch: int | None = None) -> Outcome:
    at = now or timezone.now()
    size = batch or settings.SWEEP_BATCH
    outcome = Outcome()
    while True:
        try:
            found = _distribute_batch(at=at, size=size)
        except Exception:
            logger.exception("A batch of events could not be distributed; going on one by one")
            part = _one_by_one(at=at, size=size)
            outcome.done += part.done
            outcome.failed += part.failed
            if not part.done and not part.failed:
                return outcome
            continue
        outcome.done += found
        if found < size:
            return outcome


def _distribute_batch(*, at: datetime, size: int) -> int:
    def work() -> int:
        events = _lock_undistributed(at=at, size=size)
        _hand_over(events, at)
        return len(events)

    return attempt(work)


def _hand_over(events: list[Event], at: datetime) -> None:
    if not events:
        return
    for consumer in _consumers:
        consumer(events, at)
    Event.objects.filter(pk__in=[event.pk for event in events]).update(distributed_at=at)


def _lock_undistributed(*, at: datetime, size: int) -> list[Event]:
    # By both columns of the index: SQLite would otherwise walk along the ids, through all there ever were.
    waiting = Event.objects.filter(_due(at), distributed_at__isnull=True).order_by("distributed_at", "id")
    if connection.features.has_select_for_update_skip_locked:
        waiting = waiting.select_for_update(skip_locked=True)
    return list(waiting[:size])


def _due(at: datetime) -> Q:
    return Q(distribution_retry_at__isnull=True) | Q(distribution_retry_at__lte=at)


def _one_by_one(*, at: datetime, size: int) -> Outcome:
    outcome = Outcome()
    waiting = Event.objects.filter(_due(at), distributed_at__isnull=True).order_by("distributed_at", "id")
    for key in list(waiting.values_list("pk", flat=True)[:size]):
        try:
            attempt(lambda key=key: _hand_over(list(Event.objects.filter(pk=key, distributed_at__isnull=True)), at))  # type: ignore[misc]
            outcome.done += 1
        except Exception as error:
            if isinstance(error, OperationalError) and asks_for_another_try(error):
                continue
            # One that nobody can digest must not hold up the others; it is tried again, and logged each time.
            logger.exception("Event %s could not be distributed", key)
            Event.objects.filter(pk=key).update(distribution_retry_at=at + RETRY_AFTER)
            outcome.failed += 1
    return outcome
