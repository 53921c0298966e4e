"""Who may see and do what to a checkpoint, and why. Every door asks here; nobody else knows the rules."""

import uuid
from dataclasses import dataclass
from datetime import datetime

from checkpoints import errors
from checkpoints.assignment import is_person
from checkpoints.models import AssigneeType, Checkpoint, CheckpointSet
from tenants import directory
from tenants.actors import Actor
from tenants.directory import Standing
from tenants.models import AUDITOR
from tenants.statements import ANY_ID, Prepared

SCOPES: dict[str, tuple[str, ...]] = {
    "create": ("checkpoints:create",),
    "read": ("checkpoints:read",),
    "resolve": ("checkpoints:resolve",),
    "cancel": ("checkpoints:manage", "checkpoints:create"),
    "reassign": ("checkpoints:manage",),
    "claim": ("checkpoints:resolve",),
    "release": ("checkpoints:resolve",),
    "extend": ("checkpoints:manage",),
    "remind": ("checkpoints:manage",),
    "comment": ("checkpoints:resolve",),
    "audit": ("audit:read",),
}
ONLY_ADMINS = {
    "cancel": "Only a tenant admin may cancel a checkpoint.",
    "extend": "Only a tenant admin may extend a deadline.",
    "remind": "Only a tenant admin may ask for a reminder.",
}
NOT_FOR_PEOPLE = {"create": "Checkpoints are created by programs, with an API key."}


@dataclass(frozen=True, slots=True)
class Verdict:
    allowed: bool
    reason: str
    override: bool = False
    refusal: type[errors.Refusal] = errors.NotAllowed

    def enforce(self, checkpoint: Checkpoint | None = None) -> None:
        if not self.allowed:
            raise self.refusal(checkpoint, self.reason)


def admit(actor: Actor, command: str) -> None:
    """What can be refused before a row is looked at, so that a missing scope says nothing about ids."""
    if actor.kind == "key" and actor.key is not None:
        if not any(actor.key.has_scope(scope) for scope in SCOPES[command]):
            raise errors.NotAllowed(None, f"This key lacks the scope {SCOPES[command][0]}.")
    elif command in NOT_FOR_PEOPLE:
        raise errors.NotAllowed(None, NOT_FOR_PEOPLE[command])
    elif command == "audit" and not _sees_everything(actor):
        raise errors.NotAllowed(None, "Only tenant admins and auditors may read the audit.")


def _sees_everything(actor: Actor) -> bool:
    if actor.user is None:
        return False
    standing = directory.standing(actor.tenant, actor.user)
    return standing.is_admin or AUDITOR in standing.roles


def visible(actor: Actor, *, at: datetime) -> CheckpointSet:
    """The rows this actor can see; everything else does not exist for them."""
    rows = Checkpoint.objects.for_tenant(actor.tenant)
    if actor.user is None:
        return rows
    standing = directory.standing(actor.tenant, actor.user)
    if standing.is_admin or AUDITOR in standing.roles:
        return rows
    return rows.visible_to(standing, at=at) if standing.is_member else rows.none()


# What a key sees is its tenant: the same query for every request of every program.
_of_tenant: Prepared[Checkpoint] = Prepared(
    lambda: Checkpoint.objects.select_related("core", "tenant").filter(tenant=ANY_ID).filter(pk=ANY_ID)
)


def find(actor: Actor, checkpoint_id: uuid.UUID, *, at: datetime) -> Checkpoint | None:
    """One of the rows that ``visible`` gives."""
    if actor.user is None:
        return _of_tenant.one(actor.tenant.pk, checkpoint_id)
    found: Checkpoint | None = visible(actor, at=at).select_related("core", "tenant").filter(pk=checkpoint_id).first()
    return found


def verdict(actor: Actor, command: str, checkpoint: Checkpoint, *, at: datetime) -> Verdict:
    if checkpoint.tenant_id != actor.tenant.pk:
        return Verdict(False, "There is no such checkpoint.", refusal=errors.NotFound)
    if actor.kind in {"timeout", "sweep"}:
        return Verdict(True, "The sweep acts on what is due.")
    if actor.kind == "key":
        return _for_key(actor, command, checkpoint)
    if actor.user is None:
        return Verdict(False, "Nobody is signed in.")
    standing = directory.standing(actor.tenant, actor.user)
    if not standing.is_member and not standing.is_admin:
        return Verdict(False, f"{actor.user.email} is not an active member of {actor.tenant.name}.")
    return RULES.get(command, _admins_only)(command, checkpoint, standing, at)


def _for_key(actor: Actor, command: str, checkpoint: Checkpoint) -> Verdict:
    key = actor.key
    assert key is not None  # noqa: S101 (an actor of kind "key" carries its key)
    if command == "cancel" and not key.has_scope("checkpoints:manage"):
        own = checkpoint.created_by_key == key.family and key.has_scope("checkpoints:create")
        reason = "This key created it." if own else "Without checkpoints:manage a key cancels only what it created."
        return Verdict(own, reason)
    allowed = any(key.has_scope(scope) for scope in SCOPES[command])
    needed = SCOPES[command][0]
    return Verdict(allowed, f"The key has the scope {needed}." if allowed else f"This key lacks the scope {needed}.")


