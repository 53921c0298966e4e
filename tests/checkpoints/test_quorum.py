"""Several decide together (semantics §3, quorum and four eyes)."""

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from django.db import IntegrityError, transaction
from django.utils import timezone

from checkpoints import errors, lifecycle, policy, quorum, sweeps
from checkpoints.answers import Answer
from checkpoints.models import Checkpoint, Event, Vote
from tenants import setup
from tenants.actors import Actor
from tenants.models import Group, Membership, Tenant, User
from tests.checkpoints.stories import again, story
from tests.racing import Race, keys

pytestmark = pytest.mark.django_db
Ask = Callable[..., Checkpoint]
People = Callable[[User], Actor]


@pytest.fixture
def crowd(acme: Tenant) -> list[User]:
    return [setup.add_person(acme, f"voter{number}@acme.example", groups=["board"]) for number in range(8)]


@pytest.fixture
def motion(ask: Ask, crowd: list[User]) -> Checkpoint:
    """Three of the board's eight must approve."""
    return ask(assignee="group:board", options=["approve", "reject", "later"], required_approvals=3)


def vote(row: Checkpoint, actor: Actor, decision: str = "approve", **more: Any) -> Checkpoint:
    return lifecycle.resolve(again(row), actor=actor, answer=Answer(decision=decision, **more))


def test_the_vote_that_reaches_the_number_decides(motion: Checkpoint, crowd: list[User], as_person: People) -> None:
    for user in crowd[:2]:
        assert vote(motion, as_person(user)).status == "pending"
    row = vote(motion, as_person(crowd[2]), comment="Fine with me.")
    assert row.status == "resolved"
    assert row.resolved_by == f"user:{crowd[2].email}"
    assert (row.resolution["decision"], row.resolution["approvals"], row.resolution["rejections"]) == ("approve", 3, 0)
    assert story(row) == ["created", "voted", "voted", "resolved"]
    assert again(row).row_version == 4


def test_one_rejection_decides_unless_some_are_allowed(
    ask: Ask, motion: Checkpoint, crowd: list[User], as_person: People
) -> None:
    row = vote(motion, as_person(crowd[0]), "later")
    assert (row.status, row.resolution["decision"]) == ("resolved", "later")

    patient = ask(
        assignee="group:board", options=["approve", "reject", "later"], required_approvals=3, rejections_allowed=1
    )
    assert vote(patient, as_person(crowd[0]), "reject").status == "pending"
    assert vote(patient, as_person(crowd[1])).status == "pending"
    row = vote(patient, as_person(crowd[2]), "later")
    assert (row.status, row.resolution["decision"], row.resolution["rejections"]) == ("resolved", "later", 2)


def test_nobody_votes_twice(motion: Checkpoint, crowd: list[User], as_person: People) -> None:
    vote(motion, as_person(crowd[0]))
    before = Event.objects.count()
    # The same vote delivered twice is one vote.
    assert vote(motion, as_person(crowd[0])).status == "pending"
    assert Event.objects.count() == before
    with pytest.raises(errors.AlreadyVoted):
        vote(motion, as_person(crowd[0]), "reject")
    assert quorum.tally(again(motion)).approvals == 1


def test_the_store_holds_one_vote_per_member_and_assignment(
    motion: Checkpoint, crowd: list[User], acme: Tenant
) -> None:
    fields = {"tenant": acme, "checkpoint": motion, "voter": "x", "decision": "approve", "approves": True}
    Vote.objects.create(assignment_version=1, at=timezone.now(), **fields)
    Vote.objects.create(assignment_version=2, at=timezone.now(), **fields)
    with pytest.raises(IntegrityError), transaction.atomic():
        Vote.objects.create(assignment_version=1, at=timezone.now(), **fields)


def test_a_vote_of_long_ago_repeated_after_the_decision_gets_the_outcome(
    motion: Checkpoint, crowd: list[User], as_person: People
) -> None:
    for user in crowd[:3]:
        vote(motion, as_person(user))
    assert vote(motion, as_person(crowd[0])).status == "resolved"
    with pytest.raises(errors.AlreadyResolved):
        vote(motion, as_person(crowd[0]), "reject")
    with pytest.raises(errors.AlreadyResolved):
        vote(motion, as_person(crowd[5]))


