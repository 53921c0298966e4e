"""One raw string → who is asked. A pure parser that never raises, then a look into the tenant's directory."""

import uuid
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from checkpoints.models import AssigneeType, Checkpoint
from tenants import directory
from tenants.models import Core, Tenant, User, normal_email
from tenants.reachability import unreachable_among

RAW_LENGTH = 300
TOO_LONG = f"At most {RAW_LENGTH} characters."


@dataclass(frozen=True, slots=True)
class Assignment:
    raw: str
    type: AssigneeType
    value: str
    reason: str = ""

    @property
    def resolved(self) -> dict[str, Any]:
        return {"type": str(self.type), "value": self.value, "reason": self.reason or None}

    def columns(self) -> dict[str, Any]:
        return {
            "assignee_raw": self.raw,
            "assignee_type": self.type,
            "assignee_value": self.value,
            "assignee_resolved": self.resolved,
        }

    def unrouted(self, reason: str) -> "Assignment":
        return Assignment(self.raw, AssigneeType.UNROUTED, "", reason)


def parse(raw: str | None) -> Assignment:
    given = raw or ""
    nobody = Assignment(given, AssigneeType.UNROUTED, "")
    text = given.strip()
    if not text:
        return nobody.unrouted("The program named nobody.")
    prefix, colon, value = (part.strip() for part in text.partition(":"))
    kind = prefix.lower()
    if kind == AssigneeType.DELEGATED_USER:
        return Assignment(given, AssigneeType.DELEGATED_USER, "")
    if not colon:
        kind, value = AssigneeType.USER.value, text
    if kind not in {AssigneeType.USER, AssigneeType.GROUP, AssigneeType.ROLE}:
        return nobody.unrouted(f"Nobody knows the prefix “{prefix}:”. Use user:, group:, role: or delegated_user.")
    if not value:
        return nobody.unrouted(f"“{text}” names no {kind}.")
    value = normal_person(value) if kind == AssigneeType.USER else value.lower()
    if len(value) > RAW_LENGTH:
        return nobody.unrouted(f"The name of the {kind} is too long: at most {RAW_LENGTH} characters.")
    return Assignment(given, AssigneeType(kind), value)


def normal_person(value: str) -> str:
    """One spelling per person: an email in lower case, or a user id as the database writes it."""
    try:
        return str(uuid.UUID(value))
    except ValueError:
        return normal_email(value)


def resolve(raw: str | None, *, tenant: Tenant, core: Core, at: datetime) -> Assignment:
    """Parse, then ask the directory. Where it leads to nobody, the reason is a sentence for an admin."""
    assignment = parse(raw)
    return LOOK_UPS[assignment.type](assignment, tenant, core, at)


def _user(assignment: Assignment, tenant: Tenant, core: Core, at: datetime) -> Assignment:
    membership = directory.membership_of(tenant, assignment.value)
    if membership is None:
        if directory.looks_like_email(assignment.value):
            return assignment
        return assignment.unrouted(f"No member of {tenant.name} has the id “{assignment.value}”.")
    if not membership.user.is_active:
        return assignment.unrouted(f"The account of {membership.user.email} is disabled.")
    if not membership.is_active:
        return assignment.unrouted(f"{membership.user.email} is no longer a member of {tenant.name}.")
    return assignment


def _group(assignment: Assignment, tenant: Tenant, core: Core, at: datetime) -> Assignment:
    if directory.has_members(tenant, assignment.value):
        return assignment
    if directory.group_named(tenant, assignment.value) is None:
        return assignment.unrouted(f"There is no group “{assignment.value}” in {tenant.name}.")
    return assignment.unrouted(f"The group “{assignment.value}” has no active members.")


def _role(assignment: Assignment, tenant: Tenant, core: Core, at: datetime) -> Assignment:
    if not directory.is_held(tenant, assignment.value):
        return assignment.unrouted(f"Nobody in {tenant.name} holds the role “{assignment.value}”.")
    return assignment


def _delegated_user(assignment: Assignment, tenant: Tenant, core: Core, at: datetime) -> Assignment:
    delegate = directory.delegate_of(core, at=at)
    if delegate is None:
        return assignment.unrouted(f"The core “{core.slug}” is not delegated to anybody active at the moment.")
    return Assignment(assignment.raw, assignment.type, delegate.email)


def _nobody(assignment: Assignment, tenant: Tenant, core: Core, at: datetime) -> Assignment:
    return assignment


LOOK_UPS: dict[str, Callable[[Assignment, Tenant, Core, datetime], Assignment]] = {
    AssigneeType.USER: _user,
    AssigneeType.GROUP: _group,
    AssigneeType.ROLE: _role,
    AssigneeType.DELEGATED_USER: _delegated_user,
    AssigneeType.UNROUTED: _nobody,
}


def excluded(checkpoint: Checkpoint) -> str:
    """The requester, where four eyes keep them from deciding."""
    return checkpoint.requested_by if checkpoint.forbid_requester else ""


def four_eyes(found: Assignment, *, tenant: Tenant, without: str) -> Assignment:
    """Where nobody but the requester would be asked, nobody could decide: it belongs into the queue."""
    if not without or found.type == AssigneeType.UNROUTED:
        return found
    match found.type:
        case AssigneeType.GROUP:
            asked = directory.members_of_group(tenant, found.value)
        case AssigneeType.ROLE:
            asked = directory.holders_of_role(tenant, found.value)
        case _:
            membership = directory.membership_of(tenant, found.value)
            if membership is None and found.value != without:
                return found
            asked = [membership.user] if membership else []
    if all(is_person(user, without) for user in asked):
        return found.unrouted(f"Only {without} would be asked, who asked for this and may not decide it (four eyes).")
    return found


def reachable(found: Assignment, *, tenant: Tenant) -> Assignment:
    """Where mail to everybody who is asked comes back, nobody will hear of it: it belongs into the queue."""
    asked = people(found, tenant=tenant)
    marks = unreachable_among(tenant, asked) if asked else {}
    if not asked or len(marks) < len(set(asked)):
        return found
    who = asked[0] if len(set(asked)) == 1 else f"Nobody of {found.type} “{found.value}”"
    return found.unrouted(f"{who} {'cannot' if who == asked[0] else 'can'} be reached: {marks[asked[0]]}")


def people(assignment: Assignment, *, tenant: Tenant) -> list[str]:
    """The addresses this assignment reaches now, for previews and messages."""
    match assignment.type:
        case AssigneeType.GROUP:
            return [user.email for user in directory.members_of_group(tenant, assignment.value)]
        case AssigneeType.ROLE:
            return [user.email for user in directory.holders_of_role(tenant, assignment.value)]
        case AssigneeType.USER:
            membership = directory.membership_of(tenant, assignment.value)
            return [membership.user.email if membership else assignment.value]
        case AssigneeType.DELEGATED_USER:
            return [assignment.value]
        case _:
            return []


def is_person(user: User, value: str) -> bool:
    """Is this stored email or user id this person?"""
    return bool(value) and value in {user.email, str(user.pk)}
