"""Every command over HTTP: what it answers, to whom it refuses, and how."""

import json
import uuid
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
import time_machine
from django.db import InterfaceError, OperationalError
from django.test import Client
from django.utils import timezone

from checkpoints import errors, lifecycle
from checkpoints.models import Checkpoint, Event
from tenants import keys, setup
from tenants.actors import Actor
from tenants.models import Group, Membership, Tenant, User
from tests.api_client import ApiClient, problem

pytestmark = pytest.mark.django_db

MOUNTS = ["/v1", "/v1/modules/scaicore", "/v1/scaicore", "/api/v1/scaicore"]
# command → a body that works on the refund, the scope it needs
COMMANDS: dict[str, tuple[dict[str, Any], str]] = {
    "resolve": ({"decision": "approve"}, "checkpoints:resolve"),
    "cancel": ({"reason": "no longer needed"}, "checkpoints:manage"),
    "reassign": ({"assignee": "group:finance", "comment": "yours"}, "checkpoints:manage"),
    "claim": ({"for": "approver@acme.example"}, "checkpoints:resolve"),
    "release": ({"for": "approver@acme.example"}, "checkpoints:resolve"),
    "extend": ({"timeout": "3d"}, "checkpoints:manage"),
    "remind": ({}, "checkpoints:manage"),
    "comment": ({"text": "Which invoice?"}, "checkpoints:resolve"),
}
each_command = pytest.mark.parametrize("command", COMMANDS)
ALL_BUT = {scope: [other for other in keys.known.ALL if other != scope] for scope in keys.known.ALL}


@pytest.fixture
def waiting(ask: Callable[..., Checkpoint], finance: Group) -> Checkpoint:
    """Ready for each command: assigned to a group, claimed, with a deadline."""
    return ask(assignee="group:finance", options=["approve", "reject"], timeout="1d")


@pytest.fixture
def ready(waiting: Checkpoint, api: ApiClient) -> Callable[[str], Checkpoint]:
    def prepare(command: str) -> Checkpoint:
        if command == "release":
            assert api.command(waiting, "claim", {"for": "approver@acme.example"}).status_code == 200
        return waiting

    return prepare


def events_of(row: Checkpoint) -> int:
    return Event.objects.filter(subject_id=row.pk).count()


@each_command
def test_a_command_answers_with_the_row_as_it_is_now(
    api: ApiClient, ready: Callable[[str], Checkpoint], command: str
) -> None:
    row = ready(command)
    before = api.get(row).json()

    response = api.command(row, command, COMMANDS[command][0])

    assert response.status_code == 200, response.content
    after = response.json()
    assert after["row_version"] == before["row_version"] + 1
    assert after["event_count"] == before["event_count"] + 1
    assert response["ETag"] == f'"{after["row_version"]}"'
    assert api.get(row).json() == after


@each_command
def test_a_key_without_the_scope_is_refused_before_any_look_at_the_id(
    with_scopes: Callable[..., ApiClient], ready: Callable[[str], Checkpoint], command: str
) -> None:
    body, scope = COMMANDS[command]
    scopes = ALL_BUT[scope] if command != "cancel" else ["checkpoints:read", "checkpoints:resolve"]
    narrow = with_scopes(*scopes)
    row = ready(command)
    written = events_of(row)

    known = problem(narrow.command(row, command, body), 403, "forbidden")
    unknown = problem(narrow.command(str(uuid.uuid4()), command, body), 403, "forbidden")

    assert scope in known["detail"]
    assert known | {"request_id": ""} == unknown | {"request_id": ""}
    assert events_of(row) == written


@pytest.mark.parametrize("part", ["", "history"])
def test_reading_needs_its_scope_too(with_scopes: Callable[..., ApiClient], refund: Checkpoint, part: str) -> None:
    narrow = with_scopes(*ALL_BUT["checkpoints:read"])

    assert problem(narrow.get(refund, part), 403, "forbidden")["detail"].endswith("checkpoints:read.")
    problem(narrow.get(str(uuid.uuid4()), part), 403, "forbidden")
    problem(narrow.list(), 403, "forbidden")


