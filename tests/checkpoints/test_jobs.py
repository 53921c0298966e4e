"""What runs by itself: one list, a schedule and a heartbeat for each, and a command that does it all from cron."""

import logging
from datetime import timedelta

import pytest
from django.apps import apps
from django.core.management import call_command
from django.db import InterfaceError
from django.utils import timezone
from django_q.models import Failure, OrmQ, Schedule, Success
from django_q.scheduler import scheduler

from checkpoints import checks, jobs, schedules
from checkpoints.models import Checkpoint, JobBeat
from checkpoints.sweeps import Outcome
from tests.checkpoints.stories import again

pytestmark = [pytest.mark.both_databases, pytest.mark.django_db]


@pytest.fixture
def register(monkeypatch):
    """One more job for this test: ``register("tidy", work)``."""
    monkeypatch.setattr(jobs, "JOBS", dict(jobs.JOBS))

    def add(name, work, **how):
        jobs.register(name, work, **({"every": "SWEEP_FORGET_SECONDS"} | how))

    return add


@pytest.fixture
def only(register):
    """No other jobs than these."""

    def choose(**work):
        jobs.JOBS.clear()
        for name, function in work.items():
            register(name, function)

    return choose


def beat_of(name):
    return JobBeat.objects.get(name=name)


def schedule_of(name):
    return Schedule.objects.get(name=name)


# --- Heartbeats -----------------------------------------------------------------------------------------------------


def test_a_run_leaves_a_heartbeat(register):
    register("tidy", lambda: Outcome(done=3, failed=1))
    assert jobs.run("tidy").done == 3
    beat = beat_of("tidy")
    assert (beat.done, beat.failed, beat.error) == (3, 1, "")
    assert timezone.now() - timedelta(minutes=1) < beat.started_at <= beat.finished_at <= timezone.now()


@pytest.mark.parametrize("trouble", [InterfaceError("(0, '')"), ValueError("x" * 5000), KeyError("x")])
def test_a_job_that_fails_breaks_nobody_and_says_what_it_was(register, caplog, trouble):
    def fail():
        raise trouble

    register("tidy", Outcome)
    jobs.run("tidy")
    before = beat_of("tidy")
    register("tidy", fail)
    assert jobs.run("tidy") is None
    after = beat_of("tidy")
    assert after.error.startswith(f"{type(trouble).__name__}: ")
    assert len(after.error) <= 2000
    assert (after.finished_at, after.started_at > before.started_at) == (before.finished_at, True)
    assert "tidy failed" in caplog.text
    register("tidy", Outcome)
    jobs.run("tidy")
    assert beat_of("tidy").error == ""


def test_an_error_that_no_database_can_hold_is_held_all_the_same(register, caplog):
    # The report of a test cannot hold it either.
    caplog.set_level(logging.CRITICAL + 1, "jobs")

    def fail():
        raise ValueError("half \ud800 and NUL \x00.")

    register("tidy", fail)
    assert jobs.run("tidy") is None
    assert beat_of("tidy").error == "ValueError: half \\ud800 and NUL ."


def test_what_a_scheduled_job_changed_is_passed_on_at_once(only, register):
    seen = []
    only(quiet=Outcome, busy=lambda: Outcome(done=1))
    register("pass_on", lambda: seen.append(1) or Outcome(), nudged=True)
    jobs.run_scheduled("quiet")
    assert seen == []
    jobs.run_scheduled("busy")
    assert seen == [1]


def test_a_schedule_of_a_job_that_is_no_more_does_nothing(caplog):
    jobs.run_scheduled("long_gone")
    assert "There is no job 'long_gone'" in caplog.text
    assert not JobBeat.objects.filter(name="long_gone").exists()


# --- Schedules ------------------------------------------------------------------------------------------------------


