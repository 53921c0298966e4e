"""A real cluster of django-q2 on the database of this run: it works, shows when it hangs, and ends with all of it."""

import os
import signal
import subprocess
import sys
import threading
import time
from datetime import timedelta

import pytest
from django.utils import timezone

from bench.processes import descendants
from checkpoints import jobs, nudges
from checkpoints.models import Checkpoint, Event, JobBeat
from config.supervisor import ROOT, worker_command
from tests.checkpoints.stories import again
from tests.racing import database_url

pytestmark = [
    pytest.mark.both_databases,
    pytest.mark.django_db(transaction=True),
    pytest.mark.skipif(sys.platform != "linux", reason="reads /proc"),
]

PATIENCE_SECONDS = 40
# As `config.supervisor` starts it, with less patience.
SUPERVISOR = """
import signal, sys
from pathlib import Path
from config import supervisor
supervisor.SILENT_SECONDS = 6
beat = Path(sys.argv[1])
worker = supervisor.Child(
    "worker", 35, supervisor.worker_command(beat), signal.SIGKILL, beat=beat, stops_its_own=True
)
sys.exit(supervisor.Supervisor([worker], is_ready=beat.exists, banner="It beats").run())
"""

# As an operator starts it, without anybody who watches.
ALONE = """
import os
os.environ["DJANGO_SETTINGS_MODULE"] = "config.settings"
import django
django.setup()
from django.core.management import call_command
from checkpoints import worker
worker.SILENT_SECONDS = 4
call_command("worker")
"""


def eventually(found, what):
    give_up_at = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < give_up_at:
        if result := found():
            return result
        time.sleep(0.05)
    raise AssertionError(f"Waited in vain for {what}")


def is_running(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.fixture
def start():
    """A program on the test database; whatever happens, nothing of it is left."""
    started = []

    def begin(command, **settings):
        environment = {"DATABASE_URL": database_url(), "WORKER_BEAT_SECONDS": "1", "Q_WORKERS": "1"} | settings
        process = subprocess.Popen(
            command,
            cwd=ROOT,
            env=os.environ | environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        started.append(process)
        return process

    yield begin
    for process in started:
        if process.poll() is None:
            # Asked, not killed: what a supervisor started has groups of its own.
            process.terminate()
        process.communicate(timeout=PATIENCE_SECONDS)


@pytest.fixture
def beat(tmp_path):
    return tmp_path / "beat"


@pytest.fixture
def overdue(ask, finance):
    row = ask(assignee="group:finance", timeout="1h")
    Checkpoint.objects.filter(pk=row.pk).update(expires_at=timezone.now() - timedelta(minutes=1))
    return row


def test_a_cluster_does_every_job_and_ends_when_asked(start, beat, overdue):
    worker = start(worker_command(beat), Q_WORKERS="2")
    eventually(lambda: again(overdue).status == "expired", "the deadline")
    eventually(lambda: not JobBeat.objects.filter(finished_at=None).exists(), "every heartbeat")
    assert set(JobBeat.objects.values_list("name", flat=True)) == set(jobs.JOBS)
    assert list(JobBeat.objects.exclude(error="")) == []
    family = eventually(lambda: (found := descendants(worker.pid)) and len(found) == 6 and found, "its six processes")

    worker.terminate()
    said, _ = worker.communicate(timeout=PATIENCE_SECONDS)
    assert worker.returncode == 0
    assert "Traceback" not in said
    eventually(lambda: not any(is_running(pid) for pid in family), "the end of all processes")


def test_what_follows_from_a_change_is_done_within_seconds(start, beat, ask, settings, monkeypatch):
    start(worker_command(beat))
    eventually(lambda: not JobBeat.objects.filter(finished_at=None).exists(), "the first round")
    settings.JOBS_NUDGE = True
    nudger = nudges.Nudger()
    monkeypatch.setattr(nudges, "_nudger", nudger)
    try:
        row = ask(assignee="stranger@elsewhere.example")
        event = Event.objects.get(subject_id=row.pk)
        handed_on = eventually(lambda: Event.objects.get(pk=event.pk).distributed_at, "the distribution")
    finally:
        nudger.stop()
    # By the schedule alone it could take a minute and a half.
    assert handed_on - event.at < timedelta(seconds=15)


def test_a_killed_worker_of_an_idle_cluster_hangs_it_and_the_supervisor_replaces_all_of_it(start, beat):
    supervisor = start([sys.executable, "-c", SUPERVISOR, str(beat)])
    worker, sentinel, only_worker, *others = eventually(
        lambda: (found := descendants(supervisor.pid)[1:]) and len(found) == 5 and beat.exists() and found, "a cluster"
    )
    family = [worker, sentinel, only_worker, *others]
    eventually(lambda: not JobBeat.objects.filter(finished_at=None).exists(), "the first round")
    # It waits for work, with the lock of the queue in its hands.
    os.kill(only_worker, signal.SIGKILL)

    give_up = threading.Timer(PATIENCE_SECONDS, supervisor.terminate)
    give_up.start()
    said = next((line for line in supervisor.stdout if "sign of life" in line), "nothing")
    give_up.cancel()
    assert said == "worker has not shown a sign of life for 6 s: ending it by force.\n"
    eventually(lambda: not any(is_running(pid) for pid in family), "the end of the old processes")
    at = beat.stat().st_mtime
    eventually(lambda: beat.stat().st_mtime > at, "the beat of the new ones")
    family = descendants(supervisor.pid)

    supervisor.terminate()
    supervisor.communicate(timeout=PATIENCE_SECONDS)
    assert supervisor.returncode == 0
    eventually(lambda: not any(is_running(pid) for pid in family), "the end of all processes")


def test_a_killed_worker_command_leaves_nobody_behind(start, beat):
    worker = start(worker_command(beat))
    family = eventually(lambda: (found := descendants(worker.pid)) and len(found) == 5 and found, "its processes")
    worker.kill()
    eventually(lambda: not any(is_running(pid) for pid in family), "the end of all processes")


def test_a_worker_that_nobody_watches_ends_by_itself_when_it_hangs(start):
    worker = start([sys.executable, "-c", ALONE])
    family = eventually(lambda: (found := descendants(worker.pid)) and len(found) == 5 and found, "its processes")
    eventually(lambda: not JobBeat.objects.filter(finished_at=None).exists(), "the first round")
    os.kill(family[2], signal.SIGKILL)
    said, _ = worker.communicate(timeout=PATIENCE_SECONDS)
    assert worker.returncode == 1
    assert "No task has come through for 4 seconds: the cluster hangs." in said
    eventually(lambda: not any(is_running(pid) for pid in family), "the end of all processes")