def test_keys_and_admins_who_are_not_asked_override(
    ask: Ask, motion: Checkpoint, crowd: list[User], as_person: People, tenant_admin: User, program: Actor
) -> None:
    row = vote(motion, as_person(tenant_admin), "reject")
    assert (row.status, row.resolution["override"]) == ("resolved", True)
    other = ask(assignee="group:board", options=["approve"], required_approvals=2)
    row = vote(other, program)
    assert (row.status, row.resolution["override"], row.resolved_by) == ("resolved", True, "key:refund-agent")
    assert not Vote.objects.exists()


def test_an_admin_who_is_asked_votes_like_the_others(
    ask: Ask, tenant_admin: User, second_admin: User, as_person: People
) -> None:
    row = ask(assignee="role:tenant_admin", options=["approve"], required_approvals=2)
    assert vote(row, as_person(tenant_admin)).status == "pending"
    assert vote(row, as_person(second_admin)).status == "resolved"


def test_a_new_assignment_starts_the_count_anew(
    motion: Checkpoint, crowd: list[User], as_person: People, tenant_admin: User
) -> None:
    for user in crowd[:2]:
        vote(motion, as_person(user))
    lifecycle.reassign(again(motion), actor=as_person(tenant_admin), assignee="group:board")
    assert quorum.tally(again(motion)).approvals == 0
    assert vote(motion, as_person(crowd[0])).status == "pending"


def test_it_cannot_be_claimed_or_given_to_one_person(
    motion: Checkpoint, crowd: list[User], as_person: People, tenant_admin: User
) -> None:
    with pytest.raises(errors.NotClaimable):
        lifecycle.claim(motion, actor=as_person(crowd[0]))
    with pytest.raises(errors.InvalidInput, match="only a group or a role"):
        lifecycle.reassign(motion, actor=as_person(tenant_admin), assignee=f"user:{crowd[0].email}")
    with pytest.raises(errors.InvalidInput):
        lifecycle.reassign(motion, actor=as_person(crowd[0]), assignee=crowd[1].email)


def test_somebody_who_left_cannot_vote_and_what_they_voted_counts(
    motion: Checkpoint, crowd: list[User], as_person: People, acme: Tenant
) -> None:
    vote(motion, as_person(crowd[0]))
    Membership.objects.for_tenant(acme).filter(user__in=crowd[:2]).update(is_active=False)
    with pytest.raises(errors.NotAllowed):
        vote(motion, as_person(crowd[1]))
    vote(motion, as_person(crowd[2]))
    assert vote(motion, as_person(crowd[3])).status == "resolved"


@pytest.mark.parametrize(
    ("fields", "name"),
    [
        ({"assignee": "voter0@acme.example"}, "assignee"),
        ({"assignee": "delegated_user"}, "assignee"),
        ({"required_approvals": 9}, "required_approvals"),
        ({"required_approvals": 0}, "required_approvals"),
        ({"options": ["yes", "no"]}, "required_approvals"),
        ({"checkpoint_type": "freeform"}, "required_approvals"),
        ({"routing": "external"}, "required_approvals"),
        ({"required_approvals": 1, "rejections_allowed": 1}, "rejections_allowed"),
        (
            {"timeout": "1h", "expiry_action": "escalate", "escalation_target": "user:a@b.example"},
            "escalation_target",
        ),
        (
            {
                "timeout": "1h",
                "expiry_action": "escalate",
                "escalation_target": "group:board",
                "escalation_chain": ["x@y.example"],
            },
            "escalation_chain",
        ),
    ],
)
def test_a_quorum_that_makes_no_sense_is_refused_by_name(
    ask: Ask, crowd: list[User], fields: dict[str, Any], name: str
) -> None:
    with pytest.raises(errors.InvalidInput) as refused:
        ask(**{"assignee": "group:board", "required_approvals": 2} | fields)
    assert name in refused.value.errors
    assert not Checkpoint.objects.exists()


