"""``/readyz`` as a monitor meets it."""

import threading
import time
from datetime import timedelta

import pytest
from django.db import OperationalError
from django.test import Client
from django.utils import timezone
from django_q.models import Schedule

from checkpoints import jobs, readiness
from checkpoints.models import JobBeat

pytestmark = [pytest.mark.both_databases, pytest.mark.django_db(transaction=True)]


@pytest.fixture(autouse=True)
def nobody_asked_before(monkeypatch):
    monkeypatch.setattr(readiness, "_look", readiness.Look())
    monkeypatch.setattr(readiness, "KEEP_SECONDS", 0)


@pytest.fixture
def all_ran():
    now = timezone.now()
    JobBeat.objects.update(started_at=now, finished_at=now)


def ready():
    response = Client().get("/readyz")
    return response.status_code, response.json()


def beat(name, *, minutes, **columns):
    at = timezone.now() - timedelta(minutes=minutes)
    JobBeat.objects.filter(name=name).update(**{"finished_at": at} | columns)


def test_all_in_order(all_ran):
    code, found = ready()
    assert (code, found["database"], found["storage"]) == (200, "ok", "ok")
    assert set(found["jobs"]) == set(jobs.JOBS)
    assert {job["state"] for job in found["jobs"].values()} == {"ok"}
    assert Client().get("/readyz")["Cache-Control"].startswith("max-age=0, no-cache, no-store")


@pytest.mark.parametrize(("minutes", "code", "state"), [(16, 200, "ok"), (18, 503, "late")])
def test_a_job_is_late_after_three_intervals_and_two_minutes(all_ran, minutes, code, state):
    beat("expire_checkpoints", minutes=minutes)
    found = ready()
    assert (found[0], found[1]["jobs"]["expire_checkpoints"]["state"]) == (code, state)


def test_longer_pauses_by_setting_or_schedule_are_no_delay(all_ran, settings):
    beat("expire_checkpoints", minutes=60)
    settings.SWEEP_EXPIRE_SECONDS = 1800
    assert ready()[0] == 200
    settings.SWEEP_EXPIRE_SECONDS = 300
    assert ready()[0] == 503
    Schedule.objects.filter(name="expire_checkpoints").update(minutes=30)
    assert ready()[0] == 200
    Schedule.objects.filter(name="expire_checkpoints").update(minutes=5, schedule_type=Schedule.DAILY)
    assert ready()[0] == 200


def test_a_fresh_installation_has_time_for_its_first_runs():
    JobBeat.objects.update(started_at=timezone.now(), finished_at=None)
    assert ready()[0] == 200
    JobBeat.objects.update(started_at=timezone.now() - timedelta(hours=1))
    code, found = ready()
    assert (code, {job["state"] for job in found["jobs"].values()}) == (503, {"late"})


def test_a_job_that_has_only_ever_failed_is_late(all_ran):
    beat("reroute", minutes=0, finished_at=None, error="ValueError: no")
    assert ready()[0] == 503


def test_a_job_that_failed_just_now_is_named_without_its_error(all_ran):
    beat("reroute", minutes=1, error="ValueError: the password is hunter2")
    response = Client().get("/readyz")
    assert (response.status_code, response.json()["jobs"]["reroute"]["state"]) == (200, "failing")
    assert "hunter2" not in response.text


def test_a_job_without_any_trace_is_late(all_ran):
    JobBeat.objects.filter(name="reroute").delete()
    assert ready()[0] == 503


def test_a_folder_that_cannot_be_written_to(all_ran, settings, tmp_path):
    (tmp_path / "file").touch()
    for place, expected in ((tmp_path / "new" / "er", (200, "ok")), (tmp_path / "file" / "x", (503, "not writable"))):
        settings.STORAGES = settings.STORAGES | {
            "default": settings.STORAGES["default"] | {"OPTIONS": {"location": place}}
        }
        code, found = ready()
        assert (code, found["storage"]) == expected


def test_a_database_that_is_away_is_said_without_its_address(monkeypatch):
    def away(at):
        raise OperationalError(2002, "Can't connect to server on 'db.internal'")

    monkeypatch.setattr(readiness, "_jobs", away)
    response = Client().get("/readyz")
    assert response.status_code == 503
    assert response.json() == {"database": "unreachable", "storage": "ok", "jobs": {}}


def test_a_database_that_does_not_answer_is_waited_for_by_one_thread_alone_and_not_long(monkeypatch):
    looks, goes_on = [], threading.Event()

    def hang(at):
        looks.append(at)
        goes_on.wait(20)
        return {}

    monkeypatch.setattr(readiness, "_jobs", hang)
    monkeypatch.setattr(readiness, "ANSWER_SECONDS", 0.1)
    began = time.monotonic()
    for _ in range(5):
        assert ready() == (503, {"database": "unreachable", "storage": "unknown", "jobs": {}})
    assert time.monotonic() - began < 10
    goes_on.set()
    assert len(looks) == 1


def test_asking_often_looks_once(monkeypatch, all_ran):
    monkeypatch.setattr(readiness, "KEEP_SECONDS", 60)
    assert ready()[0] == 200
    JobBeat.objects.all().delete()
    assert ready()[0] == 200