def test_after_migrate_every_job_has_its_schedule():
    found = {row.name: row for row in Schedule.objects.all()}
    assert set(found) == set(jobs.JOBS)
    expiry = found["expire_checkpoints"]
    assert (expiry.schedule_type, expiry.minutes, expiry.repeats) == (Schedule.MINUTES, 5, -1)
    assert expiry.next_run <= timezone.now()
    assert found["distribute_events"].minutes == 1


@pytest.mark.django_db(transaction=True)
def test_a_schedule_calls_its_job(ask):
    row = ask(timeout="1h")
    Checkpoint.objects.filter(pk=row.pk).update(expires_at=timezone.now() - timedelta(hours=1))
    scheduler()
    queued = {task.args()[0]: task for task in OrmQ.objects.all()}
    assert set(queued) == set(jobs.JOBS)
    assert queued["expire_checkpoints"].func() == schedules.CALLS == f"{jobs.__name__}.{jobs.run_scheduled.__name__}"
    jobs.run_scheduled(*queued["expire_checkpoints"].args())
    assert again(row).status == "expired"


def test_migrating_again_makes_no_second_schedule():
    before = list(Schedule.objects.order_by("pk").values())
    call_command("migrate", verbosity=0)
    assert list(Schedule.objects.order_by("pk").values()) == before


def test_an_operators_interval_is_kept(settings):
    Schedule.objects.filter(name="reroute").update(minutes=42)
    schedules.synchronise()
    settings.SWEEP_REROUTE_SECONDS = 1200
    schedules.synchronise()
    assert schedule_of("reroute").minutes == 42


def test_an_operators_other_kind_of_interval_is_kept():
    Schedule.objects.filter(name="reroute").update(schedule_type=Schedule.HOURLY)
    schedules.synchronise()
    assert schedule_of("reroute").schedule_type == Schedule.HOURLY


@pytest.mark.parametrize(("seconds", "minutes"), [(1, 1), (61, 2), (1200, 20), (10**9, 32_767)])
def test_an_interval_nobody_touched_follows_its_setting_in_whole_minutes(settings, seconds, minutes):
    settings.SWEEP_REROUTE_SECONDS = seconds
    schedules.synchronise()
    assert schedule_of("reroute").minutes == minutes
    settings.SWEEP_REROUTE_SECONDS = 300
    schedules.synchronise()
    assert schedule_of("reroute").minutes == 5


def test_a_deleted_schedule_comes_back_and_a_doubled_one_goes():
    schedule_of("reroute").delete()
    twin = schedule_of("expire_checkpoints")
    twin.pk = None
    twin.save()
    schedules.synchronise()
    assert schedule_of("reroute").minutes == 5
    assert Schedule.objects.filter(name="expire_checkpoints").count() == 1


def test_a_job_that_is_no_more_loses_its_schedule_and_others_schedules_stay(register):
    register("tidy", Outcome)
    schedules.synchronise()
    mine = Schedule.objects.create(name="mine", func="math.copysign", args="2, -2")
    del jobs.JOBS["tidy"]
    schedules.synchronise()
    assert set(Schedule.objects.values_list("name", flat=True)) == {*jobs.JOBS, "mine"}
    assert Schedule.objects.filter(pk=mine.pk).exists()
    assert not JobBeat.objects.filter(name="tidy").exists()


# --- Forgetting -----------------------------------------------------------------------------------------------------


def test_what_the_queue_keeps_is_removed_in_time():
    def task(name, *, success, days):
        at = timezone.now() - timedelta(days=days)
        return Success(id=name, name=name, func="f", started=at, stopped=at, success=success)

    Success.objects.bulk_create([task("old", success=True, days=2), task("new", success=True, days=0)])
    Success.objects.bulk_create([task(f"failed {days}", success=False, days=days) for days in (2, 8)])
    for days in (0, 2):
        OrmQ.objects.create(key="holdpoint", payload="", lock=timezone.now() - timedelta(days=days))
    assert jobs.run("forget_tasks").done == 3
    assert list(Success.objects.values_list("name", flat=True)) == ["new"]
    assert list(Failure.objects.values_list("name", flat=True)) == ["failed 2"]
    assert OrmQ.objects.count() == 1
    assert jobs.run("forget_tasks").done == 0


