"""So many requests a minute for each key and person, counted by all processes together."""

import logging
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import time_machine
from django.core.management import CommandError, call_command
from django.db import OperationalError, connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from tenants import keys, limits
from tenants.models import ApiKey, RefusedKeyCount, RequestCount, Tenant, User
from tests.api_client import ApiClient, problem
from tests.racing import Race

pytestmark = pytest.mark.django_db

# The first second of a minute.
START = 1_900_000_020.0 - 1_900_000_020.0 % 60
ADDRESS = "192.0.2.7"


@pytest.fixture
def clock() -> Iterator[Any]:
    with time_machine.travel(START, tick=False) as traveller:
        yield traveller


@pytest.fixture
def limited(settings: Any, clock: Any) -> Any:
    """Three requests a minute."""
    settings.API_RATE_PER_MINUTE = 3
    return settings


def statuses(client: ApiClient, count: int) -> list[int]:
    return [client.list().status_code for _ in range(count)]


def merges(queries: CaptureQueriesContext) -> int:
    return sum("INSERT INTO" in query["sql"] and "requestcount" in query["sql"] for query in queries)


# --- Keys and people ------------------------------------------------------------------------------------------------


def test_one_request_too_many_is_refused_until_the_minute_is_over(limited: Any, clock: Any, api: ApiClient) -> None:
    clock.shift(17.5)
    assert statuses(api, 3) == [200, 200, 200]
    refused = api.list()
    body = problem(refused, 429, "throttled")
    assert refused["Retry-After"] == "43"
    assert "this key may send 3 a minute" in body["detail"]

    clock.shift(42)
    assert (api.list().status_code, api.list()["Retry-After"]) == (429, "1")
    clock.shift(1)
    assert statuses(api, 4) == [200, 200, 200, 429]


def test_a_refused_command_changes_nothing(limited: Any, api: ApiClient, refund: Any) -> None:
    statuses(api, 3)
    problem(api.resolve(refund), 429, "throttled")
    refund.refresh_from_db()
    assert refund.status == "pending"


def test_without_a_limit_nothing_is_refused_and_nothing_is_counted(settings: Any, clock: Any, api: ApiClient) -> None:
    settings.API_RATE_PER_MINUTE = 0
    for _ in range(20):
        clock.shift(1)
        assert api.list().status_code == 200
    assert not RequestCount.objects.exists()


def test_each_key_has_its_own_limit(limited: Any, acme: Tenant, api: ApiClient) -> None:
    other = ApiClient(secret=keys.create(acme, name="other").secret)
    assert statuses(api, 4) == [200, 200, 200, 429]
    assert statuses(other, 4) == [200, 200, 200, 429]


def test_a_flood_from_one_tenant_leaves_another_alone(limited: Any, api: ApiClient, outsider_api: ApiClient) -> None:
    assert statuses(api, 50).count(429) == 47
    assert outsider_api.list().status_code == 200


def test_a_rotated_key_shares_the_limit_of_its_family(limited: Any, acme: Tenant) -> None:
    old = keys.create(acme, name="ci")
    new = keys.rotate(old.row)
    assert statuses(ApiClient(secret=old.secret), 2) == [200, 200]
    assert statuses(ApiClient(secret=new.secret), 2) == [200, 429]


def test_a_key_may_have_a_limit_of_its_own_and_hands_it_on(limited: Any, acme: Tenant) -> None:
    wide = keys.create(acme, name="wide", rate_per_minute=5)
    narrow = keys.create(acme, name="narrow", rate_per_minute=1)
    assert statuses(ApiClient(secret=wide.secret), 6).count(200) == 5
    assert statuses(ApiClient(secret=narrow.secret), 2) == [200, 429]
    assert keys.rotate(wide.row).row.rate_per_minute == 5


def test_people_are_limited_one_by_one(
    limited: Any, approver: User, colleague: User, api: ApiClient, api_of: Callable[[User], ApiClient]
) -> None:
    statuses(api, 3)
    one, other = api_of(approver), api_of(colleague)
    assert statuses(one, 4) == [200, 200, 200, 429]
    assert "a person may send 3 a minute" in one.list().json()["detail"]
    assert other.list().status_code == 200


def test_the_desk_is_not_limited(limited: Any, tenant_admin: User, signed_in: Callable[[User], Client]) -> None:
    browser = signed_in(tenant_admin)
    pages = [browser.get("/admin/checkpoints/checkpoint/").status_code for _ in range(5)]
    assert pages == [200] * 5


@pytest.mark.parametrize(("wanted", "given"), [("", None), ("120", 120)])
def test_a_tenant_admin_sets_the_limit_of_a_key_on_the_desk(
    tenant_admin: User, signed_in: Callable[[User], Client], wanted: str, given: int | None
) -> None:
    form = {"name": "slow", "scopes": ["checkpoints:read"], "rate_per_minute": wanted}
    assert signed_in(tenant_admin).post("/admin/tenants/apikey/add/", form).status_code == 200
    assert ApiKey.objects.get(name="slow").rate_per_minute == given


