"""Reassign, claim, release: whose it is (semantics §3)."""

import pytest

from checkpoints import errors, lifecycle
from checkpoints.models import Checkpoint
from tenants import setup
from tenants.models import Membership
from tests.checkpoints.stories import again, detail, last, story

# --- Reassign -------------------------------------------------------------------------------------------------------


def test_an_admin_reassigns_to_anybody(unrouted, finance, tenant_admin, as_person):
    lifecycle.reassign(unrouted, actor=as_person(tenant_admin), assignee="group:finance", comment="Yours.")
    row = again(unrouted)
    assert (row.assignee_raw, row.assignee_type, row.assignee_value) == ("group:finance", "group", "finance")
    assert row.assignee_resolved["reason"] is None
    assert row.assignment_version == 2
    told = detail(row)
    assert (told["from"], told["to"], told["comment"]) == ("team:blue", "group:finance", "Yours.")


def test_an_admin_may_reassign_to_a_stranger_or_into_the_queue(refund, tenant_admin, as_person):
    admin = as_person(tenant_admin)
    assert lifecycle.reassign(refund, actor=admin, assignee="new@elsewhere.example").assignee_type == "user"
    row = again(lifecycle.reassign(refund, actor=admin, assignee="group:nowhere"))
    assert row.is_unrouted
    assert row.unrouted_reason == "There is no group “nowhere” in Acme."
    assert row.assignment_version == 3


def test_a_key_reassigns_to_anybody(refund, program):
    assert lifecycle.reassign(refund, actor=program, assignee="new@elsewhere.example").assignment_version == 2


def test_reassigning_ends_a_claim(refund, approver, tenant_admin, as_person):
    lifecycle.claim(refund, actor=as_person(approver))
    row = lifecycle.reassign(refund, actor=as_person(tenant_admin), assignee="role:approver")
    assert (row.claimed_by, row.claimed_at) == ("", None)


def test_a_string_that_is_too_long_is_refused(refund, program):
    with pytest.raises(errors.InvalidInput, match="At most 300 characters"):
        lifecycle.reassign(refund, actor=program, assignee="x" * 301)
    assert again(refund).row_version == 1


def test_an_assignee_hands_over_to_one_active_member(refund, approver, bystander, as_person, decide):
    row = lifecycle.reassign(refund, actor=as_person(approver), assignee="Bystander@acme.example")
    assert (row.assignee_type, row.assignee_value, row.assignment_version) == ("user", "bystander@acme.example", 2)
    assert decide(row, bystander, "approve").status == "resolved"
    assert story(row) == ["created", "reassigned", "resolved"]


def test_whoever_handed_it_over_may_not_decide_it_any_more(refund, approver, bystander, as_person, decide):
    row = lifecycle.reassign(refund, actor=as_person(approver), assignee="bystander@acme.example")
    with pytest.raises(errors.NotAllowed):
        decide(row, approver, "approve")


@pytest.mark.parametrize(
    "target",
    [
        "group:finance",
        "role:approver",
        "delegated_user",
        "",
        "team:blue",
        "stranger@elsewhere.example",
        "outsider@globex.example",
        "removed@acme.example",
        "disabled@acme.example",
        "0190b5d2-7c1e-7a44-9c8f-3f6f5a1d2e3b",
    ],
)
def test_an_assignee_hands_over_to_nobody_else_and_cannot_probe(refund, acme, outsider, approver, as_person, target):
    removed = setup.add_person(acme, "removed@acme.example")
    Membership.objects.filter(user=removed).update(is_active=False)
    disabled = setup.add_person(acme, "disabled@acme.example")
    disabled.is_active = False
    disabled.save()
    with pytest.raises(errors.InvalidInput) as refused:
        lifecycle.reassign(refund, actor=as_person(approver), assignee=target)
    assert refused.value.errors == {"assignee": ["This person cannot take it over."]}
    assert again(refund).row_version == 1


def test_a_claim_stops_the_others_from_handing_over(refund, approver, colleague, bystander, as_person):
    lifecycle.claim(refund, actor=as_person(approver))
    with pytest.raises(errors.ClaimedByOther, match=r"approver@acme\.example is working on this"):
        lifecycle.reassign(refund, actor=as_person(colleague), assignee="bystander@acme.example")
    lifecycle.reassign(again(refund), actor=as_person(approver), assignee="bystander@acme.example")
    assert again(refund).assignee_value == "bystander@acme.example"


