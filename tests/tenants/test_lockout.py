"""Too many wrong passwords close the door for a while: for the account from that address, or for the whole address."""

import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
import time_machine
from axes.models import AccessAttempt
from django.contrib import admin
from django.contrib.auth import authenticate
from django.core.management import call_command
from django.test import Client

from tenants import lockout, signin
from tenants.models import Tenant, User
from tests.racing import Race

pytestmark = pytest.mark.django_db

HOME, ELSEWHERE = "192.0.2.7", "198.51.100.1"
PASSWORD = "the-right-password-of-this-account"
START = datetime(2030, 1, 1, 12, tzinfo=UTC)

Try = Callable[..., Any]


@pytest.fixture(autouse=True)
def _quick_hashes(settings: Any) -> None:
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]


@pytest.fixture
def clock() -> Iterator[Any]:
    with time_machine.travel(START, tick=False) as traveller:
        yield traveller


@pytest.fixture
def account(tenant_admin: User) -> User:
    tenant_admin.set_password(PASSWORD)
    tenant_admin.save()
    return tenant_admin


@pytest.fixture
def sign_in(account: User, clock: Any) -> Try:
    """One try on the desk's own page; the answer to it."""

    def attempt(
        typed: str = "wrong", *, email: str = account.email, address: str = HOME, agent: str = "a", **headers: str
    ) -> Any:
        form = {"username": email, "password": typed}
        browser = Client(REMOTE_ADDR=address, HTTP_USER_AGENT=agent)
        return browser.post("/admin/login/?next=/admin/", form, headers=headers)

    return attempt


def statuses(sign_in: Try, count: int, **how: Any) -> list[int]:
    return [sign_in(**how).status_code for _ in range(count)]


def test_the_fifth_wrong_password_closes_the_door_also_for_the_right_one(sign_in: Try) -> None:
    assert statuses(sign_in, 5) == [200, 200, 200, 200, 429]
    closed = sign_in(PASSWORD)
    assert closed.status_code == 429
    assert "_auth_user_id" not in closed.client.session


def test_whoever_is_locked_out_reads_a_page_that_says_how_long(sign_in: Try, clock: Any) -> None:
    statuses(sign_in, 5)
    clock.shift(61)
    page = sign_in()
    text = page.content.decode()
    assert (page.status_code, page["Retry-After"]) == (429, "839")
    assert "Too many wrong passwords" in text
    assert "closed for 14 minutes" in text
    assert "sign-in link" in text
    assert re.search(r'<p class="brand">Holdpoint</p>', text)


def test_the_door_opens_again_after_the_time_the_page_named(sign_in: Try, clock: Any) -> None:
    statuses(sign_in, 5)
    clock.shift(15 * 60 - 1)
    assert sign_in(PASSWORD).status_code == 429
    clock.shift(2)
    assert sign_in(PASSWORD).status_code == 302


def test_going_on_trying_does_not_make_it_longer(sign_in: Try, clock: Any) -> None:
    statuses(sign_in, 5)
    for _ in range(14):
        clock.shift(60)
        assert sign_in().status_code == 429
    clock.shift(61)
    assert sign_in(PASSWORD).status_code == 302


def test_how_long_is_a_setting(sign_in: Try, clock: Any, settings: Any) -> None:
    settings.SIGN_IN_LOCK_MINUTES = 2
    assert statuses(sign_in, 5)[-1] == 429
    assert sign_in()["Retry-After"] == "120"
    clock.shift(121)
    assert sign_in(PASSWORD).status_code == 302


def test_the_right_password_starts_the_count_anew(sign_in: Try) -> None:
    statuses(sign_in, 4)
    assert sign_in(PASSWORD).status_code == 302
    assert statuses(sign_in, 4) == [200] * 4
    assert sign_in(PASSWORD).status_code == 302


def test_from_another_address_the_owner_still_signs_in(sign_in: Try) -> None:
    statuses(sign_in, 6)
    assert sign_in(PASSWORD, address=ELSEWHERE).status_code == 302
    assert sign_in(PASSWORD).status_code == 429


def test_another_account_from_the_same_address_still_signs_in(sign_in: Try, second_admin: User) -> None:
    second_admin.set_password(PASSWORD)
    second_admin.save()
    statuses(sign_in, 6)
    assert sign_in(PASSWORD, email=second_admin.email).status_code == 302


@pytest.mark.both_databases
def test_another_spelling_or_another_browser_is_no_way_around(sign_in: Try, account: User) -> None:
    spellings = [account.email.upper(), f" {account.email} ", account.email.title(), account.email]
    answers = [sign_in(email=email, agent=f"browser {number}").status_code for number, email in enumerate(spellings)]
    assert answers == [200] * 4
    assert sign_in(agent="fifth").status_code == 429
    assert sign_in(PASSWORD, agent="sixth").status_code == 429


