"""Resolve, cancel, comment (semantics §3)."""

import pytest

from checkpoints import errors, lifecycle
from tenants import actors, keys
from tests.checkpoints.stories import again, detail, last, story

# --- A decision -----------------------------------------------------------------------------------------------------


def test_an_assignee_decides(refund, approver, decide):
    decide(refund, approver, "approve", comment="Looks right.")
    row = again(refund)
    assert (row.status, row.resolved_by) == ("resolved", "user:approver@acme.example")
    assert row.resolution == {"decision": "approve", "response": None, "comment": "Looks right.", "via": "admin"}
    assert row.resolved_at == last(row).at
    assert (row.closed_at, row.close_reason, row.closed_by) == (None, "", "")
    assert detail(row) == {"decision": "approve", "comment": "Looks right.", "override": False}


def test_a_decision_ends_the_reminders(ask, finance, approver, decide):
    row = ask(assignee="group:finance", reminder_interval_m=5)
    decide(row, approver, "approve")
    assert again(row).next_reminder_at is None


def test_a_key_decides_under_its_name(refund, program, decide):
    row = again(decide(refund, program, "reject"))
    assert (row.resolved_by, row.resolution["via"]) == ("key:refund-agent", "api")
    assert "override" not in row.resolution


def test_an_admin_who_is_not_asked_overrides_and_it_shows(refund, tenant_admin, decide):
    row = again(decide(refund, tenant_admin, "approve"))
    assert row.resolution["override"] is True
    assert detail(row)["override"] is True


def test_an_admin_who_is_asked_does_not_override(ask, tenant_admin, decide):
    row = ask(assignee="role:tenant_admin")
    assert "override" not in decide(row, tenant_admin, "approve").resolution


@pytest.mark.parametrize("person", ["bystander", "auditor"])
def test_somebody_who_is_not_asked_is_refused_with_the_reason(refund, person, request, decide):
    with pytest.raises(errors.NotAllowed, match=r"is not an assignee .*it is assigned to group finance"):
        decide(refund, request.getfixturevalue(person), "approve")
    assert again(refund).is_pending


@pytest.mark.parametrize("decision", ["maybe", "Approve", "approve ", "default", "", None])
def test_a_decision_must_be_an_option_and_the_refusal_lists_them(refund, approver, decide, decision):
    with pytest.raises(errors.InvalidDecision, match=r"Choose one of: approve, reject\.") as refused:
        decide(refund, approver, decision)
    assert list(refused.value.errors) == ["decision"]
    assert again(refund).row_version == 1


def test_without_options_any_word_will_do_but_default(ask, program, decide):
    row = ask()
    with pytest.raises(errors.InvalidDecision, match="cannot be chosen by anybody"):
        decide(row, program, "default")
    with pytest.raises(errors.InvalidDecision, match="No decision was given"):
        decide(row, program, "  ")
    assert decide(row, program, "postpone").resolution["decision"] == "postpone"


def test_an_option_can_be_an_object_and_can_ask_for_a_comment(ask, program, decide):
    row = ask(options=[{"id": "approve", "label": "Yes"}, {"id": "reject", "label": "No", "requires_comment": True}])
    for comment in ("", "  \n"):
        with pytest.raises(errors.InvalidDecision, match="“No” needs a comment") as refused:
            decide(row, program, "reject", comment=comment)
        assert list(refused.value.errors) == ["comment"]
    assert decide(row, program, "reject", comment="Too much.").resolution["comment"] == "Too much."


def test_a_freeform_question_needs_an_answer_in_words(ask, program, decide):
    row = ask(checkpoint_type="freeform")
    for response in (None, "", "   ", {"field": 1}):
        with pytest.raises(errors.InvalidDecision) as refused:
            decide(row, program, response=response)
        assert list(refused.value.errors) == ["response"]
    resolution = decide(row, program, response="Send it to Berlin.").resolution
    assert (resolution["decision"], resolution["response"]) == ("answered", "Send it to Berlin.")


def test_a_freeform_question_with_options_needs_both(ask, program, decide):
    row = ask(checkpoint_type="freeform", options=["yes", "no"])
    with pytest.raises(errors.InvalidDecision, match="Choose one of: yes, no"):
        decide(row, program, response="Well.")
    assert decide(row, program, "no", response="Well.").resolution["decision"] == "no"


