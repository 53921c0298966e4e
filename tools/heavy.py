"""``make test-heavy``: the promises of docs/reliability.md at full size, on both databases, one line each.

A promise that takes longer than its limit is ended and counts as broken.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.mariadb import MariaDBUnavailable, termination_as_exit, throwaway_mariadb
from tools.test import missing_for_mariadb

LIMIT_SECONDS = 900
COUNTING = ("-p", "tests.heavy.counting")
PROMISES: dict[int, Sequence[str]] = {
    1: ("tests/heavy", "-k", "one_decision_wins"),
    2: ("tests/heavy", "-k", "happens_once"),
    3: ("tests/heavy", "-k", "at_the_deadline"),
    4: ("tests/heavy/test_crashes.py",),
    5: ("tests/heavy/test_healing.py",),
    8: ("tests/heavy/test_webhooks_arrive.py",),
    9: ("tests/tenants/test_egress.py",),
    10: ("tests/test_tenant_matrix.py", *COUNTING),
    11: ("tests/test_schemathesis.py", *COUNTING),
    12: ("tests/checkpoints/test_state_machine.py", "tests/checkpoints/test_properties.py"),
    14: ("tests/checkpoints/test_verify_audit.py", "-k", "random_tampering"),
}
DATABASES = ("SQLite", "MariaDB")


@dataclass
class Result:
    lines: list[str]
    kept: bool


def keep(promise: int, database: str, database_url: str) -> Result:
    """Runs the tests of one promise; what they said is shown only when it is broken."""
    started = time.monotonic()
    inherited = {name: value for name, value in os.environ.items() if name != "DATABASE_URL"}
    with tempfile.TemporaryDirectory(prefix="holdpoint-tests-") as directory:
        figures = Path(directory, "figures")
        own = {
            "HOLDPOINT_TEST_SIZE": "full",
            "HOLDPOINT_TEST_DIRECTORY": directory,
            "HOLDPOINT_FIGURES": str(figures),
            "HOLDPOINT_PROMISE": str(promise),
        }
        if database_url:
            own["DATABASE_URL"] = database_url
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:xdist", *PROMISES[promise]]
        kept, said = finished(command, inherited | own)
        lines = figures.read_text().splitlines() if figures.exists() else []
    if kept and lines:
        return Result(lines, kept=True)
    print(said, file=sys.stderr)
    return Result([f"promise {promise}, {database}: BROKEN, {time.monotonic() - started:.0f} s"], kept=False)


def finished(command: Sequence[str], environment: dict[str, str]) -> tuple[bool, str]:
    process = subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
    )
    try:
        said, _ = process.communicate(timeout=LIMIT_SECONDS)
    except subprocess.TimeoutExpired:
        # Politely first: the racers and the server it has started end with it.
        process.terminate()
        said, _ = process.communicate()
        return False, f"{said}\nNot finished after {LIMIT_SECONDS} s."
    finally:
        if process.poll() is None:
            process.kill()
    return process.returncode == 0, said


@contextmanager
def server_of(database: str) -> Iterator[str]:
    if database == "SQLite":
        yield ""
    else:
        with throwaway_mariadb(fast=True) as database_url:
            yield database_url


def run(promises: Sequence[int], databases: Sequence[str]) -> Iterator[Result]:
    for database in databases:
        with server_of(database) as database_url:
            for promise in promises:
                result = keep(promise, database, database_url)
                print(*result.lines, sep="\n", flush=True)
                yield result


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.heavy", description=__doc__)
    parser.add_argument("--only", type=int, nargs="+", choices=PROMISES, default=list(PROMISES), metavar="PROMISE")
    parser.add_argument("--databases", nargs="+", choices=DATABASES, default=DATABASES)
    options = parser.parse_args()
    if "MariaDB" in options.databases and (problem := missing_for_mariadb()):
        print(f"A promise counts only on both databases, and {problem}.", file=sys.stderr)
        return 1
    started = time.monotonic()
    try:
        with termination_as_exit():
            results = list(run(options.only, options.databases))
    except MariaDBUnavailable as problem:
        print(problem, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    kept = sum(result.kept for result in results)
    print(f"{kept} kept, {len(results) - kept} broken, {time.monotonic() - started:.0f} s")
    return 0 if kept == len(results) else 1


if __name__ == "__main__":
    sys.exit(main())
