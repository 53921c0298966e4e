"""Webhooks over HTTP: who may, what is kept, what is shown once, what is refused, and what is sent again."""

import json
import uuid
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
import time_machine
from django.test import Client
from django.utils import timezone

from checkpoints.models import Checkpoint, StoredAnswer
from notifications import webhooks
from notifications.api import description, represent, views
from notifications.models import Delivery, DeliveryTry, Webhook
from tenants import keys
from tenants.actors import Actor
from tenants.models import Tenant, User
from tests.api_client import ApiClient, problem
from tests.racing import Race

pytestmark = pytest.mark.django_db

URL = "https://hooks.acme.example/holdpoint"
POSTS = ("test", "rotate-secret")


@pytest.fixture(autouse=True)
def _every_answer_is_as_the_document_tells(settings: Any) -> None:
    settings.MIDDLEWARE = ["tests.conforming.Conforms", *settings.MIDDLEWARE]


@pytest.fixture
def webhook(program: Actor) -> Webhook:
    return webhooks.create(actor=program, url=URL, description="Our engine")


@pytest.fixture
def given_up(webhook: Webhook, program: Actor) -> Delivery:
    """A message of this webhook that was tried for a day, in vain."""
    delivery = webhooks.send_test(webhook, actor=program)
    change = {"status": "failed", "next_try_at": None, "tries": 8, "last_error": "HTTP 503"}
    Delivery.objects.filter(pk=delivery.pk).update(**change)
    return Delivery.objects.get(pk=delivery.pk)


def create(api: ApiClient, **fields: Any) -> Any:
    return api.request("POST", "/webhooks", {"url": URL} | fields)


def address(webhook: Webhook, *parts: Any) -> str:
    return "/".join(["/webhooks", str(webhook.pk), *map(str, parts)])


def tried(delivery: Delivery, **fields: Any) -> DeliveryTry:
    return DeliveryTry.objects.create(
        **{"tenant_id": delivery.tenant_id, "delivery": delivery, "at": timezone.now(), "succeeded": False} | fields
    )


# --- Create, read, change, delete -----------------------------------------------------------------------------------


def test_a_new_webhook_comes_with_its_secret_and_everything_else(api: ApiClient) -> None:
    response = create(api, description="Our engine", events=["checkpoint.resolved"])

    assert response.status_code == 201
    made = response.json()
    assert response["Location"] == f"/v1/webhooks/{made['id']}"
    assert made["secret"].startswith("whsec_")
    assert (made["url"], made["description"], made["events"]) == (URL, "Our engine", ["checkpoint.resolved"])
    assert made["is_active"] is True


def test_the_secret_is_shown_once_and_never_again(api: ApiClient) -> None:
    made = create(api).json()
    path = f"/webhooks/{made['id']}"

    answers = [api.request("GET", path), api.request("GET", "/webhooks"), api.request("PATCH", path, {})]
    answers.append(api.request("POST", f"{path}/test", {}))

    for answer in answers:
        assert answer.status_code < 300
        assert made["secret"] not in answer.content.decode()
    assert answers[0].json() == {name: value for name, value in made.items() if name != "secret"}
    assert made["secret_hint"] == "whsec_…" + made["secret"].rstrip("=")[-4:]


def test_without_events_it_is_told_of_everything(api: ApiClient) -> None:
    for made in (create(api).json(), create(api, events=[]).json()):
        assert made["events"] == []
        row = Webhook.objects.get(pk=made["id"])
        assert all(row.takes(type) for type in webhooks.TYPES)


def test_events_come_back_in_one_order(api: ApiClient) -> None:
    made = create(api, events=["run.failed", "checkpoint.expired", "checkpoint.created"]).json()
    assert made["events"] == ["checkpoint.created", "checkpoint.expired", "run.failed"]


def test_the_list_has_the_newest_first_and_goes_on_by_cursor(api: ApiClient, outsider_api: ApiClient) -> None:
    made = [create(api).json()["id"] for _ in range(5)]
    create(outsider_api)

    first = api.request("GET", "/webhooks?page_size=3").json()
    second = api.request("GET", first["next"].partition("/v1")[2]).json()

    assert [row["id"] for row in first["results"] + second["results"]] == made[::-1]
    assert second["next"] is None