def test_a_breakpoint_takes_continue_and_nothing_else(ask, program, decide):
    row = ask(prompt="", checkpoint_type="debug_breakpoint", routing="external")
    with pytest.raises(errors.InvalidDecision, match=r"Choose one of: continue\."):
        decide(row, program, "approve")
    assert decide(row, program, "continue").status == "resolved"


def test_a_response_may_be_an_object(ask, program, decide):
    response = {"amount": 12.5, "reason": "é \U0001f600", "items": [1, None, True]}
    row = again(decide(ask(), program, "approve", response=response))
    assert row.resolution["response"] == response


def test_a_decision_after_the_deadline_counts_while_it_is_pending(ask, finance, approver, decide, later):
    row = ask(assignee="group:finance", timeout="1h", expiry_action="cancel")
    later(days=3)
    assert decide(row, approver, "approve").status == "resolved"


# --- Twice ----------------------------------------------------------------------------------------------------------


def test_the_same_decision_delivered_twice_is_one_decision(refund, approver, decide):
    first = decide(again(refund), approver, "approve", comment="Fine.", response={"a": 1, "b": [2.0]})
    second = decide(again(refund), approver, "approve", comment="Fine.", response={"b": [2.0], "a": 1})
    assert second.resolution == first.resolution
    assert second.resolved_at == first.resolved_at
    assert story(refund) == ["created", "resolved"]
    assert again(refund).row_version == 2


def test_the_same_decision_is_recognised_on_a_copy_that_is_behind(refund, approver, decide):
    behind = again(refund)
    decide(refund, approver, "approve")
    assert decide(behind, approver, "approve").status == "resolved"
    assert story(refund) == ["created", "resolved"]


@pytest.mark.parametrize(
    "other", [{"decision": "reject"}, {"comment": "Hm."}, {"response": "Words."}, {"response": {"a": 2}}]
)
def test_the_same_person_with_another_answer_is_refused(refund, approver, decide, other):
    decide(refund, approver, "approve")
    with pytest.raises(errors.AlreadyResolved, match=r"user:approver@acme\.example chose “approve”"):
        decide(again(refund), approver, **({"decision": "approve"} | other))
    assert story(refund) == ["created", "resolved"]


def test_somebody_else_with_the_same_answer_is_told_who_was_first(refund, approver, colleague, decide):
    decide(refund, approver, "approve")
    with pytest.raises(errors.AlreadyResolved) as refused:
        decide(again(refund), colleague, "approve")
    assert refused.value.checkpoint.resolved_by == "user:approver@acme.example"


def test_two_people_with_a_copy_each_only_one_wins(refund, approver, colleague, decide):
    mine, theirs = again(refund), again(refund)
    decide(mine, approver, "approve")
    with pytest.raises(errors.AlreadyResolved):
        decide(theirs, colleague, "reject")
    assert again(refund).resolution["decision"] == "approve"


def test_a_repeated_decision_is_recognised_even_when_bound_to_the_old_version(refund, approver, as_person):
    from checkpoints.answers import Answer

    for _ in range(2):
        lifecycle.resolve(again(refund), actor=as_person(approver), answer=Answer("approve"), if_version=1)
    assert story(refund) == ["created", "resolved"]


# --- Claims ---------------------------------------------------------------------------------------------------------


def test_while_somebody_works_on_it_the_others_are_refused_with_the_name(
    refund, approver, colleague, as_person, decide
):
    lifecycle.claim(refund, actor=as_person(approver))
    with pytest.raises(errors.ClaimedByOther, match=r"approver@acme\.example is working on this"):
        decide(again(refund), colleague, "approve")
    assert decide(again(refund), approver, "approve").status == "resolved"


def test_a_key_is_not_stopped_by_a_claim(refund, approver, program, as_person, decide):
    lifecycle.claim(refund, actor=as_person(approver))
    assert decide(refund, program, "approve").resolved_by == "key:refund-agent"


