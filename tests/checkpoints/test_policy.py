"""Who may see and do what, and why (semantics §3)."""

from datetime import timedelta

import pytest
from django.utils import timezone

from checkpoints import errors, lifecycle, policy
from tenants import actors, keys, setup
from tenants.models import Delegation, Group, Membership, User
from tests.checkpoints.stories import again

PEOPLE = ["approver", "bystander", "auditor", "tenant_admin", "removed", "disabled"]
ASSIGNEE_AND_ADMIN = {"approver", "tenant_admin"}
ADMIN = {"tenant_admin"}
# The table of §3 for a checkpoint that waits for the group finance, in which only the approver is.
MAY = {
    "resolve": ASSIGNEE_AND_ADMIN,
    "cancel": ADMIN,
    "reassign": ASSIGNEE_AND_ADMIN,
    "claim": {"approver"},
    "release": ASSIGNEE_AND_ADMIN,
    "extend": ADMIN,
    "remind": ADMIN,
    "comment": ASSIGNEE_AND_ADMIN,
}
# The same for one that waits in the queue.
MAY_IN_THE_QUEUE = dict.fromkeys(MAY, ADMIN)
SCOPES = {
    "resolve": "checkpoints:resolve",
    "cancel": "checkpoints:manage",
    "reassign": "checkpoints:manage",
    "claim": "checkpoints:resolve",
    "release": "checkpoints:resolve",
    "extend": "checkpoints:manage",
    "remind": "checkpoints:manage",
    "comment": "checkpoints:resolve",
}


@pytest.fixture
def removed(acme):
    user = setup.add_person(acme, "removed@acme.example", roles=["tenant_admin"], groups=["finance"])
    Membership.objects.filter(user=user).update(is_active=False)
    return user


@pytest.fixture
def disabled(acme):
    user = setup.add_person(acme, "disabled@acme.example", roles=["tenant_admin"], groups=["finance"])
    user.is_active = False
    user.save()
    return user


@pytest.fixture
def verdict(as_person):
    def ask_policy(who, command, row):
        actor = as_person(who) if isinstance(who, User) else who
        return policy.verdict(actor, command, row, at=timezone.now())

    return ask_policy


@pytest.fixture
def sees(as_person):
    def visible(who):
        actor = as_person(who) if isinstance(who, User) else who
        return set(policy.visible(actor, at=timezone.now()))

    return visible


def is_sentence(text):
    return text[:1] == text[:1].upper() or "@" in text.split(" ", 1)[0]


# --- Doing ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("person", PEOPLE)
@pytest.mark.parametrize("command", MAY)
def test_each_person_may_do_what_the_table_says(command, person, request, ask, approver, verdict):
    row = ask(assignee="group:finance", timeout="1h")
    found = verdict(request.getfixturevalue(person), command, row)
    assert found.allowed == (person in MAY[command])
    assert found.reason.endswith(".")
    assert is_sentence(found.reason)


@pytest.mark.parametrize("person", PEOPLE)
@pytest.mark.parametrize("command", MAY_IN_THE_QUEUE)
def test_the_queue_is_for_admins(command, person, request, unrouted, approver, verdict):
    found = verdict(request.getfixturevalue(person), command, unrouted)
    assert found.allowed == (person in MAY_IN_THE_QUEUE[command])
    assert found.reason.endswith(".")


def test_the_matrix_knows_every_command_there_is():
    # Those left out are not about what one does to a row.
    assert set(MAY) == set(SCOPES) == set(policy.SCOPES) - {"create", "read", "audit"}


@pytest.mark.parametrize("command", MAY)
def test_an_outsider_may_do_nothing_and_learns_nothing(command, refund, outsider, globex, foreign_program, verdict):
    for actor in (actors.person(outsider, globex, via="admin"), foreign_program):
        found = verdict(actor, command, refund)
        assert (found.allowed, found.refusal) == (False, errors.NotFound)
        assert found.reason == "There is no such checkpoint."


@pytest.mark.parametrize("command", MAY)
def test_an_outsider_who_poses_as_a_member_is_refused(command, refund, outsider, verdict):
    found = verdict(outsider, command, refund)
    assert not found.allowed
    assert found.reason == "outsider@globex.example is not an active member of Acme."


