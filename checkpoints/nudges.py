"""After a change its messages are looked after at once. A lost nudge costs nothing but time: the next sweep finds all.

Whoever changes something never waits for it: a thread of its own per process does the asking, at most once a second,
on its own connection, and only while few tasks wait, so that nothing piles up where no cluster runs.
"""

import logging
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from django.conf import settings
from django.db import close_old_connections, connections, transaction
from django_q.brokers import get_broker
from django_q.tasks import async_task

logger = logging.getLogger(__name__)

CALLS = "checkpoints.jobs.run_nudged"
PAUSE_SECONDS = 1.0
# Without a nudge for so long, its connection is given back.
IDLE_SECONDS = 10.0
# Those who wait already will find what this one was for.
FEW = 4


def nudge() -> None:
    """Once the transaction around this has been committed; at once where there is none."""
    if settings.JOBS_NUDGE and not _nudger.silent:
        transaction.on_commit(_nudger.wake, robust=True)


@contextmanager
def silenced() -> Iterator[None]:
    """For those who run the jobs themselves."""
    _nudger.silent += 1
    try:
        yield
    finally:
        _nudger.silent -= 1


def enqueue() -> bool:
    broker = get_broker()
    if broker.queue_size() >= FEW:
        return False
    async_task(CALLS, broker=broker, group="nudge", save=False)
    return True


class Nudger:
    """Asks at the first nudge, then once a second for as long as more of them come."""

    def __init__(self) -> None:
        self.silent = 0
        self.start_anew()

    def start_anew(self) -> None:
        self.lock = threading.Lock()
        self.wanted = threading.Event()
        self.stopping = False
        self.thread: threading.Thread | None = None

    def wake(self) -> None:
        if self.wanted.is_set():
            return
        self.wanted.set()
        with self.lock:
            if self.thread is None or not self.thread.is_alive():
                self.thread = threading.Thread(target=self.work, name="nudges", daemon=True)
                self.thread.start()

    def work(self) -> None:
        try:
            while not self.stopping:
                if not self.wanted.wait(IDLE_SECONDS):
                    connections.close_all()
                    self.wanted.wait()
                # Cleared first: what is committed from here on is asked for again, one pause later.
                self.wanted.clear()
                if not self.stopping:
                    self.ask()
                    time.sleep(PAUSE_SECONDS)
        finally:
            connections.close_all()

    def ask(self) -> None:
        try:
            close_old_connections()
            enqueue()
        except Exception:
            logger.warning("A nudge could not be passed on; the next sweep finds what it was for", exc_info=True)

    def stop(self) -> None:
        """For tests: nobody else needs to wait for it."""
        thread, self.stopping = self.thread, True
        self.wanted.set()
        if thread is not None:
            thread.join()


_nudger = Nudger()
# Threads do not survive a fork, and what they waited for would be waited for in vain.
os.register_at_fork(after_in_child=_nudger.start_anew)
