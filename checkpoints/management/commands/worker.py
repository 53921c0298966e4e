import os
import sys
import tempfile
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from checkpoints import nudges
from checkpoints.worker import Worker


class Command(BaseCommand):
    help = "Runs the jobs with django-q2, in the foreground, until SIGTERM or Ctrl-C."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--beat-file",
            default=os.environ.get("WORKER_BEAT_FILE"),
            help="its time moves while tasks come through; whoever names it watches it (without: ends when it hangs)",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        with nudges.silenced():
            if options["beat_file"]:
                sys.exit(Worker(Path(options["beat_file"]), watches_itself=False).run())
            with tempfile.TemporaryDirectory(prefix="holdpoint-worker-") as directory:
                code = Worker(Path(directory, "beat"), watches_itself=True).run()
            sys.exit(code)