def test_what_a_change_leaves_out_stays_as_it_is(api: ApiClient, webhook: Webhook) -> None:
    before = api.request("GET", address(webhook)).json()

    changed = api.request("PATCH", address(webhook), {"events": ["run.paused"]}).json()
    assert changed == before | {"events": ["run.paused"]}
    assert api.request("PATCH", address(webhook), {}).json() == changed

    elsewhere = {"url": "https://other.acme.example/", "description": "", "is_active": False}
    assert api.request("PATCH", address(webhook), elsewhere).json() == changed | elsewhere
    assert api.request("GET", address(webhook)).json() == changed | elsewhere


def test_switching_on_again_forgets_why_it_was_off(api: ApiClient, webhook: Webhook) -> None:
    now = timezone.now()
    off = {"is_active": False, "disabled_at": now, "disabled_reason": "410", "failing_since": now}
    Webhook.objects.filter(pk=webhook.pk).update(**off)
    assert api.request("GET", address(webhook)).json()["disabled_reason"] == "410"

    on = api.request("PATCH", address(webhook), {"is_active": True}).json()

    assert on["is_active"] is True
    assert (on["disabled_at"], on["disabled_reason"], on["failing_since"]) == (None, None, None)


def test_a_new_address_is_not_blamed_for_the_old_one(api: ApiClient, webhook: Webhook) -> None:
    Webhook.objects.filter(pk=webhook.pk).update(failing_since=timezone.now())
    assert api.request("PATCH", address(webhook), {"url": URL}).json()["failing_since"]
    assert api.request("PATCH", address(webhook), {"url": f"{URL}/2"}).json()["failing_since"] is None