@pytest.mark.parametrize(("wanted", "said"), [("6001", "allows 6,000 at most"), ("0", "greater than or equal to 1")])
def test_a_tenant_admin_cannot_lift_the_limit_of_the_server(
    tenant_admin: User, signed_in: Callable[[User], Client], wanted: str, said: str
) -> None:
    form = {"name": "fast", "scopes": ["checkpoints:read"], "rate_per_minute": wanted}
    assert said in signed_in(tenant_admin).post("/admin/tenants/apikey/add/", form).content.decode()
    assert not ApiKey.objects.filter(name="fast").exists()


def test_an_operator_gives_a_key_any_limit(acme: Tenant) -> None:
    call_command("create_api_key", "acme", "fast", "--rate-per-minute", "60000")
    assert ApiKey.objects.get(name="fast").rate_per_minute == 60000
    with pytest.raises(CommandError, match="1 to 1,000,000,000 requests"):
        call_command("create_api_key", "acme", "stuck", "--rate-per-minute", "0")


# --- What it costs --------------------------------------------------------------------------------------------------


@pytest.mark.both_databases
def test_fifty_requests_cost_not_one_query_more(settings: Any, clock: Any, api: ApiClient) -> None:
    def cost() -> int:
        with CaptureQueriesContext(
            connection,
        ) as queries:
            assert statuses(api, 50) == [200] * 50
        return len(queries)

    api.list()  # notes the use of the key, once a minute
    counted = cost()
    settings.API_RATE_PER_MINUTE = 0
    assert cost() == counted


def test_a_busy_key_costs_one_statement_a_second(clock: Any, api: ApiClient) -> None:
    with CaptureQueriesContext(connection) as queries:
        for _ in range(200):
            api.list()
            clock.shift(0.05)
    assert merges(queries) == 9
    assert RequestCount.objects.get().count == 181


def test_a_key_that_polls_now_and_then_costs_nothing(clock: Any, api: ApiClient) -> None:
    with CaptureQueriesContext(connection) as queries:
        for _ in range(29):
            api.list()
            clock.shift(7)
    assert merges(queries) == 0


def test_a_flood_beyond_the_limit_is_refused_without_a_write(limited: Any, clock: Any, api: ApiClient) -> None:
    statuses(api, 3)
    clock.shift(1)
    api.list()  # tells the other processes
    with CaptureQueriesContext(connection) as queries:
        for _ in range(20):
            clock.shift(1)
            assert api.list().status_code == 429
    assert merges(queries) == 0


# --- Together -------------------------------------------------------------------------------------------------------


@pytest.mark.both_databases
@pytest.mark.django_db(transaction=True)
def test_two_processes_keep_one_limit_together(monkeypatch: pytest.MonkeyPatch, acme: Tenant) -> None:
    monkeypatch.setenv("API_RATE_PER_MINUTE", "100")
    secret = keys.create(acme, name="ci").secret
    with Race() as race:
        for _ in range(2):
            race.enter("call", secret=secret, requests=10, moments=[START + second for second in range(10)])
        race.start(laps=9)
        one, other = race.results()
    passed = [here + there for here, there in zip(one, other, strict=True)]
    # Either of them alone would have let all of its hundred through.
    assert passed[:5] == [20] * 5
    assert 100 <= sum(passed) <= 120
    assert passed[6:] == [0] * 4
    assert RequestCount.objects.get().count >= 100


@pytest.mark.both_databases
@pytest.mark.django_db(transaction=True)
def test_no_count_is_lost_however_many_processes_add(acme: Tenant) -> None:
    subject = keys.create(acme, name="ci").row.family
    with Race() as race:
        for _ in range(4):
            race.enter("add_up", tenant=acme.pk, subject=subject, minute=7, times=100)
        totals = race.results()
    assert max(totals) == 400
    assert RequestCount.objects.get().count == 400


