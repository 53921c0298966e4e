"""Very many rows with their first event, written in bulk past the lifecycle: getting ready must not take long."""

import random
import uuid
from collections.abc import Iterable
from typing import Any

from django.db import transaction
from django.utils import timezone

from checkpoints.management.commands.seed_scale import (
    Made,
    Table,
    assigned,
    events_of,
    insert,
    quick_inserts,
    refresh_statistics,
    time_ordered_id,
)
from checkpoints.models import AssigneeType, Checkpoint, Event, Priority, Status
from tenants import actors
from tenants.actors import Actor
from tenants.models import Core

AT_ONCE = 5000


def waits_for(person: str) -> dict[str, Any]:
    return assigned(f"user:{person}", AssigneeType.USER, person)


def store(core: Core, wanted: Iterable[dict[str, Any]]) -> list[uuid.UUID]:
    """One waiting row for each, in their order. Whoever was asked has been told long ago."""
    made = Made(
        tenant=core.tenant,
        cores=[core],
        program=Actor(tenant=core.tenant, kind="key", name="stock", via="api", address="127.0.0.1"),
        clock=actors.clock(core.tenant),
        chance=random.Random(5),
    )
    rows, story = Table(Checkpoint), Table(Event)
    keys = []
    for columns in wanted:
        line = _columns(made, columns)
        chain = events_of(line, made)
        rows.add(line | {"event_count": 1, "row_version": 1, "event_head": chain[-1].digest})
        story.add({name: getattr(chain[0], name) for name in story.names})
        keys.append(line["id"])
    lines, events = rows.take(), story.take()
    with quick_inserts():
        for start in range(0, len(lines), AT_ONCE):
            with transaction.atomic():
                insert(Checkpoint, lines[start : start + AT_ONCE])
                insert(Event, events[start : start + AT_ONCE])
    refresh_statistics()
    return keys


def _columns(made: Made, columns: dict[str, Any]) -> dict[str, Any]:
    created_at = columns.get("created_at") or timezone.now()
    return {
        "id": time_ordered_id(created_at, made.chance),
        "tenant_id": made.tenant.pk,
        "core_id": made.cores[0].pk,
        "flow_name": "refund",
        "prompt": "Refund EUR 1,240 to Acme?",
        "options": ["approve", "reject"],
        "priority": Priority.NORMAL,
        "status": Status.PENDING,
        "notification_sent": True,
        "created_at": created_at,
        "updated_at": created_at,
        "created_by": made.program.label,
    } | columns