def test_deleting_takes_its_deliveries_along_and_nobody_elses(
    api: ApiClient, webhook: Webhook, given_up: Delivery, program: Actor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(webhooks, "BATCH", 2)
    for _ in range(5):
        tried(webhooks.send_test(webhook, actor=program))
    other = webhooks.create(actor=program, url=URL)
    kept = tried(webhooks.send_test(other, actor=program))

    response = api.request("DELETE", address(webhook))

    assert (response.status_code, response.content) == (204, b"")
    assert list(Webhook.objects.all()) == [other]
    assert [row.pk for row in Delivery.objects.all()] == [kept.delivery_id]
    assert [row.pk for row in DeliveryTry.objects.all()] == [kept.pk]
    for method in ("GET", "PATCH", "DELETE"):
        problem(api.request(method, address(webhook), {}), 404, "not_found")


def test_a_tenant_has_at_most_twenty_and_another_tenant_its_own(api: ApiClient, outsider_api: ApiClient) -> None:
    made = [create(api) for _ in range(20)]
    assert {response.status_code for response in made} == {201}

    assert "20" in problem(create(api), 400, "invalid", "url")["detail"]
    assert create(outsider_api).status_code == 201

    api.request("DELETE", f"/webhooks/{made[0].json()['id']}")
    assert create(api).status_code == 201


# --- Rotating -------------------------------------------------------------------------------------------------------


def test_a_rotation_shows_the_new_secret_and_keeps_the_old_one_for_a_day(api: ApiClient) -> None:
    made = create(api).json()
    row = Webhook.objects.get(pk=made["id"])

    rotated = api.request("POST", address(row, "rotate-secret"), {}).json()

    assert rotated["secret"] != made["secret"]
    row.refresh_from_db()
    now = timezone.now()
    assert row.secrets(at=now) == [rotated["secret"], made["secret"]]
    assert row.secrets(at=now + timedelta(hours=25)) == [rotated["secret"]]
    shown = api.request("GET", address(row)).json()
    assert shown["previous_secret_ends_at"] == rotated["previous_secret_ends_at"] is not None
    assert shown["secret_hint"] == rotated["secret_hint"] != made["secret_hint"]
    with time_machine.travel(now + timedelta(hours=25)):
        assert api.request("GET", address(row)).json()["previous_secret_ends_at"] is None


def test_rotated_twice_the_oldest_secret_ends_at_once(api: ApiClient, webhook: Webhook) -> None:
    secrets = [api.request("POST", address(webhook, "rotate-secret"), {}).json()["secret"] for _ in range(2)]
    webhook.refresh_from_db()
    assert webhook.secrets(at=timezone.now()) == secrets[::-1]


# --- Sending --------------------------------------------------------------------------------------------------------


def test_a_test_is_queued_like_any_message_and_the_worker_sends_it(
    api: ApiClient, webhook: Webhook, run_post: Callable[[], Any]
) -> None:
    response = api.request("POST", address(webhook, "test"), {})

    assert response.status_code == 202
    queued = response.json()
    assert (queued["type"], queued["status"], queued["tries"]) == ("webhook.test", "waiting", [])
    (sent,) = run_post().sent
    assert (str(sent.pk), sent.lane) == (queued["id"], webhook.lane)
    assert sent.facts["body"] == {
        "type": "webhook.test",
        "timestamp": queued["created_at"],
        "data": {"webhook_id": str(webhook.pk)},
    }
    (shown,) = api.request("GET", address(webhook, "deliveries")).json()["results"]
    assert (shown["id"], shown["status"]) == (queued["id"], "sent")
    assert [one["succeeded"] for one in shown["tries"]] == [True]


def test_a_test_and_a_redelivery_wake_the_worker(
    api: ApiClient,
    webhook: Webhook,
    given_up: Delivery,
    settings: Any,
    django_capture_on_commit_callbacks: Callable[..., Any],
) -> None:
    settings.JOBS_NUDGE = True
    again = address(webhook, "deliveries", given_up.pk, "redeliver")
    # The second redelivery finds it waiting, and has nothing to wake anybody for.
    for path, wakes in ((address(webhook, "test"), True), (again, True), (again, False)):
        with django_capture_on_commit_callbacks() as woken:
            api.request("POST", path, {})
        assert bool(woken) == wakes


def test_every_test_is_a_message_of_its_own(api: ApiClient, webhook: Webhook) -> None:
    assert len({api.request("POST", address(webhook, "test"), {}).json()["id"] for _ in range(3)}) == 3


def test_what_was_given_up_is_sent_again_as_the_same_message(
    api: ApiClient, webhook: Webhook, given_up: Delivery, run_post: Callable[[], Any]
) -> None:
    tried(given_up, detail="HTTP 503", response_status=503)

    response = api.request("POST", address(webhook, "deliveries", given_up.pk, "redeliver"), {})

    assert response.status_code == 202
    queued = response.json()
    assert (queued["id"], queued["status"]) == (str(given_up.pk), "waiting")
    assert queued["next_try_at"] is not None
    assert len(queued["tries"]) == 1
    assert [sent.pk for sent in run_post().sent] == [given_up.pk]
    (shown,) = api.request("GET", address(webhook, "deliveries")).json()["results"]
    assert [one["succeeded"] for one in shown["tries"]] == [False, True]


def test_sent_again_it_has_a_whole_day_of_tries_before_it(api: ApiClient, webhook: Webhook, given_up: Delivery) -> None:
    api.request("POST", address(webhook, "deliveries", given_up.pk, "redeliver"), {})
    given_up.refresh_from_db()
    assert given_up.tries == 0


@pytest.mark.parametrize("status", ["sent", "skipped", "failed"])
def test_whatever_has_ended_can_be_sent_again(
    api: ApiClient, webhook: Webhook, given_up: Delivery, status: str
) -> None:
    Delivery.objects.filter(pk=given_up.pk).update(status=status)
    path = address(webhook, "deliveries", given_up.pk, "redeliver")
    assert api.request("POST", path, {}).json()["status"] == "waiting"


def test_what_waits_is_answered_as_it_is(api: ApiClient, webhook: Webhook, program: Actor) -> None:
    waiting = webhooks.send_test(webhook, actor=program, at=timezone.now() + timedelta(hours=1))

    response = api.request("POST", address(webhook, "deliveries", waiting.pk, "redeliver"), {})

    assert response.status_code == 202
    assert response.json()["next_try_at"] == represent.moment(waiting.next_try_at)
    assert Delivery.objects.get(pk=waiting.pk).next_try_at == waiting.next_try_at


def test_a_delivery_of_another_webhook_is_not_there(
    api: ApiClient, webhook: Webhook, given_up: Delivery, program: Actor, foreign_program: Actor
) -> None:
    foreign = webhooks.send_test(webhooks.create(actor=foreign_program, url=URL), actor=foreign_program)
    other = webhooks.create(actor=program, url=URL)
    for path in (
        address(other, "deliveries", given_up.pk, "redeliver"),
        address(webhook, "deliveries", foreign.pk, "redeliver"),
        address(webhook, "deliveries", uuid.uuid4(), "redeliver"),
    ):
        assert "delivery" in problem(api.request("POST", path, {}), 404, "not_found")["detail"]
    given_up.refresh_from_db()
    assert given_up.status == "failed"


# --- The deliveries -------------------------------------------------------------------------------------------------


def test_deliveries_come_newest_first_with_their_tries(
    api: ApiClient, webhook: Webhook, program: Actor, refund: Checkpoint
) -> None:
    made = [webhooks.send_test(webhook, actor=program) for _ in range(3)]
    body = {"type": "checkpoint.resolved", "timestamp": "…", "data": {}}
    Delivery.objects.filter(pk=made[0].pk).update(checkpoint=refund, facts={"body": body})
    tried(made[0], detail="HTTP 503", response_status=503, took_ms=120)
    tried(made[0], succeeded=True, response_status=204, took_ms=20)

    shown = api.request("GET", address(webhook, "deliveries")).json()["results"]

    assert [row["id"] for row in shown] == [str(row.pk) for row in reversed(made)]
    oldest = shown[-1]
    assert (oldest["type"], oldest["checkpoint_id"]) == ("checkpoint.resolved", str(refund.pk))
    assert [(one["detail"], one["response_status"], one["took_ms"]) for one in oldest["tries"]] == [
        ("HTTP 503", 503, 120),
        (None, 204, 20),
    ]
    assert shown[0]["tries"] == []


def test_deliveries_are_paged_and_filtered_by_status(
    api: ApiClient, webhook: Webhook, given_up: Delivery, program: Actor
) -> None:
    waiting = [str(webhooks.send_test(webhook, actor=program).pk) for _ in range(3)]

    page = api.request("GET", address(webhook, "deliveries?status=waiting&page_size=2")).json()
    rest = api.request("GET", page["next"].partition("/v1")[2]).json()

    assert [row["id"] for row in page["results"] + rest["results"]] == waiting[::-1]
    (failed,) = api.request("GET", address(webhook, "deliveries?status=failed")).json()["results"]
    assert (failed["id"], failed["last_error"]) == (str(given_up.pk), "HTTP 503")


@pytest.mark.both_databases
def test_a_page_of_deliveries_costs_the_same_however_many_there_are(
    api: ApiClient, webhook: Webhook, program: Actor, django_assert_num_queries: Any
) -> None:
    def page() -> int:
        return len(api.request("GET", address(webhook, "deliveries?page_size=200")).json()["results"])

    for _ in range(2):
        tried(webhooks.send_test(webhook, actor=program))
    page()
    # Key, webhook, deliveries, tries.
    with django_assert_num_queries(4):
        assert page() == 2
    for _ in range(30):
        tried(webhooks.send_test(webhook, actor=program))
    with django_assert_num_queries(4):
        assert page() == 32


@pytest.mark.both_databases
def test_of_very_many_tries_the_last_are_shown(api: ApiClient, webhook: Webhook, given_up: Delivery) -> None:
    for number in range(represent.MOST_TRIES + 5):
        tried(given_up, took_ms=number)

    (shown,) = api.request("GET", address(webhook, "deliveries")).json()["results"]

    assert [one["took_ms"] for one in shown["tries"]] == list(range(5, represent.MOST_TRIES + 5))


@pytest.mark.parametrize(
    "query", ["status=lost", "page_size=0", "cursor=zz", "checkpoint=1", "status=sent&status=sent"]
)
def test_a_filter_that_makes_no_sense_is_refused_by_name(api: ApiClient, webhook: Webhook, query: str) -> None:
    problem(api.request("GET", address(webhook, f"deliveries?{query}")), 400, "invalid", query.partition("=")[0])


def test_the_filters_that_are_told_of_are_the_filters_there_are(api: ApiClient, webhook: Webhook) -> None:
    assert set(description.STATUS) == set(views.FILTERS)
    for name, (_, _, example) in description.STATUS.items():
        assert api.request("GET", address(webhook, f"deliveries?{name}={example}")).status_code == 200


def test_a_cursor_of_another_list_is_refused(api: ApiClient, webhook: Webhook, program: Actor) -> None:
    for _ in range(3):
        webhooks.send_test(webhook, actor=program)
    following = api.request("GET", address(webhook, "deliveries?page_size=1")).json()["next"]
    cursor = following.partition("cursor=")[2].partition("&")[0]
    problem(api.request("GET", f"/webhooks?cursor={cursor}"), 400, "invalid", "cursor")


# --- Who may --------------------------------------------------------------------------------------------------------


def requests_of(webhook: Webhook, delivery: Delivery) -> list[tuple[str, str, Any]]:
    """Every route, each with a body that would be accepted."""
    return [
        ("GET", "/webhooks", None),
        ("POST", "/webhooks", {"url": URL}),
        ("GET", address(webhook), None),
        ("PATCH", address(webhook), {"is_active": False}),
        ("GET", address(webhook, "deliveries"), None),
        *(("POST", address(webhook, name), {}) for name in POSTS),
        ("POST", address(webhook, "deliveries", delivery.pk, "redeliver"), {}),
        ("DELETE", address(webhook), None),
    ]


def test_a_key_without_the_scope_may_nothing_and_learns_nothing_of_ids(
    with_scopes: Callable[..., ApiClient], webhook: Webhook, given_up: Delivery
) -> None:
    narrow = with_scopes("checkpoints:create", "checkpoints:manage", "audit:read", "scaicore:manage")
    unknown = Webhook(pk=uuid.uuid4())
    for found in (webhook, unknown):
        for method, path, body in requests_of(found, given_up):
            detail = problem(narrow.request(method, path, body), 403, "forbidden")["detail"]
            assert "webhooks:manage" in detail
    assert Webhook.objects.get().secret == webhook.secret


def test_the_scope_alone_is_enough(with_scopes: Callable[..., ApiClient], webhook: Webhook, given_up: Delivery) -> None:
    manager = with_scopes("webhooks:manage")
    for method, path, body in requests_of(webhook, given_up):
        assert manager.request(method, path, body).status_code < 300, path


def test_a_tenant_admin_may_through_a_session(
    api_of: Callable[[User], ApiClient], tenant_admin: User, webhook: Webhook, given_up: Delivery
) -> None:
    browser = api_of(tenant_admin)
    for method, path, body in requests_of(webhook, given_up):
        assert browser.request(method, path, body).status_code < 300, path


@pytest.mark.parametrize("standing", ["approver", "auditor", "bystander"])
def test_nobody_else_may_through_a_session(
    standing: str,
    request: pytest.FixtureRequest,
    api_of: Callable[[User], ApiClient],
    webhook: Webhook,
    given_up: Delivery,
) -> None:
    browser = api_of(request.getfixturevalue(standing))
    for method, path, body in requests_of(webhook, given_up):
        assert "tenant admin" in problem(browser.request(method, path, body), 403, "forbidden")["detail"]


def test_a_session_that_writes_needs_its_token(tenant_admin: User, webhook: Webhook, given_up: Delivery) -> None:
    client = Client(enforce_csrf_checks=True)
    client.force_login(tenant_admin, backend="tenants.signin.EmailBackend")
    for method, path, body in requests_of(webhook, given_up):
        response = ApiClient(browser=client).request(method, path, body)
        if method == "GET":
            assert response.status_code == 200
        else:
            problem(response, 403, "forbidden")


def test_an_outsider_finds_nothing_and_changes_nothing(
    outsider_api: ApiClient, webhook: Webhook, given_up: Delivery
) -> None:
    for method, path, body in requests_of(webhook, given_up)[2:]:
        problem(outsider_api.request(method, path, body), 404, "not_found")
    assert outsider_api.request("GET", "/webhooks").json()["results"] == []
    assert Webhook.objects.get(pk=webhook.pk).secret == webhook.secret
    assert Delivery.objects.get(pk=given_up.pk).status == "failed"


def test_verbs_ask_for_themselves_whoever_calls_them(
    webhook: Webhook, given_up: Delivery, foreign_program: Actor, as_person: Callable[[User], Actor], approver: User
) -> None:
    """The desk calls them too."""
    for actor, code in ((foreign_program, "not_found"), (as_person(approver), "forbidden")):
        for verb in (
            lambda actor: webhooks.change(webhook, actor=actor, wish=webhooks.Wish(is_active=False)),
            lambda actor: webhooks.rotate(webhook, actor=actor),
            lambda actor: webhooks.delete(webhook, actor=actor),
            lambda actor: webhooks.send_test(webhook, actor=actor),
            lambda actor: webhooks.redeliver(given_up, actor=actor),
        ):
            with pytest.raises(Exception) as refused:  # noqa: PT011 (its code says which)
                verb(actor)
            assert getattr(refused.value, "code", None) == code
    assert Webhook.objects.get(pk=webhook.pk).is_active
    assert Delivery.objects.count() == 1


def test_the_older_addresses_have_no_webhooks(api: ApiClient) -> None:
    api.root = "/v1/modules/scaicore"
    problem(api.request("GET", "/webhooks"), 404, "not_found")


# --- Bad input ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "url",
    [
        *("", " ", "nonsense", "hooks.acme.example", "//hooks.acme.example/", "ftp://hooks.acme.example/", "https://"),
        *("http://hooks.acme.example/", "https://user:word@hooks.acme.example/", "https://hooks.acme.example:0/"),
        *("https://localhost/", "https://127.0.0.1/", "https://10.0.0.7/", "https://169.254.169.254/latest/meta-data"),
        *("https://[::1]/", "https://[::ffff:127.0.0.1]/", "https://2130706433/", "https://0x7f.1/", "https://intern/"),
        *(f" {URL}", f"{URL}\n", "https://hooks.acme.example/\\@10.0.0.7/", "https://" + "x" * 2000),
    ],
)
def test_an_address_that_must_not_be_called_is_refused_in_words(api: ApiClient, webhook: Webhook, url: str) -> None:
    assert problem(create(api, url=url), 400, "invalid", "url")["errors"]["url"][0]
    problem(api.request("PATCH", address(webhook), {"url": url}), 400, "invalid", "url")
    webhook.refresh_from_db()
    assert (webhook.url, Webhook.objects.count()) == (URL, 1)


