"""GET /v1/checkpoints: filters, cursor pages, and how little they ask of the database."""

import base64
import json
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
import time_machine
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from checkpoints import lifecycle
from checkpoints.answers import Answer
from checkpoints.models import Checkpoint
from tenants import actors
from tenants.actors import Actor
from tenants.models import Core, Delegation, Group, Membership, Tenant, User
from tests.api_client import ApiClient, problem

pytestmark = pytest.mark.django_db

Ask = Callable[..., Checkpoint]


def found(api: ApiClient, **filters: Any) -> list[str]:
    response = api.list(**filters)
    assert response.status_code == 200, response.content
    return [row["id"] for row in response.json()["results"]]


def follow(api: ApiClient, address: str) -> dict[str, Any]:
    response = api.client.get(address, headers=api.headers)
    assert response.status_code == 200, response.content
    return response.json()  # type: ignore[no-any-return]


def walk(api: ApiClient, **filters: Any) -> Iterator[dict[str, Any]]:
    yield from onward(api, api.list(**filters).json(), "next")


def onward(api: ApiClient, page: dict[str, Any], link: str) -> Iterator[dict[str, Any]]:
    """This page and those after it; a circle of links fails rather than turns for ever."""
    for _ in range(100):
        yield page
        if not page[link]:
            return
        page = follow(api, page[link])
    raise AssertionError("The pages never end.")


def ids(page: dict[str, Any]) -> list[str]:
    return [row["id"] for row in page["results"]]


# --- Filters ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("field", "wanted", "other"),
    [
        ("priority", "high", "low"),
        ("checkpoint_type", "choice", "approval"),
        ("core_id", "refund-agent", "other-agent"),
        ("flow_name", "refund", "Refund"),
        ("execution_id", "exec-1", "exec-1 "),
        ("instance_key", "größe-😀", "grösse"),
        ("routing", "external", "people"),
    ],
)
def test_a_filter_finds_what_was_given_at_create_exactly(
    api: ApiClient, ask: Ask, field: str, wanted: str, other: str
) -> None:
    hit = ask(**{field: wanted})
    ask(**{field: other})

    assert found(api, **{field: wanted}) == [str(hit.pk)]


def test_status_finds_rows_in_that_state(api: ApiClient, ask: Ask, program: Actor) -> None:
    pending, resolved, cancelled, expired = (ask(timeout="1h" if number == 3 else None) for number in range(4))
    lifecycle.resolve(resolved, actor=program, answer=Answer("approve"))
    lifecycle.cancel(cancelled, actor=program)
    lifecycle.expire_batch(at=timezone.now() + timedelta(hours=2), size=10)

    by_status = {"pending": pending, "resolved": resolved, "cancelled": cancelled, "expired": expired}
    assert {status: found(api, status=status) for status in by_status} == {
        status: [str(row.pk)] for status, row in by_status.items()
    }


def test_assignee_is_read_like_the_string_of_a_program(
    api: ApiClient, ask: Ask, finance: Group, approver: User, tenant_admin: User, core: Core
) -> None:
    group, person, role = (
        str(ask(assignee=raw).pk) for raw in ("group:finance", "approver@acme.example", "role:tenant_admin")
    )

    assert found(api, assignee="group:finance") == found(api, assignee=" GROUP : Finance ") == [group]
    assert found(api, assignee="user:Approver@acme.example") == found(api, assignee="approver@acme.example") == [person]
    assert found(api, assignee="role:tenant_admin") == [role]
    assert found(api, assignee="group:nobody") == []


def test_assignee_finds_what_is_delegated(api: ApiClient, ask: Ask, core: Core, approver: User) -> None:
    delegate = Membership.objects.get(user=approver)
    Delegation.objects.create(tenant=core.tenant, core=core, delegate=delegate)
    row = ask(assignee="delegated_user")

    assert found(api, assignee="delegated_user") == found(api, assignee_type="delegated_user") == [str(row.pk)]


def test_assignee_type_finds_the_unrouted(api: ApiClient, refund: Checkpoint, unrouted: Checkpoint) -> None:
    assert found(api, assignee_type="unrouted") == [str(unrouted.pk)]
    assert found(api, assignee_type="group") == [str(refund.pk)]


