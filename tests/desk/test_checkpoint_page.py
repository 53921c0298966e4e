"""One checkpoint on the desk: everything an admin can do to it, and what they read."""

from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from checkpoints import lifecycle
from checkpoints.answers import Answer
from checkpoints.models import Checkpoint, Event
from tenants.actors import Actor
from tenants.models import Group, Tenant, User

Ask = Callable[..., Checkpoint]
Page = Callable[[Checkpoint], str]
Order = Callable[[Checkpoint, str], str]
REASSIGN = "/admin/checkpoints/checkpoint/reassign/"


def text(response: Any) -> str:
    return str(response.content.decode())


def test_the_page_tells_what_is_asked_of_whom_and_by_when(
    desk: Client, ask: Ask, finance: Group, page_of: Page
) -> None:
    row = ask(
        prompt="Refund EUR 12?\nSecond line.", assignee="group:finance", timeout="24h", context={"order": {"id": 991}}
    )
    shown = text(desk.get(page_of(row)))
    assert "<p>Refund EUR 12?<br>\nSecond line.</p>" in shown
    assert "group finance" in shown
    assert "Europe/Berlin" in shown
    assert "in 23\N{NO-BREAK SPACE}hours" in shown
    assert "&quot;id&quot;: 991" in shown
    assert "The program “refund-agent” asked “group:finance”." in shown


def test_the_whole_story_claim_decide_history(
    desk: Client, unrouted: Checkpoint, page_of: Page, order: Order, tenant_admin: User
) -> None:
    assert "Nobody has this. Nobody knows the prefix “team:”." in text(desk.get(page_of(unrouted)))
    desk.post(order(unrouted, "claim"))
    response = desk.post(order(unrouted, "resolve"), {"decision": "approve", "comment": "Looks right."}, follow=True)
    shown = text(response)
    assert "Decided: approve." in shown
    assert "admin@acme.example claimed it." in shown
    assert "admin@acme.example decided “approve”." in shown
    assert "Looks right." in shown
    unrouted.refresh_from_db()
    assert unrouted.resolved_by == f"user:{tenant_admin.email}"
    assert unrouted.resolution["via"] == "admin"
    assert "override" not in unrouted.resolution


def test_deciding_for_somebody_else_is_announced_and_recorded_as_an_override(
    desk: Client, refund: Checkpoint, page_of: Page, order: Order
) -> None:
    assert "You are not the one who is asked." in text(desk.get(page_of(refund)))
    response = desk.post(order(refund, "resolve"), {"decision": "reject"}, follow=True)
    assert "admin@acme.example overrode the assignment and decided “reject”." in text(response)
    refund.refresh_from_db()
    assert refund.resolution["override"] is True


def test_nothing_is_preselected_and_a_form_sent_as_it_is_decides_nothing(
    desk: Client, refund: Checkpoint, page_of: Page, order: Order
) -> None:
    assert "checked" not in text(desk.get(page_of(refund))).partition("hp-options")[2].partition("</fieldset>")[0]
    response = desk.post(order(refund, "resolve"), {"comment": "typed before choosing"})
    assert response.status_code == 400
    assert "No decision was given. Choose one of: approve, reject." in text(response)
    assert "typed before choosing" in text(response)
    refund.refresh_from_db()
    assert refund.status == "pending"


def test_a_missing_comment_is_asked_for_and_the_choice_is_kept(desk: Client, ask: Ask, order: Order) -> None:
    row = ask(options=[{"id": "reject", "label": "Reject it", "requires_comment": True}, "approve"])
    response = desk.post(order(row, "resolve"), {"decision": "reject"})
    assert response.status_code == 400
    assert "“Reject it” needs a comment." in text(response)
    assert 'value="reject" checked' in text(response)


def test_a_freeform_question_takes_words(desk: Client, ask: Ask, page_of: Page, order: Order) -> None:
    row = ask(checkpoint_type="freeform")
    assert 'name="response"' in text(desk.get(page_of(row)))
    assert desk.post(order(row, "resolve"), {"response": " "}).status_code == 400
    desk.post(order(row, "resolve"), {"response": "Offer them ten percent 🙂"})
    row.refresh_from_db()
    assert (row.resolution["decision"], row.resolution["response"]) == ("answered", "Offer them ten percent 🙂")


def test_whoever_comes_second_reads_who_decided_what(
    desk: Client, refund: Checkpoint, order: Order, approver: User, as_person: Callable[[User], Actor]
) -> None:
    lifecycle.resolve(refund, actor=as_person(approver), answer=Answer(decision="approve"))
    response = desk.post(order(refund, "resolve"), {"decision": "reject"})
    assert response.status_code == 409
    assert "Already decided: user:approver@acme.example chose “approve”" in text(response)
    assert Event.objects.filter(subject_id=refund.pk, type="checkpoint.resolved").count() == 1