@pytest.mark.parametrize("url", ["http://127.0.0.1:9000/hook", "http://hooks/", "https://10.0.0.7/"])
def test_an_operator_may_allow_private_addresses(api: ApiClient, settings: Any, url: str) -> None:
    settings.WEBHOOK_ALLOW_PRIVATE = True
    assert create(api, url=url).json()["url"] == url


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *(("url", value) for value in (None, 5, [], {}, True)),
        *(("description", value) for value in (None, 5, "x" * 201, ["x"])),
        *(("events", value) for value in (None, "checkpoint.resolved", {}, [None], [5], ["checkpoint.*"])),
        *(("events", value) for value in (["checkpoint.resolved"] * 2, ["run.failed"] * 5000, [["run.failed"]])),
        *(("secret", "whsec_mine"), ("tenant_id", "globex"), ("id", "1"), ("failing_since", None)),
    ],
)
def test_a_wrong_field_is_named(api: ApiClient, webhook: Webhook, field: str, value: Any) -> None:
    problem(create(api, **{field: value}), 400, "invalid", field)
    problem(api.request("PATCH", address(webhook), {field: value}), 400, "invalid", field)
    assert Webhook.objects.get().secret == webhook.secret


@pytest.mark.parametrize("value", [None, 1, "true", []])
def test_active_is_true_or_false(api: ApiClient, webhook: Webhook, value: Any) -> None:
    problem(api.request("PATCH", address(webhook), {"is_active": value}), 400, "invalid", "is_active")