@each_command
def test_a_foreign_checkpoint_reads_exactly_like_one_that_never_existed(
    outsider_api: ApiClient, ready: Callable[[str], Checkpoint], command: str
) -> None:
    row, body = ready(command), COMMANDS[command][0]
    written = events_of(row)
    named = {"X_Request_ID": "the-same"}

    foreign = outsider_api.command(row, command, body, **named)
    unknown = outsider_api.command(str(uuid.uuid4()), command, body, **named)

    problem(foreign, 404, "not_found")
    assert foreign.content == unknown.content
    assert {*foreign.headers.items()} == {*unknown.headers.items()}
    assert events_of(row) == written


@pytest.mark.parametrize("part", ["", "history"])
def test_a_foreign_checkpoint_cannot_be_read_either(outsider_api: ApiClient, refund: Checkpoint, part: str) -> None:
    foreign = outsider_api.get(refund, part, X_Request_ID="the-same")

    problem(foreign, 404, "not_found")
    assert foreign.content == outsider_api.get(str(uuid.uuid4()), part, X_Request_ID="the-same").content


@each_command
@pytest.mark.parametrize("ending", ["resolved", "cancelled", "expired"])
def test_a_finished_checkpoint_refuses_with_its_outcome(
    api: ApiClient, ready: Callable[[str], Checkpoint], program: Actor, command: str, ending: str
) -> None:
    row = ready(command)
    finish(row, ending, program)

    response = api.command(row, command, COMMANDS[command][0])

    found = problem(response, 409, f"already_{ending}")
    assert found["checkpoint"] == api.get(row).json()
    assert found["checkpoint"]["status"] == ending
    assert response["ETag"] == f'"{found["checkpoint"]["row_version"]}"'


def finish(row: Checkpoint, ending: str, program: Actor) -> None:
    row.refresh_from_db()
    if ending == "resolved":
        lifecycle.resolve(row, actor=program, answer=lifecycle.deciding.answers.Answer("reject"))
    elif ending == "cancelled":
        lifecycle.cancel(row, actor=program)
    else:
        lifecycle.expire_batch(at=timezone.now() + timedelta(days=2), size=10)


# --- Deciding -----------------------------------------------------------------------------------------------------


def test_resolution_is_another_name_for_decision(api: ApiClient, refund: Checkpoint) -> None:
    row = api.command(refund, "resolve", {"resolution": "approve", "comment": "fine"}).json()

    assert row["resolution"] == {"decision": "approve", "response": None, "comment": "fine", "via": "api"}
    assert row["resolved_by"] == "key:ci"


def test_both_names_of_the_decision_at_once_are_refused(api: ApiClient, refund: Checkpoint) -> None:
    body = {"resolution": "approve", "decision": "reject"}

    problem(api.command(refund, "resolve", body), 400, "invalid", "resolution")


def test_an_unknown_option_is_refused_with_the_known_ones(api: ApiClient, refund: Checkpoint) -> None:
    found = problem(api.resolve(refund, "perhaps"), 400, "invalid_decision", "decision")

    assert "approve, reject" in found["errors"]["decision"][0]
    assert api.get(refund).json()["status"] == "pending"


@pytest.mark.parametrize("decision", ["default", "", "  ", "APPROVE", "approve "])
def test_a_decision_is_an_option_exactly(api: ApiClient, refund: Checkpoint, decision: str) -> None:
    problem(api.resolve(refund, decision), 400, "invalid_decision", "decision")


def test_the_same_decision_delivered_twice_has_one_effect(api: ApiClient, refund: Checkpoint) -> None:
    first = api.resolve(refund, "approve", comment="fine")
    second = api.resolve(refund, "approve", comment="fine")

    assert (first.status_code, second.status_code) == (200, 200)
    assert first.content == second.content
    assert first["ETag"] == second["ETag"]
    assert events_of(refund) == 2


@pytest.mark.parametrize("changed", [{"decision": "reject"}, {"comment": "other"}, {"response": "other"}])
def test_another_decision_by_the_same_key_is_too_late(
    api: ApiClient, refund: Checkpoint, changed: dict[str, str]
) -> None:
    first = {"decision": "approve", "comment": "fine"}
    api.command(refund, "resolve", first)

    found = problem(api.command(refund, "resolve", first | changed), 409, "already_resolved")
    assert "key:ci chose “approve”" in found["detail"]


def test_a_key_of_another_name_repeats_nobody_elses_decision(
    api: ApiClient, with_scopes: Callable[..., ApiClient], refund: Checkpoint
) -> None:
    api.resolve(refund)

    problem(with_scopes("checkpoints:resolve").resolve(refund), 409, "already_resolved")


