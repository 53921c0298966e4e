"""People who may not enter the desk: they are told so, and can still have a password."""

from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client

from checkpoints.models import Checkpoint
from tenants.models import User

SECRET = "correct-horse-battery"


def text(response: Any) -> str:
    return str(response.content.decode())


@pytest.fixture
def browser(signed_in: Callable[[User], Client], approver: User) -> Client:
    """The browser of somebody who decides and has no desk."""
    return signed_in(approver)


def test_the_link_of_the_api_says_whom_it_is_for(browser: Client, refund: Checkpoint) -> None:
    response = browser.get(f"/decide/{refund.pk}")
    assert response.status_code == 200
    assert "This link opens the desk, which is for tenant admins and auditors." in text(response)
    assert "through the API" in text(response)
    assert "Refund" not in text(response)


def test_the_link_of_the_api_does_not_tell_whether_there_is_such_a_checkpoint(
    browser: Client, refund: Checkpoint
) -> None:
    def shown(identity: object) -> str:
        return text(browser.get(f"/decide/{identity}")).partition("csrfmiddlewaretoken")[0]

    assert shown(refund.pk) == shown("00000000-0000-0000-0000-000000000000")


def test_a_page_of_the_desk_leads_to_the_words_and_not_to_a_second_form(browser: Client, refund: Checkpoint) -> None:
    response = browser.get("/admin/checkpoints/checkpoint/", follow=True)
    assert "The desk is for tenant admins and auditors." in text(response)
    assert 'name="username"' not in text(response)


def test_whoever_is_not_signed_in_is_asked_to(refund: Checkpoint) -> None:
    assert 'name="username"' in text(Client().get(f"/decide/{refund.pk}", follow=True))
    assert 'name="username"' in text(Client().get("/password/", follow=True))


def test_a_first_password_needs_no_old_one_and_signs_in(browser: Client, approver: User) -> None:
    assert 'href="/password/"' in text(browser.get("/"))
    shown = text(browser.get("/password/"))
    assert "Choose a password" in shown
    assert "old_password" not in shown
    response = browser.post("/password/", {"new_password1": SECRET, "new_password2": SECRET}, follow=True)
    assert "You are signed in" in text(response)
    assert "Change your password" in text(response)
    again = Client().post(
        "/admin/login/", {"username": approver.email, "password": SECRET, "next": "/admin/"}, follow=True
    )
    assert "You are approver@acme.example." in text(again)


@pytest.mark.parametrize(
    ("form", "sentence"),
    [
        ({"new_password1": SECRET, "new_password2": "another"}, "match."),
        ({"new_password1": "short", "new_password2": "short"}, "too short"),
        ({}, "This field is required."),
    ],
)
def test_a_password_that_will_not_do_is_refused_with_words(
    browser: Client, approver: User, form: dict[str, str], sentence: str
) -> None:
    assert sentence in text(browser.post("/password/", form))
    approver.refresh_from_db()
    assert not approver.has_usable_password()


def test_a_later_password_needs_the_present_one(signed_in: Callable[[User], Client], approver: User) -> None:
    approver.set_password(SECRET)
    approver.save()
    browser = signed_in(approver)
    assert "Change your password" in text(browser.get("/password/"))
    form = {"new_password1": "staple-tractor-moon", "new_password2": "staple-tractor-moon"}
    assert "This field is required." in text(browser.post("/password/", form))
    assert browser.post("/password/", form | {"old_password": SECRET}).status_code == 302
    approver.refresh_from_db()
    assert approver.check_password("staple-tractor-moon")


def test_an_admin_is_led_to_the_page_of_the_desk(desk: Client) -> None:
    assert desk.get("/password/")["Location"] == "/admin/password_change/"