def test_a_double_click_decides_once(desk: Client, refund: Checkpoint, order: Order) -> None:
    for _ in range(2):
        assert desk.post(order(refund, "resolve"), {"decision": "approve"}).status_code == 302
    assert Event.objects.filter(subject_id=refund.pk, type="checkpoint.resolved").count() == 1


def form_of(page: str) -> dict[str, str]:
    """What a browser would send along unseen with a decision."""
    return {"row_version": page.partition('name="row_version" value="')[2].partition('"')[0]}


def test_a_double_click_on_the_page_decides_once(desk: Client, refund: Checkpoint, page_of: Page, order: Order) -> None:
    form = form_of(text(desk.get(page_of(refund)))) | {"decision": "approve"}
    for _ in range(2):
        assert desk.post(order(refund, "resolve"), form).status_code == 302
    assert Event.objects.filter(subject_id=refund.pk, type="checkpoint.resolved").count() == 1


def test_a_page_from_before_a_reassignment_decides_nothing_and_keeps_what_was_typed(
    desk: Client,
    refund: Checkpoint,
    page_of: Page,
    order: Order,
    second_admin: User,
    as_person: Callable[[User], Actor],
) -> None:
    form = form_of(text(desk.get(page_of(refund)))) | {"decision": "approve", "comment": "Photos are there."}
    lifecycle.reassign(refund, actor=as_person(second_admin), assignee="user:colleague@acme.example")
    response = desk.post(order(refund, "resolve"), form)
    assert response.status_code == 412
    shown = text(response)
    assert "The checkpoint has changed since you opened its page." in shown
    assert "colleague@acme.example" in shown
    assert "Photos are there." in shown
    assert 'value="approve" checked' in shown
    refund.refresh_from_db()
    assert refund.status == "pending"
    # Having read it, the same person may go on.
    assert desk.post(order(refund, "resolve"), form | form_of(shown)).status_code == 302


def test_a_page_from_before_a_decision_says_who_decided(
    desk: Client, refund: Checkpoint, page_of: Page, order: Order, approver: User, as_person: Callable[[User], Actor]
) -> None:
    form = form_of(text(desk.get(page_of(refund)))) | {"decision": "reject"}
    lifecycle.resolve(refund, actor=as_person(approver), answer=Answer(decision="approve"))
    response = desk.post(order(refund, "resolve"), form)
    assert response.status_code == 409
    assert "Already decided: user:approver@acme.example chose “approve”" in text(response)


@pytest.mark.parametrize("version", ["", "x", "-1", "9" * 5000, "²"])
def test_a_mangled_version_decides_nothing(desk: Client, refund: Checkpoint, order: Order, version: str) -> None:
    response = desk.post(order(refund, "resolve"), {"decision": "approve", "row_version": version})
    assert response.status_code == 412
    refund.refresh_from_db()
    assert refund.status == "pending"


def test_releasing_says_whose_it_is_then(
    desk: Client, ask: Ask, finance: Group, order: Order, approver: User, as_person: Callable[[User], Actor]
) -> None:
    asked = ask(assignee="group:finance")
    lifecycle.claim(asked, actor=as_person(approver))
    shown = text(desk.post(order(asked, "release"), follow=True))
    assert "Released: anybody who is asked may take it." in shown
    taken = ask(assignee="team:blue")
    desk.post(order(taken, "claim"))
    shown = text(desk.post(order(taken, "release"), follow=True))
    assert "Released. It is still admin@acme.example who is asked." in shown


def test_a_reason_is_told_as_it_was_written(desk: Client, refund: Checkpoint, order: Order) -> None:
    shown = text(desk.post(order(refund, "cancel"), {"reason": "approver@acme.example is ill"}, follow=True))
    assert '<p class="hp-note">approver@acme.example is ill (by admin@acme.example), ' in shown


def test_asking_whether_a_page_is_there_gets_an_answer(desk: Client, refund: Checkpoint, page_of: Page) -> None:
    response = desk.head(page_of(refund))
    assert (response.status_code, response.content) == (200, b"")