def test_the_slower_of_two_approvers_hears_who_decided_what(
    api_of: Callable[[User], ApiClient], approver: User, colleague: User, refund: Checkpoint
) -> None:
    assert api_of(approver).resolve(refund, "approve").status_code == 200

    found = problem(api_of(colleague).resolve(refund, "reject"), 409, "already_resolved")
    assert "user:approver@acme.example chose “approve”" in found["detail"]
    assert found["checkpoint"]["resolution"]["decision"] == "approve"


def test_somebody_who_was_never_asked_hears_nothing_of_a_decision(
    api_of: Callable[[User], ApiClient], approver: User, bystander: User, refund: Checkpoint
) -> None:
    api_of(approver).resolve(refund, "approve")

    problem(api_of(bystander).resolve(refund, "reject"), 404, "not_found")


def test_an_admin_who_is_not_asked_overrides_and_that_is_on_record(
    api_of: Callable[[User], ApiClient], tenant_admin: User, refund: Checkpoint
) -> None:
    row = api_of(tenant_admin).resolve(refund).json()

    assert row["resolution"]["override"] is True
    assert row["resolved_by"] == "user:admin@acme.example"


def test_a_freeform_question_is_answered_in_words(api: ApiClient, ask: Callable[..., Checkpoint]) -> None:
    row = ask(checkpoint_type="freeform")

    problem(api.command(row, "resolve", {}), 400, "invalid_decision", "response")
    answered = api.command(row, "resolve", {"response": "Because 😀"}).json()
    assert answered["resolution"]["decision"] == "answered"
    assert answered["resolution"]["response"] == "Because 😀"


def test_an_option_that_requires_a_comment_refuses_a_blank_one(api: ApiClient, ask: Callable[..., Checkpoint]) -> None:
    row = ask(options=["approve", {"id": "reject", "requires_comment": True}])

    problem(api.resolve(row, "reject", comment="  "), 400, "invalid_decision", "comment")
    assert api.resolve(row, "reject", comment="too dear").status_code == 200


def test_arguments_cannot_be_edited_where_there_is_no_action(api: ApiClient, refund: Checkpoint) -> None:
    problem(api.resolve(refund, edited_args={"total": 1}), 400, "invalid_decision", "edited_args")


def test_a_response_is_words_or_fields(api: ApiClient, refund: Checkpoint) -> None:
    problem(api.resolve(refund, response=[1]), 400, "invalid", "response")
    assert api.resolve(refund, response={"total": 12}).json()["resolution"]["response"] == {"total": 12}


@pytest.mark.both_databases
def test_a_response_as_deep_as_allowed_is_kept_and_a_deeper_one_is_too_large(
    api: ApiClient, refund: Checkpoint
) -> None:
    def nested(levels: int) -> dict[str, Any]:
        return json.loads('{"a":' * levels + "1" + "}" * levels)  # type: ignore[no-any-return]

    problem(api.resolve(refund, response=nested(25)), 413, "too_large")
    assert api.resolve(refund, response=nested(24)).json()["resolution"]["response"] == nested(24)


# --- Cancelling ---------------------------------------------------------------------------------------------------


def test_a_key_that_only_creates_cancels_its_own_and_nothing_else(
    with_scopes: Callable[..., ApiClient], refund: Checkpoint
) -> None:
    creator = with_scopes("checkpoints:create")
    own = creator.create().json()["id"]

    assert creator.command(own, "cancel").json()["status"] == "cancelled"
    problem(creator.command(refund, "cancel"), 403, "forbidden")


def test_a_rotated_key_cancels_what_its_predecessor_created(acme: Tenant) -> None:
    old = keys.create(acme, name="agent", scopes=["checkpoints:create"])
    row = ApiClient(secret=old.secret).create().json()["id"]
    new = keys.rotate(old.row)

    assert ApiClient(secret=new.secret).command(row, "cancel").status_code == 200


def test_a_namesake_does_not_cancel_what_another_key_created(acme: Tenant) -> None:
    row = ApiClient(secret=keys.create(acme, name="agent", scopes=["checkpoints:create"]).secret).create().json()["id"]
    namesake = ApiClient(secret=keys.create(acme, name="agent", scopes=["checkpoints:create"]).secret)

    problem(namesake.command(row, "cancel"), 403, "forbidden")


# --- Claiming -----------------------------------------------------------------------------------------------------