def test_one_address_that_tries_many_accounts_is_closed_for_all(sign_in: Try, settings: Any, clock: Any) -> None:
    settings.SIGN_IN_TRIES_PER_ADDRESS = 10
    tried = [sign_in(email=f"somebody{number}@acme.example").status_code for number in range(10)]
    assert tried == [200] * 9 + [429]
    assert sign_in(PASSWORD).status_code == 429
    assert sign_in(PASSWORD, address=ELSEWHERE).status_code == 302
    clock.shift(15 * 60 + 1)
    assert sign_in(PASSWORD).status_code == 302


def test_a_success_does_not_give_the_address_new_tries_at_others(sign_in: Try, settings: Any) -> None:
    settings.SIGN_IN_TRIES_PER_ADDRESS = 10
    for number in range(9):
        sign_in(email=f"somebody{number}@acme.example")
    assert sign_in(PASSWORD).status_code == 302
    assert sign_in(email="one-more@acme.example").status_code == 429


def test_a_proxy_on_this_machine_is_not_closed_for_everybody(sign_in: Try, settings: Any) -> None:
    settings.SIGN_IN_TRIES_PER_ADDRESS = 3
    for number in range(9):
        assert sign_in(email=f"somebody{number}@acme.example", address="127.0.0.1").status_code == 200
    assert sign_in(PASSWORD, address="127.0.0.1").status_code == 302


@pytest.mark.parametrize("trusted", [True, False])
def test_the_address_comes_from_a_trusted_proxy_alone(sign_in: Try, settings: Any, trusted: bool) -> None:
    settings.TRUST_PROXY = trusted
    for _ in range(5):
        sign_in(X_Forwarded_For=f"{ELSEWHERE}, 203.0.113.9")
    assert sign_in(PASSWORD, X_Forwarded_For="203.0.113.10").status_code == (302 if trusted else 429)
    assert sign_in(PASSWORD, X_Forwarded_For="203.0.113.9").status_code == 429


def test_a_server_behind_a_socket_file_locks_out_by_account(sign_in: Try) -> None:
    assert statuses(sign_in, 5, address="")[-1] == 429
    assert sign_in(PASSWORD, address="").status_code == 429
    assert AccessAttempt.objects.count() == 1


def test_a_sign_in_link_opens_the_door_and_clears_the_count(sign_in: Try, account: User) -> None:
    statuses(sign_in, 6)
    browser = Client(REMOTE_ADDR=HOME)
    assert browser.post(signin.link_for(account)).status_code == 302
    assert browser.get("/admin/", follow=True).status_code == 200
    assert sign_in(PASSWORD).status_code == 302


def test_somebody_who_is_signed_in_stays_so(sign_in: Try, account: User, signed_in: Callable[[User], Client]) -> None:
    browser = signed_in(account)
    statuses(sign_in, 6)
    assert browser.get("/admin/checkpoints/checkpoint/", REMOTE_ADDR=HOME).status_code == 200


def test_keys_are_not_locked_out(sign_in: Try, api: Any) -> None:
    statuses(sign_in, 6, address="127.0.0.1")
    assert api.list().status_code == 200


def test_a_check_of_a_password_without_a_request_counts_for_nobody(account: User) -> None:
    for _ in range(9):
        assert authenticate(username=account.email, password="wrong") is None
    assert authenticate(username=account.email, password=PASSWORD) == account
    assert not AccessAttempt.objects.exists()


def test_no_password_and_no_token_is_kept_with_a_try(sign_in: Try) -> None:
    sign_in("hunter2-hunter2")
    assert "hunter2" not in str(AccessAttempt.objects.values().get())


def test_tries_are_no_business_of_the_desk() -> None:
    assert not [model for model in admin.site._registry if model._meta.app_label == "axes"]


def test_old_tries_are_swept_away(sign_in: Try, clock: Any) -> None:
    sign_in()
    assert lockout.remove_old_tries() == 0
    clock.shift(15 * 60 + 1)
    call_command("sweep", "--once")
    assert not AccessAttempt.objects.exists()


@pytest.mark.both_databases
@pytest.mark.django_db(transaction=True)
def test_tries_are_counted_exactly_by_all_processes_together(
    monkeypatch: pytest.MonkeyPatch, settings: Any, acme: Tenant, account: User
) -> None:
    monkeypatch.setenv("SIGN_IN_TRIES", "24")
    settings.AXES_FAILURE_LIMIT = 24
    with Race() as race:
        for _ in range(4):
            passwords = [f"guess-{number}" for number in range(6)]
            race.enter("guess", email=account.email, address=HOME, passwords=passwords)
        race.start(laps=5)
        answers = [status for tries in race.results() for status in tries]
    assert set(answers) <= {200, 429}
    assert sum(AccessAttempt.objects.values_list("failures_since_start", flat=True)) == 24
    # One lost count, and the door would still be open.
    form = {"username": account.email, "password": PASSWORD}
    assert Client(REMOTE_ADDR=HOME).post("/admin/login/", form).status_code == 429
    assert Client(REMOTE_ADDR=ELSEWHERE).post("/admin/login/", form).status_code == 302