@pytest.mark.both_databases
def test_what_another_process_has_counted_counts_here(limited: Any, clock: Any, acme: Tenant) -> None:
    limited.API_RATE_PER_MINUTE = 30
    made = keys.create(acme, name="ci")
    api = ApiClient(secret=made.secret)
    subject = limits.Subject(RequestCount, (("tenant", acme.pk), ("subject", made.row.family)))
    assert limits.add(subject, int(START // 60), 29) == 29
    assert statuses(api, 2) == [200, 200]
    clock.shift(1)
    # Only now does this process hear of the others.
    assert statuses(api, 2) == [429, 429]
    clock.shift(59)
    assert api.list().status_code == 200


@pytest.mark.both_databases
def test_a_burst_is_told_to_the_others_before_the_second_is_over(limited: Any, clock: Any, api: ApiClient) -> None:
    limited.API_RATE_PER_MINUTE = 50
    with CaptureQueriesContext(connection) as queries:
        assert statuses(api, 60).count(200) == 50
    assert merges(queries) == 10
    assert RequestCount.objects.get().count == 50


@pytest.mark.both_databases
def test_a_database_that_fails_lets_everybody_through_and_is_reported_once(
    limited: Any, clock: Any, api: ApiClient, caplog: pytest.LogCaptureFixture
) -> None:
    asked = []

    def fail(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        if "requestcount" in sql:
            asked.append(sql)
            raise OperationalError(1205, "Lock wait timeout exceeded")
        return execute(sql, params, many, context)

    limited.API_RATE_PER_MINUTE = 30
    with caplog.at_level(logging.WARNING, "tenants.limits"), connection.execute_wrapper(fail):
        for _ in range(25):
            clock.shift(1)
            assert api.list().status_code == 200
    assert len(caplog.records) == 1
    # Left alone for a while after each failure, so that requests do not queue up behind it.
    assert len(asked) == 3
    clock.shift(10)
    api.list()
    assert RequestCount.objects.get().count == 26


@pytest.mark.both_databases
def test_counts_of_past_minutes_are_swept_away(clock: Any, acme: Tenant) -> None:
    minute = int(time.time() // 60)
    for back in (0, 1, 3, 90):
        RequestCount.objects.create(tenant=acme, subject=acme.pk, minute=minute - back, count=1)
        RefusedKeyCount.objects.create(address=ADDRESS, minute=minute - back, count=1)
    assert limits.remove_old_counts() == 4
    assert set(RequestCount.objects.values_list("minute", flat=True)) == {minute, minute - 1}
    assert limits.remove_old_counts() == 0


def test_callers_with_endless_addresses_do_not_fill_the_memory(
    settings: Any, clock: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "MOST_TALLIES", 10)
    for number in range(100):
        limits.count_wrong_key(f"192.0.2.{number}")
    assert len(limits.counter.tallies) <= 10


# --- Wrong keys -----------------------------------------------------------------------------------------------------


def wrong(address: str = ADDRESS, **headers: str) -> Any:
    headers = {"Authorization": "Bearer hp_nothing", **headers}
    return Client(REMOTE_ADDR=address).get("/v1/checkpoints", headers=headers)


@pytest.fixture
def few_wrong_keys(settings: Any, clock: Any) -> Any:
    settings.API_WRONG_KEYS_PER_MINUTE = 3
    return settings


def test_too_many_wrong_keys_from_one_address_are_answered_with_429(few_wrong_keys: Any, clock: Any) -> None:
    assert [wrong().status_code for _ in range(3)] == [401, 401, 401]
    refused = wrong()
    problem(refused, 429, "throttled")
    assert refused["Retry-After"] == "60"
    assert wrong("192.0.2.8").status_code == 401
    clock.shift(60)
    assert wrong().status_code == 401


def test_a_good_key_passes_from_an_address_full_of_wrong_ones(few_wrong_keys: Any, acme: Tenant) -> None:
    for _ in range(9):
        wrong()
    secret = keys.create(acme, name="ci").secret
    assert wrong(Authorization=f"Bearer {secret}").status_code == 200


def test_revoked_keys_count_as_wrong_ones(few_wrong_keys: Any, acme: Tenant) -> None:
    made = keys.create(acme, name="ci")
    keys.revoke(made.row)
    answers = [wrong(Authorization=f"Bearer {made.secret}").status_code for _ in range(4)]
    assert answers == [401, 401, 401, 429]


def test_neighbours_in_one_network_of_the_new_protocol_are_one_client(few_wrong_keys: Any) -> None:
    for number in range(3):
        assert wrong(f"2001:db8:0:1::{number}").status_code == 401
    assert wrong("2001:db8:0:1:ffff::1").status_code == 429
    assert wrong("2001:db8:0:2::1").status_code == 401


@pytest.mark.both_databases
def test_wrong_keys_are_counted_over_all_processes(few_wrong_keys: Any) -> None:
    elsewhere = limits.Subject(RefusedKeyCount, (("address", ADDRESS),))
    limits.add(elsewhere, int(START // 60), 3)
    assert wrong().status_code == 429
    assert wrong("192.0.2.8").status_code == 401


def test_wrong_keys_are_not_limited_when_that_is_switched_off(few_wrong_keys: Any) -> None:
    few_wrong_keys.API_WRONG_KEYS_PER_MINUTE = 0
    assert {wrong().status_code for _ in range(20)} == {401}


def test_somebody_without_any_key_is_just_unauthenticated(few_wrong_keys: Any) -> None:
    answers = {Client(REMOTE_ADDR=ADDRESS).get("/v1/checkpoints").status_code for _ in range(9)}
    assert answers == {401}
    assert not limits.counter.tallies
