"""Worker processes over the test database: ``manage.py sweep --loop`` with short intervals, each a group of its own."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from config.supervisor import ends_with_parent
from tests.racing import ROOT, database_url

PATIENCE = 60
SWEEP = ("manage.py", "sweep", "--loop")
INTERVALS = {f"SWEEP_{name}_SECONDS": "1" for name in ("EXPIRE", "REROUTE", "REMIND", "DIGEST")}
UNCAPPED = {"MAIL_PER_RECIPIENT_PER_HOUR": "0", "MAIL_PER_TENANT_PER_HOUR": "0"}


class Worker:
    def __init__(self, log: Path, *, command: Sequence[str] = SWEEP, **settings: str) -> None:
        self.log = log
        own = {"DATABASE_URL": database_url(), "LOG_LEVEL": "ERROR"}
        with log.open("ab") as file:
            self.process = subprocess.Popen(
                [sys.executable, *command],
                cwd=ROOT,
                env=os.environ | INTERVALS | UNCAPPED | own | settings,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=file,
                start_new_session=True,
                preexec_fn=ends_with_parent(signal.SIGKILL),  # noqa: PLW1509
            )

    def wait_until_it_works(self) -> None:
        """Of ``tests.heavy.sweeper``, which says so."""
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == b"ready\n", self.log.read_text()

    def kill(self) -> None:
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.communicate()

    def stop(self) -> None:
        """As an operator would; it ends what it is at, and says that all is well."""
        self.process.terminate()
        self.process.communicate(timeout=PATIENCE)
        assert self.process.returncode == 0, self.log.read_text()


@contextmanager
def workers(count: int, log: Path, **settings: str) -> Iterator[list[Worker]]:
    """Stopped in the end, and killed if the test fails."""
    running = [Worker(log, **settings) for _ in range(count)]
    try:
        yield running
        for worker in running:
            worker.stop()
    finally:
        for worker in running:
            if worker.process.poll() is None:
                worker.kill()


def wait_for(done: Callable[[], bool], *, seconds: float, log: Path) -> None:
    give_up_at = time.monotonic() + seconds
    while not done():
        assert time.monotonic() < give_up_at, f"Not done after {seconds} s:\n{log.read_text()[-20000:]}"
        time.sleep(0.1)
