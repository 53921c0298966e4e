from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from checkpoints import lifecycle
from checkpoints.answers import Answer
from checkpoints.models import Checkpoint
from tenants.actors import Actor
from tenants.models import User


@pytest.fixture
def later(time_machine: Any) -> Callable[..., None]:
    """Moves the clock on: ``later(minutes=61)``."""

    def move(**span: int) -> None:
        time_machine.move_to(datetime.now(UTC) + timedelta(**span))

    return move


@pytest.fixture
def decide(as_person: Callable[[User], Actor]) -> Callable[..., Checkpoint]:
    """``decide(row, approver, "approve")``, as a person or as any actor."""

    def resolve(row: Checkpoint, who: User | Actor, decision: str | None = None, **rest: Any) -> Checkpoint:
        actor = who if isinstance(who, Actor) else as_person(who)
        return lifecycle.resolve(row, actor=actor, answer=Answer(decision, **rest))

    return resolve


@pytest.fixture(autouse=True)
def _every_answer_is_as_the_document_tells(settings: Any) -> None:
    settings.MIDDLEWARE = ["tests.conforming.Conforms", *settings.MIDDLEWARE]
