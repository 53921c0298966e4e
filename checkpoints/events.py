"""The one event table: build, append, verify. An event's digest covers the one before it."""

import hashlib
import json
import uuid
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

from checkpoints.models import Checkpoint, Event
from tenants.actors import Actor


def canonical(value: Any) -> bytes:
    """One spelling for equal JSON, so that digests and comparisons mean the value and not the text."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode()


def moment(at: datetime) -> str:
    """How every moment is written, in events as in the API."""
    return at.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def build(
    *,
    actor: Actor,
    subject_id: uuid.UUID,
    sequence: int,
    previous_digest: str,
    type: str,
    at: datetime,
    data: dict[str, Any],
    subject_type: str = "checkpoint",
) -> Event:
    event = Event(
        tenant_id=actor.tenant.pk,
        subject_type=subject_type,
        subject_id=subject_id,
        sequence=sequence,
        type=type,
        at=at,
        actor=actor.label,
        via=actor.via,
        address=actor.address,
        data=data,
        previous_digest=previous_digest,
    )
    event.digest = digest_of(event)
    return event


def digest_of(event: Event) -> str:
    return hashlib.sha256(
        canonical(
            [
                event.previous_digest,
                str(event.tenant_id),
                event.subject_type,
                str(event.subject_id),
                event.sequence,
                event.type,
                moment(event.at),
                event.actor,
                event.via,
                event.address,
                event.data,
            ]
        )
    ).hexdigest()


def first_broken(chain: Iterable[Event]) -> Event | None:
    """The first event of a subject, in order, that does not follow from the ones before it."""
    previous, expected = "", 1
    for event in chain:
        if event.sequence != expected or event.previous_digest != previous or event.digest != digest_of(event):
            return event
        previous, expected = event.digest, expected + 1
    return None


def trouble_with(checkpoint: Checkpoint) -> str:
    """What is wrong with a checkpoint's history, in a sentence that names the first broken event; empty when whole."""
    chain = list(Event.objects.filter(subject_id=checkpoint.pk).order_by("sequence"))
    if broken := first_broken(chain):
        return f"Event {broken.sequence} ({broken.type}) does not follow from the ones before it."
    # A chain whose end was cut off is whole in itself: only the row remembers how long it was.
    if len(chain) != checkpoint.event_count:
        return f"The row counts {checkpoint.event_count} events, and there are {len(chain)}."
    if chain and chain[-1].digest != checkpoint.event_head:
        return f"Event {chain[-1].sequence} ({chain[-1].type}) is not the one the row remembers as its last."
    return ""