def test_moments_find_what_is_strictly_before_or_after(api: ApiClient, ask: Ask) -> None:
    rows = []
    for hour in (10, 11, 12):
        with time_machine.travel(f"2030-01-31T{hour}:00:00Z", tick=False):
            rows.append(str(ask(timeout="1h").pk))

    assert found(api, created_after="2030-01-31T11:00:00Z") == [rows[2]]
    assert found(api, created_before="2030-01-31T11:00:00Z") == [rows[0]]
    assert found(api, created_before="2030-01-31T12:00:00+01:00") == [rows[0]]
    assert found(api, expires_before="2030-01-31T12:00:00") == [rows[0]]
    assert found(api, created_after="2030-01-31T10:30:00Z", created_before="2030-01-31T11:30:00Z") == [rows[1]]
    assert found(api, created_after="0001-01-01T00:00:00Z", created_before="9999-12-31") == rows[::-1]


def test_filters_narrow_each_other(api: ApiClient, ask: Ask) -> None:
    hit = ask(flow_name="a", execution_id="1")
    ask(flow_name="a", execution_id="2")
    ask(flow_name="b", execution_id="1")

    assert found(api, flow_name="a", execution_id="1", status="pending") == [str(hit.pk)]


@pytest.mark.parametrize(
    "name",
    ["state", "tenant", "tenant_id", "id", "format", "status__in", "core__tenant__slug", "PAGE_SIZE", "", "\x00"],
)
def test_an_unknown_filter_is_named_along_with_the_known_ones(api: ApiClient, acme: Tenant, name: str) -> None:
    answer = problem(api.list(**{name: "x"}), 400, "invalid", name)

    assert "status" in answer["errors"][name][0]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("status", "open"),
        ("status", ""),
        ("status", "PENDING"),
        ("priority", "urgent"),
        ("priority", "1"),
        ("assignee", ""),
        ("assignee", "team:blue"),
        ("assignee", "group:"),
        ("assignee_type", "team"),
        ("routing", "nowhere"),
        ("created_after", "yesterday"),
        ("created_after", "2030-02-30T00:00:00Z"),
        ("created_before", "99999-01-01T00:00:00Z"),
        ("created_before", "0001-01-01T00:00:00+10:00"),
        ("created_before", ""),
        ("expires_before", "12"),
        ("flow_name", "a\x00b"),
        ("core_id", "\x00"),
        ("page_size", "0"),
        ("page_size", "201"),
        ("page_size", "-1"),
        ("page_size", "1e2"),
        ("page_size", "٣"),
        ("page_size", "9" * 5000),
        ("page_size", ""),
        ("order", "oldest"),
        ("order", ""),
    ],
)
def test_a_wrong_value_is_refused_by_the_name_of_its_filter(
    api: ApiClient, acme: Tenant, name: str, value: str
) -> None:
    problem(api.list(**{name: value}), 400, "invalid", name)


def test_every_wrong_filter_is_reported_at_once(api: ApiClient, acme: Tenant) -> None:
    problem(api.list(status="open", priority="urgent", nonsense="1"), 400, "invalid", "status", "priority", "nonsense")


@pytest.mark.parametrize("name", ["status", "flow_name", "page_size", "cursor", "order"])
def test_a_filter_given_twice_is_refused_rather_than_half_ignored(api: ApiClient, acme: Tenant, name: str) -> None:
    problem(api.list(**{name: ["a", "b"]}), 400, "invalid", name)


@pytest.mark.parametrize("query", ["flow_name=%ED%A0%80", "flow_name=%FF", "%C3=x", "cursor=%80"])
def test_a_query_that_is_not_utf8_is_refused(api: ApiClient, acme: Tenant, query: str) -> None:
    problem(api.request("GET", f"/checkpoints?{query}"), 400, "invalid", "query")


def test_more_filters_than_anybody_needs_are_refused(api: ApiClient, acme: Tenant) -> None:
    problem(api.request("GET", "/checkpoints?" + "&".join(f"a{number}=1" for number in range(1500))), 400, "invalid")


