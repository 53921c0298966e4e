"""GET /v1/audit and …/audit: the whole record, for those who check it."""

import uuid
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from checkpoints import events, lifecycle
from checkpoints.api import audit as routes
from checkpoints.api.schema import auditing
from checkpoints.models import Checkpoint, Event
from tenants.actors import Actor
from tenants.models import User
from tests.api_client import ApiClient, problem
from tests.checkpoints.stories import again, events_of

pytestmark = [pytest.mark.both_databases, pytest.mark.django_db]

Ask = Callable[..., Checkpoint]
Decide = Callable[..., Checkpoint]
TABLE = Event._meta.db_table
SORTING = ("filesort", "temporary_table", "TEMP B-TREE")
FIELDS = {
    "id", "checkpoint_id", "sequence", "event", "type", "at", "actor", "via", "address", "detail", "before", "after",
    "previous_digest", "digest",
}  # fmt: skip


@pytest.fixture
def story(refund: Checkpoint, api: ApiClient, approver: User, program: Actor, decide: Decide) -> Checkpoint:
    """Created and commented on by a program, commented on over HTTP, decided by a person on the desk."""
    row = lifecycle.comment(refund, actor=program, text="Is it paid?")
    assert api.command(row, "comment", {"text": "It is."}).status_code == 200
    decide(again(row), approver, "approve", comment="Fine by me")
    return again(row)


def audit(api: ApiClient, **filters: Any) -> dict[str, Any]:
    response = api.client.get("/v1/audit", filters, headers=api.headers)
    assert response.status_code == 200, response.content
    return response.json()  # type: ignore[no-any-return]


def audit_of(api: ApiClient, row: Checkpoint, **filters: Any) -> dict[str, Any]:
    response = api.client.get(f"/v1/checkpoints/{row.pk}/audit", filters, headers=api.headers)
    assert response.status_code == 200, response.content
    return response.json()  # type: ignore[no-any-return]


def refused(api: ApiClient, **filters: Any) -> Any:
    return api.client.get("/v1/audit", filters, headers=api.headers)


def names(page: dict[str, Any]) -> list[str]:
    return [entry["event"] for entry in page["results"]]


def walk(api: ApiClient, page: dict[str, Any], link: str = "next") -> list[dict[str, Any]]:
    """This page and all behind it, in the order of the links."""
    pages = [page]
    while pages[-1][link]:
        assert len(pages) < 50, "The pages never end."
        pages.append(api.client.get(pages[-1][link], headers=api.headers).json())
    return pages


# --- What it tells ------------------------------------------------------------------------------------------------


def test_the_record_of_a_checkpoint_tells_everything_oldest_first(api: ApiClient, story: Checkpoint) -> None:
    page = audit_of(api, story)

    assert names(page) == ["created", "commented", "commented", "resolved"]
    assert all(entry.keys() == FIELDS for entry in page["results"])
    last, event = page["results"][-1], events_of(story)[-1]
    assert last == {
        "id": event.pk,
        "checkpoint_id": str(story.pk),
        "sequence": 4,
        "event": "resolved",
        "type": "checkpoint.resolved",
        "at": events.moment(event.at),
        "actor": "user:approver@acme.example",
        "via": "admin",
        "address": None,
        "detail": event.data["detail"],
        "before": event.data["before"],
        "after": event.data["after"],
        "previous_digest": page["results"][2]["digest"],
        "digest": story.event_head,
    }
    assert (last["before"]["status"], last["after"]["status"]) == ("pending", "resolved")
    assert page["results"][0]["previous_digest"] is None


def test_it_tells_from_which_address_a_request_came(api: ApiClient, story: Checkpoint) -> None:
    over_http = audit_of(api, story)["results"][2]
    assert (over_http["actor"], over_http["via"], over_http["address"]) == ("key:ci", "api", "127.0.0.1")


def test_the_tenants_record_is_newest_first(api: ApiClient, story: Checkpoint, ask: Ask) -> None:
    ask()
    page = audit(api)
    assert names(page) == ["created", "resolved", "commented", "commented", "created"]
    assert [entry["id"] for entry in page["results"]] == sorted((e["id"] for e in page["results"]), reverse=True)
    assert page["next"] is page["previous"] is None


def test_an_event_that_was_tampered_with_is_shown_as_it_is(intruder: None, api: ApiClient, story: Checkpoint) -> None:
    Event.objects.filter(subject_id=story.pk, sequence=2).update(data="nothing like an event", type="nonsense")
    entry = audit_of(api, story)["results"][1]
    assert (entry["type"], entry["event"], entry["detail"]) == ("nonsense", "", {})


# --- Filters ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ({"module": "scaicore"}, ["created", "resolved", "commented", "commented", "created"]),
        ({"event": "created"}, ["created", "created"]),
        ({"type": "checkpoint.resolved"}, ["resolved"]),
        ({"type": "resolved"}, []),
        ({"event": "Resolved"}, []),
        ({"actor": "key:ci"}, ["commented"]),
        ({"actor": "user:approver@acme.example"}, ["resolved"]),
        ({"via": "admin"}, ["resolved"]),
        ({"via": "api", "event": "commented", "actor": "key:refund-agent"}, ["commented"]),
    ],
)
def test_filters_find_exactly_that(
    api: ApiClient, story: Checkpoint, ask: Ask, filters: dict[str, str], expected: list[str]
) -> None:
    ask()
    assert names(audit(api, **filters)) == expected


