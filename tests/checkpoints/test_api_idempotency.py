"""Safe repeats: one key, one effect, one answer."""

import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
import time_machine
from django.db import IntegrityError, OperationalError
from django.utils import timezone

from checkpoints import idempotency, lifecycle
from checkpoints.models import Checkpoint, Event, StoredAnswer
from tenants import keys, statements
from tenants.models import ApiKey, Tenant, User
from tests.api_client import ApiClient
from tests.racing import Race

pytestmark = pytest.mark.django_db
CREATE = {"core_id": "refund-agent", "prompt": "Refund?"}


def post(api: ApiClient, key: str, body: Any = None, path: str = "/checkpoints") -> Any:
    return api.request("POST", path, CREATE if body is None else body, Idempotency_Key=key)


def test_a_create_sent_twice_makes_one_checkpoint_and_the_same_bytes(api: ApiClient) -> None:
    first, second = post(api, "k1"), post(api, "k1")
    assert first.status_code == second.status_code == 201
    assert first.content == second.content
    for header in ("ETag", "Location", "Content-Type"):
        assert first[header] == second[header]
    assert (Checkpoint.objects.count(), Event.objects.count()) == (1, 1)


def test_another_key_is_another_request(api: ApiClient) -> None:
    assert post(api, "k1").json()["id"] != post(api, "k2").json()["id"]
    # Keys are told apart byte for byte, on both databases.
    assert len({post(api, key).json()["id"] for key in ("AbC", "aBc", "abc")}) == 3


def test_the_same_key_with_another_body_is_refused(api: ApiClient) -> None:
    post(api, "k1")
    response = post(api, "k1", CREATE | {"prompt": "Refund more?"})
    assert response.status_code == 422
    assert response.json()["code"] == "idempotency_mismatch"
    assert Checkpoint.objects.count() == 1


def test_white_space_and_order_do_not_make_another_body(api: ApiClient) -> None:
    first = post(api, "k1")
    spaced = json.dumps(dict(reversed(CREATE.items())), indent=4)
    again = api.request("POST", "/checkpoints", raw=spaced, Idempotency_Key="k1")
    assert again.content == first.content


def test_every_mount_is_the_same_route(api: ApiClient) -> None:
    first = post(api, "k1")
    api.root = "/api/v1/scaicore"
    assert post(api, "k1").content == first.content


@pytest.mark.parametrize(
    ("command", "body"),
    [
        ("resolve", {"decision": "approve"}),
        ("cancel", {"reason": "no"}),
        ("reassign", {"assignee": "role:tenant_admin"}),
        ("claim", {"for": "approver@acme.example"}),
        ("extend", {"timeout": "9d"}),
        ("remind", {}),
        ("comment", {"text": "hello"}),
    ],
)
def test_every_command_can_be_repeated(
    api: ApiClient, ask: Callable[..., Checkpoint], finance: Any, command: str, body: dict[str, Any]
) -> None:
    row = ask(assignee="group:finance", options=["approve"], timeout="1d")
    first = post(api, "k1", body, f"/checkpoints/{row.pk}/{command}")
    assert first.status_code == 200
    lifecycle_count = Event.objects.count()
    assert post(api, "k1", body, f"/checkpoints/{row.pk}/{command}").content == first.content
    assert Event.objects.count() == lifecycle_count


def test_a_repeat_gets_the_first_answer_whatever_became_of_the_row(
    api: ApiClient, ask: Callable[..., Checkpoint], program: Any
) -> None:
    row = ask()
    path = f"/checkpoints/{row.pk}/comment"
    first = post(api, "k1", {"text": "hello"}, path)
    lifecycle.cancel(Checkpoint.objects.get(pk=row.pk), actor=program)
    assert post(api, "k1", {"text": "hello"}, path).content == first.content


def test_a_repeat_is_not_stopped_by_the_version_it_moved(api: ApiClient, ask: Callable[..., Checkpoint]) -> None:
    row = ask()
    answers = [
        api.request("POST", f"/checkpoints/{row.pk}/comment", {"text": "x"}, Idempotency_Key="k", If_Match='"1"')
        for _ in range(2)
    ]
    assert [answer.status_code for answer in answers] == [200, 200]


def test_what_was_refused_is_not_stored_and_may_be_repeated(api: ApiClient, ask: Callable[..., Checkpoint]) -> None:
    row = ask(options=["approve"])
    path = f"/checkpoints/{row.pk}/resolve"
    assert post(api, "k1", {"decision": "perhaps"}, path).status_code == 400
    assert not StoredAnswer.objects.exists()
    assert post(api, "k1", {"decision": "approve"}, path).status_code == 200


def test_keys_of_two_credentials_and_two_tenants_do_not_meet(
    api: ApiClient, outsider_api: ApiClient, with_scopes: Callable[..., ApiClient]
) -> None:
    answers = {post(client, "k1").json()["id"] for client in (api, outsider_api, with_scopes("checkpoints:create"))}
    assert len(answers) == 3


def test_a_rotated_key_may_repeat_what_the_old_one_began(acme: Tenant) -> None:
    made = keys.create(acme, name="agent")
    first = post(ApiClient(secret=made.secret), "k1")
    successor = keys.rotate(ApiKey.objects.get(pk=made.row.pk))
    assert post(ApiClient(secret=successor.secret), "k1").content == first.content