def test_an_admin_overrides_a_claim_and_it_is_recorded(refund, approver, tenant_admin, as_person, decide):
    lifecycle.claim(refund, actor=as_person(approver))
    assert decide(refund, tenant_admin, "approve").resolution["override"] is True


def test_an_admin_who_is_asked_overrides_a_claim_too(ask, tenant_admin, second_admin, as_person, decide):
    row = ask(assignee="role:tenant_admin")
    lifecycle.claim(row, actor=as_person(second_admin))
    assert decide(row, tenant_admin, "approve").resolution["override"] is True


def test_a_lapsed_claim_stops_nobody(refund, approver, colleague, as_person, decide, later):
    lifecycle.claim(refund, actor=as_person(approver))
    later(minutes=61)
    assert decide(again(refund), colleague, "approve").resolved_by == "user:colleague@acme.example"


# --- Four eyes ------------------------------------------------------------------------------------------------------

FOUR_EYES = r"approver@acme\.example asked for this and may not decide it \(four eyes\)"


@pytest.mark.parametrize("assignee", ["user:approver@acme.example", "group:finance", "role:approver"])
def test_whoever_asked_does_not_decide(ask, finance, approver, colleague, decide, assignee):
    row = ask(assignee=assignee, requested_by="Approver@acme.example", forbid_requester=True)
    with pytest.raises(errors.NotAllowed, match=FOUR_EYES):
        decide(row, approver, "approve")
    assert again(row).is_pending


@pytest.mark.parametrize("spelling", [str, lambda pk: pk.hex, lambda pk: f"user:{str(pk).upper()}"])
def test_whoever_asked_is_known_by_id_too(ask, finance, approver, colleague, decide, spelling):
    row = ask(assignee="group:finance", requested_by=spelling(approver.pk), forbid_requester=True)
    with pytest.raises(errors.NotAllowed, match=FOUR_EYES):
        decide(row, approver, "approve")
    assert decide(row, colleague, "approve").status == "resolved"


def test_whoever_asked_does_not_decide_as_a_delegate(ask, acme, core, approver, colleague, decide):
    from tenants.models import Delegation, Membership

    Delegation.objects.create(tenant=acme, core=core, delegate=Membership.objects.get(user=colleague))
    row = ask(assignee="delegated_user", requested_by="approver@acme.example", forbid_requester=True)
    assert row.assignee_value == "colleague@acme.example"
    Delegation.objects.create(tenant=acme, core=core, delegate=Membership.objects.get(user=approver))
    with pytest.raises(errors.NotAllowed, match=FOUR_EYES):
        decide(row, approver, "approve")


def test_whoever_asked_cannot_have_it_handed_over(ask, approver, colleague, as_person):
    row = ask(assignee="user:colleague@acme.example", requested_by=str(approver.pk), forbid_requester=True)
    with pytest.raises(errors.InvalidInput, match="four eyes"):
        lifecycle.reassign(row, actor=as_person(colleague), assignee="approver@acme.example")
    assert again(row).assignee_value == "colleague@acme.example"


def test_an_admin_may_reassign_it_to_whoever_asked_who_still_may_not_decide(
    ask, approver, tenant_admin, as_person, decide
):
    row = ask(requested_by="approver@acme.example", forbid_requester=True)
    lifecycle.reassign(row, actor=as_person(tenant_admin), assignee="approver@acme.example")
    with pytest.raises(errors.NotAllowed, match=FOUR_EYES):
        decide(again(row), approver, "approve")


def test_an_admin_who_asked_does_not_override_four_eyes(ask, tenant_admin, second_admin, decide):
    row = ask(requested_by="admin@acme.example", forbid_requester=True)
    with pytest.raises(errors.NotAllowed, match="four eyes"):
        decide(row, tenant_admin, "approve")
    assert decide(row, second_admin, "approve").status == "resolved"


def test_an_admin_who_asked_may_neither_claim_nor_decide(ask, tenant_admin, as_person, decide):
    row = ask(requested_by="admin@acme.example", forbid_requester=True)
    with pytest.raises(errors.NotAllowed, match="four eyes"):
        lifecycle.claim(row, actor=as_person(tenant_admin))
    with pytest.raises(errors.NotAllowed, match="four eyes"):
        decide(row, tenant_admin, "approve")


