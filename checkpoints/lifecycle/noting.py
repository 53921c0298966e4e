"""What messages leave on the row: that somebody was told, and that they were reminded. Nobody's command.

The version stays: a reader who holds an ``ETag`` has missed nothing they could act on.
"""

import uuid
from datetime import datetime, timedelta

from django.db import connection

from checkpoints import errors
from checkpoints.lifecycle.change import TRIES, Change, Lost, note, swap_many
from checkpoints.models import Checkpoint, CheckpointSet, Routing
from tenants import actors
from tenants.models import Tenant
from tenants.transactions import attempt

RETRY_AFTER = timedelta(hours=1)


def notified(key: uuid.UUID, *, to: str, channel: str, at: datetime) -> None:
    """The transport has accepted the first message about it."""
    for _ in range(TRIES):
        row = Checkpoint.objects.select_related("tenant").filter(pk=key, notification_sent=False).first()
        if row is None:
            return
        planned = Change("notification_sent", {"notification_sent": True}, {"to": to, "channel": channel})
        actor = actors.sweeper(row.tenant)
        try:
            attempt(
                lambda row=row, planned=planned, actor=actor: note(  # type: ignore[misc]
                    row, planned, command="notify", actor=actor, at=at
                )
            )
        except Lost:
            continue
        return
    raise errors.Busy(row)


def remind_batch(*, at: datetime, size: int) -> tuple[int, int]:
    """Up to ``size`` due rows in one transaction: how many were looked at, and of how many somebody is reminded."""

    def work() -> tuple[int, int]:
        rows = _lock_due(at=at, size=size)
        planned = [(row, plan_reminder(row, at=at), actors.sweeper(row.tenant)) for row in rows if _asks(row)]
        swap_many(planned, command="remind_due", at=at, moves_version=False)
        for row in rows:
            if not _asks(row):
                _put_off(row, at=at)
        return len(rows), len(planned)

    return attempt(work)


def remind_one(key: uuid.UUID, *, at: datetime) -> bool:
    """The same for one row, when its batch failed. False when there was nothing to do any more."""

    def work() -> bool:
        row = _due(at).select_related("tenant").filter(pk=key).first()
        if row is None:
            return False
        if not _asks(row):
            _put_off(row, at=at)
            return False
        note(row, plan_reminder(row, at=at), command="remind_due", actor=actors.sweeper(row.tenant), at=at)
        return True

    try:
        return attempt(work)
    except Lost:
        return False  # somebody else reminds or decides at this moment


def put_reminder_off(key: uuid.UUID, *, at: datetime) -> None:
    """It failed by itself: an hour later, so that it does not stand in the way of the others."""
    Checkpoint.objects.pending().filter(pk=key, next_reminder_at__lte=at).update(next_reminder_at=at + RETRY_AFTER)


def plan_reminder(row: Checkpoint, *, at: datetime) -> Change:
    count = row.reminder_count + 1
    return Change(
        "reminded", {"reminder_count": count, "next_reminder_at": next_reminder(row, at=at)}, {"count": count}
    )


def next_reminder(row: Checkpoint, *, at: datetime) -> datetime:
    """After its interval. What was missed while nothing ran is not made up for, and the count starts anew from now:
    the next of the old moments may be seconds away."""
    interval = timedelta(minutes=row.reminder_interval_m or 1)
    due = row.next_reminder_at or at
    return due + interval if at - due < interval else at + interval


def _due(at: datetime) -> CheckpointSet:
    due: CheckpointSet = Checkpoint.objects.pending().filter(next_reminder_at__lte=at)
    return due


def _asks(row: Checkpoint) -> bool:
    return row.routing == Routing.PEOPLE and not row.is_unrouted


def _put_off(row: Checkpoint, *, at: datetime) -> None:
    """Nobody to remind now; a later assignee will be."""
    same = Checkpoint.objects.filter(pk=row.pk, next_reminder_at=row.next_reminder_at)
    same.update(next_reminder_at=next_reminder(row, at=at))


def _lock_due(*, at: datetime, size: int) -> list[Checkpoint]:
    due = _due(at).order_by("next_reminder_at")
    if connection.features.has_select_for_update_skip_locked:
        due = due.select_for_update(skip_locked=True)
    rows = list(due[:size])
    # Not joined: MariaDB would lock the tenants' rows too.
    tenants = Tenant.objects.in_bulk({row.tenant_id for row in rows})
    for row in rows:
        row.tenant = tenants[row.tenant_id]
    return rows
