import signal
import sys
import threading
import time
from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from checkpoints import jobs, nudges

# A mail shall leave within two seconds, without anybody waking this loop.
NUDGED_SECONDS = 1


class Command(BaseCommand):
    help = "Every job without django-q2: once, from cron, or in a loop until told to stop."

    def add_arguments(self, parser: CommandParser) -> None:
        how = parser.add_mutually_exclusive_group(required=True)
        how.add_argument("--once", action="store_true", help="run every job now, whatever its interval")
        how.add_argument("--loop", action="store_true", help="run each job at its interval until SIGTERM or Ctrl-C")

    def handle(self, *args: Any, **options: Any) -> None:
        with nudges.silenced():
            if options["once"]:
                self.once()
            else:
                self.loop()

    def once(self) -> None:
        found = jobs.run_all()
        for name, outcome in found.items():
            if outcome is None:
                self.stdout.write(f"{name}: failed")
            else:
                self.stdout.write(f"{name}: {outcome.done} done, {outcome.failed} set aside")
        if None in found.values():
            sys.exit(1)

    def loop(self) -> None:
        stop = threading.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: stop.set())
        due = dict.fromkeys(jobs.JOBS, 0.0)
        while not stop.is_set():
            for name, job in jobs.JOBS.items():
                if time.monotonic() >= due[name] and not stop.is_set():
                    jobs.run(name)
                    due[name] = time.monotonic() + (NUDGED_SECONDS if job.nudged else job.seconds)
            stop.wait(max(0.1, min(due.values()) - time.monotonic()))
