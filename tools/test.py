"""``make test``: lint, the whole suite on a throw-away MariaDB, and the portable part on SQLite.

The browser's tests and schemathesis' run by themselves, one after the other.

What a machine cannot run is left out loudly; with ``CI=true`` that is a failure.
"""

import json
import os
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.mariadb import MariaDBUnavailable, run_to_the_end, termination_as_exit, throwaway_mariadb
from tools.lint import lint
from tools.system import chromium, mariadb_server

NO_TESTS_COLLECTED = 5
WORKERS = "2"
ASYNC_UNSAFE = "DJANGO_ALLOW_ASYNC_UNSAFE"


@dataclass
class Job:
    name: str
    succeeded: bool
    seconds: float
    counts: dict[str, int] = field(default_factory=dict)
    note: str = ""

    def __str__(self) -> str:
        detail = self.note or (count_line([self]) if self.counts else "")
        return f"{self.name:<22} {'ok' if self.succeeded else 'FAILED':<7} {self.seconds:6.1f} s   {detail}".rstrip()


def count_line(jobs: Sequence[Job]) -> str:
    return ", ".join(
        f"{sum(job.counts.get(outcome, 0) for job in jobs)} {outcome}" for outcome in ("passed", "failed", "skipped")
    )


def lint_job() -> Job:
    started = time.monotonic()
    clean = lint()
    return Job("lint", clean, time.monotonic() - started)


def pytest_job(name: str, arguments: Sequence[str], *, subset: str, database_url: str = "") -> Job:
    print(f"\n── {name} ──", flush=True)
    started = time.monotonic()
    options = ["-n", WORKERS]
    inherited = {key: value for key, value in os.environ.items() if key not in {"DATABASE_URL", ASYNC_UNSAFE}}
    with tempfile.TemporaryDirectory(prefix="holdpoint-tests-") as directory:
        own = {"HOLDPOINT_TEST_SUBSET": subset, "HOLDPOINT_TEST_DIRECTORY": directory}
        # Left to the plugin when empty: a database of the developer's shell must not be tested on.
        if database_url:
            own["DATABASE_URL"] = database_url
        if subset in {"browser", "schemathesis"}:
            options = ["-p", "no:xdist"]
        if subset == "browser":
            # Playwright keeps an event loop in the test's thread, which Django takes for asynchronous code.
            own[ASYNC_UNSAFE] = "1"
        code = run_to_the_end([sys.executable, "-m", "pytest", "-q", *options, *arguments], inherited | own)
        report = Path(directory, "counts.json")
        counts = json.loads(report.read_text()) if report.exists() else {}
    seconds = time.monotonic() - started
    if code == NO_TESTS_COLLECTED:
        # Arguments may well choose tests of one kind; without them each kind must exist.
        return Job(name, bool(arguments), seconds, note="no tests")
    return Job(name, code == 0, seconds, counts, note="" if counts else f"pytest ended with {code}")


def suite(database: str, arguments: Sequence[str], database_url: str = "") -> Iterator[Job]:
    yield pytest_job(database, arguments, subset="ordinary", database_url=database_url)
    yield pytest_job(f"schemathesis, {database}", arguments, subset="schemathesis", database_url=database_url)
    if chromium():
        yield pytest_job(f"browser, {database}", arguments, subset="browser", database_url=database_url)


def on_mariadb(arguments: Sequence[str]) -> Iterator[Job]:
    started = time.monotonic()
    try:
        with throwaway_mariadb(fast=True) as database_url:
            yield from suite("MariaDB", arguments, database_url)
    except MariaDBUnavailable as problem:
        print(problem, file=sys.stderr)
        yield Job("MariaDB", False, time.monotonic() - started, note="the server did not start")


def missing_for_mariadb() -> str:
    if not mariadb_server():
        return "no MariaDB server is installed"
    try:
        import MySQLdb  # noqa: F401
    except ImportError:
        return "the driver, mysqlclient, could not be built here"
    return ""


def run(arguments: Sequence[str], left_out: list[str]) -> Iterator[Job]:
    yield lint_job()
    problem = missing_for_mariadb()
    if problem:
        left_out.append(f"THE MARIADB TESTS WERE SKIPPED: {problem}. The suite ran on SQLite.")
        yield from suite("SQLite", arguments)
    else:
        yield from on_mariadb(arguments)
        yield pytest_job("SQLite", arguments, subset="both_databases")
        yield pytest_job("schemathesis, SQLite", arguments, subset="schemathesis")
    if not chromium():
        left_out.insert(0, "THE BROWSER TESTS WERE SKIPPED: Chromium is not installed.")


def main() -> int:
    arguments = sys.argv[1:]
    left_out: list[str] = []
    try:
        with termination_as_exit():
            jobs = list(run(arguments, left_out))
    except KeyboardInterrupt:
        return 130
    succeeded = all(job.succeeded for job in jobs)
    print("", *jobs, "", count_line(jobs), sep="\n")
    if not any(job.counts for job in jobs):
        print("No test was run.")
        succeeded = False
    if left_out and os.environ.get("CI", "").lower() in {"1", "true", "yes"}:
        print("FAILED: with CI=true nothing may be left out.")
        succeeded = False
    print(*left_out, sep="\n", end="\n" if left_out else "")
    return 0 if succeeded else 1


if __name__ == "__main__":
    sys.exit(main())
