"""Signing in by password and by a link that works once."""

import re
from datetime import timedelta
from urllib.parse import urlsplit

import pytest
import time_machine
from django.contrib.auth import authenticate
from django.test import Client
from django.utils import timezone

from tenants import signin
from tenants.models import User

pytestmark = pytest.mark.django_db


def is_signed_in(browser: Client) -> bool:
    return "_auth_user_id" in browser.session


def press(browser: Client, link: str) -> int:
    return browser.post(link).status_code


@pytest.fixture
def link(approver: User) -> str:
    return signin.link_for(approver)


def test_a_link_starts_with_the_address_of_the_site(link: str) -> None:
    assert link.startswith("http://testserver/sign-in/")


def test_opening_a_link_signs_nobody_in_however_often(link: str, approver: User) -> None:
    browser = Client()
    for _ in range(5):
        page = browser.get(link)
        assert page.status_code == 200
        assert approver.email in page.content.decode()
        assert "no-store" in page["Cache-Control"]
    browser.head(link)
    browser.options(link)

    assert not is_signed_in(browser)
    assert press(browser, link) == 302
    assert is_signed_in(browser)


def test_pressing_the_button_signs_in_with_the_token_of_the_page(link: str, approver: User) -> None:
    browser = Client(enforce_csrf_checks=True)

    assert press(browser, link) == 403
    assert not is_signed_in(browser)
    found = re.search(r'name="csrfmiddlewaretoken" value="(\w+)"', browser.get(link).content.decode())
    assert found
    response = browser.post(link, {"csrfmiddlewaretoken": found[1]})
    assert (response.status_code, response["Location"]) == (302, "/")
    assert browser.session["_auth_user_id"] == str(approver.pk)


def test_a_link_works_once(link: str) -> None:
    assert press(Client(), link) == 302

    second = Client()
    for response in (second.get(link), second.post(link)):
        assert response.status_code == 410
        assert "no longer works" in response.content.decode()
    assert not is_signed_in(second)


def test_a_link_works_once_even_within_one_second_of_another_sign_in(approver: User) -> None:
    with time_machine.travel("2030-01-31T12:00:00.100Z", tick=False):
        assert press(Client(), signin.link_for(approver)) == 302
    approver.refresh_from_db()
    with time_machine.travel("2030-01-31T12:00:00.200Z", tick=False):
        link = signin.link_for(approver)
    with time_machine.travel("2030-01-31T12:00:00.300Z", tick=False):
        assert press(Client(), link) == 302
        assert press(Client(), link) == 410


def test_of_two_presses_at_the_same_moment_one_wins(approver: User) -> None:
    also = User.objects.get(pk=approver.pk)

    assert signin._use_up(approver)
    assert not signin._use_up(also)


def test_a_link_runs_out(link: str, settings: pytest.FixtureRequest) -> None:
    with time_machine.travel(timezone.now() + timedelta(hours=47)):
        assert Client().get(link).status_code == 200
    with time_machine.travel(timezone.now() + timedelta(hours=48, seconds=5)):
        assert Client().get(link).status_code == 410
        assert press(Client(), link) == 410


def test_a_password_set_since_kills_the_link(link: str, approver: User) -> None:
    approver.set_password("a-long-enough-password")
    approver.save()

    assert press(Client(), link) == 410


def test_a_disabled_person_does_not_get_in(link: str, approver: User) -> None:
    User.objects.filter(pk=approver.pk).update(is_active=False)

    browser = Client()
    assert browser.get(link).status_code == 410
    assert press(browser, link) == 410
    assert not is_signed_in(browser)


def test_the_token_of_one_person_does_not_fit_another(approver: User, colleague: User) -> None:
    _, _, who, _, _ = urlsplit(signin.link_for(colleague)).path.split("/")
    _, _, _, token, _ = urlsplit(signin.link_for(approver)).path.split("/")

    assert press(Client(), f"/sign-in/{who}/{token}/") == 410


@pytest.mark.parametrize("who", ["x", "AAAA", "%00", "%F0%9F%98%80", "A" * 22, "A" * 5000, "=", "%ED%A0%80"])
@pytest.mark.parametrize("token", ["x", "-", "abc-def", "%00", "%F0%9F%98%80", "zzzzzz-" + "0" * 32])
def test_a_mangled_link_is_dead_and_not_an_error(db: None, who: str, token: str) -> None:
    assert Client().get(f"/sign-in/{who}/{token}/").status_code == 410
    assert press(Client(), f"/sign-in/{who}/{token}/") == 410


@pytest.mark.parametrize("token", ["x", "-", "abc-def", "%00", "%F0%9F%98%80", "zzzzzz-" + "0" * 32, "9" * 5000 + "-a"])
def test_a_mangled_token_of_a_real_person_is_dead(link: str, token: str) -> None:
    who = urlsplit(link).path.split("/")[2]

    assert press(Client(), f"/sign-in/{who}/{token}/") == 410


def test_an_address_is_typed_in_any_case(approver: User) -> None:
    approver.set_password("a-long-enough-password")
    approver.save()

    for typed in (approver.email, approver.email.upper(), f"  {approver.email.title()} "):
        assert authenticate(username=typed, password="a-long-enough-password") == approver
        assert authenticate(email=typed, password="a-long-enough-password") == approver
    assert authenticate(username=approver.email, password="A-LONG-ENOUGH-PASSWORD") is None


@pytest.mark.parametrize("password", ["", None, "!"])
def test_without_a_password_nobody_signs_in_by_one(approver: User, password: str | None) -> None:
    assert authenticate(username=approver.email, password=password) is None
    assert authenticate(username="", password="x") is None


def test_a_disabled_person_does_not_sign_in_by_password(approver: User) -> None:
    approver.set_password("a-long-enough-password")
    approver.is_active = False
    approver.save()

    assert authenticate(username=approver.email, password="a-long-enough-password") is None


def test_one_address_is_one_person_whatever_its_spelling(approver: User) -> None:
    assert User.objects.get_by_natural_key(" APPROVER@acme.example") == approver
    same = User(email=approver.email.upper())
    same.set_unusable_password()
    with pytest.raises(Exception, match="already exists"):
        same.full_clean()
