"""JSON as a list of names and values that a person can read: masked, flat, and never long."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from checkpoints.masking import masked
from notifications.wording import line

MOST_ENTRIES = 40
MOST_OF_A_VALUE = 300
MOST_OF_A_NAME = 80
# Pins of skills are for runtimes, not for people.
FOR_MACHINES = {"resolved_skills"}


@dataclass(frozen=True, slots=True)
class Details:
    entries: list[tuple[str, str]] = field(default_factory=list)
    # There was more than fits.
    more: bool = False


def details_of(value: Any) -> Details:
    shown = masked(value)
    if isinstance(shown, dict):
        shown = {name: held for name, held in shown.items() if name not in FOR_MACHINES}
    entries: list[tuple[str, str]] = []
    for name, held in _leaves(shown):
        if len(entries) == MOST_ENTRIES:
            return Details(entries, more=True)
        entries.append((line(name, MOST_OF_A_NAME) or "value", held))
    return Details(entries)


def _leaves(value: Any) -> Iterator[tuple[str, str]]:
    """Depth first, in the order that was written, without calling itself."""
    waiting: list[tuple[str, Any]] = [("", value)]
    while waiting:
        name, here = waiting.pop()
        if isinstance(here, list) and not any(isinstance(held, dict | list) for held in here):
            here = ", ".join(_said(held) for held in here[:MOST_OF_A_VALUE])
        if here and isinstance(here, dict | list):
            inner = list(here.items() if isinstance(here, dict) else enumerate(here))[: MOST_ENTRIES + 1]
            waiting.extend((_within(name, key), held) for key, held in reversed(inner))
        elif name or here:
            yield name, _said(here)


def _within(name: str, key: Any) -> str:
    return (f"{name}.{key}" if name else str(key))[: 4 * MOST_OF_A_NAME]


def _said(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if value is None:
        return "none"
    return line(value, MOST_OF_A_VALUE) if value != {} and value != "" else "(empty)"