def test_the_record_of_one_checkpoint_is_also_a_filter(api: ApiClient, story: Checkpoint, ask: Ask) -> None:
    other = ask()
    assert names(audit(api, checkpoint_id=str(other.pk))) == ["created"]
    assert names(audit(api, checkpoint_id=str(story.pk).upper())) == ["resolved", "commented", "commented", "created"]
    assert names(audit(api, checkpoint_id=str(uuid.uuid4()))) == []


def test_times_cut_the_record(api: ApiClient, story: Checkpoint) -> None:
    second = events.moment(events_of(story)[1].at)
    assert names(audit(api, after=second)) == ["resolved", "commented"]
    assert names(audit(api, before=second)) == ["created"]
    far = events.moment(timezone.now() + timedelta(days=1))
    assert names(audit(api, after=far)) == []
    assert len(audit(api, before=far)["results"]) == 4


@pytest.mark.parametrize(
    ("filters", "field"),
    [
        ({"module": "billing"}, "module"),
        ({"colour": "green"}, "colour"),
        ({"status": "pending"}, "status"),
        ({"order": "newest"}, "order"),
        ({"checkpoint_id": "42"}, "checkpoint_id"),
        ({"after": "yesterday"}, "after"),
        ({"before": ""}, "before"),
        ({"actor": "a\x00b"}, "actor"),
        ({"event": ["created", "resolved"]}, "event"),
        ({"page_size": "0"}, "page_size"),
        ({"page_size": "201"}, "page_size"),
        ({"cursor": "nonsense"}, "cursor"),
    ],
)
def test_a_filter_that_cannot_be_is_refused_by_name(api: ApiClient, filters: dict[str, Any], field: str) -> None:
    problem(refused(api, **filters), 400, "invalid", field)


def test_the_record_of_one_checkpoint_takes_no_filter(api: ApiClient, story: Checkpoint) -> None:
    response = api.client.get(f"/v1/checkpoints/{story.pk}/audit", {"event": "created"}, headers=api.headers)
    assert "Known: cursor, page_size" in problem(response, 400, "invalid", "event")["detail"]


def test_the_document_tells_of_every_filter_with_an_example_that_works(api: ApiClient) -> None:
    assert set(auditing.FILTERS) == {*routes.FILTERS, *routes.PAGING}
    for name, (_, _, example) in auditing.FILTERS.items():
        if example:
            assert audit(api, **{name: example})["results"] == []


# --- Pages --------------------------------------------------------------------------------------------------------


def test_pages_show_every_event_once_there_and_back(api: ApiClient, story: Checkpoint, ask: Ask) -> None:
    for _ in range(3):
        ask()
    pages = walk(api, audit(api, page_size=2))
    forth = [entry["id"] for page in pages for entry in page["results"]]
    assert [len(page["results"]) for page in pages] == [2, 2, 2, 1]
    assert forth == [entry["id"] for entry in audit(api)["results"]]
    back = [entry["id"] for page in walk(api, pages[-1], "previous") for entry in reversed(page["results"])]
    assert back == forth[::-1]


def test_pages_of_one_checkpoint_go_on_in_its_order(api: ApiClient, story: Checkpoint) -> None:
    pages = walk(api, audit_of(api, story, page_size=3))
    assert [[entry["sequence"] for entry in page["results"]] for page in pages] == [[1, 2, 3], [4]]
    [_, first] = walk(api, pages[-1], "previous")
    assert [entry["sequence"] for entry in first["results"]] == [1, 2, 3]


def test_what_happens_meanwhile_moves_no_page(api: ApiClient, story: Checkpoint, ask: Ask) -> None:
    page = audit(api, page_size=2)
    ask()
    assert names(walk(api, page)[1]) == ["commented", "created"]


def test_a_filter_stays_on_every_page(api: ApiClient, story: Checkpoint) -> None:
    pages = walk(api, audit(api, event="commented", page_size=1))
    assert [names(page) for page in pages] == [["commented"], ["commented"]]


def test_the_cursor_of_another_list_is_refused(api: ApiClient, story: Checkpoint, ask: Ask) -> None:
    ask()
    foreign = api.list(page_size=1).json()["next"].partition("cursor=")[2].partition("&")[0]
    own = audit_of(api, story, page_size=1)["next"].partition("cursor=")[2].partition("&")[0]
    for cursor in (foreign, own):
        problem(refused(api, cursor=cursor), 400, "invalid", "cursor")


# --- Who may ------------------------------------------------------------------------------------------------------


def test_a_key_needs_the_scope_of_the_audit(with_scopes: Callable[..., ApiClient], story: Checkpoint) -> None:
    reader, manager = with_scopes("audit:read"), with_scopes("scaicore:manage")
    assert len(audit(reader)["results"]) == len(audit_of(reader, story)["results"]) == 4
    for response in (refused(manager), manager.get(story, "audit"), manager.get(str(uuid.uuid4()), "audit")):
        assert "lacks the scope audit:read" in problem(response, 403, "forbidden")["detail"]


