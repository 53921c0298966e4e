"""Writers of SQLite stand in line: threads at a lock, processes at a file."""

import subprocess
import sys
import threading

import pytest
from django.db import IntegrityError

from config.sqlite import base
from config.sqlite.base import DatabaseWrapper, Gate, gate_of

HOLD = """
import fcntl, sys
held = open(sys.argv[1], "w")
fcntl.flock(held, fcntl.LOCK_EX)
print("held", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / "gated.sqlite3")


@pytest.fixture
def connect(path, django_db_blocker):
    """A connection of its own, as another thread would have it."""
    opened = []

    def make():
        settings = {"TIME_ZONE": None, "AUTOCOMMIT": True, "ATOMIC_REQUESTS": False, "CONN_MAX_AGE": 0}
        settings |= {"NAME": path, "CONN_HEALTH_CHECKS": False, "ENGINE": "config.sqlite"}
        settings["OPTIONS"] = {"transaction_mode": "IMMEDIATE", "timeout": 1, "check_same_thread": False}
        connection = DatabaseWrapper(settings, alias="gated")
        connection.inc_thread_sharing()
        opened.append(connection)
        return connection

    with django_db_blocker.unblock():
        yield make
        for connection in opened:
            connection.close()


@pytest.fixture
def another_process(path):
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD, f"{path}-gate"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert holder.stdout.readline() == "held\n"
    yield holder
    holder.kill()
    holder.wait()


def begin(connection):
    connection.set_autocommit(False, force_begin_transaction_with_broken_autocommit=True)


def end(connection, how):
    getattr(connection, how)()
    if how != "close":
        connection.set_autocommit(True)


def is_free(path):
    gate = Gate(f"{path}-gate")
    free = gate.enter(0)
    if free:
        gate.leave()
    return free


@pytest.mark.parametrize("how", ["commit", "rollback", "close"])
def test_a_transaction_stands_at_the_gate_from_its_begin_to_its_end(connect, path, how):
    connection = connect()
    begin(connection)
    assert not is_free(path)
    end(connection, how)
    assert is_free(path)


def test_the_next_thread_begins_as_soon_as_the_first_has_ended(connect, path):
    first, second = connect(), connect()
    first.cursor().execute("CREATE TABLE note (word text UNIQUE)")
    begin(first)
    first.cursor().execute("INSERT INTO note VALUES ('first')")
    begun = threading.Event()

    def wait():
        begin(second)
        begun.set()
        second.cursor().execute("INSERT INTO note VALUES ('second')")
        end(second, "commit")

    other = threading.Thread(target=wait)
    other.start()
    assert not begun.wait(0.05)
    end(first, "commit")
    other.join(10)
    assert first.cursor().execute("SELECT word FROM note ORDER BY rowid").fetchall() == [("first",), ("second",)]


def test_a_statement_that_fails_leaves_the_gate_open_after_the_rollback(connect, path):
    connection = connect()
    connection.cursor().execute("CREATE TABLE note (word text UNIQUE)")
    begin(connection)
    connection.cursor().execute("INSERT INTO note VALUES ('once')")
    with pytest.raises(IntegrityError):
        connection.cursor().execute("INSERT INTO note VALUES ('once')")
    end(connection, "rollback")
    assert is_free(path)


def test_another_process_is_waited_for(connect, path, another_process):
    assert not gate_of(path).enter(0.01)
    another_process.kill()
    another_process.wait()
    connection = connect()
    begin(connection)
    assert not is_free(path)
    end(connection, "commit")


def test_where_the_line_does_not_move_sqlite_itself_decides(connect, path, another_process, monkeypatch):
    monkeypatch.setattr(base.Gate.enter, "__defaults__", (0.01,))
    connection = connect()
    begin(connection)
    connection.cursor().execute("CREATE TABLE note (word text)")
    end(connection, "commit")
    assert connection.cursor().execute("SELECT count(*) FROM note").fetchone() == (0,)


def test_a_folder_without_room_for_a_gate_is_no_reason_to_fail(tmp_path):
    assert gate_of(str(tmp_path / "missing" / "holdpoint.sqlite3")) is None