def test_an_address_is_needed(api: ApiClient) -> None:
    problem(api.request("POST", "/webhooks", {}), 400, "invalid", "url")


def test_where_nothing_can_be_said_a_field_is_unknown(api: ApiClient, webhook: Webhook, given_up: Delivery) -> None:
    paths = [address(webhook, name) for name in POSTS] + [address(webhook, "deliveries", given_up.pk, "redeliver")]
    for path in paths:
        problem(api.request("POST", path, {"url": URL}), 400, "invalid", "url")
        assert api.request("POST", path, raw=b"").status_code < 300


@pytest.mark.parametrize(
    ("raw", "status"),
    [
        *((b"{", 400), (b"nonsense", 400), (b"[]", 400), (b"null", 400), (b'"text"', 400), (b'{"url": "\xff"}', 400)),
        *((b'{"url": "a", "url": "b"}', 400), (b'{"description": NaN}', 400), (b'{"description": 1e400}', 400)),
        *((b'{"description": "\\u0000"}', 400), (b'{"description": "\\ud800"}', 400), (b'{"\\u0000": 1}', 400)),
        *((b'{"url": "https://hooks.acme.example/\\u0000"}', 400), (b"[" * 40 + b"]" * 40, 413)),
        (b'{"description": "' + b"x" * 5_000_000 + b'"}', 413),
    ],
)
def test_a_body_that_cannot_be_is_refused_everywhere(
    api: ApiClient, webhook: Webhook, given_up: Delivery, raw: bytes, status: int
) -> None:
    for method, path, body in requests_of(webhook, given_up):
        if body is not None:
            problem(api.request(method, path, raw=raw), status, "invalid" if status == 400 else "too_large")
    assert (Webhook.objects.count(), Delivery.objects.count()) == (1, 1)


