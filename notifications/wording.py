"""People, moments and deadlines in the words of a message. What others wrote comes out as one harmless line."""

from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from django.utils import dateformat, timezone

from checkpoints import answers, assignment, prose
from checkpoints.models import AssigneeType, Checkpoint, ExpiryAction, Priority
from notifications.models import Delivery, Kind, Occasion
from tenants import directory
from tenants.models import Tenant

MOST_OF_A_NAME = 120

ACTORS = {
    "user": "{}",
    "link": "the holder of the link sent to {}",
    "key": "the program “{}”",
    "queue": "the queue",
    "timeout": "the deadline",
    "sweep": "Holdpoint",
}


def line(value: Any, most: int = MOST_OF_A_NAME) -> str:
    """One line without anything that could end a header, turn the direction of reading, or hide."""
    given = "" if value is None else str(value)
    # The cut comes first: somebody may have sent megabytes.
    return prose.shorten(" ".join(prose.visible(given[: 4 * most]).split()), most)


def capital(sentence: str) -> str:
    return f"{sentence[:1].upper()}{sentence[1:]}"


def actor(label: Any) -> str:
    """``key:refund-agent`` → the program “refund-agent”; empty where nobody is known."""
    kind, _, name = line(label, 300).partition(":")
    return ACTORS[kind].format(line(name)) if kind in ACTORS else line(label)


def starting(label: Any) -> str:
    """The same at the start of a sentence: an address keeps its spelling."""
    words = actor(label)
    return words if line(label).startswith("user:") else capital(words)


def program(checkpoint: Checkpoint) -> str:
    return line(checkpoint.core)


def zone(tenant: Tenant) -> ZoneInfo:
    try:
        return ZoneInfo(tenant.time_zone)
    except (ZoneInfoNotFoundError, ValueError):
        return ZoneInfo("UTC")


def moment(at: datetime, tenant: Tenant) -> str:
    """18 Nov 2026, 16:05 Europe/Berlin"""
    here = zone(tenant)
    return f"{dateformat.format(at.astimezone(here), 'j M Y, H:i')} {here.key}"


def person(value: str, tenant: Tenant) -> str:
    """The address of somebody who may have been written down as a user id."""
    if value and not directory.looks_like_email(value):
        membership = directory.membership_of(tenant, value)
        return line(membership.user.email if membership else value)
    return line(value)


def assigned(raw: Any, checkpoint: Checkpoint | None) -> str:
    """Whom a raw assignee means."""
    found = assignment.parse(line(raw, assignment.RAW_LENGTH))
    return _assigned(found.type, found.value, checkpoint) or "the queue of the tenant admins"


def asked(checkpoint: Checkpoint) -> str:
    return _assigned(checkpoint.assignee_type, checkpoint.assignee_value, checkpoint)


def _assigned(kind: str, value: str, checkpoint: Checkpoint | None) -> str:
    match kind:
        case AssigneeType.USER:
            return person(value, checkpoint.tenant) if checkpoint else line(value)
        case AssigneeType.GROUP:
            return f"the group {line(value)}"
        case AssigneeType.ROLE:
            return f"the role {line(value)}"
        case AssigneeType.DELEGATED_USER:
            return f"the delegate of {program(checkpoint)}" if checkpoint else "the delegate"
    return ""


def whose(delivery: Delivery) -> str:
    """Whose it is now, seen by the reader."""
    checkpoint = delivery.checkpoint
    if checkpoint is None:
        return "you"
    if delivery.kind == Kind.EMAIL and checkpoint.assignee_type in {AssigneeType.USER, AssigneeType.DELEGATED_USER}:
        return "you"
    return asked(checkpoint) or "the queue of the tenant admins"


def why_asked(delivery: Delivery) -> str:
    """As whom the reader is asked."""
    checkpoint = delivery.checkpoint
    if checkpoint is None:
        return ""
    if delivery.kind != Kind.EMAIL:
        return f"Asked: {asked(checkpoint)}." if asked(checkpoint) else ""
    value = line(checkpoint.assignee_value)
    match checkpoint.assignee_type:
        case AssigneeType.USER:
            return "You are asked because it is assigned to you by name."
        case AssigneeType.GROUP:
            return f"You are asked because you are in the group {value}."
        case AssigneeType.ROLE:
            return f"You are asked because you hold the role {value}."
        case AssigneeType.DELEGATED_USER:
            return f"You are asked because you decide for {program(checkpoint)} as its delegate."
    return ""


def why_told(delivery: Delivery) -> str:
    """Of what needs no decision by the reader."""
    checkpoint = delivery.checkpoint
    if delivery.kind != Kind.EMAIL or delivery.occasion == Occasion.TEST:
        return ""
    if checkpoint is None:
        return f"You are told because you are an admin of {line(delivery.tenant)}."
    if delivery.recipient and delivery.recipient.lower() == person(checkpoint.requested_by, checkpoint.tenant):
        return "You are told because this was asked for on your behalf."
    return "You are told because you had been asked."


def deadline(checkpoint: Checkpoint, tenant: Tenant) -> str:
    """Until when, and what happens then."""
    if checkpoint.expires_at is None:
        return "There is none. It waits until somebody decides."
    at, then = moment(checkpoint.expires_at, tenant), afterwards(checkpoint)
    if checkpoint.expires_at <= timezone.now():
        # The sweep ends it, not the clock.
        return f"{at}. That has passed, but a decision still counts until {then}."
    return f"{at}. After that {then}."


def afterwards(checkpoint: Checkpoint) -> str:
    match checkpoint.expiry_action:
        case ExpiryAction.CANCEL:
            return "it is cancelled"
        case ExpiryAction.APPROVE:
            return "it counts as approved"
        case ExpiryAction.DEFAULT_OPTION if checkpoint.default_option:
            return f"“{choice(checkpoint, checkpoint.default_option)}” is taken as the default"
        case ExpiryAction.DEFAULT_OPTION:
            return "the program goes on with its default"
        case ExpiryAction.ESCALATE if checkpoint.escalation_target:
            return f"it goes to {assigned(checkpoint.escalation_target, checkpoint)}"
    return "it expires undecided"


def choice(checkpoint: Checkpoint | None, decision: Any) -> str:
    """A decision as its label."""
    for option in answers.options_of(checkpoint) if checkpoint else []:
        if option.id == decision:
            return line(option.label)
    return line(decision)


def urgency(checkpoint: Checkpoint | None) -> str:
    """Only where it is more urgent than usual."""
    return checkpoint.priority_word if checkpoint and checkpoint.priority <= Priority.HIGH else ""
