"""Reassign, claim, release, reroute: whose it is."""

from datetime import datetime
from typing import Any

from django.utils import timezone

from checkpoints import assignment, errors, policy, quorum
from checkpoints.lifecycle.change import Along, Change, change
from checkpoints.models import AssigneeType, Checkpoint
from tenants import actors, directory
from tenants.actors import Actor
from tenants.models import User

UNCLAIMED: dict[str, Any] = {"claimed_by": "", "claimed_at": None}


def reassign(
    checkpoint: Checkpoint,
    *,
    actor: Actor,
    assignee: str,
    comment: str = "",
    if_version: int | None = None,
    along: Along | None = None,
) -> Checkpoint:
    """An admin or a key to anybody; an assignee hands over to one active member of the tenant."""
    now = timezone.now()
    if len(assignee) > assignment.RAW_LENGTH:
        raise errors.InvalidInput({"assignee": [assignment.TOO_LONG]}, checkpoint)

    def plan(row: Checkpoint, verdict: policy.Verdict) -> Change:
        found = assignment.resolve(assignee, tenant=row.tenant, core=row.core, at=now)
        if actor.user is not None and not directory.standing(actor.tenant, actor.user).is_admin:
            _check_hand_over(found, row)
        if quorum.applies_to(row) and found.type not in {*quorum.TYPES, AssigneeType.UNROUTED}:
            raise errors.InvalidInput({"assignee": ["It needs a quorum: only a group or a role can be asked."]}, row)
        found = assignment.four_eyes(found, tenant=row.tenant, without=assignment.excluded(row))
        return Change("reassigned", moved_to(row, found), _story(row, found, comment))

    return change(checkpoint, command="reassign", actor=actor, at=now, plan=plan, if_version=if_version, along=along)


def _check_hand_over(found: assignment.Assignment, row: Checkpoint) -> None:
    membership = directory.membership_of(row.tenant, found.value) if found.type == AssigneeType.USER else None
    if membership is None:
        # One sentence whatever the cause: nobody may probe who is a member.
        raise errors.InvalidInput({"assignee": ["This person cannot take it over."]}, row)
    if row.forbid_requester and assignment.is_person(membership.user, row.requested_by):
        raise errors.InvalidInput({"assignee": ["This person asked for it and may not decide it (four eyes)."]}, row)


def moved_to(row: Checkpoint, found: assignment.Assignment) -> dict[str, Any]:
    """A new assignment: emailed links of the old one die with its version, and so does a claim."""
    return found.columns() | UNCLAIMED | {"assignment_version": row.assignment_version + 1}


def _story(row: Checkpoint, found: assignment.Assignment, comment: str = "") -> dict[str, Any]:
    story: dict[str, Any] = {"from": row.assignee_raw, "to": found.raw, "assignee_resolved": found.resolved}
    if comment.strip():
        story["comment"] = comment
    return story


def claim(
    checkpoint: Checkpoint,
    *,
    actor: Actor,
    on_behalf_of: User | None = None,
    if_version: int | None = None,
    along: Along | None = None,
) -> Checkpoint:
    """Unrouted: it becomes the claimer's. Group or role: others see who has it and are refused."""
    now = timezone.now()
    claimer = _claimer(actor, on_behalf_of)
    person = actors.person(claimer, actor.tenant, via=actor.via)
    claimed = {"claimed_by": claimer.email, "claimed_at": now}

    def plan(row: Checkpoint, verdict: policy.Verdict) -> Change:
        policy.verdict(person, "claim", row, at=now).enforce(row)
        if row.is_unrouted:
            found = assignment.resolve(f"user:{claimer.email}", tenant=row.tenant, core=row.core, at=now)
            story = {"by": claimer.email, "reason": row.unrouted_reason}
            return Change("claimed", moved_to(row, found) | claimed, story)
        return Change("claimed", claimed, {"by": claimer.email})

    def replay(row: Checkpoint) -> bool:
        """Claiming again what one has claimed changes nothing."""
        return row.is_pending and row.claimant(at=now) == claimer.email

    return change(
        checkpoint, command="claim", actor=actor, at=now, plan=plan, replay=replay, if_version=if_version, along=along
    )


def release(
    checkpoint: Checkpoint,
    *,
    actor: Actor,
    on_behalf_of: User | None = None,
    if_version: int | None = None,
    along: Along | None = None,
) -> Checkpoint:
    now = timezone.now()
    releaser = _claimer(actor, on_behalf_of)
    person = actors.person(releaser, actor.tenant, via=actor.via)

    def plan(row: Checkpoint, verdict: policy.Verdict) -> Change:
        policy.verdict(person, "release", row, at=now).enforce(row)
        if not row.claimed_by:
            raise errors.NotClaimable(row, "Nobody has claimed this.")
        return Change("released", UNCLAIMED, {"by": releaser.email, "was": row.claimed_by})

    return change(checkpoint, command="release", actor=actor, at=now, plan=plan, if_version=if_version, along=along)


def _claimer(actor: Actor, on_behalf_of: User | None) -> User:
    """A key acts for the person it names; a person only for themselves."""
    if actor.user is not None:
        if on_behalf_of is not None and on_behalf_of != actor.user:
            raise errors.NotAllowed(None, "You can do this only for yourself; leave “for” out.")
        return actor.user
    if on_behalf_of is None:
        raise errors.InvalidInput({"for": ["A key acts on behalf of a person: give their email or user id."]})
    return on_behalf_of


def reroute(checkpoint: Checkpoint, *, at: datetime) -> Checkpoint:
    """Nobody can act any more: into the queue. The delegation moved: to the new delegate. Otherwise nothing."""

    def plan(row: Checkpoint, verdict: policy.Verdict) -> Change | None:
        found = assignment.resolve(row.assignee_raw, tenant=row.tenant, core=row.core, at=at)
        found = assignment.four_eyes(found, tenant=row.tenant, without=assignment.excluded(row))
        if reason := quorum.out_of_reach(row, found):
            found = found.unrouted(reason)
        if not row.claimant(at=at):
            # Whoever has claimed it has heard of it, whatever their mailbox says.
            found = assignment.reachable(found, tenant=row.tenant)
        if (found.type, found.value) == (row.assignee_type, row.assignee_value):
            return None
        return Change("rerouted", moved_to(row, found), _story(row, found))

    actor = actors.sweeper(checkpoint.tenant)
    return change(checkpoint, command="reroute", actor=actor, at=at, plan=plan)