def test_cancel_extend_remind_comment_release(
    desk: Client,
    ask: Ask,
    finance: Group,
    order: Order,
    approver: User,
    as_person: Callable[[User], Actor],
    page_of: Page,
) -> None:
    row = ask(assignee="group:finance", timeout="1h")
    lifecycle.claim(row, actor=as_person(approver))
    assert "Claimed by approver@acme.example" in text(desk.get(page_of(row)))
    assert "Released" in text(desk.post(order(row, "release"), follow=True))
    assert "wrote:" in text(desk.post(order(row, "comment"), {"text": "Which order?"}, follow=True))
    assert "The deadline is now" in text(desk.post(order(row, "extend"), {"timeout": "3d"}, follow=True))
    assert "One more reminder" in text(desk.post(order(row, "remind"), follow=True))
    assert "Cancelled." in text(desk.post(order(row, "cancel"), {"reason": "Not needed"}, follow=True))
    row.refresh_from_db()
    assert (row.status, row.close_reason, row.reminder_count) == ("cancelled", "Not needed", 1)


@pytest.mark.parametrize(
    ("command", "form", "sentence"),
    [
        ("extend", {"timeout": "-5"}, "The span must be at least one second."),
        ("extend", {"timeout": "soon"}, "“soon” is not a span of time."),
        ("extend", {"timeout": "1m"}, "must be later than the present one"),
        ("comment", {"text": " "}, "Write something."),
        ("comment", {"text": "x" * 20_001}, "At most 20,000 characters."),
        ("comment", {"text": "a\x00b"}, "NUL characters are not allowed."),
        ("resolve", {"decision": "perhaps"}, "“perhaps” is not an option. Choose one of: approve, reject."),
        ("resolve", {"decision": "default"}, "cannot be chosen by anybody"),
    ],
)
def test_what_cannot_be_done_is_explained_beside_the_field(
    desk: Client, ask: Ask, finance: Group, order: Order, command: str, form: dict[str, str], sentence: str
) -> None:
    row = ask(assignee="group:finance", timeout="1h", options=["approve", "reject"])
    response = desk.post(order(row, command), form)
    assert response.status_code == 400
    assert sentence in text(response)
    row.refresh_from_db()
    assert row.row_version == 1


def test_commands_are_never_carried_out_by_opening_an_address(desk: Client, unrouted: Checkpoint, order: Order) -> None:
    for command in ("claim", "cancel", "resolve", "remind"):
        assert desk.get(order(unrouted, command)).status_code == 302
    unrouted.refresh_from_db()
    assert unrouted.row_version == 1


def test_an_unknown_command_is_not_there(desk: Client, unrouted: Checkpoint, order: Order) -> None:
    assert desk.post(order(unrouted, "destroy")).status_code == 404


def test_a_post_without_the_token_is_refused(unrouted: Checkpoint, tenant_admin: User, order: Order) -> None:
    browser = Client(enforce_csrf_checks=True)
    browser.force_login(tenant_admin, backend="tenants.signin.EmailBackend")
    assert browser.post(order(unrouted, "claim")).status_code == 403
    unrouted.refresh_from_db()
    assert unrouted.is_unrouted


def test_reassigning_shows_first_who_that_is(desk: Client, unrouted: Checkpoint, finance: Group) -> None:
    assert "group:finance" in text(desk.get(f"{REASSIGN}?id={unrouted.pk}"))
    form = {"id": str(unrouted.pk), "assignee": "group:finance", "comment": "They know the customer."}
    preview = text(desk.post(REASSIGN, form | {"preview": "1"}))
    assert "approver@acme.example" in preview.partition("This would reach")[2]
    assert "colleague@acme.example" in preview.partition("This would reach")[2]
    unrouted.refresh_from_db()
    assert unrouted.is_unrouted
    done = text(desk.post(REASSIGN, form | {"confirm": "1"}, follow=True))
    assert "Reassigned 1 checkpoint." in done
    assert "reassigned it from “team:blue” to “group:finance”." in done
    assert "They know the customer." in done
    unrouted.refresh_from_db()
    assert (unrouted.assignee_value, unrouted.assignment_version) == ("finance", 2)


@pytest.mark.parametrize(
    ("assignee", "sentence"),
    [
        ("group:nobody", "There is no group “nobody” in Acme."),
        ("team:x", "Nobody knows the prefix “team:”."),
        ("delegated_user", "is not delegated to anybody active at the moment."),
        ("stranger@example.com", "This address is not a member of the tenant."),
    ],
)
def test_the_preview_says_when_it_would_reach_nobody(
    desk: Client, unrouted: Checkpoint, assignee: str, sentence: str
) -> None:
    assert sentence in text(desk.post(REASSIGN, {"id": str(unrouted.pk), "assignee": assignee, "preview": "1"}))