@pytest.mark.parametrize("person", ["bystander", "auditor"])
def test_nobody_else_reassigns(refund, person, request, as_person):
    with pytest.raises(errors.NotAllowed, match="Only an assignee may hand over"):
        lifecycle.reassign(refund, actor=as_person(request.getfixturevalue(person)), assignee="approver@acme.example")


# --- Claim ----------------------------------------------------------------------------------------------------------


def test_a_claimed_unrouted_checkpoint_becomes_the_admins(unrouted, tenant_admin, as_person):
    lifecycle.claim(unrouted, actor=as_person(tenant_admin))
    row = again(unrouted)
    assert (row.assignee_raw, row.assignee_type) == ("user:admin@acme.example", "user")
    assert (row.assignee_value, row.claimed_by) == ("admin@acme.example", "admin@acme.example")
    assert row.assignee_resolved == {"type": "user", "value": "admin@acme.example", "reason": None}
    assert row.assignment_version == 2
    assert row.claimed_at == last(row).at
    assert detail(row)["reason"].startswith("Nobody knows the prefix")
    assert not Checkpoint.objects.unrouted().exists()


@pytest.mark.parametrize("person", ["approver", "bystander", "auditor"])
def test_only_admins_claim_what_is_assigned_to_nobody(unrouted, person, request, as_person):
    with pytest.raises(errors.NotAllowed, match="Only a tenant admin may claim"):
        lifecycle.claim(unrouted, actor=as_person(request.getfixturevalue(person)))


@pytest.mark.parametrize("assignee", ["group:finance", "role:approver"])
def test_a_claim_of_a_group_or_role_does_not_change_the_assignment(ask, finance, approver, as_person, assignee):
    row = ask(assignee=assignee)
    lifecycle.claim(row, actor=as_person(approver))
    row = again(row)
    assert row.claimed_by == "approver@acme.example"
    assert (row.assignee_raw, row.assignment_version, row.row_version) == (assignee, 1, 2)


def test_a_second_claimer_is_refused_with_the_name(refund, approver, colleague, as_person):
    lifecycle.claim(refund, actor=as_person(approver))
    with pytest.raises(errors.ClaimedByOther, match=r"approver@acme\.example is working on this"):
        lifecycle.claim(again(refund), actor=as_person(colleague))


def test_claiming_again_what_one_has_changes_nothing(refund, approver, as_person):
    for _ in range(2):
        lifecycle.claim(again(refund), actor=as_person(approver))
    assert story(refund) == ["created", "claimed"]


def test_a_claim_lapses_after_the_tenants_minutes(acme, refund, approver, colleague, as_person, later):
    acme.claim_minutes = 10
    acme.save()
    lifecycle.claim(again(refund), actor=as_person(approver))
    later(minutes=9)
    with pytest.raises(errors.ClaimedByOther):
        lifecycle.claim(again(refund), actor=as_person(colleague))
    later(minutes=1)
    assert lifecycle.claim(again(refund), actor=as_person(colleague)).claimed_by == "colleague@acme.example"
    assert story(refund) == ["created", "claimed", "claimed"]


def test_a_lapsed_claim_can_be_taken_again_by_the_same_person(refund, approver, as_person, later):
    lifecycle.claim(refund, actor=as_person(approver))
    later(minutes=61)
    assert again(refund).claimant(at=again(refund).claim_ends_at()) == ""
    lifecycle.claim(again(refund), actor=as_person(approver))
    assert story(refund) == ["created", "claimed", "claimed"]


@pytest.mark.parametrize("assignee", ["user:approver@acme.example", "user:admin@acme.example"])
def test_what_is_assigned_to_one_person_is_not_claimable(ask, approver, tenant_admin, as_person, assignee):
    row = ask(assignee=assignee)
    with pytest.raises(errors.NotClaimable, match="assigned to one person"):
        lifecycle.claim(row, actor=as_person(tenant_admin))


def test_an_admin_who_is_not_in_the_group_does_not_claim_it(refund, tenant_admin, as_person):
    with pytest.raises(errors.NotAllowed, match="is not an assignee"):
        lifecycle.claim(refund, actor=as_person(tenant_admin))