def test_a_person_can_repeat_as_well(api_of: Callable[[User], ApiClient], approver: User, refund: Checkpoint) -> None:
    browser = api_of(approver)
    path = f"/checkpoints/{refund.pk}/reassign"
    body = {"assignee": "colleague@acme.example"}
    first = post(browser, "k1", body, path)
    assert first.status_code == 200
    # By now it is somebody else's; the answer to the same request is still the same.
    assert post(browser, "k1", body, path).content == first.content


@pytest.mark.parametrize("key", ["", "x" * 256, "ü", "a\tb"])
def test_a_key_that_makes_no_sense_is_refused_by_name(api: ApiClient, key: str) -> None:
    response = post(api, key)
    assert response.status_code == 400
    assert "Idempotency-Key" in response.json()["errors"]


def test_after_a_day_the_key_is_free_again(api: ApiClient) -> None:
    first = post(api, "k1")
    with time_machine.travel(timezone.now() + timedelta(hours=25), tick=False):
        assert post(api, "k1").json()["id"] != first.json()["id"]
    with time_machine.travel(timezone.now() + timedelta(hours=23), tick=False):
        assert idempotency.forget() == 0
    with time_machine.travel(timezone.now() + timedelta(hours=50), tick=False):
        assert idempotency.forget() == 1
    assert not StoredAnswer.objects.exists()


@pytest.mark.django_db(transaction=True)
def test_an_answer_that_cannot_be_stored_takes_its_effect_with_it(
    api: ApiClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(row: Any) -> None:
        if isinstance(row, StoredAnswer):
            raise IntegrityError("the disk is full")
        statements.insert(row)

    monkeypatch.setattr("checkpoints.lifecycle.creating.insert", broken)
    with pytest.raises(IntegrityError):
        post(api, "k1")
    assert not Checkpoint.objects.exists()


@pytest.mark.django_db(transaction=True)
def test_a_deadlock_while_storing_repeats_the_whole_and_nothing_else(
    api: ApiClient, refund: Checkpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    failures = [1213, 1205, 1020]

    def shaky(row: Any) -> None:
        statements.insert(row)
        if isinstance(row, StoredAnswer) and failures:
            raise OperationalError(failures.pop(), "try again")

    monkeypatch.setattr("checkpoints.lifecycle.change.insert", shaky)
    response = post(api, "k1", {"decision": "approve"}, f"/checkpoints/{refund.pk}/resolve")
    assert response.status_code == 200
    refund.refresh_from_db()
    assert refund.status == "resolved"
    assert [event.type for event in Event.objects.filter(subject_id=refund.pk).order_by("sequence")] == [
        "checkpoint.created",
        "checkpoint.resolved",
    ]
    assert StoredAnswer.objects.count() == 1


@pytest.mark.both_databases
@pytest.mark.django_db(transaction=True)
def test_copies_that_arrive_together_have_one_effect_and_one_answer(
    acme: Tenant, ask: Callable[..., Checkpoint]
) -> None:
    """Five processes send each request at the same moment: creates, and decisions on rows that all of them see."""
    secret = keys.create(acme, name="agent").secret
    rows = [ask(options=["approve"]) for _ in range(15)]
    requests: list[Any] = [["/checkpoints", f"create-{n}", CREATE | {"prompt": f"Refund {n}?"}] for n in range(15)]
    requests += [[f"/checkpoints/{row.pk}/resolve", "decide", {"decision": "approve"}] for row in rows]
    with Race() as race:
        for _ in range(5):
            race.enter("repeat", secret=secret, requests=requests)
        race.start(laps=len(requests))
        told = [racer.result() for racer in race.racers]
    for place, request in enumerate(requests):
        answers = {json.dumps(answer[place]) for answer in told}
        assert len(answers) == 1, (request, answers)
        assert told[0][place][0] == (201 if place < 15 else 200)
    assert Checkpoint.objects.count() == 30
    assert Event.objects.filter(type="checkpoint.resolved").count() == 15
    assert StoredAnswer.objects.count() == 30


@pytest.mark.both_databases
@pytest.mark.django_db(transaction=True)
def test_of_two_bodies_under_one_key_at_the_same_moment_one_is_refused(acme: Tenant) -> None:
    secret = keys.create(acme, name="agent").secret
    with Race() as race:
        for body in ("Refund?", "Pay?"):
            requests = [["/checkpoints", f"k{n}", CREATE | {"prompt": body}] for n in range(10)]
            race.enter("repeat", secret=secret, requests=requests)
        race.start(laps=10)
        told = [racer.result() for racer in race.racers]
    for place in range(10):
        assert sorted(answer[place][0] for answer in told) == [201, 422]
    assert Checkpoint.objects.count() == 10


def test_a_vote_sent_twice_shows_itself_both_times(
    api: ApiClient, api_of: Callable[[User], ApiClient], approver: User, colleague: User
) -> None:
    made = api.create(assignee="group:finance", options=["approve"], required_approvals=2).json()
    first = post(api_of(approver), "k1", {"decision": "approve"}, f"/checkpoints/{made['id']}/resolve")
    assert first.json()["quorum"]["approvals"] == 1
    again = post(api_of(approver), "k1", {"decision": "approve"}, f"/checkpoints/{made['id']}/resolve")
    assert again.content == first.content
