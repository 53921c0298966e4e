"""A schedule for every job, made by ``migrate``. It follows its setting until an operator changes it."""

import math
from typing import Any

from django.db import connections, transaction
from django.utils import timezone
from django_q.models import Schedule

from checkpoints import jobs
from checkpoints.models import JobBeat

CALLS = "checkpoints.jobs.run_scheduled"
# What the column holds on every database.
MOST_MINUTES = 32_767


def after_migrate(*, using: str, **_: Any) -> None:
    with connections[using].cursor() as cursor:
        there = set(connections[using].introspection.table_names(cursor))
    # `migrate` can be asked for one app alone, and backwards.
    if {Schedule._meta.db_table, JobBeat._meta.db_table} <= there:
        with transaction.atomic(using=using):
            synchronise(using=using)


def minutes_for(job: jobs.Job) -> int:
    return min(MOST_MINUTES, max(1, math.ceil(job.seconds / 60)))


def synchronise(*, using: str = "default") -> None:
    """Can be repeated at any time, and changes nothing that is right already."""
    ours = Schedule.objects.using(using).filter(func=CALLS)
    beats = JobBeat.objects.using(using)
    known: dict[str, Schedule] = {}
    spare: list[int] = []
    for schedule in ours.order_by("id"):
        if schedule.name in jobs.JOBS and schedule.name not in known:
            known[schedule.name] = schedule
        else:
            spare.append(schedule.pk)
    if spare:
        ours.filter(pk__in=spare).delete()
    beats.exclude(name__in=jobs.JOBS).delete()

    remembered = dict(beats.values_list("name", "scheduled_minutes"))
    # When a job that has never run could have: what `/readyz` counts from.
    now = timezone.now()
    new = [JobBeat(name=name, started_at=now) for name in jobs.JOBS if name not in remembered]
    beats.bulk_create(new, ignore_conflicts=True)
    for name, job in jobs.JOBS.items():
        _follow(job, known.get(name), remembered.get(name), using=using)


def _follow(job: jobs.Job, schedule: Schedule | None, remembered: int | None, *, using: str) -> None:
    minutes, now = minutes_for(job), timezone.now()
    if schedule is None:
        Schedule.objects.using(using).create(
            name=job.name, func=CALLS, args=repr((job.name,)), schedule_type=Schedule.MINUTES, minutes=minutes
        )
    elif schedule.schedule_type != Schedule.MINUTES or schedule.minutes not in {minutes, remembered}:
        return  # an operator's
    elif schedule.minutes != minutes:
        # By columns: a cluster may be moving its next run at this moment.
        Schedule.objects.using(using).filter(pk=schedule.pk).update(minutes=minutes, next_run=now)
    if remembered != minutes:
        JobBeat.objects.using(using).filter(pk=job.name).update(scheduled_minutes=minutes)