def test_the_requester_does_not_count_under_four_eyes(ask: Ask, acme: Tenant, approver: User, colleague: User) -> None:
    asked = {"assignee": "group:finance", "required_approvals": 2, "requested_by": approver.email}
    assert ask(**asked).status == "pending"
    with pytest.raises(errors.InvalidInput, match="2 approvals are out of reach: 1 in group:finance can vote"):
        ask(**asked, forbid_requester=True)


def test_a_missing_group_is_not_a_lost_checkpoint(ask: Ask) -> None:
    row = ask(assignee="group:nobody", required_approvals=2)
    assert row.is_unrouted


@pytest.mark.both_databases
def test_a_quorum_out_of_reach_goes_to_the_queue_and_says_so(
    ask: Ask, finance: Group, acme: Tenant, colleague: User
) -> None:
    both = ask(assignee="group:finance", required_approvals=2)
    single = ask(assignee="group:finance")
    assert sweeps.reroute().done == 0
    Membership.objects.for_tenant(acme).filter(user=colleague).update(is_active=False)
    assert sweeps.reroute().done == 1
    assert again(both).is_unrouted
    assert again(both).unrouted_reason == (
        "The quorum is out of reach: of 2 approvals 0 are there, and 1 in group “finance” can still vote."
    )
    assert not again(single).is_unrouted
    assert sweeps.reroute().done == 0


@pytest.mark.both_databases
def test_who_has_voted_already_still_counts_for_the_reach(
    ask: Ask, finance: Group, acme: Tenant, approver: User, colleague: User, as_person: People
) -> None:
    row = ask(assignee="group:finance", required_approvals=2)
    vote(row, as_person(colleague))
    Membership.objects.for_tenant(acme).filter(user=colleague).update(is_active=False)
    assert sweeps.reroute().done == 0
    assert vote(row, as_person(approver)).status == "resolved"


@pytest.mark.both_databases
def test_escalation_asks_the_next_group_and_counts_anew(
    ask: Ask, crowd: list[User], finance: Group, as_person: People, later: Callable[..., None], approver: User
) -> None:
    row = ask(
        assignee="group:board",
        required_approvals=2,
        timeout="1h",
        expiry_action="escalate",
        escalation_target="group:finance",
    )
    vote(row, as_person(crowd[0]))
    later(hours=2)
    sweeps.expire_checkpoints()
    assert again(row).assignee_value == "finance"
    assert quorum.tally(again(row)).approvals == 0
    assert vote(row, as_person(approver)).status == "pending"


@pytest.mark.both_databases
@pytest.mark.django_db(transaction=True)
def test_everybody_votes_at_once_and_exactly_one_vote_decides(ask: Ask, crowd: list[User]) -> None:
    rows = [ask(assignee="group:board", options=["approve", "reject"], required_approvals=3) for _ in range(20)]
    with Race() as race:
        for place, user in enumerate(crowd):
            ids = keys(rows) if place % 2 else keys(reversed(rows))
            race.enter("decide", ids=ids, email=user.email, decision="approve")
        results = race.results()
    for row in map(again, rows):
        outcomes = Counter(result[str(row.pk)] for result in results)
        assert outcomes == {"won": 3, "already_resolved": 5}
        assert (row.status, row.resolution["approvals"]) == ("resolved", 3)
        assert story(row) == ["created", "voted", "voted", "resolved"]
        assert Vote.objects.filter(checkpoint=row).count() == 3


def test_whoever_voted_still_sees_it_when_somebody_else_decided(
    motion: Checkpoint, crowd: list[User], as_person: People, acme: Tenant
) -> None:
    for user in crowd[:3]:
        vote(motion, as_person(user))
    now = timezone.now()
    for user in crowd[:3]:
        assert policy.find(as_person(user), motion.pk, at=now) is not None
    assert policy.find(as_person(crowd[5]), motion.pk, at=now) is None


def test_the_row_that_a_vote_returns_knows_the_vote(motion: Checkpoint, crowd: list[User], as_person: People) -> None:
    row = vote(motion, as_person(crowd[0]), comment="Yes.")
    picture = quorum.picture(row)
    assert picture is not None
    assert [cast.voter for cast in picture["votes"]] == [crowd[0].email]
    assert picture["missing"] == 2