def test_a_key_names_the_person_it_claims_for(api: ApiClient, refund: Checkpoint, approver: User) -> None:
    problem(api.command(refund, "claim"), 400, "invalid", "for")
    problem(api.command(refund, "claim", {"for": None}), 400, "invalid", "for")

    assert api.command(refund, "claim", {"for": " Approver@Acme.Example "}).json()["claimed_by"] == approver.email


def test_a_key_may_name_the_person_by_id(api: ApiClient, refund: Checkpoint, approver: User) -> None:
    assert api.command(refund, "claim", {"for": str(approver.pk)}).json()["claimed_by"] == approver.email


def test_a_key_does_not_claim_for_somebody_who_may_not(
    api: ApiClient, refund: Checkpoint, bystander: User, outsider: User
) -> None:
    problem(api.command(refund, "claim", {"for": bystander.email}), 403, "forbidden")
    foreign = problem(api.command(refund, "claim", {"for": outsider.email}), 400, "invalid", "for")
    nobody = problem(api.command(refund, "claim", {"for": "nobody@globex.example"}), 400, "invalid", "for")

    assert foreign["detail"].replace(outsider.email, "") == nobody["detail"].replace("nobody@globex.example", "")
    problem(api.command(refund, "claim", {"for": str(outsider.pk)}), 400, "invalid", "for")


def test_a_key_does_not_claim_for_somebody_who_left(api: ApiClient, refund: Checkpoint, approver: User) -> None:
    Membership.objects.filter(user=approver).update(is_active=False)

    problem(api.command(refund, "claim", {"for": approver.email}), 400, "invalid", "for")


def test_a_person_claims_for_themselves_alone(
    api_of: Callable[[User], ApiClient], refund: Checkpoint, approver: User, colleague: User
) -> None:
    browser = api_of(approver)

    member = problem(browser.command(refund, "claim", {"for": colleague.email}), 403, "forbidden")
    nobody = problem(browser.command(refund, "claim", {"for": "nobody@acme.example"}), 403, "forbidden")
    assert member | {"request_id": ""} == nobody | {"request_id": ""}

    assert browser.command(refund, "claim").json()["claimed_by"] == approver.email
    assert browser.command(refund, "release", {"for": approver.email.upper()}).json()["claimed_by"] is None


def test_while_one_has_it_the_other_is_refused_with_that_name(
    api_of: Callable[[User], ApiClient], refund: Checkpoint, approver: User, colleague: User
) -> None:
    api_of(approver).command(refund, "claim")

    for command, body in (("claim", {}), ("resolve", {"decision": "approve"})):
        found = problem(api_of(colleague).command(refund, command, body), 409, "claimed_by_other")
        assert approver.email in found["detail"]
        assert found["checkpoint"]["claimed_by"] == approver.email


def test_a_lapsed_claim_stops_nobody(
    api_of: Callable[[User], ApiClient], refund: Checkpoint, approver: User, colleague: User
) -> None:
    api_of(approver).command(refund, "claim")

    with time_machine.travel(timezone.now() + timedelta(minutes=61)):
        assert api_of(colleague).command(refund, "claim").json()["claimed_by"] == colleague.email


def test_what_is_assigned_to_one_person_is_not_claimable(
    api: ApiClient, ask: Callable[..., Checkpoint], approver: User
) -> None:
    row = ask(assignee=approver.email)

    found = problem(api.command(row, "claim", {"for": approver.email}), 409, "not_claimable")
    assert found["checkpoint"]["id"] == str(row.pk)


def test_an_admin_claims_what_is_assigned_to_nobody(
    api_of: Callable[[User], ApiClient], unrouted: Checkpoint, tenant_admin: User
) -> None:
    row = api_of(tenant_admin).command(unrouted, "claim").json()

    assert (row["assignee_type"], row["assignee_value"]) == ("user", tenant_admin.email)
    assert row["assignment_version"] == 2


def test_releasing_what_nobody_claimed_is_refused(api: ApiClient, refund: Checkpoint, approver: User) -> None:
    problem(api.command(refund, "release", {"for": approver.email}), 409, "not_claimable")


# --- The rest -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("body", [{}, {"timeout": "3d", "expires_at": "2040-01-01T00:00:00Z"}])
def test_extending_takes_one_deadline(api: ApiClient, waiting: Checkpoint, body: dict[str, str]) -> None:
    problem(api.command(waiting, "extend", body), 400, "invalid", "expires_at")


