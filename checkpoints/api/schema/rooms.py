"""How another room of the house puts its routes into the document: by ``register``, from its ``AppConfig.ready``.

The rooms that know this one are not known here.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from checkpoints.api import shapes
from checkpoints.api.schema import bodies, parameters, words
from checkpoints.api.schema.bodies import Schema
from checkpoints.api.schema.operations import DESCRIBED, Operation


@dataclass(frozen=True, slots=True)
class Row:
    """What a room answers with, under its name among the components."""

    schema: Callable[[], Schema]
    # How the page calls it; empty where it shows no table of it.
    title: str = ""
    note: str = ""


ROWS: dict[str, Row] = {}


def register(
    *,
    operations: dict[type, dict[str, Operation]],
    rows: dict[str, Row],
    places: dict[str, dict[str, Any]],
    fields: dict[str, str],
    sharper: dict[type[shapes.Shape], dict[str, Schema]],
) -> None:
    """Operations by view, rows by name, parts of the address, the meaning of fields in bodies, and what shapes leave
    unsaid about them."""
    DESCRIBED.update(operations)
    ROWS.update(rows)
    parameters.SHARED.update(places)
    words.FIELDS.update(fields)
    bodies.SHARPER.update(sharper)
