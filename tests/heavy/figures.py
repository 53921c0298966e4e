"""One line per promise and database, for ``make test-heavy`` to print; nothing in an ordinary run."""

import os
import time
from pathlib import Path

FILE = "HOLDPOINT_FIGURES"
TIMES = "×"  # noqa: RUF001


def report(promise: int, figure: str, *, started: float) -> None:
    """``started`` is a moment of ``time.perf_counter``, which tests that move the clock leave alone."""
    from django.db import connection

    if name := os.environ.get(FILE):
        database = {"sqlite": "SQLite", "mysql": "MariaDB"}[connection.vendor]
        with Path(name).open("a") as file:
            file.write(f"promise {promise}, {database}: {figure}, {time.perf_counter() - started:.0f} s\n")