def assignee_because(checkpoint: Checkpoint, standing: Standing, *, at: datetime) -> str:
    """How this person is an assignee right now; empty when they are not."""
    value = checkpoint.assignee_value
    match checkpoint.assignee_type:
        case AssigneeType.USER if is_person(standing.user, value):
            return "it is assigned to them"
        case AssigneeType.GROUP if value in standing.groups:
            return f"they are in the group “{value}”"
        case AssigneeType.ROLE if value in standing.roles:
            return f"they hold the role “{value}”"
        case AssigneeType.DELEGATED_USER if directory.delegate_of(checkpoint.core, at=at) == standing.user:
            return f"the core “{checkpoint.core.slug}” is delegated to them"
    return ""


def _is_kept_out(checkpoint: Checkpoint, standing: Standing) -> bool:
    return checkpoint.forbid_requester and is_person(standing.user, checkpoint.requested_by)


def _resolve(command: str, checkpoint: Checkpoint, standing: Standing, at: datetime) -> Verdict:
    email = standing.user.email
    if _is_kept_out(checkpoint, standing):
        return Verdict(False, f"{email} asked for this and may not decide it (four eyes).")
    if because := assignee_because(checkpoint, standing, at=at):
        claimant = checkpoint.claimant(at=at)
        if claimant and claimant != email:
            if standing.is_admin:
                return Verdict(True, f"{email} is a tenant admin and overrides the claim of {claimant}.", override=True)
            return Verdict(False, f"{claimant} is working on this.", refusal=errors.ClaimedByOther)
        return Verdict(True, f"{email} may decide: {because}.")
    if standing.is_admin:
        return Verdict(True, f"{email} is a tenant admin and overrides the assignment.", override=True)
    return Verdict(False, f"{email} is not an assignee of this checkpoint ({asked(checkpoint)}).")


def _reassign(command: str, checkpoint: Checkpoint, standing: Standing, at: datetime) -> Verdict:
    if standing.is_admin:
        return Verdict(True, "A tenant admin may reassign to anybody.")
    if because := assignee_because(checkpoint, standing, at=at):
        claimant = checkpoint.claimant(at=at)
        if claimant and claimant != standing.user.email:
            return Verdict(False, f"{claimant} is working on this.", refusal=errors.ClaimedByOther)
        return Verdict(True, f"An assignee may hand over: {because}.")
    return Verdict(False, "Only an assignee may hand over, and only a tenant admin may reassign.")


def _claim(command: str, checkpoint: Checkpoint, standing: Standing, at: datetime) -> Verdict:
    email = standing.user.email
    if _is_kept_out(checkpoint, standing):
        return Verdict(False, f"{email} asked for this and may not decide it (four eyes).")
    if checkpoint.required_approvals > 1:
        reason = "Several have to decide it together: there is nothing for one person to claim."
        return Verdict(False, reason, refusal=errors.NotClaimable)
    if checkpoint.is_unrouted:
        if standing.is_admin:
            return Verdict(True, f"{email} is a tenant admin, and nobody is assigned.")
        return Verdict(False, "Only a tenant admin may claim a checkpoint that is assigned to nobody.")
    because = assignee_because(checkpoint, standing, at=at)
    if not because and not standing.is_admin:
        return Verdict(False, f"{email} is not an assignee of this checkpoint ({asked(checkpoint)}).")
    claimant = checkpoint.claimant(at=at)
    if claimant and claimant != email:
        return Verdict(False, f"{claimant} is working on this.", refusal=errors.ClaimedByOther)
    if checkpoint.assignee_type not in {AssigneeType.GROUP, AssigneeType.ROLE}:
        return Verdict(False, "It is assigned to one person: there is nothing to claim.", refusal=errors.NotClaimable)
    if not because:
        return Verdict(False, f"{email} is not an assignee of this checkpoint ({asked(checkpoint)}).")
    return Verdict(True, f"{email} may claim: {because}.")


def _release(command: str, checkpoint: Checkpoint, standing: Standing, at: datetime) -> Verdict:
    claimant = checkpoint.claimant(at=at)
    if claimant == standing.user.email:
        return Verdict(True, "It is their own claim.")
    if not claimant and assignee_because(checkpoint, standing, at=at):
        return Verdict(True, "No claim lasts any more, and it is assigned to them.")
    if standing.is_admin:
        return Verdict(True, "A tenant admin may release any claim.")
    if claimant:
        return Verdict(False, f"{claimant} has claimed it; only they or a tenant admin may release it.")
    return Verdict(False, f"{standing.user.email} is not an assignee of this checkpoint ({asked(checkpoint)}).")


def _comment(command: str, checkpoint: Checkpoint, standing: Standing, at: datetime) -> Verdict:
    if standing.is_admin or assignee_because(checkpoint, standing, at=at):
        return Verdict(True, "Assignees and tenant admins may comment.")
    return Verdict(False, "Only assignees and tenant admins may comment.")


def _admins_only(command: str, checkpoint: Checkpoint, standing: Standing, at: datetime) -> Verdict:
    if standing.is_admin:
        return Verdict(True, "They are a tenant admin.")
    return Verdict(False, ONLY_ADMINS.get(command, "Only a tenant admin may do this."))


RULES = {
    "resolve": _resolve,
    "reassign": _reassign,
    "claim": _claim,
    "release": _release,
    "comment": _comment,
}


def asked(checkpoint: Checkpoint) -> str:
    if checkpoint.is_unrouted:
        return "nobody is assigned"
    return f"it is assigned to {checkpoint.assignee_type} {checkpoint.assignee_value}".rstrip()
