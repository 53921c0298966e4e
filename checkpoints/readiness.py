"""``/readyz``: can this installation do its work? The database, the storage, and jobs that run in time.

The look happens in a thread of its own, one at a time: whoever asks gets an answer within two seconds also when the
database does not, and asking very often costs no more than asking once a second.
"""

import logging
import os
import threading
import time
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from django.core.files.storage import FileSystemStorage, default_storage
from django.db import Error, connections
from django.http import HttpRequest, JsonResponse
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django_q.models import Schedule

from checkpoints import jobs, schedules
from checkpoints.models import JobBeat

logger = logging.getLogger(__name__)

ANSWER_SECONDS, KEEP_SECONDS = 2.0, 1.0
# A run may be missed, or take its time; more than that is trouble.
MISSED_RUNS, GRACE = 3, timedelta(minutes=2)

OK, UNREACHABLE, NOT_WRITABLE, UNKNOWN = "ok", "unreachable", "not writable", "unknown"
LATE, FAILING = "late", "failing"


@never_cache
def ready(request: HttpRequest) -> JsonResponse:
    found = _look.result()
    late = [name for name, job in found["jobs"].items() if job["state"] == LATE]
    in_order = found["database"] == OK and found["storage"] == OK and not late
    return JsonResponse(found, status=200 if in_order else 503)


def look(*, at: datetime | None = None) -> dict[str, Any]:
    found: dict[str, Any] = {"database": OK, "storage": _storage(), "jobs": {}}
    try:
        found["jobs"] = _jobs(at or timezone.now())
    except (Error, OSError) as error:
        # In one line, and not in the answer: an address or a user name may be in it.
        logger.warning("The database cannot be asked: %s", error)
        found["database"] = UNREACHABLE
    return found


def _storage() -> str:
    if not isinstance(default_storage, FileSystemStorage) and not hasattr(default_storage, "location"):
        return UNKNOWN
    folder = Path(default_storage.location)
    while not folder.exists() and folder != folder.parent:
        # Made at the first write.
        folder = folder.parent
    return OK if folder.is_dir() and os.access(folder, os.W_OK | os.X_OK) else NOT_WRITABLE


def _jobs(at: datetime) -> dict[str, dict[str, Any]]:
    beats = {beat.name: beat for beat in JobBeat.objects.all()}
    plans = {plan.name: plan for plan in Schedule.objects.filter(func=schedules.CALLS)}
    return {name: _job(job, beats.get(name), plans.get(name), at) for name, job in jobs.JOBS.items()}


def _job(job: jobs.Job, beat: JobBeat | None, plan: Schedule | None, at: datetime) -> dict[str, Any]:
    state = LATE if _is_late(job, beat, plan, at) else FAILING if beat and beat.error else OK
    return {"state": state, "finished_at": beat.finished_at if beat else None}


def _is_late(job: jobs.Job, beat: JobBeat | None, plan: Schedule | None, at: datetime) -> bool:
    if plan is not None and plan.schedule_type != Schedule.MINUTES:
        return False  # an operator's own rhythm, which nobody can judge from here
    # Whoever asked for longer pauses, in the settings or in the schedule, has them.
    seconds = max(job.seconds, 60 * (plan.minutes or 0) if plan is not None else 0)
    # What has never finished counts from when it could have started; what always fails has no such excuse.
    since = (beat.finished_at or (None if beat.error else beat.started_at)) if beat is not None else None
    return since is None or at - since > MISSED_RUNS * timedelta(seconds=seconds) + GRACE


class Look:
    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.done = threading.Event()
        self.under_way = False
        self.found: dict[str, Any] = {}
        self.found_at = 0.0

    def result(self) -> dict[str, Any]:
        with self.lock:
            if self.found and time.monotonic() - self.found_at < KEEP_SECONDS:
                return self.found
            if not self.under_way:
                self.under_way, self.done = True, threading.Event()
                threading.Thread(target=self._work, args=(self.done,), name="readiness", daemon=True).start()
            done = self.done
        if done.wait(ANSWER_SECONDS) and self.found:
            return self.found
        return {"database": UNREACHABLE, "storage": UNKNOWN, "jobs": {}}

    def _work(self, done: threading.Event) -> None:
        try:
            self.found = look()
            self.found_at = time.monotonic()
        finally:
            connections.close_all()
            with self.lock:
                self.under_way = False
            done.set()


_look = Look()