def test_a_list_shows_its_tenant_alone(api: ApiClient, outsider_api: ApiClient, refund: Checkpoint) -> None:
    assert found(api) == [str(refund.pk)]
    assert found(outsider_api) == []
    assert found(outsider_api, core_id="refund-agent") == found(outsider_api, assignee="group:finance") == []


# --- Pages --------------------------------------------------------------------------------------------------------


def test_an_empty_list_has_no_neighbours(api: ApiClient, acme: Tenant) -> None:
    assert api.list().json() == {"next": None, "previous": None, "results": []}


def test_newest_first_is_the_order_unless_another_is_asked_for(api: ApiClient, ask: Ask) -> None:
    rows = [str(ask().pk) for _ in range(5)]

    assert found(api) == found(api, order="newest") == rows[::-1]


def test_most_urgent_first_then_the_longest_waiting(api: ApiClient, ask: Ask) -> None:
    low, high, critical, also_high = (str(ask(priority=word).pk) for word in ("low", "high", "critical", "high"))

    assert found(api, order="urgent") == [critical, high, also_high, low]


@pytest.mark.both_databases
@pytest.mark.parametrize("order", ["newest", "urgent"])
@pytest.mark.parametrize("size", [1, 3, 4, 12, 13, 200])
def test_pages_forward_and_back_show_each_row_once(api: ApiClient, ask: Ask, order: str, size: int) -> None:
    for number in range(12):
        ask(priority=["low", "critical", "normal"][number % 3])
    everything = found(api, order=order)

    pages = list(walk(api, order=order, page_size=size))
    assert [row for page in pages for row in ids(page)] == everything
    assert all(len(page["results"]) == size for page in pages[:-1])
    assert pages[0]["previous"] is None

    back = list(onward(api, pages[-1], "previous"))
    assert [row for page in reversed(back) for row in ids(page)] == everything
    assert back[-1]["results"] == pages[0]["results"]


@pytest.mark.parametrize("order", ["newest", "urgent"])
def test_rows_that_come_and_go_between_pages_neither_repeat_nor_hide_others(
    api: ApiClient, ask: Ask, program: Actor, order: str
) -> None:
    rows = [ask(priority=["low", "critical", "normal"][number % 3]) for number in range(9)]
    by_id = {str(row.pk): row for row in rows}
    expected = found(api, order=order, status="pending")

    seen: list[str] = []
    for page in walk(api, order=order, status="pending", page_size=2):
        seen += ids(page)
        # What was shown is decided, and something newer arrives, before the next page is fetched.
        lifecycle.cancel(by_id[seen[-1]], actor=program)
        newcomer = ask(priority="critical" if order == "urgent" else "normal")
        by_id[str(newcomer.pk)] = newcomer

    assert len(seen) == len(set(seen))
    old_ones = [row for row in seen if row in expected]
    assert old_ones == expected


def test_a_link_keeps_the_filters_and_stays_in_its_mount(api: ApiClient, ask: Ask) -> None:
    for _ in range(3):
        ask(flow_name="größe & maß")
    ask(flow_name="other")
    older = ApiClient(root="/v1/scaicore")
    older.headers = api.headers

    page = older.list(flow_name="größe & maß", page_size=2).json()
    assert urlsplit(page["next"]).path == "/v1/scaicore/checkpoints"
    assert len(follow(api, page["next"])["results"]) == 1


def test_going_back_when_nothing_is_left_there_leads_to_the_first_page(
    api: ApiClient, ask: Ask, program: Actor
) -> None:
    rows = [ask() for _ in range(2)]
    second = follow(api, api.list(status="pending", page_size=1).json()["next"])
    lifecycle.cancel(rows[1], actor=program)

    empty = follow(api, second["previous"])
    assert (empty["results"], empty["previous"]) == ([], None)
    assert ids(follow(api, empty["next"])) == [str(rows[0].pk)]


def cursor(*parts: Any) -> str:
    return base64.urlsafe_b64encode(json.dumps(parts).encode()).decode().rstrip("=")