# --- The command ----------------------------------------------------------------------------------------------------


def test_the_command_runs_every_job_once_and_says_what_it_did(ask, finance, later, capsys):
    ask(assignee="group:finance", timeout="1h")
    ask(assignee="group:finance")
    later(hours=2)
    finance.members.clear()
    call_command("sweep", "--once")
    said = dict(line.split(": ", 1) for line in capsys.readouterr().out.splitlines())
    assert list(said) == list(jobs.JOBS)
    assert said["expire_checkpoints"] == said["reroute"] == "1 done, 0 set aside"

    call_command("sweep", "--once")
    for line in capsys.readouterr().out.splitlines():
        assert line.endswith(": 0 done, 0 set aside")


def test_what_a_later_job_leaves_for_an_earlier_one_is_not_left_for_the_next_run(only, register):
    waiting = [2, 1]
    only()
    register("pass_on", lambda: Outcome(done=waiting.pop()) if waiting else Outcome(), nudged=True)
    register("late", lambda: Outcome(done=1))
    found = jobs.run_all()
    assert (found["pass_on"].done, found["late"].done, waiting) == (3, 1, [])


def test_the_command_ends_with_1_when_a_job_failed_and_runs_the_others(only, capsys):
    def fail():
        raise InterfaceError("(0, '')")

    only(broken=fail, whole=lambda: Outcome(done=1))
    with pytest.raises(SystemExit) as ended:
        call_command("sweep", "--once")
    assert ended.value.code == 1
    assert capsys.readouterr().out.splitlines() == ["broken: failed", "whole: 1 done, 0 set aside"]


# --- System checks --------------------------------------------------------------------------------------------------


def test_the_settings_of_the_queue_are_fit():
    assert checks.jobs_are_run_once() == []
    assert checks.redis_can_be_reached_at_all() == []


@pytest.mark.parametrize(
    "changed",
    [
        {"timeout": 900, "retry": 900},
        {"timeout": None},
        {"max_attempts": 0},
        {"max_attempts": 99},
        {"ack_failures": False},
        {"catch_up": True},
        {"save_limit": 250},
        {"bulk": 10},
        {"queue_limit": 50},
    ],
)
def test_a_combination_that_would_repeat_or_pile_up_is_refused(settings, changed):
    settings.Q_CLUSTER = settings.Q_CLUSTER | changed
    (found,) = checks.jobs_are_run_once()
    assert found.id == "holdpoint.E007"
    assert found.hint


def test_the_librarys_defaults_are_all_refused(settings):
    settings.Q_CLUSTER = {}
    assert len(checks.jobs_are_run_once()) == 5


@pytest.mark.parametrize("url", ["localhost:6379", "http://localhost"])
def test_an_address_that_is_not_of_redis_is_refused(settings, url):
    settings.REDIS_URL = url
    assert [found.id for found in checks.redis_can_be_reached_at_all()] == ["holdpoint.E008"]


def test_redis_without_its_library_is_refused(settings, monkeypatch):
    settings.REDIS_URL = "redis://localhost:6379/0"
    monkeypatch.setattr(checks.importlib.util, "find_spec", lambda name: None)
    assert "not installed" in checks.redis_can_be_reached_at_all()[0].msg


def test_no_model_of_ours_has_an_index_that_mariadb_would_leave_away():
    """The warning is silenced, for the sake of the library's own."""
    ours = [app for app in apps.get_app_configs() if app.name in {"tenants", "checkpoints", "notifications"}]
    indexes = [index for app in ours for model in app.get_models() for index in model._meta.indexes]
    assert indexes
    assert [index.name for index in indexes if index.condition] == []
