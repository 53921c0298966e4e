"""Somebody who may change the schema: takes the triggers of the events away, and puts them back."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

from django.db import connection
from django.db.backends.base.operations import BaseDatabaseOperations

MIGRATION: Any = import_module("checkpoints.migrations.0003_event_triggers")


@contextmanager
def unguarded() -> Iterator[None]:
    """On MariaDB this commits whatever transaction is open: tests that use it run without one around them."""
    guards: dict[str, str] = MIGRATION.GUARDS[connection.vendor]
    with connection.cursor() as cursor:
        for name in guards:
            cursor.execute(f"DROP TRIGGER IF EXISTS {name}")
    try:
        yield
    finally:
        with connection.cursor() as cursor:
            for name, body in guards.items():
                cursor.execute(f"CREATE TRIGGER {name} {body}")


def emptying(flush: Callable[[BaseDatabaseOperations, Any], None]) -> Callable[[BaseDatabaseOperations, Any], None]:
    """Django empties the tables after a test by DELETE, which the product refuses."""

    def flush_unguarded(operations: BaseDatabaseOperations, statements: Any) -> None:
        with unguarded():
            flush(operations, statements)

    return flush_unguarded
