"""A schedule is code that gets executed: only operators see it, and nobody writes one on the desk."""

from collections.abc import Callable

import pytest
from django.contrib import admin
from django.test import Client
from django_q.models import OrmQ, Schedule, Success

from checkpoints import jobs, schedules
from tenants.models import User

PAGES = ["/admin/checkpoints/jobbeat/", "/admin/django_q/schedule/", "/admin/django_q/failure/"]


@pytest.fixture
def operator(db: None, signed_in: Callable[[User], Client]) -> Client:
    return signed_in(User.objects.create_superuser("op@example.com"))


@pytest.fixture
def expiry(db: None) -> Schedule:
    schedules.synchronise()
    return Schedule.objects.get(name="expire_checkpoints")


@pytest.mark.parametrize("page", PAGES)
def test_tenant_admins_do_not_get_to_see_jobs(desk: Client, page: str) -> None:
    assert desk.get(page).status_code == 403
    assert page not in desk.get("/admin/checkpoints/checkpoint/").text


def test_a_schedule_is_not_there_for_a_tenant_admin(desk: Client, expiry: Schedule) -> None:
    address = f"/admin/django_q/schedule/{expiry.pk}/change/"
    assert desk.get(address).status_code == 404
    assert desk.post(address, {"minutes": 1}).status_code == 404
    expiry.refresh_from_db()
    assert expiry.minutes == 5


def test_an_operator_sees_when_each_job_ran_last(operator: Client, expiry: Schedule) -> None:
    jobs.run("expire_checkpoints")
    for page in PAGES:
        assert operator.get(page).status_code == 200
    shown = operator.get(PAGES[0])
    assert all(name in shown.text for name in jobs.JOBS)


def test_an_operator_changes_the_interval_but_not_what_is_called(operator: Client, expiry: Schedule) -> None:
    form = {"minutes": 7, "next_run_0": "2030-01-01", "next_run_1": "00:00:00", "func": "os.system", "args": "'id'"}
    response = operator.post(f"/admin/django_q/schedule/{expiry.pk}/change/", form)
    assert response.status_code == 302
    expiry.refresh_from_db()
    assert (expiry.minutes, expiry.func, expiry.args) == (7, schedules.CALLS, "('expire_checkpoints',)")


def test_not_even_an_operator_adds_a_schedule_or_an_old_page_of_the_library(operator: Client) -> None:
    assert operator.get("/admin/django_q/schedule/add/").status_code == 403
    assert not admin.site.is_registered(OrmQ)
    assert not admin.site.is_registered(Success)
