"""How much of each promise is tried: some seconds in the ordinary suite, and all of it under ``make test-heavy``."""

import os
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Sizes:
    raced_checkpoints: int
    idempotency_keys: int
    decisions_at_the_deadline: int
    rows_through_crashes: int
    batch_through_crashes: int
    kills_of_workers: int
    seconds_between_kills: float
    commands_through_crashes: int
    commands_between_kills: int
    due_after_downtime: int
    batch_after_downtime: int
    poison_rows: int
    reminders_after_downtime: int
    webhook_questions: int
    webhook_troubles: int
    lives: int
    steps: int
    pure_examples: int
    tamperings: int


SUITE = Sizes(
    raced_checkpoints=40,
    idempotency_keys=30,
    decisions_at_the_deadline=25,
    rows_through_crashes=160,
    batch_through_crashes=20,
    kills_of_workers=8,
    seconds_between_kills=0.5,
    commands_through_crashes=20,
    commands_between_kills=5,
    due_after_downtime=300,
    batch_after_downtime=40,
    poison_rows=3,
    reminders_after_downtime=30,
    webhook_questions=6,
    webhook_troubles=2,
    lives=80,
    steps=40,
    pure_examples=200,
    tamperings=200,
)
FULL = Sizes(
    raced_checkpoints=2000,
    idempotency_keys=1000,
    decisions_at_the_deadline=500,
    rows_through_crashes=10_000,
    batch_through_crashes=300,
    kills_of_workers=100,
    seconds_between_kills=4.0,
    commands_through_crashes=400,
    commands_between_kills=14,
    due_after_downtime=50_000,
    batch_after_downtime=300,
    poison_rows=20,
    reminders_after_downtime=2000,
    webhook_questions=250,
    webhook_troubles=20,
    lives=600,
    steps=60,
    pure_examples=5000,
    tamperings=2000,
)
IS_FULL = os.environ.get("HOLDPOINT_TEST_SIZE") == "full"
SIZES = FULL if IS_FULL else SUITE
