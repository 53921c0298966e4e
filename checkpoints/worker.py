"""django-q2's cluster under our conditions: it shows that it lives, and it ends when told to, with all its processes.

A cluster can hang while all its processes are there: a worker that is killed while it waits for work takes the lock of
the queue with it. So a beat goes the way that every task goes, within this one cluster, and moves the time of a file.
"""

import ctypes
import gc
import logging
import os
import signal
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from django.conf import settings
from django.db import Error, connections
from django.urls import get_resolver
from django.utils import timezone
from django_q.brokers import get_broker
from django_q.cluster import Cluster
from django_q.scheduler import scheduler
from django_q.signals import post_execute, post_execute_in_worker, post_spawn, pre_execute
from django_q.signing import SignedPackage

from tenants.transactions import insistently

logger = logging.getLogger("worker")

BEATS_BY = f"{__name__}.beat"
TICK_SECONDS = 0.1
# Less than those wait who ask: `config.supervisor` insists after 5 seconds, and after 1 when in a hurry.
STOP_SECONDS, HURRY_SECONDS = 4.0, 0.6
SILENT_SECONDS = 60
AWAY_SECONDS = 2
PR_SET_PDEATHSIG = 1


def beat() -> None:
    """The task itself. That it came through is all there is to it."""


class BeatingBroker:
    """Hands out, beside what is queued, a beat every few seconds. That one is in no queue others could take it from."""

    def __init__(self, broker: Any) -> None:
        self.broker = broker
        self.next_beat_at = 0.0

    def __getattr__(self, name: str) -> Any:
        return getattr(self.broker, name)

    def dequeue(self) -> Any:
        if time.monotonic() >= self.next_beat_at:
            self.next_beat_at = time.monotonic() + settings.WORKER_BEAT_SECONDS
            return [(None, _beat_as_task())]
        try:
            return insistently(self.broker.dequeue)
        except Error as error:
            # The library would replace the whole process, after ten seconds in which it does nothing.
            logger.warning("The queue cannot be read (%s); trying again", error)
            connections.close_all()
            time.sleep(AWAY_SECONDS)
            return None


def _beat_as_task() -> str:
    task = {"id": "beat", "name": "beat", "func": BEATS_BY, "args": (), "kwargs": {}, "started": timezone.now()}
    return str(SignedPackage.dumps(task | {"save": False, "ack_failure": True}))


class BeatFile:
    """Its time moves when a task has gone all the way through the cluster, and while a worker is busy with one."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.busy = threading.Event()

    def connect(self) -> None:
        """Before the cluster forks: each of its processes tells what it sees."""
        post_execute.connect(self._came_through)
        post_spawn.connect(self._worker_begins)
        pre_execute.connect(self._task_begins)
        post_execute_in_worker.connect(self._task_ends)

    def touch(self) -> None:
        with suppress(OSError):
            self.path.touch()

    def _came_through(self, **_: Any) -> None:
        self.touch()

    def _task_begins(self, **_: Any) -> None:
        self.busy.set()

    def _task_ends(self, **_: Any) -> None:
        self.busy.clear()

    def _worker_begins(self, **_: Any) -> None:
        # A long job is no silence. One that never ends is the library's to end, at its timeout.
        threading.Thread(target=self._touch_while_busy, name="beat", daemon=True).start()

    def _touch_while_busy(self) -> None:
        while self.busy.wait():
            time.sleep(settings.WORKER_BEAT_SECONDS)
            if self.busy.is_set():
                self.touch()


class Worker:
    def __init__(self, beat_file: Path, *, watches_itself: bool) -> None:
        self.beats = BeatFile(beat_file)
        self.watches_itself = watches_itself
        self.patience: float | None = None
        self.last_beat, self.heard_at = 0.0, time.monotonic()

    def run(self) -> int:
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self.request_stop)
        broker = self.broker_when_it_is_there()
        if broker is None:
            return 0
        cluster = Cluster(broker=BeatingBroker(broker))
        for number in (signal.SIGTERM, signal.SIGINT):
            # The cluster's own would wait for ever, within the signal.
            signal.signal(number, self.request_stop)
        self.beats.connect()
        # What is due already need not wait for the first look at the schedules, half a minute from now.
        scheduler(broker)
        connections.close_all()
        everybody_ends_with_the_first()
        share_what_is_here()
        cluster.start()
        while self.patience is None and cluster.sentinel.is_alive() and not self.is_silent():
            time.sleep(TICK_SECONDS)
        return self.stop(cluster)

    def request_stop(self, number: int, _frame: Any) -> None:
        self.patience = HURRY_SECONDS if number == signal.SIGINT else STOP_SECONDS

    def broker_when_it_is_there(self) -> Any:
        while self.patience is None:
            try:
                return get_broker()
            except Error as error:
                logger.warning("The database cannot be reached (%s); trying again", error)
                self.beats.touch()
                time.sleep(AWAY_SECONDS)
        return None

    def is_silent(self) -> bool:
        """By this process's own clock: whoever sets the time, or lets the machine sleep, has not hung the cluster."""
        if not self.watches_itself:
            return False
        with suppress(OSError):
            beaten = self.beats.path.stat().st_mtime
            if beaten != self.last_beat:
                self.last_beat, self.heard_at = beaten, time.monotonic()
        silent = time.monotonic() - self.heard_at > SILENT_SECONDS
        if silent:
            logger.critical("No task has come through for %s seconds: the cluster hangs.", SILENT_SECONDS)
        return silent

    def stop(self, cluster: Any) -> int:
        asked = self.patience is not None
        if asked:
            cluster.stop_event.set()
            cluster.sentinel.join(self.patience)
        if cluster.sentinel.is_alive():
            # In the middle of a job, or hung: every job can be killed and run again.
            cluster.sentinel.kill()
            cluster.sentinel.join()
        if sys.platform != "linux" and os.getpgrp() == os.getpid():
            os.killpg(0, signal.SIGKILL)
        return 0 if asked else 1


def share_what_is_here() -> None:
    """What is in memory before the fork is there once; a link in a mail needs all addresses, and these the rest."""
    _ = get_resolver().url_patterns
    gc.collect()
    gc.freeze()


def everybody_ends_with_the_first() -> None:
    """From here on the kernel kills every process that is forked off as soon as its parent is gone, in any way."""
    if sys.platform != "linux":
        return
    prctl, parent = ctypes.CDLL(None).prctl, [os.getpid()]

    def remember() -> None:
        parent[0] = os.getpid()

    def arrange() -> None:
        prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        # The parent may have died before the line above.
        if os.getppid() != parent[0]:
            os._exit(1)

    os.register_at_fork(before=remember, after_in_child=arrange)
