"""The one guarded change of the row, single and batch.

The row is read without a lock, the change is planned, and the swap takes effect only if ``row_version`` is still what
was read; otherwise the plan is made again on the fresh row. So whoever loses a race is judged by the winner's outcome,
and no lock is held while anybody thinks.
"""

import copy
import uuid
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import Any

from django.db import models

from checkpoints import errors, events, machine, nudges, policy
from checkpoints.models import Checkpoint, Event
from tenants.actors import Actor
from tenants.statements import insert, insert_many, update, update_many
from tenants.transactions import attempt

TRIES = 50
# The version, and the number of events: delivery bookkeeping writes events without moving the version.
GUARDED = ("id", "row_version", "event_count")


@dataclass(frozen=True, slots=True)
class Change:
    event: str
    sets: dict[str, Any]
    detail: dict[str, Any] = field(default_factory=dict)
    # Written in the same transaction.
    along: tuple[models.Model, ...] = ()
    # What the changed row shall know of it, beside its columns.
    knows: dict[str, Any] = field(default_factory=dict)


class Lost(Exception):
    """Somebody else changed the row between reading and swapping."""


Plan = Callable[[Checkpoint, policy.Verdict], Change | None]
# What else shall be written if the row becomes this: made before the transaction, written in it.
Along = Callable[[Checkpoint], models.Model]


def change(
    checkpoint: Checkpoint,
    *,
    command: str,
    actor: Actor,
    at: datetime,
    plan: Plan,
    replay: Callable[[Checkpoint], bool] | None = None,
    if_version: int | None = None,
    along: Along | None = None,
) -> Checkpoint:
    """Check, plan, swap; a plan that returns None leaves everything as it is."""
    row = checkpoint
    if row.tenant_id != actor.tenant.pk:
        # Before its state or a repeat is looked at: in another tenant there is no such row. A name is no credential.
        raise errors.NotFound
    for _ in range(TRIES):
        if replay is not None and replay(row):
            return row
        if if_version is not None and row.row_version != if_version:
            raise errors.Stale(row)
        machine.check(row, command)
        verdict = policy.verdict(actor, command, row, at=at)
        verdict.enforce(row)
        planned = plan(row, verdict)
        if planned is None:
            return row
        # Everything is made before the transaction, which then holds its locks for three statements.
        event, columns = _prepare(row, planned, command=command, actor=actor, at=at)
        changed = _with(row, columns | planned.knows)
        written = [event, *planned.along, *([along(changed)] if along else [])]
        try:
            attempt(partial(_write, row, columns, written))
        except Lost:
            row = Checkpoint.objects.select_related("core", "tenant").get(pk=row.pk)
        else:
            nudges.nudge()
            return changed
    raise errors.Busy(row)


def swap(row: Checkpoint, planned: Change, *, command: str, actor: Actor, at: datetime) -> None:
    """Row and event, in the caller's transaction; raises Lost when the row has moved on."""
    event, columns = _prepare(row, planned, command=command, actor=actor, at=at)
    _write(row, columns, [event, *planned.along])


def _write(row: Checkpoint, columns: dict[str, Any], along: Iterable[models.Model]) -> None:
    if update(row, columns, guard=GUARDED) != 1:
        raise Lost
    for new in along:
        insert(new)


def note(row: Checkpoint, planned: Change, *, command: str, actor: Actor, at: datetime) -> None:
    """Bookkeeping of messages: row and event as ever, but nobody's ``ETag`` grows stale by it."""
    event, columns = _prepare(row, planned, command=command, actor=actor, at=at, moves_version=False)
    _write(row, columns, [event])


def swap_many(
    rows: Iterable[tuple[Checkpoint, Change, Actor]], *, command: str, at: datetime, moves_version: bool = True
) -> None:
    """The same for some hundreds of rows at once: one statement per shape of change, events in bulk."""
    pending_events: list[Event] = []
    shapes: dict[tuple[str, ...], tuple[list[Checkpoint], list[dict[str, Any]]]] = {}
    for row, planned, actor in rows:
        event, columns = _prepare(row, planned, command=command, actor=actor, at=at, moves_version=moves_version)
        pending_events.append(event)
        alike, changes = shapes.setdefault(tuple(columns), ([], []))
        alike.append(row)
        changes.append(columns)
    for alike, changes in shapes.values():
        if update_many(alike, changes, guard=GUARDED) != len(alike):
            raise Lost
    insert_many(pending_events)


def _prepare(
    row: Checkpoint, planned: Change, *, command: str, actor: Actor, at: datetime, moves_version: bool = True
) -> tuple[Event, dict[str, Any]]:
    after = planned.sets.get("status", row.status)
    if not machine.leads_to(command, row.status, after):
        raise AssertionError(f"{command} does not lead from {row.status} to {after}")
    event = events.build(
        actor=actor,
        subject_id=row.pk,
        sequence=row.event_count + 1,
        previous_digest=row.event_head,
        type=f"checkpoint.{planned.event}",
        at=at,
        data={
            "detail": plain(planned.detail),
            "before": {name: plain(getattr(row, name)) for name in planned.sets},
            "after": {name: plain(value) for name, value in planned.sets.items()},
        },
    )
    columns = planned.sets | {"event_count": row.event_count + 1, "event_head": event.digest}
    if moves_version:
        columns |= {"row_version": row.row_version + 1, "updated_at": at}
    return event, columns


def _with(row: Checkpoint, columns: dict[str, Any]) -> Checkpoint:
    """A new object: where the transaction around us is tried again, the old one must still say what was read."""
    changed = copy.copy(row)
    for name, value in columns.items():
        setattr(changed, name, value)
    return changed


def plain(value: Any) -> Any:
    """As it will read back from the event's JSON."""
    if isinstance(value, datetime):
        return events.moment(value)
    if isinstance(value, uuid.UUID):
        return str(value)
    if isinstance(value, models.TextChoices):
        return str(value)
    if isinstance(value, dict):
        return {str(name): plain(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [plain(inner) for inner in value]
    return value
