"""SQLite with a gate in front of its writers.

SQLite has one writer at a time. Whoever finds it busy sleeps for a while and looks again, longer each time, and is
overtaken by whoever comes at the right moment: with eight writers the slowest wait two or three times as long.
Here writers stand in line before they begin: the threads of a process at a lock, the processes at a lock on a file.
Where the line does not move, SQLite's own patience decides as ever.
"""

import fcntl
import os
import threading
import time

from django.db.backends.sqlite3 import base

LOOK_AGAIN_SECONDS = 0.0005
PATIENCE_SECONDS = 5


class Gate:
    def __init__(self, path: str) -> None:
        self.threads = threading.Lock()
        self.file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)

    def enter(self, patience: float = PATIENCE_SECONDS) -> bool:
        """False where it is not our turn in time."""
        until = time.monotonic() + patience
        if not self.threads.acquire(timeout=patience):
            return False
        while True:
            try:
                fcntl.flock(self.file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return True
            except BlockingIOError:
                if time.monotonic() > until:
                    self.threads.release()
                    return False
                time.sleep(LOOK_AGAIN_SECONDS)

    def leave(self) -> None:
        fcntl.flock(self.file, fcntl.LOCK_UN)
        self.threads.release()


_gates: dict[str, Gate] = {}
_one_at_a_time = threading.Lock()
# A child of a fork stands in line for itself.
os.register_at_fork(after_in_child=_gates.clear)


def gate_of(path: str) -> Gate | None:
    with _one_at_a_time:
        if path not in _gates:
            try:
                _gates[path] = Gate(f"{path}-gate")
            except OSError:
                return None  # a folder we may not write to: SQLite will say so itself
        return _gates[path]


class DatabaseWrapper(base.DatabaseWrapper):
    _entered: Gate | None = None

    def _start_transaction_under_autocommit(self) -> None:
        self._leave()
        gate = None if self.is_in_memory_db() else gate_of(str(self.settings_dict["NAME"]))
        if gate is not None and gate.enter():
            self._entered = gate
        try:
            super()._start_transaction_under_autocommit()  # type: ignore[misc]
        except BaseException:
            self._leave()
            raise

    def _commit(self) -> None:
        super()._commit()  # type: ignore[misc]
        self._leave()

    def _rollback(self) -> None:
        try:
            super()._rollback()  # type: ignore[misc]
        finally:
            self._leave()

    def _close(self) -> None:
        try:
            super()._close()  # type: ignore[misc]
        finally:
            self._leave()

    def _leave(self) -> None:
        gate, self._entered = self._entered, None
        if gate is not None:
            gate.leave()
