"""Several members decide together: each votes once per assignment, and the number decides."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from checkpoints import assignment
from checkpoints.models import AssigneeType, Checkpoint, Vote
from tenants import directory

APPROVE = "approve"
TYPES = (AssigneeType.GROUP, AssigneeType.ROLE)


def applies_to(checkpoint: Checkpoint) -> bool:
    return checkpoint.required_approvals > 1


@dataclass(slots=True)
class Tally:
    required: int
    rejections_allowed: int
    votes: list[Vote] = field(default_factory=list)

    @property
    def approvals(self) -> int:
        return sum(vote.approves for vote in self.votes)

    @property
    def rejections(self) -> int:
        return len(self.votes) - self.approvals

    @property
    def missing(self) -> int:
        return max(0, self.required - self.approvals)

    @property
    def is_reached(self) -> bool:
        return self.approvals >= self.required

    @property
    def is_refused(self) -> bool:
        return self.rejections > self.rejections_allowed

    def vote_of(self, voter: str) -> Vote | None:
        return next((vote for vote in self.votes if vote.voter == voter), None)


def tally(checkpoint: Checkpoint) -> Tally:
    """The votes of the present assignment; earlier ones died with theirs."""
    cast = checkpoint.cast_votes
    votes = cast if cast is not None else _votes([checkpoint]).get(checkpoint.pk, [])
    current = [vote for vote in votes if vote.assignment_version == checkpoint.assignment_version]
    return Tally(checkpoint.required_approvals, checkpoint.rejections_allowed, current)


def attach(checkpoints: Iterable[Checkpoint]) -> None:
    """For a page of them: one query for all their votes, none when no quorum is among them."""
    with_quorum = [row for row in checkpoints if applies_to(row)]
    votes = _votes(with_quorum) if with_quorum else {}
    for row in with_quorum:
        row.cast_votes = votes.get(row.pk, [])


def _votes(checkpoints: list[Checkpoint]) -> dict[Any, list[Vote]]:
    found: dict[Any, list[Vote]] = {}
    for vote in Vote.objects.filter(checkpoint__in=[row.pk for row in checkpoints]).order_by("id"):
        found.setdefault(vote.checkpoint_id, []).append(vote)
    return found


def voters(found: assignment.Assignment, *, tenant: Any, without: str = "") -> list[str]:
    """Who could vote now; ``without`` is a requester whom four eyes keep out."""
    people = (
        directory.members_of_group(tenant, found.value)
        if found.type == AssigneeType.GROUP
        else directory.holders_of_role(tenant, found.value)
    )
    return [user.email for user in people if not assignment.is_person(user, without)]


def out_of_reach(checkpoint: Checkpoint, found: assignment.Assignment) -> str:
    """Why the number can no longer be reached, in a sentence; empty when it can."""
    if not applies_to(checkpoint) or found.type not in TYPES:
        return ""
    counted = tally(checkpoint)
    could = voters(found, tenant=checkpoint.tenant, without=assignment.excluded(checkpoint))
    left = [email for email in could if not counted.vote_of(email)]
    if counted.approvals + len(left) >= checkpoint.required_approvals:
        return ""
    return (
        f"The quorum is out of reach: of {checkpoint.required_approvals} approvals {counted.approvals} are there, and "
        f"{len(left)} in {found.type} “{found.value}” can still vote."
    )


def picture(checkpoint: Checkpoint) -> dict[str, Any] | None:
    """For API and pages: who voted what, and what is missing."""
    if not applies_to(checkpoint):
        return None
    counted = tally(checkpoint)
    return {
        "required_approvals": counted.required,
        "rejections_allowed": counted.rejections_allowed,
        "approvals": counted.approvals,
        "rejections": counted.rejections,
        "missing": counted.missing if checkpoint.is_pending else 0,
        "votes": counted.votes,
    }
