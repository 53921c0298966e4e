"""POST /v1/checkpoints: what a program may say, and what comes back."""

import json
import uuid
from collections.abc import Callable
from datetime import datetime
from typing import Any

import pytest
import time_machine

from checkpoints import lifecycle
from checkpoints.models import Checkpoint, Event
from tenants.actors import Actor
from tenants.models import Core, Group, Tenant, User
from tests.api_client import ApiClient, problem

pytestmark = pytest.mark.django_db

EXAMPLE: dict[str, Any] = {
    "core_id": "refund-agent",
    "execution_id": "exec-81f2",
    "flow_name": "refund",
    "block_index": 4,
    "checkpoint_type": "approval",
    "prompt": "Refund **EUR 1,240** to Acme?",
    "options": [
        {"id": "approve", "label": "Approve", "variant": "primary"},
        {"id": "reject", "requires_comment": True},
    ],
    "assignee": "group:finance",
    "priority": "high",
    "context": {"order": {"id": 991, "total": 1240}},
    "timeout": "24h",
    "expiry_action": "escalate",
    "escalation_target": "role:tenant_admin",
    "reminder_interval_m": 60,
}
LATER = [
    "state",
    "state_base64",
    "state_ref",
    "hitl_spec",
    "hitl_target",
]


def nothing_was_written() -> bool:
    return not (Checkpoint.objects.exists() or Event.objects.exists() or Core.objects.exists())


@time_machine.travel("2030-01-31T12:00:00Z", tick=False)
def test_each_field_of_the_documented_example_comes_back(api: ApiClient, finance: Group) -> None:
    response = api.request("POST", "/checkpoints", EXAMPLE)

    assert response.status_code == 201
    row = response.json()
    for name in EXAMPLE.keys() - {"assignee", "timeout"}:
        assert row[name] == EXAMPLE[name], name
    assert row["tenant_id"] == "acme"
    assert row["status"] == "pending"
    assert row["assignee_raw"] == "group:finance"
    assert (row["assignee_type"], row["assignee_value"]) == ("group", "finance")
    assert row["assignee_resolved"] == {"type": "group", "value": "finance", "reason": None}
    assert (row["timeout_raw"], row["window_s"]) == ("24h", 86400)
    assert row["expires_at"] == "2030-02-01T12:00:00.000000Z"
    assert row["next_reminder_at"] == "2030-01-31T13:00:00.000000Z"
    assert row["created_at"] == "2030-01-31T12:00:00.000000Z"
    assert row["created_by"] == "key:ci"
    assert row["links"]["decide"] == f"http://testserver/decide/{row['id']}"


def test_the_remaining_fields_come_back_too(api: ApiClient, approver: User) -> None:
    given = {
        "node_id": "n-4",
        "instance_key": "order-991",
        "routing": "external",
        "options": ["approve", "reject"],
        "default_option": "reject",
        "hitl_message_id": "m-17",
        "forbid_requester": True,
        "escalation_chain": ["group:finance", "role:tenant_admin"],
        "escalation_target": "user:approver@acme.example",
        "expiry_action": "escalate",
        "expires_at": "2035-01-31T12:00:00.000000Z",
    }
    with time_machine.travel("2030-01-31T12:00:00Z"):
        row = api.create(**given, requested_by="user:Approver@Acme.Example").json()

    assert {name: row[name] for name in given} == given
    assert row["requested_by"] == "approver@acme.example"


def test_the_answer_says_where_the_row_is_and_which_version_it_has(api: ApiClient, acme: Tenant) -> None:
    response = api.create()

    assert response["ETag"] == '"1"'
    assert response["Location"] == f"/v1/checkpoints/{response.json()['id']}"
    assert api.client.get(response["Location"], headers=api.headers).json() == response.json()


def test_a_created_row_has_one_event_by_the_key(api: ApiClient, acme: Tenant) -> None:
    row = api.create(assignee="team:blue").json()

    (event,) = api.get(row["id"], "history").json()
    assert (event["event"], event["actor"], event["at"]) == ("created", "key:ci", row["created_at"])
    assert event["detail"]["assignee_raw"] == "team:blue"


@pytest.mark.parametrize("missing", ["core_id", "prompt"])
def test_core_and_prompt_are_required(api: ApiClient, acme: Tenant, missing: str) -> None:
    body = {"core_id": "refund-agent", "prompt": "Refund?"}
    del body[missing]

    problem(api.request("POST", "/checkpoints", body), 400, "invalid", missing)
    assert nothing_was_written()


@pytest.mark.parametrize("prompt", ["", "  \n\t "])
def test_a_blank_prompt_asks_nothing(api: ApiClient, acme: Tenant, prompt: str) -> None:
    problem(api.create(prompt=prompt), 400, "invalid", "prompt")


def test_a_breakpoint_needs_only_its_core(api: ApiClient, acme: Tenant) -> None:
    response = api.request("POST", "/checkpoints", {"core_id": "a", "checkpoint_type": "debug_breakpoint"})

    assert response.status_code == 201
    assert response.json()["prompt"] == ""