@pytest.mark.parametrize("step", ["preview", "confirm"])
@pytest.mark.parametrize(
    ("form", "sentence"),
    [
        ({"assignee": "group:" + "x" * 295}, "At most 300 characters."),
        ({"assignee": "group:fin\x00ance"}, "NUL characters are not allowed."),
        ({"assignee": "group:finance", "comment": "x" * 20_001}, "At most 20,000 characters."),
        ({"assignee": "group:finance", "comment": "a\x00b"}, "NUL characters are not allowed."),
    ],
)
def test_what_cannot_be_an_assignee_or_a_comment_is_refused_beside_its_field(
    desk: Client, unrouted: Checkpoint, finance: Group, form: dict[str, str], sentence: str, step: str
) -> None:
    response = desk.post(REASSIGN, {"id": str(unrouted.pk), step: "1"} | form)
    assert response.status_code == 400
    shown = text(response)
    assert sentence in shown
    assert "This would reach" not in shown
    assert "group:fin" in shown or "group:xxx" in shown
    unrouted.refresh_from_db()
    assert unrouted.row_version == 1


def test_an_assignee_of_300_characters_is_kept_whole(desk: Client, unrouted: Checkpoint) -> None:
    longest = "user:" + "x" * 283 + "@example.com"
    desk.post(REASSIGN, {"id": str(unrouted.pk), "assignee": longest, "confirm": "1"})
    unrouted.refresh_from_db()
    assert unrouted.assignee_raw == longest


def test_the_preview_knows_who_may_not_decide_what_they_asked_for(desk: Client, ask: Ask, approver: User) -> None:
    row = ask(requested_by=approver.email, forbid_requester=True)
    form = {"id": str(row.pk), "assignee": f"user:{approver.email}"}
    assert "may not decide it (four eyes). It would wait in the queue." in text(desk.post(REASSIGN, form))


def test_several_are_reassigned_at_once(desk: Client, ask: Ask, finance: Group) -> None:
    asked = [ask(), ask()]
    chosen = {"action": "reassign_selected", "_selected_action": [str(row.pk) for row in asked]}
    shown = text(desk.post("/admin/checkpoints/checkpoint/", chosen, follow=True))
    assert "Who shall decide these 2 checkpoints?" in shown
    desk.post(REASSIGN, {"id": [str(row.pk) for row in asked], "assignee": "group:finance", "confirm": "1"})
    assert Checkpoint.objects.filter(assignee_value="finance").count() == 2


@pytest.mark.parametrize("query", ["", "?id=", "?id=x", "?id=00000000-0000-0000-0000-000000000000"])
def test_reassigning_nothing_is_not_a_page(desk: Client, unrouted: Checkpoint, query: str) -> None:
    assert desk.get(REASSIGN + query).status_code == 404


def test_what_programs_write_is_shown_and_never_run(desk: Client, ask: Ask, page_of: Page, acme: Tenant) -> None:
    nasty = "<script>alert(1)</script><b x-data='alert(1)' @click='x' :class='y'>{{ 7 * 7 }}</b>"
    row = ask(
        prompt=nasty,
        core_id="a",
        flow_name=nasty[:200],
        execution_id=nasty[:200],
        context={nasty: nasty},
        options=[{"id": nasty[:100], "label": nasty, "description": nasty}],
        assignee=nasty,
        requested_by="x@example.com",
    )
    for address in (page_of(row), "/admin/checkpoints/checkpoint/", f"{REASSIGN}?id={row.pk}"):
        shown = text(desk.get(address))
        assert "<script>alert" not in shown
        assert "<b x-data" not in shown


def test_an_unknown_and_a_mangled_address_are_not_there(desk: Client) -> None:
    for identity in ("00000000-0000-0000-0000-000000000000", "x", "_", "%00", "1%27"):
        assert desk.get(f"/admin/checkpoints/checkpoint/{identity}/change/").status_code == 404


def test_the_link_of_the_api_leads_to_the_page(desk: Client, refund: Checkpoint, page_of: Page) -> None:
    assert desk.get(f"/decide/{refund.pk}").headers["Location"] == page_of(refund)


def test_the_page_costs_the_same_however_long_the_history(
    desk: Client, refund: Checkpoint, page_of: Page, program: Actor
) -> None:
    def cost() -> int:
        with CaptureQueriesContext(connection) as queries:
            desk.get(page_of(refund))
        return len(queries)

    few = cost()
    row = refund
    for number in range(10):
        row = lifecycle.comment(row, actor=program, text=f"Number {number}")
    assert cost() == few