def test_anything_but_json_is_an_unsupported_type(api: ApiClient, webhook: Webhook, given_up: Delivery) -> None:
    for method, path, body in requests_of(webhook, given_up):
        if body is not None:
            response = api.request(method, path, raw=b"url=x", content_type="application/x-www-form-urlencoded")
            problem(response, 415, "unsupported_media_type")


def test_a_mangled_id_is_not_there(api: ApiClient) -> None:
    for identity in ("zz", "1", "%00", "../checkpoints"):
        problem(api.request("GET", f"/webhooks/{identity}"), 404, "not_found")


# --- Repeats --------------------------------------------------------------------------------------------------------


def test_every_post_can_be_repeated_and_has_one_effect(api: ApiClient, webhook: Webhook, given_up: Delivery) -> None:
    for method, path, body in requests_of(webhook, given_up):
        if method != "POST":
            continue
        first, second = (api.request(method, path, body, Idempotency_Key="k1") for _ in range(2))
        assert first.status_code == second.status_code < 300
        assert first.content == second.content
        problem(api.request(method, path, {"x": 1}, Idempotency_Key="k1"), 422, "idempotency_mismatch")
    assert (Webhook.objects.count(), Delivery.objects.count(), StoredAnswer.objects.count()) == (2, 2, 4)