def test_assignee_raw_is_another_name_for_assignee(api: ApiClient, finance: Group) -> None:
    assert api.create(assignee_raw="group:finance").json()["assignee_value"] == "finance"


def test_both_names_of_the_assignee_at_once_are_refused(api: ApiClient, finance: Group) -> None:
    problem(api.create(assignee="group:finance", assignee_raw="group:finance"), 400, "invalid", "assignee_raw")


@pytest.mark.parametrize("assignee", [None, "", "   ", "team:blue", "group:nobody"])
def test_a_checkpoint_that_leads_to_nobody_is_kept_and_says_why(api: ApiClient, acme: Tenant, assignee: Any) -> None:
    row = api.create(assignee=assignee).json()

    assert row["assignee_type"] == "unrouted"
    assert row["assignee_resolved"]["reason"]


@pytest.mark.parametrize(
    ("timeout", "seconds"),
    [
        (90, 90),
        (90.0, 90),
        ("90", 90),
        ("15m", 900),
        ("24h", 86400),
        ("3d", 259200),
        ("PT24H", 86400),
        ("P1DT1M", 86460),
    ],
)
def test_a_timeout_has_many_spellings(api: ApiClient, acme: Tenant, timeout: Any, seconds: int) -> None:
    row = api.create(timeout=timeout).json()

    assert row["window_s"] == seconds
    span = datetime.fromisoformat(row["expires_at"]) - datetime.fromisoformat(row["created_at"])
    assert span.total_seconds() == seconds


@pytest.mark.parametrize(
    "timeout", [0, -5, "-15m", "0m", "soon", "", "24x", 1.5, True, [], {}, "P", "PT", "99999d", 10**11, 10**30]
)
def test_a_timeout_that_is_none_is_refused(api: ApiClient, acme: Tenant, timeout: Any) -> None:
    problem(api.create(timeout=timeout), 400, "invalid", "timeout")
    assert nothing_was_written()


def test_the_spelling_of_a_timeout_can_be_read_again_by_the_next_round(api: ApiClient, acme: Tenant) -> None:
    row = api.create(timeout=90.0, expiry_action="escalate", escalation_target="role:tenant_admin").json()

    assert row["timeout_raw"] == "90"


def test_a_deadline_is_absolute_or_relative_but_not_both(api: ApiClient, acme: Tenant) -> None:
    problem(api.create(expires_at="2035-01-01T00:00:00Z", timeout="1h"), 400, "invalid", "timeout")


def test_a_deadline_without_an_offset_is_utc(api: ApiClient, acme: Tenant) -> None:
    with time_machine.travel("2030-01-31T12:00:00Z"):
        assert api.create(expires_at="2030-02-01T08:00:00").json()["expires_at"] == "2030-02-01T08:00:00.000000Z"
        row = api.create(expires_at="2030-02-01T08:00:00+02:00").json()
    assert row["expires_at"] == "2030-02-01T06:00:00.000000Z"


@pytest.mark.parametrize("field", LATER)
def test_a_field_of_a_later_version_is_named_and_nothing_is_written(api: ApiClient, acme: Tenant, field: str) -> None:
    found = problem(api.create(**{field: {"any": "json"}}), 400, "invalid", field)

    assert found["errors"] == {field: ["Not available in this version."]}
    assert nothing_was_written()


@pytest.mark.parametrize(
    "field",
    [
        *("id", "pk", "tenant", "tenant_id", "core", "status", "created_by", "created_by_key", "resolution"),
        *("resolved_by", "row_version", "claimed_by", "event_head", "escalation_step", "assignee_type", "timeout_raw"),
    ],
)
def test_nobody_assigns_what_is_not_theirs_to_assign(api: ApiClient, acme: Tenant, globex: Tenant, field: str) -> None:
    problem(api.create(**{field: str(globex.pk)}), 400, "invalid", field)
    assert nothing_was_written()


def test_an_unknown_field_is_named_along_with_the_known_ones(api: ApiClient, acme: Tenant) -> None:
    found = problem(api.create(promt="Refund?"), 400, "invalid", "promt")

    assert "prompt" in found["errors"]["promt"][0]


def test_every_fault_is_reported_at_once(api: ApiClient, acme: Tenant) -> None:
    response = api.create(priority="urgent", block_index=-1, nonsense=1, state={})

    problem(response, 400, "invalid", "priority", "block_index", "nonsense", "state")


def test_a_body_full_of_unknown_fields_gets_a_short_answer(api: ApiClient, acme: Tenant) -> None:
    response = api.create(**{f"field-{number}": 1 for number in range(50_000)})

    problem(response, 400, "invalid", "field-0")
    assert len(response.content) < 50_000


def test_a_core_not_seen_before_is_made_on_first_use_and_used_again(api: ApiClient, acme: Tenant) -> None:
    assert api.create(core_id="new-agent").json()["core_id"] == "new-agent"
    assert api.create(core_id="new-agent").status_code == 201

    assert Core.objects.for_tenant(acme).filter(slug="new-agent").count() == 1