@pytest.mark.parametrize("scope", sorted(set(SCOPES.values()) | {"checkpoints:read", "checkpoints:resume"}))
@pytest.mark.parametrize("command", SCOPES)
def test_a_key_needs_the_scope_of_the_command(command, scope, acme, refund, verdict):
    key = actors.program(keys.create(acme, name="narrow", scopes=[scope]).row)
    found = verdict(key, command, refund)
    assert found.allowed == (SCOPES[command] == scope)
    assert found.reason.endswith(".")


@pytest.mark.parametrize("command", SCOPES)
def test_the_older_name_of_a_scope_stands_for_all_of_them(command, acme, refund, verdict):
    key = actors.program(keys.create(acme, name="old", scopes=["scaicore:manage"]).row)
    assert verdict(key, command, refund).allowed


@pytest.mark.parametrize(
    ("assignee", "because"),
    [
        ("user:approver@acme.example", "it is assigned to them"),
        ("group:finance", "they are in the group “finance”"),
        ("role:approver", "they hold the role “approver”"),
        ("delegated_user", "the core “refund-agent” is delegated to them"),
    ],
)
def test_the_reason_says_by_what_somebody_may_decide(ask, acme, core, approver, verdict, assignee, because):
    Delegation.objects.create(tenant=acme, core=core, delegate=Membership.objects.get(user=approver))
    found = verdict(approver, "resolve", ask(assignee=assignee))
    assert found.reason == f"approver@acme.example may decide: {because}."
    assert not found.override


def test_an_admins_word_is_an_override_unless_they_are_asked(ask, refund, tenant_admin, verdict):
    found = verdict(tenant_admin, "resolve", refund)
    assert (found.override, found.reason) == (
        True,
        "admin@acme.example is a tenant admin and overrides the assignment.",
    )
    assert not verdict(tenant_admin, "resolve", ask(assignee="admin@acme.example")).override


def test_an_operator_is_an_admin_everywhere_until_disabled(refund, verdict, sees):
    operator = User.objects.create_superuser("operator@holdpoint.example")
    assert verdict(operator, "cancel", refund).allowed
    assert sees(operator) == {refund}
    operator.is_active = False
    operator.save()
    assert not verdict(operator, "cancel", refund).allowed
    assert sees(operator) == set()


# --- At the moment of acting ----------------------------------------------------------------------------------------


def test_somebody_who_joined_after_the_question_may_decide(refund, acme, bystander, verdict, sees):
    assert not verdict(bystander, "resolve", refund).allowed
    setup.add_person(acme, bystander.email, groups=["finance"])
    assert verdict(bystander, "resolve", refund).allowed
    assert sees(bystander) == {refund}


def test_somebody_who_left_since_may_not(refund, finance, approver, verdict, sees):
    assert verdict(approver, "resolve", refund).allowed
    finance.members.remove(Membership.objects.get(user=approver))
    assert not verdict(approver, "resolve", refund).allowed
    assert sees(approver) == set()


def test_a_checkpoint_follows_the_delegation(ask, acme, core, approver, colleague, verdict, sees):
    now = timezone.now()
    first = Delegation.objects.create(
        tenant=acme, core=core, delegate=Membership.objects.get(user=approver), starts_at=now - timedelta(days=1)
    )
    row = ask(assignee="delegated_user")
    assert (verdict(approver, "resolve", row).allowed, verdict(colleague, "resolve", row).allowed) == (True, False)

    second = Delegation.objects.create(
        tenant=acme, core=core, delegate=Membership.objects.get(user=colleague), starts_at=now
    )
    assert (verdict(approver, "resolve", row).allowed, verdict(colleague, "resolve", row).allowed) == (False, True)
    assert (sees(approver), sees(colleague)) == (set(), {row})

    second.delete()
    first.ends_at = now
    first.save()
    assert not verdict(approver, "resolve", row).allowed
    assert sees(approver) == set()