def test_somebody_outside_the_group_does_not_claim(refund, bystander, as_person):
    with pytest.raises(errors.NotAllowed, match="is not an assignee"):
        lifecycle.claim(refund, actor=as_person(bystander))


def test_a_key_claims_for_a_named_person(refund, approver, program):
    row = lifecycle.claim(refund, actor=program, on_behalf_of=approver)
    assert row.claimed_by == "approver@acme.example"
    assert (last(row).actor, detail(row)) == ("key:refund-agent", {"by": "approver@acme.example"})


def test_a_key_claims_an_unrouted_one_only_for_an_admin(unrouted, approver, tenant_admin, program):
    with pytest.raises(errors.NotAllowed, match="Only a tenant admin may claim"):
        lifecycle.claim(unrouted, actor=program, on_behalf_of=approver)
    assert lifecycle.claim(unrouted, actor=program, on_behalf_of=tenant_admin).assignee_value == "admin@acme.example"


def test_a_key_must_name_the_person(refund, program):
    for command in (lifecycle.claim, lifecycle.release):
        with pytest.raises(errors.InvalidInput, match="A key acts on behalf of a person"):
            command(refund, actor=program)


def test_a_person_claims_only_for_themselves(refund, approver, colleague, as_person):
    with pytest.raises(errors.NotAllowed, match="only for yourself"):
        lifecycle.claim(refund, actor=as_person(approver), on_behalf_of=colleague)
    assert lifecycle.claim(refund, actor=as_person(approver), on_behalf_of=approver).claimed_by == approver.email


def test_two_admins_claim_the_same_one_and_the_second_sees_who_has_it(unrouted, tenant_admin, second_admin, as_person):
    behind = again(unrouted)
    lifecycle.claim(unrouted, actor=as_person(tenant_admin))
    with pytest.raises(errors.ClaimedByOther, match=r"admin@acme\.example is working on this"):
        lifecycle.claim(behind, actor=as_person(second_admin))


# --- Release --------------------------------------------------------------------------------------------------------


def test_whoever_claimed_releases(refund, approver, as_person):
    refund = lifecycle.claim(refund, actor=as_person(approver))
    row = again(lifecycle.release(refund, actor=as_person(approver)))
    assert (row.claimed_by, row.claimed_at, row.assignment_version) == ("", None, 1)
    assert detail(row) == {"by": "approver@acme.example", "was": "approver@acme.example"}


def test_an_admin_releases_anybodys_claim(refund, approver, tenant_admin, as_person):
    refund = lifecycle.claim(refund, actor=as_person(approver))
    lifecycle.release(refund, actor=as_person(tenant_admin))
    assert detail(refund) == {"by": "admin@acme.example", "was": "approver@acme.example"}


@pytest.mark.parametrize("person", ["colleague", "bystander"])
def test_nobody_else_releases_a_claim(refund, approver, person, request, as_person):
    lifecycle.claim(refund, actor=as_person(approver))
    with pytest.raises(errors.NotAllowed, match=r"approver@acme\.example has claimed it"):
        lifecycle.release(again(refund), actor=as_person(request.getfixturevalue(person)))


def test_somebody_who_left_the_group_can_still_give_back_their_claim(refund, approver, finance, as_person):
    refund = lifecycle.claim(refund, actor=as_person(approver))
    finance.members.remove(Membership.objects.get(user=approver))
    assert lifecycle.release(refund, actor=as_person(approver)).claimed_by == ""


def test_a_lapsed_claim_can_be_cleared_by_a_colleague(refund, approver, colleague, as_person, later):
    refund = lifecycle.claim(refund, actor=as_person(approver))
    later(minutes=61)
    assert lifecycle.release(refund, actor=as_person(colleague)).claimed_by == ""


def test_there_is_nothing_to_release_without_a_claim(refund, approver, as_person):
    with pytest.raises(errors.NotClaimable, match="Nobody has claimed this"):
        lifecycle.release(refund, actor=as_person(approver))


def test_a_released_unrouted_one_stays_with_the_admin_who_claimed_it(unrouted, tenant_admin, as_person):
    unrouted = lifecycle.claim(unrouted, actor=as_person(tenant_admin))
    row = lifecycle.release(unrouted, actor=as_person(tenant_admin))
    assert (row.assignee_value, row.claimed_by) == ("admin@acme.example", "")
