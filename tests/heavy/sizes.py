"""How much of each promise is tried: some seconds in the ordinary suite, and all of it under ``make test-heavy``."""

import os
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Sizes:
    raced_checkpoints: int
    idempotency_keys: int
    decisions_at_the_deadline: int
    lives: int
    steps: int
    pure_examples: int
    tamperings: int


SUITE = Sizes(
    raced_checkpoints=40,
    idempotency_keys=30,
    decisions_at_the_deadline=25,
    lives=80,
    steps=40,
    pure_examples=200,
    tamperings=200,
)
FULL = Sizes(
    raced_checkpoints=2000,
    idempotency_keys=1000,
    decisions_at_the_deadline=500,
    lives=600,
    steps=60,
    pure_examples=5000,
    tamperings=2000,
)
IS_FULL = os.environ.get("HOLDPOINT_TEST_SIZE") == "full"
SIZES = FULL if IS_FULL else SUITE
