"""Who is told what: an event, and the occasions it is to people. Nothing here writes or sends."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from checkpoints import assignment
from checkpoints.assignment import Assignment
from checkpoints.models import AssigneeType, Checkpoint, Event, Routing
from notifications.models import Occasion
from tenants import directory
from tenants.models import Tenant

ASSIGNING = {
    "created": Occasion.CREATED,
    "reassigned": Occasion.REASSIGNED,
    "escalated": Occasion.ESCALATED,
    # A delegation that moved: for the new delegate it is as if somebody had reassigned it.
    "rerouted": Occasion.REASSIGNED,
}
ENDING = {"resolved": Occasion.DECIDED, "cancelled": Occasion.CANCELLED, "expired": Occasion.EXPIRED}


@dataclass(frozen=True, slots=True)
class Told:
    """One occasion for some people; ``version`` is the assignment of which it speaks."""

    occasion: Occasion
    people: tuple[str, ...]
    version: int
    facts: dict[str, Any] = field(default_factory=dict)


@dataclass(slots=True)
class Directory:
    """One look per assignment, however many events of a batch speak of it."""

    found: dict[tuple[Any, ...], list[str]] = field(default_factory=dict)

    def people(self, assigned: Assignment, tenant: Tenant) -> list[str]:
        key = (tenant.pk, assigned.type, assigned.value)
        if key not in self.found:
            self.found[key] = assignment.people(assigned, tenant=tenant)
        return self.found[key]

    def address(self, value: str, tenant: Tenant) -> str:
        """Of a person who was written down as an email or a user id; empty where there is none."""
        if not value or directory.looks_like_email(value):
            return value
        return next(iter(self.people(Assignment(value, AssigneeType.USER, value), tenant)), "")


def speaks_to_people(checkpoint: Checkpoint) -> bool:
    return checkpoint.routing == Routing.PEOPLE


def told_by(event: Event, checkpoint: Checkpoint, known: Directory, asked: Iterable[str]) -> list[Told]:
    """``asked`` are those who had a message that asked them about it."""
    facts = _facts(event)
    if event.name in ASSIGNING:
        return _assigned(event, checkpoint, known, facts)
    if event.name in ENDING:
        return _ended(event, checkpoint, known, facts, asked)
    version = checkpoint.assignment_version
    if event.name == "reminded":
        people = _still_to_act(checkpoint, known)
        return [Told(Occasion.REMINDER, people, version, facts)] if people else []
    if event.name == "commented":
        requester = known.address(checkpoint.requested_by, checkpoint.tenant)
        if requester and requester != _author(event):
            return [Told(Occasion.COMMENTED, (requester,), version, facts)]
    return []


def became_unrouted(event: Event) -> int | None:
    """The version of the assignment with which it came into the queue."""
    if event.name not in ASSIGNING:
        return None
    assigned, version = assigned_by(event)
    return version if assigned.type == AssigneeType.UNROUTED else None


def assigned_by(event: Event) -> tuple[Assignment, int]:
    """Whom the event assigned it to, whatever became of that since."""
    detail = event.data.get("detail") or {}
    resolved = detail.get("assignee_resolved") or {}
    raw = detail.get("to") or detail.get("assignee_raw") or ""
    version = (event.data.get("after") or {}).get("assignment_version") or 1
    return _as_assignment(raw, resolved.get("type"), resolved.get("value")), int(version)


def _as_assignment(raw: str, kind: Any, value: Any) -> Assignment:
    known = kind if kind in AssigneeType.values else AssigneeType.UNROUTED
    return Assignment(raw, AssigneeType(known), str(value or ""))


def _assigned(event: Event, checkpoint: Checkpoint, known: Directory, facts: dict[str, Any]) -> list[Told]:
    assigned, version = assigned_by(event)
    told: list[Told] = []
    people = _without_requester(checkpoint, known.people(assigned, checkpoint.tenant))
    if people:
        told.append(Told(ASSIGNING[event.name], tuple(people), version, facts))
    before = event.data.get("before") or {}
    if event.name != "created" and before:
        earlier = _as_assignment("", before.get("assignee_type"), before.get("assignee_value"))
        left = [person for person in known.people(earlier, checkpoint.tenant) if person not in people]
        left = [person for person in left if person != _author(event)]
        if left:
            facts = facts | {"escalated": event.name == "escalated"}
            told.append(Told(Occasion.MOVED_AWAY, tuple(left), version, facts))
    return told


def _ended(
    event: Event, checkpoint: Checkpoint, known: Directory, facts: dict[str, Any], asked: Iterable[str]
) -> list[Told]:
    occasion = ENDING[event.name]
    if facts.get("reason") == "superseded":
        occasion = Occasion.SUPERSEDED
    requester = known.address(checkpoint.requested_by, checkpoint.tenant)
    people = dict.fromkeys([*asked, *([requester] if requester else [])])
    people.pop(_author(event), None)
    return [Told(occasion, tuple(people), checkpoint.assignment_version, facts)] if people else []


def _still_to_act(checkpoint: Checkpoint, known: Directory) -> tuple[str, ...]:
    """Of a claimed one its claimant; under a quorum those who have not voted."""
    assigned = _as_assignment(checkpoint.assignee_raw, checkpoint.assignee_type, checkpoint.assignee_value)
    people = _without_requester(checkpoint, known.people(assigned, checkpoint.tenant))
    if checkpoint.claimed_by in people:
        return (checkpoint.claimed_by,)
    if checkpoint.required_approvals > 1:
        votes = checkpoint.votes.filter(assignment_version=checkpoint.assignment_version)
        voted = set(votes.values_list("voter", flat=True))
        people = [person for person in people if person not in voted]
    return tuple(people)


def _without_requester(checkpoint: Checkpoint, people: list[str]) -> list[str]:
    kept_out = assignment.excluded(checkpoint)
    if not kept_out:
        return people
    requester = Directory().address(kept_out, checkpoint.tenant)
    return [person for person in people if person != requester]


def _author(event: Event) -> str:
    """The address of the person who did it, if a person did."""
    kind, _, name = event.actor.partition(":")
    return name if kind in {"user", "link"} else ""


def _facts(event: Event) -> dict[str, Any]:
    """What a message may have to say beside the row."""
    detail = event.data.get("detail") or {}
    names = ("decision", "comment", "from", "to", "reason", "count", "text", "auto_expired", "superseded_by", "step")
    return {"actor": event.actor} | {name: detail[name] for name in names if detail.get(name) is not None}
