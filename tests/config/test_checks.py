"""Misconfiguration shows up as system checks, each with an id and a hint; all of them at once."""

import os
import subprocess
import sys
from typing import Any

import pytest
from django.db import connection

from config import environment
from tenants import checks
from tests.environment import ROOT, names_the_settings_read

GOOD = {
    "SECRET_KEY": "0123456789abcdef" * 4,
    "BASE_URL": "https://holdpoint.example",
    "DATABASE_URL": "sqlite:///:memory:",
}


def check(*arguments: str, **wrong: str) -> subprocess.CompletedProcess[str]:
    """``manage.py check`` as an operator would run it, with nothing of this shell in it."""
    kept = {name: value for name, value in os.environ.items() if name not in names_the_settings_read()}
    return subprocess.run(
        [sys.executable, "manage.py", "check", *arguments],
        cwd=ROOT,
        env={**kept, "HOLDPOINT_ENV_FILE": "", **GOOD, **wrong},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_a_good_environment_passes_also_for_production() -> None:
    found = check("--deploy", "--fail-level", "WARNING")

    assert found.returncode == 0, found.stderr


def test_every_mistake_is_reported_at_once_with_its_hint() -> None:
    found = check(
        DEBUG="perhaps",
        SECRET_KEY="",
        BASE_URL="http://[half",
        DATABASE_URL="mysql://host:port/name",
        EMAIL_URL="smtp://host:port",
        SWEEP_BATCH="many",
        API_JSON_DEPTH="33",
        LOG_LEVEL="loud",
    )

    assert found.returncode == 1
    assert "Traceback" not in found.stderr
    for name in ("DEBUG", "DATABASE_URL", "EMAIL_URL", "SWEEP_BATCH", "API_JSON_DEPTH", "LOG_LEVEL"):
        assert f"(holdpoint.E001) {name}" in found.stderr
    assert "(holdpoint.E002) SECRET_KEY is not set" in found.stderr
    assert "(holdpoint.E003) BASE_URL is 'http://[half'" in found.stderr
    assert found.stderr.count("HINT: ") == 8


def test_without_https_a_deployment_is_warned() -> None:
    found = check("--deploy", "--fail-level", "WARNING", BASE_URL="http://holdpoint.example")

    assert found.returncode == 1
    assert "(holdpoint.W001) BASE_URL is not https" in found.stderr


def test_a_secret_is_not_needed_on_ones_own_machine() -> None:
    assert check(SECRET_KEY="", DEBUG="1").returncode == 0


def test_a_value_that_cannot_be_read_is_an_error_with_its_hint(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environment, "problems", [environment.Problem("X", "X is odd.", "Use X=1.")])

    (found,) = checks.values_can_be_read()
    assert (found.id, found.msg, found.hint) == ("holdpoint.E001", "X is odd.", "Use X=1.")


@pytest.mark.parametrize("key", ["", None])
def test_a_missing_secret_is_an_error(settings: Any, key: Any) -> None:
    settings.SECRET_KEY = key

    assert [found.id for found in checks.secret_key_is_set()] == ["holdpoint.E002"]


@pytest.mark.parametrize(
    "url",
    [
        *(
            "",
            "holdpoint.example",
            "ftp://holdpoint.example",
            "https://",
            "https:///path",
            "https://h/path",
            "http://[x",
        ),
        *(
            "https://h?x=1",
            "https://h#x",
            "https://user:password@h",
            "https://h:port",
            "https://h:99999",
            "https://h:0",
        ),
    ],
)
def test_an_address_that_links_cannot_start_with_is_an_error(settings: Any, url: str) -> None:
    settings.BASE_URL = url

    assert [found.id for found in checks.base_url_is_complete()] == ["holdpoint.E003"]


@pytest.mark.parametrize("url", ["https://holdpoint.example", "http://localhost:8000", "http://[::1]:8000"])
def test_an_address_of_scheme_and_host_is_complete(settings: Any, url: str) -> None:
    settings.BASE_URL = url

    assert checks.base_url_is_complete() == []


class Server:
    """What the check asks of a connection."""

    def __init__(self, version: tuple[int, ...], *, mariadb: bool = True, says: tuple[str, str]) -> None:
        self.mysql_version, self.mysql_is_mariadb, self.says = version, mariadb, says

    def cursor(self) -> "Server":
        return self

    def __enter__(self) -> "Server":
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def execute(self, statement: str) -> None:
        assert "isolation" in statement

    def fetchone(self) -> tuple[str, str]:
        return self.says


FIT = ("READ-COMMITTED", "utf8mb4")


@pytest.mark.parametrize(
    ("server", "expected"),
    [
        (Server((10, 11, 6), says=FIT), []),
        (Server((11, 8, 2), says=FIT), []),
        (Server((10, 11, 5), says=FIT), ["holdpoint.E004"]),
        (Server((8, 4, 0), mariadb=False, says=FIT), ["holdpoint.E004"]),
        (Server((11, 4, 1), says=("REPEATABLE-READ", "utf8mb4")), ["holdpoint.E005"]),
        (Server((11, 4, 1), says=("READ-COMMITTED", "latin1")), ["holdpoint.E006"]),
        (Server((5, 5, 0), says=("SERIALIZABLE", "utf8mb3")), ["holdpoint.E004", "holdpoint.E005", "holdpoint.E006"]),
    ],
)
def test_a_server_that_is_not_fit_is_an_error(server: Server, expected: list[str]) -> None:
    found = checks._mariadb(server)

    assert [message.id for message in found] == expected
    assert all(message.hint for message in found)


@pytest.mark.django_db
def test_the_database_of_this_run_is_fit() -> None:
    assert checks.database_is_fit(databases=["default"]) == []
    assert checks.database_is_fit() == []


@pytest.mark.django_db
@pytest.mark.skipif(connection.vendor != "mysql", reason="SQLite has one isolation level and one character set")
def test_another_isolation_level_in_the_address_is_found_on_the_real_server() -> None:
    separator = "&" if "?" in os.environ["DATABASE_URL"] else "?"
    address = os.environ["DATABASE_URL"] + separator + "isolation_level=repeatable%20read"

    found = check("--database", "default", DATABASE_URL=address)
    assert found.returncode == 1
    assert "(holdpoint.E005) The isolation level is REPEATABLE-READ." in found.stderr