@pytest.mark.parametrize(
    ("field", "value"), [("timeout", "1h"), ("timeout", -60), ("expires_at", "2001-01-01T00:00:00Z"), ("timeout", "x")]
)
def test_a_deadline_only_moves_later(api: ApiClient, waiting: Checkpoint, field: str, value: Any) -> None:
    problem(api.command(waiting, "extend", {field: value}), 400, "invalid", field)


def test_a_checkpoint_without_a_deadline_has_none_to_extend(api: ApiClient, refund: Checkpoint) -> None:
    problem(api.command(refund, "extend", {"timeout": "3d"}), 400, "invalid", "timeout")


def test_what_somebody_outside_resumes_reminds_nobody(api: ApiClient, ask: Callable[..., Checkpoint]) -> None:
    found = problem(api.command(ask(routing="external"), "remind"), 409, "nobody_to_remind")

    assert found["checkpoint"]["reminder_count"] == 0


@pytest.mark.parametrize("body", [{}, {"text": ""}, {"text": " \n"}, {"text": None}])
def test_a_comment_says_something(api: ApiClient, refund: Checkpoint, body: dict[str, Any]) -> None:
    problem(api.command(refund, "comment", body), 400, "invalid", "text")


def test_a_comment_stays_in_the_history(api: ApiClient, refund: Checkpoint) -> None:
    api.command(refund, "comment", {"text": "Which invoice? 🧾"})

    last = api.get(refund, "history").json()[-1]
    assert (last["event"], last["actor"], last["detail"]) == ("commented", "key:ci", {"text": "Which invoice? 🧾"})


def test_reassigning_needs_to_hear_to_whom(api: ApiClient, refund: Checkpoint) -> None:
    problem(api.command(refund, "reassign", {}), 400, "invalid", "assignee")


@pytest.mark.parametrize("nobody", [None, "", "group:empty"])
def test_reassigning_to_nobody_puts_it_into_the_queue(api: ApiClient, refund: Checkpoint, nobody: str | None) -> None:
    assert api.command(refund, "reassign", {"assignee": nobody}).json()["assignee_type"] == "unrouted"


def test_handing_over_tells_nothing_about_who_is_a_member(
    api_of: Callable[[User], ApiClient], refund: Checkpoint, approver: User, outsider: User
) -> None:
    browser = api_of(approver)
    answers = [
        problem(browser.command(refund, "reassign", {"assignee": assignee}), 400, "invalid", "assignee")
        for assignee in (outsider.email, "nobody@acme.example", "group:finance", str(uuid.uuid4()))
    ]

    assert len({json.dumps(answer["errors"]) for answer in answers}) == 1


@pytest.mark.parametrize("command", ["cancel", "extend", "remind"])
def test_what_only_admins_do_is_refused_to_an_approver_in_words(
    api_of: Callable[[User], ApiClient], waiting: Checkpoint, approver: User, command: str
) -> None:
    found = problem(api_of(approver).command(waiting, command, COMMANDS[command][0]), 403, "forbidden")

    assert "Only a tenant admin" in found["detail"]


@each_command
def test_an_auditor_looks_and_does_not_touch(
    api_of: Callable[[User], ApiClient], waiting: Checkpoint, auditor: User, command: str
) -> None:
    body = {} if command in {"claim", "release"} else COMMANDS[command][0]

    problem(api_of(auditor).command(waiting, command, body), 403, "forbidden")
    assert api_of(auditor).get(waiting).status_code == 200


# --- If-Match and ETag --------------------------------------------------------------------------------------------


@each_command
def test_a_command_with_the_current_version_takes_effect(
    api: ApiClient, ready: Callable[[str], Checkpoint], command: str
) -> None:
    row = ready(command)
    tag = api.get(row)["ETag"]

    assert api.command(row, command, COMMANDS[command][0], If_Match=tag).status_code == 200


@each_command
def test_a_command_with_an_older_version_is_stale_and_shows_the_row(
    api: ApiClient, ready: Callable[[str], Checkpoint], command: str
) -> None:
    row = ready(command)
    tag = api.get(row)["ETag"]
    api.command(row, "comment", {"text": "in between"})
    written = events_of(row)

    response = api.command(row, command, COMMANDS[command][0], If_Match=tag)

    found = problem(response, 412, "stale")
    assert found["checkpoint"] == api.get(row).json()
    assert response["ETag"] == api.get(row)["ETag"]
    assert events_of(row) == written


