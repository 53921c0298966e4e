import logging
import signal
import threading
import time
from collections.abc import Callable
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandParser
from django.db import Error, close_old_connections

from checkpoints import sweeps
from tenants import limits, lockout

logger = logging.getLogger("sweep")


class Command(BaseCommand):
    help = "End what is due and reroute what nobody can act on any more: once, or in a loop until told to stop."

    def add_arguments(self, parser: CommandParser) -> None:
        how = parser.add_mutually_exclusive_group(required=True)
        how.add_argument("--once", action="store_true", help="run every job now, whatever its interval")
        how.add_argument("--loop", action="store_true", help="run each job at its interval until SIGTERM or Ctrl-C")

    def handle(self, *args: Any, **options: Any) -> None:
        jobs: dict[str, tuple[int, Callable[[], sweeps.Outcome]]] = {
            "expire_checkpoints": (settings.SWEEP_EXPIRE_SECONDS, sweeps.expire_checkpoints),
            "reroute": (settings.SWEEP_REROUTE_SECONDS, sweeps.reroute),
            "forget_answers": (settings.SWEEP_FORGET_SECONDS, sweeps.forget_answers),
            "forget_counts": (settings.SWEEP_FORGET_SECONDS, forget_counts),
        }
        if options["once"]:
            for name, (_, job) in jobs.items():
                outcome = job()
                self.stdout.write(f"{name}: {outcome.done} done, {outcome.failed} set aside")
            return
        self.loop(jobs)

    def loop(self, jobs: dict[str, tuple[int, Callable[[], sweeps.Outcome]]]) -> None:
        stop = threading.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: stop.set())
        due = dict.fromkeys(jobs, 0.0)
        while not stop.is_set():
            for name, (interval, job) in jobs.items():
                if time.monotonic() >= due[name]:
                    self.run(name, job)
                    due[name] = time.monotonic() + interval
            stop.wait(max(0.1, min(due.values()) - time.monotonic()))

    def run(self, name: str, job: Callable[[], sweeps.Outcome]) -> None:
        close_old_connections()
        try:
            outcome = job()
        except Error:
            # The next round tries again; a database that is away for a while must not end the worker.
            logger.exception("%s failed", name)
            return
        if outcome.done or outcome.failed:
            logger.info("%s: %s done, %s set aside", name, outcome.done, outcome.failed)


def forget_counts() -> sweeps.Outcome:
    """What rate limits and the lockout have counted, and nobody asks for any more."""
    return sweeps.Outcome(done=limits.remove_old_counts() + lockout.remove_old_tries())