IDENTITY = "01990000-0000-7000-8000-000000000000"


@pytest.mark.parametrize(
    "mangled",
    [
        *("", " ", "x", "====", "ü", "%00", "\x00", "AAAA", "a" * 10_000, "..", "-1"),
        base64.urlsafe_b64encode(b"\xff\xfe\xff").decode(),
        base64.urlsafe_b64encode(b"[" * 100_000).decode(),
        base64.urlsafe_b64encode(b'{"n": 1, "x": 2, "y": 3}').decode(),
        base64.urlsafe_b64encode(b"9" * 5000).decode(),
        cursor(),
        cursor("n"),
        cursor("n", "n"),
        cursor("n", "n", "not-an-id"),
        cursor("n", "n", None),
        cursor("n", "n", 5),
        cursor("n", "n", [IDENTITY]),
        cursor("n", "x", IDENTITY),
        cursor("n", ["n"], IDENTITY),
        cursor("n", "n", IDENTITY, 1),
        cursor("u", "n", IDENTITY, 1),
        cursor("x", "n", IDENTITY),
    ],
)
def test_a_cursor_that_was_not_given_out_is_refused(api: ApiClient, acme: Tenant, mangled: str) -> None:
    problem(api.list(cursor=mangled), 400, "invalid", "cursor")


@pytest.mark.parametrize("priority", [None, "1", 1.5, [1], {}, -1, 4, 10**30])
def test_a_cursor_of_the_urgent_order_holds_a_known_priority(api: ApiClient, acme: Tenant, priority: Any) -> None:
    problem(api.list(order="urgent", cursor=cursor("u", "n", IDENTITY, priority)), 400, "invalid", "cursor")


def test_a_cut_cursor_is_refused(api: ApiClient, ask: Ask) -> None:
    for _ in range(2):
        ask()
    whole = parse_qs(urlsplit(api.list(page_size=1).json()["next"]).query)["cursor"][0]

    for length in range(1, len(whole)):
        problem(api.list(cursor=whole[:length]), 400, "invalid", "cursor")


def test_a_cursor_of_one_order_does_not_fit_the_other(api: ApiClient, ask: Ask) -> None:
    for _ in range(2):
        ask()
    given = parse_qs(urlsplit(api.list(page_size=1).json()["next"]).query)["cursor"][0]

    problem(api.list(order="urgent", cursor=given), 400, "invalid", "cursor")


def test_a_cursor_of_another_tenant_opens_nothing(api: ApiClient, outsider_api: ApiClient, ask: Ask) -> None:
    for _ in range(3):
        ask()
    given = parse_qs(urlsplit(api.list(page_size=1).json()["next"]).query)["cursor"][0]

    assert found(outsider_api, cursor=given) == []


# --- What it costs ------------------------------------------------------------------------------------------------


def statements_of(work: Callable[[], Any]) -> list[str]:
    with CaptureQueriesContext(connection) as captured:
        assert work().status_code == 200
    statements = [query["sql"] for query in captured.captured_queries]
    assert not [sql for sql in statements if "COUNT(" in sql.upper()]
    return statements


@pytest.mark.parametrize("filters", [{}, {"order": "urgent"}, {"assignee": "group:finance"}, {"core_id": "core-1"}])
def test_a_list_costs_the_same_for_five_rows_and_for_sixty(
    api: ApiClient, ask: Ask, finance: Group, filters: dict[str, str]
) -> None:
    api.list()  # the first use of a key is noted once a minute
    costs = []
    for rows in (5, 55):
        for number in range(rows):
            ask(assignee="group:finance", core_id=f"core-{number % 7}")
        costs.append(len(statements_of(lambda: api.list(page_size=200, **filters))))

    # The key, the rows, the names of their cores: joined, MariaDB may sort all rows there are to show fifty.
    assert costs[0] == costs[1] <= 3 + ("core_id" in filters)  # a core is looked up first