@pytest.mark.parametrize("tag", ["*", '"1"', "1", '"7", "1"', ' "1" ', ""])
def test_these_match_the_first_version(api: ApiClient, refund: Checkpoint, tag: str) -> None:
    assert api.command(refund, "comment", {"text": "x"}, If_Match=tag).status_code == 200


@pytest.mark.parametrize(
    "tag", ['"2"', '"0"', '"01"', '"-1"', 'W/"1"', '""', "garbage", '"garbage"', '"²"', '"1', "1" * 5000, '"7", "8"']
)
def test_a_tag_that_was_never_given_out_matches_nothing(api: ApiClient, refund: Checkpoint, tag: str) -> None:
    problem(api.command(refund, "comment", {"text": "x"}, If_Match=tag), 412, "stale")


def test_a_decision_repeated_with_the_version_it_was_made_on_is_still_the_same_decision(
    api: ApiClient, refund: Checkpoint
) -> None:
    body, tag = {"decision": "approve"}, api.get(refund)["ETag"]

    assert api.command(refund, "resolve", body, If_Match=tag).status_code == 200
    assert api.command(refund, "resolve", body, If_Match=tag).status_code == 200


@pytest.mark.parametrize("tag", ['"1"', 'W/"1"', "*", '"9", "1"'])
def test_a_copy_that_is_still_current_is_not_sent_again(api: ApiClient, refund: Checkpoint, tag: str) -> None:
    response = api.get(refund, If_None_Match=tag)

    assert (response.status_code, response.content, response["ETag"]) == (304, b"", '"1"')


def test_a_copy_that_is_outdated_is_sent_again(api: ApiClient, refund: Checkpoint) -> None:
    api.command(refund, "comment", {"text": "x"})

    assert api.get(refund, If_None_Match='"1"').json()["row_version"] == 2


# --- When the database is away ------------------------------------------------------------------------------------


@pytest.mark.parametrize("error", [OperationalError(2006, "gone away"), InterfaceError("closed"), errors.Busy()])
def test_a_database_out_of_reach_is_unavailable_and_says_when_to_come_back(
    api: ApiClient, refund: Checkpoint, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise error

    monkeypatch.setattr(lifecycle, "resolve", fail)
    response = api.resolve(refund)

    assert "try again" in problem(response, 503, "unavailable")["detail"]
    assert int(response["Retry-After"]) > 0


# --- Who is asking ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "header", [None, "", "Bearer", "Bearer ", "Basic YTpi", "Bearer hp_00000000_nonsense", "Token x", "Bearer ü"]
)
def test_without_a_valid_key_nothing_is_said(refund: Checkpoint, header: str | None) -> None:
    stranger = ApiClient()
    if header is not None:
        stranger.headers = {"Authorization": header}

    for response in (stranger.get(refund), stranger.get(str(uuid.uuid4())), stranger.list(), stranger.resolve(refund)):
        problem(response, 401, "unauthenticated")
        assert response["WWW-Authenticate"] == 'Bearer realm="holdpoint"'
    refund.refresh_from_db()
    assert refund.is_pending


def test_expired_revoked_and_unknown_keys_get_the_same_sentence(acme: Tenant, refund: Checkpoint) -> None:
    expired = keys.create(acme, name="old", expires_at=timezone.now())
    revoked = keys.create(acme, name="gone")
    revoked.row.revoked_at = timezone.now()
    revoked.row.save()

    sentences = {
        problem(ApiClient(secret=secret).get(refund), 401, "unauthenticated")["detail"]
        for secret in (expired.secret, revoked.secret, keys.new_secret())
    }
    assert len(sentences) == 1


def test_the_scheme_is_read_in_any_case(api: ApiClient, refund: Checkpoint) -> None:
    api.headers["Authorization"] = api.headers["Authorization"].replace("Bearer ", "bEARER   ")

    assert api.get(refund).status_code == 200


def test_a_bad_key_is_not_excused_by_a_session(
    api_of: Callable[[User], ApiClient], refund: Checkpoint, approver: User
) -> None:
    browser = api_of(approver)
    browser.headers = {"Authorization": "Bearer nonsense"}

    problem(browser.get(refund), 401, "unauthenticated")