def test_the_same_core_name_in_two_tenants_means_two_cores(
    api: ApiClient, outsider_api: ApiClient, acme: Tenant
) -> None:
    api.create(core_id="shared")
    outsider_api.create(core_id="shared")

    assert sorted(Core.objects.filter(slug="shared").values_list("tenant__slug", flat=True)) == ["acme", "globex"]


@pytest.mark.parametrize("slug", ["", " ", "a b", "-a", "über", "🦊", "a" * 101, "a\n", "../x"])
def test_a_core_has_a_plain_name(api: ApiClient, acme: Tenant, slug: str) -> None:
    problem(api.create(core_id=slug), 400, "invalid", "core_id")
    assert nothing_was_written()


def test_people_do_not_create_checkpoints(api_of: Callable[[User], ApiClient], tenant_admin: User) -> None:
    found = problem(api_of(tenant_admin).create(), 403, "forbidden")

    assert "programs" in found["detail"]
    assert nothing_was_written()


def test_a_key_without_the_scope_does_not_create(with_scopes: Callable[..., ApiClient]) -> None:
    found = problem(with_scopes("checkpoints:read").create(), 403, "forbidden")

    assert "checkpoints:create" in found["detail"]
    assert nothing_was_written()


@pytest.mark.parametrize(
    "options",
    [
        "approve",
        {"id": "approve"},
        ["default"],
        [{"id": "default"}],
        ["approve", "approve"],
        ["approve", {"id": "approve"}],
        [""],
        [None],
        [{"label": "no id"}],
        [{"id": "a", "colour": "red"}],
        [{"id": "a", "label": 5}],
        [{"id": "a", "requires_comment": "yes"}],
        [[]],
        ["a" * 101],
        [str(number) for number in range(101)],
    ],
)
def test_options_that_cannot_be_offered_are_refused(api: ApiClient, acme: Tenant, options: Any) -> None:
    problem(api.create(options=options), 400, "invalid", "options")


def test_the_default_option_is_one_of_the_options(api: ApiClient, acme: Tenant) -> None:
    found = problem(api.create(options=["yes", "no"], default_option="maybe"), 400, "invalid", "default_option")

    assert "yes, no" in found["errors"]["default_option"][0]


def test_escalation_needs_a_target_and_a_deadline(api: ApiClient, acme: Tenant) -> None:
    problem(api.create(expiry_action="escalate"), 400, "invalid", "escalation_target", "expiry_action")


def test_creating_its_replacement_cancels_the_older_one(api: ApiClient, refund: Checkpoint) -> None:
    newer = api.create(supersedes=str(refund.pk)).json()

    assert newer["supersedes"] == str(refund.pk)
    older = api.get(refund).json()
    assert (older["status"], older["close_reason"]) == ("cancelled", "superseded")
    assert api.get(refund, "history").json()[-1]["detail"]["superseded_by"] == newer["id"]


def test_a_finished_checkpoint_cannot_be_replaced(api: ApiClient, refund: Checkpoint, program: Actor) -> None:
    lifecycle.cancel(refund, actor=program)

    found = problem(api.create(supersedes=str(refund.pk)), 409, "already_cancelled")
    assert found["checkpoint"]["id"] == str(refund.pk)
    assert Checkpoint.objects.count() == 1


def test_superseding_a_foreign_checkpoint_reads_like_superseding_none(
    outsider_api: ApiClient, refund: Checkpoint
) -> None:
    foreign = problem(outsider_api.create(supersedes=str(refund.pk)), 400, "invalid", "supersedes")
    unknown = problem(outsider_api.create(supersedes=str(uuid.uuid4())), 400, "invalid", "supersedes")

    assert foreign | {"request_id": ""} == unknown | {"request_id": ""}
    refund.refresh_from_db()
    assert refund.is_pending


def test_a_key_that_only_creates_does_not_supersede_what_others_created(
    with_scopes: Callable[..., ApiClient], refund: Checkpoint
) -> None:
    problem(with_scopes("checkpoints:create").create(supersedes=str(refund.pk)), 403, "forbidden")

    refund.refresh_from_db()
    assert refund.is_pending


def test_any_json_can_be_attached(api: ApiClient, acme: Tenant) -> None:
    for context in ({"a": [1, 2.5, None, True, {"ключ": "😀"}]}, [], "text", 0, False, None, 10**40, 1e300):
        row = api.create(context=context).json()
        assert json.dumps(api.get(row["id"]).json()["context"]) == json.dumps(context)


@pytest.mark.parametrize(
    "fields",
    [{"assignee": "group:finance", "required_approvals": 9}, {"assignee": "a@b.example", "required_approvals": 2}],
)
def test_a_create_that_is_refused_leaves_no_core_behind(api: ApiClient, finance: Group, fields: dict[str, Any]) -> None:
    assert api.create(core_id="ghost", **fields).status_code == 400
    assert not Core.objects.filter(slug="ghost").exists()


def test_a_context_is_bounded_because_pages_show_it(api: ApiClient) -> None:
    assert api.create(context={"a": "x" * 200_000}).status_code == 201
    response = api.create(context={"a": "x" * 300_000})
    assert (response.status_code, response.json()["code"]) == (413, "too_large")
    assert "context" in response.json()["detail"]