@pytest.mark.parametrize("standing", ["tenant_admin", "auditor"])
def test_admins_and_auditors_may_read_it(
    standing: str, request: pytest.FixtureRequest, story: Checkpoint, api_of: Callable[[User], ApiClient]
) -> None:
    reader = api_of(request.getfixturevalue(standing))
    assert len(audit(reader)["results"]) == len(audit_of(reader, story)["results"]) == 4


def test_an_approver_may_not_even_for_what_they_decided(
    story: Checkpoint, approver: User, api_of: Callable[[User], ApiClient]
) -> None:
    approving = api_of(approver)
    assert approving.get(story, "history").status_code == 200
    for response in (refused(approving), approving.get(story, "audit")):
        assert problem(response, 403, "forbidden")["detail"] == "Only tenant admins and auditors may read the audit."


def test_another_tenants_record_is_not_there(
    story: Checkpoint, outsider: User, outsider_api: ApiClient, api_of: Callable[[User], ApiClient]
) -> None:
    for elsewhere in (outsider_api, api_of(outsider)):
        problem(elsewhere.get(story, "audit"), 404, "not_found")
        assert audit(elsewhere)["results"] == []
        assert audit(elsewhere, checkpoint_id=str(story.pk))["results"] == []


def test_nobody_gets_it_without_a_key(story: Checkpoint) -> None:
    problem(refused(ApiClient()), 401, "unauthenticated")
    problem(ApiClient().get(story, "audit"), 401, "unauthenticated")


def test_the_record_can_only_be_read(api: ApiClient, story: Checkpoint) -> None:
    for path in ("/audit", f"/checkpoints/{story.pk}/audit"):
        for method in ("POST", "PUT", "PATCH", "DELETE"):
            problem(api.request(method, path, {}), 405, "method_not_allowed")


# --- How little it asks of the database ---------------------------------------------------------------------------


def test_the_number_of_queries_does_not_grow(api: ApiClient, story: Checkpoint, ask: Ask, program: Actor) -> None:
    def asked(act: Callable[[], Any]) -> list[str]:
        with CaptureQueriesContext(connection) as queries:
            act()
        return [query["sql"] for query in queries]

    audit(api)
    few = len(asked(lambda: audit(api))), len(asked(lambda: audit_of(api, story)))
    open_one = ask()
    for number in range(60):
        open_one = lifecycle.comment(open_one, actor=program, text=str(number))
    many = asked(lambda: audit(api, page_size=200)), asked(lambda: audit_of(api, open_one, page_size=200))
    assert (len(many[0]), len(many[1])) == few
    assert not [sql for sql in [*many[0], *many[1]] if "COUNT(" in sql.upper() or " OFFSET " in sql.upper()]


def plan_of(act: Callable[[], Any]) -> str:
    """How the database finds the events for this act."""
    with CaptureQueriesContext(connection) as queries:
        act()
    [statement] = [query["sql"] for query in queries if f"FROM {connection.ops.quote_name(TABLE)}" in query["sql"]]
    with connection.cursor() as cursor:
        cursor.execute(f"EXPLAIN {'FORMAT=JSON' if connection.vendor == 'mysql' else 'QUERY PLAN'} {statement}")
        return "\n".join(str(row[-1]) for row in cursor.fetchall())


def test_pages_are_read_in_order_off_an_index(
    transactional_db: None, api: ApiClient, ask: Ask, program: Actor, foreign_program: Actor
) -> None:
    subjects = [uuid.uuid4() for _ in range(600)]
    Event.objects.bulk_create(
        events.build(
            actor=foreign_program if number % 3 else program,
            subject_id=subject,
            sequence=sequence,
            previous_digest="",
            type="checkpoint.commented",
            at=timezone.now(),
            data={},
        )
        for number, subject in enumerate(subjects)
        for sequence in range(1, 6)
    )
    row = ask()
    for number in range(5):
        row = lifecycle.comment(row, actor=program, text=str(number))
    if connection.vendor == "mysql":
        with connection.cursor() as cursor:
            cursor.execute(f"ANALYZE TABLE {TABLE}")
            cursor.fetchall()
    following = audit(api, page_size=2)["next"]

    for act in (
        lambda: audit(api),
        lambda: audit(api, event="resolved"),
        lambda: audit(api, actor="key:ci", after="2030-01-01T00:00:00Z"),
        lambda: api.client.get(following, headers=api.headers),
    ):
        plan = plan_of(act)
        assert "event_newest" in plan, plan
        assert not any(word in plan for word in SORTING), plan
    # SQLite gives the index behind a constraint a name of its own.
    by_place = "event_once_per_sequence" if connection.vendor == "mysql" else "sqlite_autoindex"
    plan = plan_of(lambda: audit_of(api, row))
    assert by_place in plan, plan
    assert not any(word in plan for word in SORTING), plan
    plan = plan_of(lambda: audit(api, checkpoint_id=str(row.pk)))
    assert by_place in plan, plan