def test_a_session_needs_the_csrf_token_to_change_anything(refund: Checkpoint, approver: User) -> None:
    client = Client(enforce_csrf_checks=True)
    client.force_login(approver, backend="tenants.signin.EmailBackend")
    client.cookies["csrftoken"] = token = "a" * 32
    browser = ApiClient(browser=client)

    assert browser.get(refund).status_code == 200
    found = problem(browser.resolve(refund), 403, "forbidden")
    assert "CSRF" in found["detail"]
    problem(browser.command(refund, "resolve", {"decision": "approve"}, X_CSRFToken="b" * 32), 403, "forbidden")

    assert browser.command(refund, "resolve", {"decision": "approve"}, X_CSRFToken=token).status_code == 200


def test_a_key_needs_no_csrf_token(api: ApiClient, refund: Checkpoint) -> None:
    api.client = Client(enforce_csrf_checks=True)

    assert api.resolve(refund).status_code == 200


def test_a_session_posts_json_and_no_form(refund: Checkpoint, tenant_admin: User) -> None:
    client = Client(enforce_csrf_checks=True)
    client.force_login(tenant_admin, backend="tenants.signin.EmailBackend")
    client.cookies["csrftoken"] = token = "a" * 32
    path = f"/v1/checkpoints/{refund.pk}/cancel"

    for form in ({"content_type": "application/x-www-form-urlencoded", "data": "reason=x"}, {"data": {"reason": "x"}}):
        response = client.post(path, **form, headers={"X-CSRFToken": token})  # type: ignore[arg-type]
        problem(response, 415, "unsupported_media_type")
    refund.refresh_from_db()
    assert refund.is_pending


def test_a_disabled_person_has_no_session(
    api_of: Callable[[User], ApiClient], refund: Checkpoint, approver: User
) -> None:
    browser = api_of(approver)
    User.objects.filter(pk=approver.pk).update(is_active=False)

    problem(browser.get(refund), 401, "unauthenticated")


def test_a_person_removed_from_their_only_tenant_has_none(
    api_of: Callable[[User], ApiClient], refund: Checkpoint, approver: User
) -> None:
    browser = api_of(approver)
    Membership.objects.filter(user=approver).update(is_active=False)

    problem(browser.get(refund), 403, "forbidden")


def test_somebody_with_two_tenants_names_one(
    api_of: Callable[[User], ApiClient], refund: Checkpoint, approver: User, globex: Tenant
) -> None:
    setup.add_person(globex, approver.email, roles=["approver"])
    browser = api_of(approver)

    problem(browser.get(refund), 400, "invalid", "X-Tenant")
    assert browser.get(refund, X_Tenant="acme").json()["tenant_id"] == "acme"
    problem(browser.get(refund, X_Tenant="globex"), 404, "not_found")
    problem(browser.command(refund, "resolve", {"decision": "approve"}, X_Tenant="globex"), 404, "not_found")
    assert browser.command(refund, "resolve", {"decision": "approve"}, X_Tenant=" acme ").status_code == 200


def test_a_tenant_one_is_not_in_reads_like_one_that_does_not_exist(
    api_of: Callable[[User], ApiClient], refund: Checkpoint, approver: User, globex: Tenant
) -> None:
    browser = api_of(approver)

    foreign = browser.get(refund, X_Tenant="globex", X_Request_ID="the-same")
    unknown = browser.get(refund, X_Tenant="nowhere", X_Request_ID="the-same")
    problem(foreign, 404, "not_found")
    assert foreign.content == unknown.content


def test_a_key_stays_in_its_tenant_whatever_the_header_says(outsider_api: ApiClient, refund: Checkpoint) -> None:
    problem(outsider_api.get(refund, X_Tenant="acme"), 404, "not_found")
    problem(outsider_api.command(refund, "resolve", {"decision": "approve"}, X_Tenant="acme"), 404, "not_found")


def test_an_operator_without_a_membership_names_the_tenant(refund: Checkpoint, globex: Tenant) -> None:
    operator = User.objects.create_superuser("operator@example.com")
    client = Client()
    client.force_login(operator, backend="tenants.signin.EmailBackend")
    browser = ApiClient(browser=client)

    problem(browser.get(refund), 400, "invalid", "X-Tenant")
    assert browser.get(refund, X_Tenant="acme").status_code == 200
    problem(browser.get(refund, X_Tenant="globex"), 404, "not_found")