def test_votes_are_shown_and_cast(
    ask: Ask,
    acme: Tenant,
    tenant_admin: User,
    second_admin: User,
    signed_in: Callable[[User], Client],
    page_of: Page,
    order: Order,
) -> None:
    row = ask(assignee="role:tenant_admin", options=["approve", "reject"], required_approvals=2)
    first, second = signed_in(tenant_admin), signed_in(second_admin)
    assert "Nobody has voted yet." in text(first.get(page_of(row)))
    response = first.post(order(row, "resolve"), {"decision": "approve", "comment": "Yes."}, follow=True)
    assert "Your vote counts." in text(response)
    assert "1 of 2 approvals, 1 missing" in text(response)
    assert "admin@acme.example voted “approve”; 1 more to go." in text(response)
    assert "Decided: approve." in text(second.post(order(row, "resolve"), {"decision": "approve"}, follow=True))
    again = first.post(order(row, "resolve"), {"decision": "reject"})
    assert again.status_code == 409


def test_an_action_is_shown_and_its_arguments_edited(desk: Client, ask: Ask, page_of: Page, order: Order) -> None:
    schema = {"properties": {"amount": {"type": "number"}}}
    row = ask(action={"name": "refund", "args": {"amount": 1240}, "args_schema": schema})
    shown = text(desk.get(page_of(row)))
    assert "What would be done: refund" in shown
    assert row.action_digest[:12] in shown
    for wrong, sentence in (("{", "This is not JSON"), ('{"amount": "x"}', "is not of type"), ("[]", "give an object")):
        response = desk.post(order(row, "resolve"), {"decision": "edit", "edited_args": wrong})
        assert response.status_code == 400
        assert sentence in text(response)
    desk.post(order(row, "resolve"), {"decision": "edit", "edited_args": '{"amount": 100}'})
    row.refresh_from_db()
    assert row.resolution["edited_args"] == {"amount": 100}


def test_the_arguments_in_the_box_do_not_count_unless_somebody_edits(desk: Client, ask: Ask, order: Order) -> None:
    row = ask(action={"name": "refund", "args": {"amount": 1240}})
    desk.post(order(row, "resolve"), {"decision": "approve", "edited_args": '{"amount": 1}'})
    row.refresh_from_db()
    assert row.resolution["decision"] == "approve"
    assert "edited_args" not in row.resolution


@pytest.mark.parametrize(
    ("fields", "arguments", "answers"),
    [
        ({"action": {"name": "refund"}}, 1, 1),
        ({"action": {"name": "refund"}, "options": ["approve", "edit"]}, 1, 0),
        ({"action": {"name": "refund"}, "options": ["approve", "respond"]}, 0, 1),
        ({"action": {"name": "refund"}, "options": ["approve"]}, 0, 0),
        ({"action": {"name": "refund"}, "checkpoint_type": "freeform"}, 1, 1),
        ({"checkpoint_type": "freeform", "options": ["edit", "respond"]}, 0, 1),
        ({"options": ["edit", "respond"]}, 0, 0),
    ],
)
def test_the_page_has_each_box_that_can_count_and_no_box_twice(
    desk: Client, ask: Ask, page_of: Page, fields: dict[str, Any], arguments: int, answers: int
) -> None:
    shown = text(desk.get(page_of(ask(**fields))))
    assert shown.count('name="edited_args"') == arguments
    assert shown.count('name="response"') == answers


def test_an_action_without_arguments_has_an_empty_object_to_edit(
    desk: Client, ask: Ask, page_of: Page, order: Order
) -> None:
    row = ask(action={"name": "refund"}, options=["approve", "edit"])
    shown = text(desk.get(page_of(row)))
    assert '<pre class="hp-json">{}</pre>' in shown
    assert ">{}</textarea>" in shown
    desk.post(order(row, "resolve"), {"decision": "edit", "edited_args": '{"amount": 1}'})
    row.refresh_from_db()
    assert row.resolution["edited_args"] == {"amount": 1}


@pytest.mark.parametrize(
    ("command", "form", "sentence"),
    [
        ("resolve", {"decision": "approve", "response": "a\x00b"}, "NUL characters are not allowed."),
        ("extend", {"timeout": "soon"}, "is not a span of time."),
    ],
)
def test_what_is_wrong_with_a_field_that_has_no_box_is_said_all_the_same(
    desk: Client, ask: Ask, order: Order, command: str, form: dict[str, str], sentence: str
) -> None:
    row = ask(options=["approve"])
    response = desk.post(order(row, command), form)
    assert response.status_code == 400
    assert sentence in text(response).partition('id="unplaced"')[2].partition("</section>")[0]
