"""The one event table: build, append, verify. An event's digest covers the one before it."""

import hashlib
import json
import uuid
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from django.db import connection
from django.db.models import Count, Exists, OuterRef

from checkpoints.models import Checkpoint, Event
from tenants.actors import Actor
from tenants.models import Tenant

PIECE = 500
TRIES = 5
# By checkpoints/migrations/0003_event_triggers.py.
TRIGGERS = {
    "sqlite": {"event_never_changed", "event_never_deleted", "event_never_replaced"},
    "mysql": {"event_never_changed", "event_never_deleted"},
}
TRIGGERS_THERE = {
    "sqlite": "SELECT name FROM sqlite_master WHERE type = 'trigger' AND tbl_name = %s",
    "mysql": "SELECT trigger_name FROM information_schema.triggers"
    " WHERE event_object_schema = DATABASE() AND event_object_table = %s",
}
# What SQLite, which keeps any value in any column, lets somebody put in the place of a moment, an id or JSON.
UNREADABLE = (ValueError, TypeError, AttributeError)


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
        if event.sequence != expected or event.previous_digest != previous or not _is_as_written(event):
            return event
        previous, expected = event.digest, expected + 1
    return None


def trouble_with(checkpoint: Checkpoint) -> str:
    """What is wrong with a checkpoint's history, in a sentence that names the first broken event; empty when whole."""
    for _ in range(TRIES):
        try:
            chain = Event.objects.filter(subject_id=checkpoint.pk).order_by("sequence")
            trouble = _Chain(checkpoint).trouble_in(chain.iterator())
        except UNREADABLE as error:
            trouble = f"Its events cannot be read: {error}."
        if not trouble:
            return ""
        # Row and events are two reads: what happened in between is no trouble, so a row that has moved is read again.
        remembered = Checkpoint.objects.filter(pk=checkpoint.pk).first()
        if remembered is None or _memory(remembered) == _memory(checkpoint):
            return trouble
        checkpoint = remembered
    return trouble


def missing_triggers() -> list[str]:
    """Those that should refuse to change events, and have been taken away."""
    with connection.cursor() as cursor:
        cursor.execute(TRIGGERS_THERE[connection.vendor], [Event._meta.db_table])
        return sorted(TRIGGERS[connection.vendor] - {name for (name,) in cursor.fetchall()})


@dataclass(frozen=True, slots=True)
class Finding:
    checkpoint_id: uuid.UUID
    sentence: str


class Verification:
    """Every chain against its row, in pieces: a bounded number of rows at a time, two queries for each piece."""

    def __init__(self, tenant: Tenant | None = None, checkpoint_id: uuid.UUID | None = None) -> None:
        self.tenant, self.checkpoint_id = tenant, checkpoint_id
        self.checkpoints = self.events = self.broken = 0

    def findings(self) -> Iterator[Finding]:
        """The first trouble of each chain, as they are found. The counts stand once this has ended."""
        for rows in self._pieces():
            yield from self._counted(self._broken_among(rows))
        yield from self._counted(self._without_a_row())

    def _counted(self, findings: Iterator[Finding]) -> Iterator[Finding]:
        for finding in findings:
            self.broken += 1
            yield finding

    def _pieces(self) -> Iterator[list[Checkpoint]]:
        rows = Checkpoint.objects.order_by("id").only("id", "tenant_id", "event_count", "event_head")
        if self.tenant is not None:
            rows = rows.for_tenant(self.tenant)
        if self.checkpoint_id is not None:
            rows = rows.filter(pk=self.checkpoint_id)
        piece = list(rows[:PIECE])
        while piece:
            yield piece
            piece = list(rows.filter(id__gt=piece[-1].pk)[:PIECE])

    def _broken_among(self, rows: list[Checkpoint]) -> Iterator[Finding]:
        chains = {row.pk: _Chain(row) for row in rows}
        events = Event.objects.filter(subject_id__in=list(chains)).order_by("subject_id", "sequence")
        try:
            for event in events.iterator():
                self.events += 1
                chains[event.subject_id].add(event)
            suspects = [row for row in rows if chains[row.pk].end()]
        except UNREADABLE:
            # One row that not even the driver can read must not hide the others.
            suspects = rows
        self.checkpoints += len(rows)
        for row in suspects:
            if trouble := trouble_with(row):
                yield Finding(row.pk, trouble)

    def _without_a_row(self) -> Iterator[Finding]:
        """Events of any type: a row and the word that says what its events are about can be taken away together."""
        rows = Checkpoint.objects.filter(pk=OuterRef("subject_id"))
        events = Event.objects.order_by()
        if self.tenant is not None:
            rows = rows.filter(tenant_id=OuterRef("tenant_id"))
            events = events.for_tenant(self.tenant)
        if self.checkpoint_id is not None:
            events = events.filter(subject_id=self.checkpoint_id)
        lost = events.filter(~Exists(rows)).values("subject_id").annotate(number=Count("id")).order_by("subject_id")
        for found in lost.iterator():
            where = "" if self.tenant is None else f" in {self.tenant.slug}"
            sentence = f"There is no such checkpoint{where} any more, but it has {_number(found['number'])}."
            yield Finding(found["subject_id"], sentence)


class _Chain:
    """One subject's events as they pass by; keeps no more than the last one and the first trouble."""

    def __init__(self, row: Checkpoint) -> None:
        self.row, self.length, self.last, self.trouble = row, 0, "", ""

    def trouble_in(self, events: Iterable[Event]) -> str:
        for event in events:
            self.add(event)
        return self.end()

    def add(self, event: Event) -> None:
        if not self.trouble:
            self.trouble = self._trouble_at(event)
            self.length, self.last = self.length + 1, event.digest

    def end(self) -> str:
        """A chain whose end was cut off is whole in itself: only the row remembers how long it was."""
        count, head = self.row.event_count, self.row.event_head
        if self.trouble:
            return self.trouble
        if not self.length:
            return f"All events are missing; the row counts {count}."
        if self.length < count:
            return f"Event {self.length + 1} is missing, the end was cut off: the row counts {count}."
        if self.length > count:
            return f"Event {count + 1} is one too many: the row counts {count}."
        if self.last != head:
            return f"Event {count} was replaced: it is not the one the row remembers as its last."
        return ""

    def _trouble_at(self, event: Event) -> str:
        place = self.length + 1
        named = f"Event {event.sequence} ({event.type})"
        if event.tenant_id != self.row.tenant_id:
            return f"{named} belongs to another tenant than the checkpoint."
        if event.sequence != place:
            return f"Event {place} is missing: the next one is event {event.sequence} ({event.type})."
        if not _is_as_written(event):
            if written := self._place_in_which_it_was_written(event):
                return f"{named} was moved: it was written as event {written}."
            return f"{named} was edited: its content does not fit its digest."
        if event.previous_digest != self.last:
            before = f"event {place - 1}" if place > 1 else "the beginning"
            return f"{named} does not follow from {before}: one of them was replaced."
        return ""

    def _place_in_which_it_was_written(self, event: Event) -> int | None:
        here = event.sequence
        try:
            for place in range(1, self.row.event_count + 1):
                event.sequence = place
                if _is_as_written(event):
                    return place
        finally:
            event.sequence = here
        return None


def _is_as_written(event: Event) -> bool:
    try:
        return event.digest == digest_of(event)
    except UNREADABLE:
        return False


def _memory(row: Checkpoint) -> tuple[int, str]:
    return row.event_count, row.event_head


def _number(events: int) -> str:
    return "1 event" if events == 1 else f"{events:,} events"