# --- Addresses ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("root", MOUNTS[1:])
def test_the_older_addresses_answer_like_the_first(
    api: ApiClient, ready: Callable[[str], Checkpoint], root: str
) -> None:
    older = ApiClient(root=root)
    older.headers = api.headers
    row = ready("release")

    for part in ("", "history"):
        assert older.get(row, part).content == api.get(row, part).content
    assert older.list().json()["results"] == api.list().json()["results"]
    for command, (body, _) in COMMANDS.items():
        stale = {"If_Match": '"0"', "X_Request_ID": "the-same"}
        assert older.command(row, command, body, **stale).content == api.command(row, command, body, **stale).content
    made = older.create()
    assert made.status_code == 201
    assert api.get(made.json()["id"]).json() == made.json()
    assert older.resolve(row).json()["status"] == "resolved"


def test_the_id_is_read_in_any_case(api: ApiClient, refund: Checkpoint) -> None:
    assert api.get(str(refund.pk).upper()).json()["id"] == str(refund.pk)


@pytest.mark.parametrize("part", ["", "history"])
def test_head_answers_like_get_without_the_body(api: ApiClient, refund: Checkpoint, part: str) -> None:
    head, get = (api.request(method, api._path(refund, part)) for method in ("HEAD", "GET"))

    assert (head.status_code, head.content) == (200, b"")
    assert head["Content-Length"] == get["Content-Length"]
    assert head.get("ETag") == get.get("ETag")


@pytest.mark.parametrize("accept", ["text/html", "application/xml", "*/*", "nonsense", "image/png;q=0.1"])
def test_there_is_one_format_whatever_the_caller_accepts(api: ApiClient, refund: Checkpoint, accept: str) -> None:
    assert api.get(refund, Accept=accept)["Content-Type"] == "application/json"
    assert api.get(str(uuid.uuid4()), Accept=accept)["Content-Type"] == "application/problem+json"


def test_a_request_is_named_by_its_caller_or_by_us(api: ApiClient, refund: Checkpoint) -> None:
    assert api.get(refund, X_Request_ID="abc-1.2_3")["X-Request-ID"] == "abc-1.2_3"
    for wrong in ("", "a b", "x" * 65, "ü", "<script>"):
        assert len(api.get(refund, X_Request_ID=wrong)["X-Request-ID"]) == 32


def test_a_quorum_over_the_api_shows_who_voted_and_what_is_missing(
    api: ApiClient, api_of: Callable[[User], ApiClient], finance: Group, approver: User, colleague: User
) -> None:
    made = api.create(assignee="group:finance", options=["approve", "reject"], required_approvals=2)
    assert made.status_code == 201
    assert made.json()["quorum"] == {
        "required_approvals": 2,
        "rejections_allowed": 0,
        "approvals": 0,
        "rejections": 0,
        "missing": 2,
        "votes": [],
    }
    identity = made.json()["id"]
    voted = api_of(approver).resolve(identity, comment="Fine.")
    assert (voted.status_code, voted.json()["status"]) == (200, "pending")
    assert voted.json()["quorum"]["missing"] == 1
    [vote] = voted.json()["quorum"]["votes"]
    assert (vote["voter"], vote["decision"], vote["comment"]) == (approver.email, "approve", "Fine.")
    problem(api_of(approver).resolve(identity, "reject"), 409, "already_voted")
    problem(api_of(colleague).command(identity, "claim"), 409, "not_claimable")
    decided = api_of(colleague).resolve(identity)
    assert (decided.json()["status"], decided.json()["resolution"]["approvals"]) == ("resolved", 2)
    assert [entry["event"] for entry in api.get(identity, "history").json()] == ["created", "voted", "resolved"]
    [listed] = api.list().json()["results"]
    assert len(listed["quorum"]["votes"]) == 2


def test_an_action_over_the_api_is_edited_and_bound(api: ApiClient) -> None:
    action = {"name": "refund", "args": {"amount": 1240}, "args_schema": {"properties": {"amount": {"maximum": 2000}}}}
    made = api.create(action=action).json()
    problem(api.resolve(made["id"], "edit", edited_args={"amount": 9000}), 400, "invalid_decision", "edited_args")
    done = api.resolve(made["id"], "edit", edited_args={"amount": 100}).json()
    assert done["resolution"]["edited_args"] == {"amount": 100}
    assert done["resolution"]["action_digest"] == done["action_digest"] != made["action_digest"]
    problem(api.create(action={"args": {}}), 400, "invalid", "action")
    problem(api.create(required_approvals=2, assignee="a@b.example"), 400, "invalid", "assignee")