def test_a_repeated_rotation_gets_the_secret_that_was_made(api: ApiClient, webhook: Webhook) -> None:
    path = address(webhook, "rotate-secret")
    secrets = {api.request("POST", path, {}, Idempotency_Key="k").json()["secret"] for _ in range(3)}
    webhook.refresh_from_db()
    assert secrets == {webhook.secret}


def test_what_was_refused_is_not_stored(api: ApiClient) -> None:
    body = {"url": "https://10.0.0.7/"}
    problem(api.request("POST", "/webhooks", body, Idempotency_Key="k"), 400, "invalid", "url")
    assert api.request("POST", "/webhooks", {"url": URL}, Idempotency_Key="k").status_code == 201


@pytest.mark.both_databases
@pytest.mark.django_db(transaction=True)
def test_copies_that_arrive_together_have_one_effect_and_the_limit_holds(acme: Tenant, program: Actor) -> None:
    """Three processes: the same fifteen requests, and then each its own, of which five fit."""
    secret = keys.create(acme, name="agent").secret
    webhook = webhooks.create(actor=program, url=URL)
    shared: list[Any] = [["/webhooks", f"new-{n}", {"url": URL}] for n in range(14)]
    shared.append([address(webhook, "rotate-secret"), "rotate", {}])
    with Race() as race:
        for number in range(3):
            own = [["/webhooks", f"own-{number}-{n}", {"url": URL}] for n in range(4)]
            race.enter("repeat", secret=secret, requests=[*shared, *own])
        race.start(laps=19)
        told = [racer.result() for racer in race.racers]
    for place in range(15):
        assert len({json.dumps(answer[place]) for answer in told}) == 1
    own_answers = [answer[place][0] for answer in told for place in range(15, 19)]
    assert sorted(own_answers) == [201] * 5 + [400] * 7
    assert Webhook.objects.count() == webhooks.MOST_WEBHOOKS
