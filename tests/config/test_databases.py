"""What the code relies on is asked of the connection itself, not read from the settings."""

import sqlite3
from contextlib import closing
from typing import Any

import pytest
from django.db import DataError, connection, transaction

from tenants.models import Tenant

on_sqlite = pytest.mark.skipif(connection.vendor != "sqlite", reason="a setting of SQLite")
on_mariadb = pytest.mark.skipif(connection.vendor != "mysql", reason="a setting of MariaDB")


def ask(statement: str) -> Any:
    with connection.cursor() as cursor:
        cursor.execute(statement)
        return cursor.fetchone()[0]


@on_sqlite
@pytest.mark.both_databases
@pytest.mark.django_db
@pytest.mark.parametrize(
    ("pragma", "expected"), [("journal_mode", "wal"), ("synchronous", 1), ("foreign_keys", 1), ("busy_timeout", 20_000)]
)
def test_sqlite_writes_ahead_keeps_its_promises_and_waits_its_turn(pragma: str, expected: Any) -> None:
    assert ask(f"PRAGMA {pragma}") == expected


@on_sqlite
@pytest.mark.both_databases
@pytest.mark.django_db(transaction=True)
def test_a_transaction_on_sqlite_queues_up_before_it_reads() -> None:
    with closing(sqlite3.connect(connection.settings_dict["NAME"], timeout=0)) as other:
        # Nothing was written yet, and still nobody else may begin to write.
        with transaction.atomic(), pytest.raises(sqlite3.OperationalError, match="locked"):
            other.execute("BEGIN IMMEDIATE")
        other.execute("BEGIN IMMEDIATE")


@on_mariadb
@pytest.mark.django_db
def test_mariadb_reads_what_others_committed() -> None:
    assert ask("SELECT @@tx_isolation") == "READ-COMMITTED"


@on_mariadb
@pytest.mark.django_db
def test_mariadb_is_strict_and_speaks_every_character() -> None:
    assert "STRICT_TRANS_TABLES" in ask("SELECT @@sql_mode")
    assert ask("SELECT @@character_set_connection") == "utf8mb4"


@on_mariadb
@pytest.mark.django_db
def test_mariadb_refuses_what_does_not_fit_rather_than_cut_it() -> None:
    with pytest.raises(DataError), transaction.atomic():
        Tenant.objects.create(slug="a" * 64, name="a")


@pytest.mark.both_databases
@pytest.mark.django_db
def test_names_are_compared_letter_by_letter(acme: Tenant) -> None:
    Tenant.objects.create(slug="ACME", name="another")
    Tenant.objects.create(slug="acme ", name="yet another")
    Tenant.objects.create(slug="acmé", name="and another")

    assert Tenant.objects.get(slug="acme") == acme
    assert Tenant.objects.count() == 4