def test_a_delegation_of_one_core_is_not_one_of_another(ask, acme, core, approver, sees):
    Delegation.objects.create(tenant=acme, core=core, delegate=Membership.objects.get(user=approver))
    mine = ask(assignee="delegated_user")
    ask(assignee="delegated_user", core_id="another")
    assert sees(approver) == {mine}


@pytest.mark.parametrize("person", ["removed", "disabled"])
def test_whoever_is_gone_sees_nothing_even_of_their_own(person, request, ask, approver, sees):
    user = request.getfixturevalue(person)
    ask(assignee=f"user:{approver.email}", requested_by=user.email)
    ask(assignee="group:finance")
    assert sees(user) == set()


# --- Seeing ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def variety(ask, core, finance, acme):
    Group.objects.create(tenant=acme, slug="legal")
    return {
        "group": ask(assignee="group:finance"),
        "other": ask(assignee="someone@else.example"),
        "queue": ask(assignee="group:legal"),
        "by_id": ask(assignee=f"user:{User.objects.get(email='approver@acme.example').pk}"),
        "role": ask(assignee="role:approver"),
        "requested": ask(assignee="someone@else.example", requested_by="approver@acme.example"),
        "outside": ask(routing="external"),
    }


@pytest.mark.parametrize("person", ["tenant_admin", "auditor"])
def test_admins_and_auditors_see_all_of_their_tenant(person, request, variety, ask, foreign_program, sees):
    ask(actor=foreign_program)
    assert sees(request.getfixturevalue(person)) == set(variety.values())


def test_a_key_sees_its_tenant(variety, ask, program, foreign_program, sees):
    theirs = ask(actor=foreign_program)
    assert sees(program) == set(variety.values())
    assert sees(foreign_program) == {theirs}


def test_an_approver_sees_what_they_may_decide_or_requested(variety, approver, bystander, sees):
    assert sees(approver) == {variety[name] for name in ("group", "by_id", "role", "requested")}
    assert sees(bystander) == {variety["role"]}


def test_an_approver_goes_on_seeing_what_they_decided_and_not_what_others_did(
    refund, ask, approver, colleague, decide, sees
):
    theirs = ask(assignee="group:finance")
    decide(refund, approver, "approve")
    decide(theirs, colleague, "approve")
    assert sees(approver) == {again(refund)}
    assert sees(colleague) == {again(theirs)}


def test_what_is_visible_as_actionable_is_what_policy_lets_somebody_decide(
    variety, ask, acme, core, approver, bystander, tenant_admin, as_person
):
    """The query and the verdict are two spellings of one rule."""
    from checkpoints.models import Checkpoint
    from tenants import directory

    Delegation.objects.create(tenant=acme, core=core, delegate=Membership.objects.get(user=bystander))
    ask(assignee="delegated_user")
    now = timezone.now()
    for user in (approver, bystander, tenant_admin):
        standing = directory.standing(acme, user)
        listed = set(Checkpoint.objects.for_tenant(acme).actionable_by(standing, at=now))
        allowed = {
            row
            for row in Checkpoint.objects.for_tenant(acme)
            if (found := policy.verdict(as_person(user), "resolve", row, at=now)).allowed and not found.override
        }
        assert listed == allowed


def test_a_removed_assignee_cannot_slip_in_between_reading_and_deciding(refund, approver, acme, decide):
    Membership.objects.filter(user=approver).update(is_active=False)
    with pytest.raises(errors.NotAllowed, match="is not an active member of Acme"):
        decide(refund, approver, "approve")


def test_nobody_signed_in_may_do_nothing(refund, acme, verdict):
    nobody = actors.Actor(tenant=acme, kind="user", name="", via="admin")
    assert verdict(nobody, "resolve", refund).reason == "Nobody is signed in."


def test_a_claim_is_somebody_elses_only_while_it_lasts(refund, approver, colleague, as_person, verdict, later):
    refund = lifecycle.claim(refund, actor=as_person(approver))
    found = verdict(colleague, "resolve", refund)
    assert (found.allowed, found.refusal) == (False, errors.ClaimedByOther)
    later(minutes=61)
    assert verdict(colleague, "resolve", refund).allowed