def test_whoever_asked_cannot_block_the_others_with_a_claim(ask, finance, approver, colleague, as_person, decide):
    row = ask(assignee="group:finance", requested_by="approver@acme.example", forbid_requester=True)
    with pytest.raises(errors.NotAllowed, match="four eyes"):
        lifecycle.claim(row, actor=as_person(approver))
    assert decide(row, colleague, "approve").status == "resolved"


def test_without_four_eyes_whoever_asked_may_decide(ask, finance, approver, decide):
    row = ask(assignee="group:finance", requested_by="approver@acme.example")
    assert decide(row, approver, "approve").status == "resolved"


# --- Cancel ---------------------------------------------------------------------------------------------------------


def test_cancelling_keeps_the_reason_and_who(refund, tenant_admin, as_person):
    lifecycle.cancel(refund, actor=as_person(tenant_admin), reason=" The order is gone. ")
    row = again(refund)
    assert (row.status, row.close_reason, row.closed_by) == (
        "cancelled",
        "The order is gone.",
        "user:admin@acme.example",
    )
    assert row.closed_at == last(row).at
    assert (row.resolution, row.resolved_at, row.resolved_by) == (None, None, "")


def test_cancelling_ends_claim_and_reminders(ask, finance, approver, tenant_admin, as_person):
    row = ask(assignee="group:finance", reminder_interval_m=5)
    lifecycle.claim(row, actor=as_person(approver))
    lifecycle.cancel(row, actor=as_person(tenant_admin))
    row = again(row)
    assert (row.claimed_by, row.claimed_at, row.next_reminder_at) == ("", None, None)


@pytest.mark.parametrize("person", ["approver", "bystander", "auditor"])
def test_only_admins_cancel(refund, person, request, as_person):
    with pytest.raises(errors.NotAllowed, match="Only a tenant admin may cancel a checkpoint"):
        lifecycle.cancel(refund, actor=as_person(request.getfixturevalue(person)))


def key_of(tenant, *scopes):
    return actors.program(keys.create(tenant, name="narrow", scopes=scopes).row)


def test_a_key_that_manages_cancels_anything(refund, acme):
    assert lifecycle.cancel(refund, actor=key_of(acme, "checkpoints:manage")).status == "cancelled"


def test_a_key_that_creates_cancels_only_its_own(ask, refund, acme):
    narrow = key_of(acme, "checkpoints:create")
    with pytest.raises(errors.NotAllowed, match="Without checkpoints:manage a key cancels only what it created"):
        lifecycle.cancel(refund, actor=narrow)
    assert lifecycle.cancel(ask(actor=narrow), actor=narrow).status == "cancelled"


def test_a_rotated_key_keeps_what_its_predecessor_created(ask, acme):
    narrow = key_of(acme, "checkpoints:create")
    row = ask(actor=narrow)
    successor = actors.program(keys.rotate(narrow.key).row)
    assert lifecycle.cancel(row, actor=successor).status == "cancelled"


def test_another_key_of_the_same_name_is_another_key(ask, acme):
    row = ask(actor=key_of(acme, "checkpoints:create"))
    with pytest.raises(errors.NotAllowed):
        lifecycle.cancel(row, actor=key_of(acme, "checkpoints:create"))


# --- Comment --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("person", ["approver", "tenant_admin"])
def test_assignees_and_admins_comment_into_the_history(refund, person, request, as_person):
    lifecycle.comment(refund, actor=as_person(request.getfixturevalue(person)), text="Which order is it?")
    assert detail(refund) == {"text": "Which order is it?"}
    assert again(refund).is_pending


@pytest.mark.parametrize("person", ["bystander", "auditor"])
def test_nobody_else_comments(refund, person, request, as_person):
    with pytest.raises(errors.NotAllowed, match="Only assignees and tenant admins may comment"):
        lifecycle.comment(refund, actor=as_person(request.getfixturevalue(person)), text="Hello?")


def test_an_empty_comment_is_refused(refund, program):
    with pytest.raises(errors.InvalidInput, match="Write something"):
        lifecycle.comment(refund, actor=program, text=" \n ")
    assert story(refund) == ["created"]