@pytest.mark.parametrize("who", ["approver", "tenant_admin"])
def test_a_list_of_a_person_costs_the_same_for_five_rows_and_for_sixty(
    request: pytest.FixtureRequest, api_of: Callable[[User], ApiClient], ask: Ask, finance: Group, who: str
) -> None:
    browser = api_of(request.getfixturevalue(who))
    costs = []
    for rows in (5, 55):
        for number in range(rows):
            ask(assignee="group:finance", core_id=f"core-{number % 7}")
        costs.append(len(statements_of(lambda: browser.list(page_size=200))))

    assert costs[0] == costs[1]


def test_one_row_its_history_and_each_command_cost_the_same_in_a_small_and_a_large_tenant(
    api: ApiClient, ask: Ask, finance: Group
) -> None:
    api.list()

    def costs() -> dict[str, int]:
        row = ask(assignee="group:finance", timeout="1d")
        person = {"for": "approver@acme.example"}
        steps: dict[str, Callable[[], Any]] = {
            "comment": lambda: api.command(row, "comment", {"text": "x"}),
            "claim": lambda: api.command(row, "claim", person),
            "release": lambda: api.command(row, "release", person),
            "extend": lambda: api.command(row, "extend", {"timeout": "3d"}),
            "remind": lambda: api.command(row, "remind"),
            "reassign": lambda: api.command(row, "reassign", {"assignee": "group:finance"}),
            "one": lambda: api.get(row),
            "history": lambda: api.get(row, "history"),
            "resolve": lambda: api.resolve(row),
        }
        return {name: len(statements_of(step)) for name, step in steps.items()} | {
            "cancel": len(statements_of(lambda: api.command(ask(), "cancel")))
        }

    few = costs()
    for _ in range(55):
        ask(assignee="group:finance")
    for _ in range(20):
        api.command(ask(), "comment", {"text": "x"})
    assert costs() == few


def test_a_long_history_costs_no_more_than_a_short_one(api: ApiClient, refund: Checkpoint) -> None:
    api.list()
    short = len(statements_of(lambda: api.get(refund, "history")))
    for _ in range(30):
        api.command(refund, "comment", {"text": "x"})

    assert len(statements_of(lambda: api.get(refund, "history"))) == short
    assert len(api.get(refund, "history").json()) == 31


# --- Who sees what ------------------------------------------------------------------------------------------------


def test_admins_and_auditors_see_all_of_their_tenant(
    api_of: Callable[[User], ApiClient], tenant_admin: User, auditor: User, refund: Checkpoint, unrouted: Checkpoint
) -> None:
    everything = [str(unrouted.pk), str(refund.pk)]

    assert found(api_of(tenant_admin)) == found(api_of(auditor)) == everything


def test_an_approver_sees_what_they_may_decide_have_decided_or_requested(
    api_of: Callable[[User], ApiClient],
    ask: Ask,
    approver: User,
    acme: Tenant,
    refund: Checkpoint,
    unrouted: Checkpoint,
) -> None:
    own = ask(assignee=approver.email)
    by_role = ask(assignee="role:approver")
    requested = ask(requested_by=approver.email)
    decided = ask(assignee="group:finance")
    lifecycle.resolve(decided, actor=actors.person(approver, refund.tenant, via="api"), answer=Answer("approve"))
    ask(assignee="someone@else.example")

    expected = [str(row.pk) for row in (decided, requested, by_role, own, refund)]
    assert found(api_of(approver)) == expected


def test_an_approver_does_not_see_what_others_are_asked(
    api_of: Callable[[User], ApiClient], bystander: User, refund: Checkpoint, unrouted: Checkpoint
) -> None:
    browser = api_of(bystander)

    assert found(browser) == []
    for part in ("", "history"):
        problem(browser.get(refund, part), 404, "not_found")
    problem(browser.resolve(refund), 404, "not_found")


def test_somebody_who_leaves_the_group_stops_seeing_its_questions(
    api_of: Callable[[User], ApiClient], approver: User, finance: Group, refund: Checkpoint
) -> None:
    browser = api_of(approver)
    assert found(browser) == [str(refund.pk)]

    finance.members.remove(Membership.objects.get(user=approver))
    assert found(browser) == []
    problem(browser.resolve(refund), 404, "not_found")
