"""Reading back what happened to a checkpoint, as its history tells it."""

from typing import Any

from checkpoints.models import Checkpoint, Event


def again(row: Checkpoint) -> Checkpoint:
    """The row as the database has it now."""
    found: Checkpoint = Checkpoint.objects.select_related("core", "tenant").get(pk=row.pk)
    return found


def events_of(row: Checkpoint) -> list[Event]:
    return list(Event.objects.filter(subject_id=row.pk).order_by("sequence"))


def story(row: Checkpoint) -> list[str]:
    return [event.name for event in events_of(row)]


def last(row: Checkpoint) -> Event:
    return events_of(row)[-1]


def detail(row: Checkpoint) -> dict[str, Any]:
    found: dict[str, Any] = last(row).data["detail"]
    return found
