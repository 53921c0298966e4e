"""Just before sending: is it still true? Minutes or hours may lie between the event and this moment."""

from dataclasses import dataclass

from checkpoints import assignment
from checkpoints.assignment import Assignment
from checkpoints.models import AssigneeType, Checkpoint
from notifications.models import ASKING, REACHED, Delivery, DeliveryStatus, Kind, Occasion
from notifications.reminders import is_muted
from tenants import directory
from tenants.models import Unreachable

ENDED = {Occasion.DECIDED, Occasion.CANCELLED, Occasion.SUPERSEDED, Occasion.EXPIRED}


@dataclass(frozen=True, slots=True)
class Verdict:
    """Why it is not sent, and how the record shows that."""

    reason: str
    status: DeliveryStatus = DeliveryStatus.SKIPPED


def look_again(delivery: Delivery) -> Verdict | None:
    """None: send it."""
    if delivery.kind == Kind.WEBHOOK:
        switched_off = delivery.webhook is None or not delivery.webhook.is_active
        return Verdict("The webhook is switched off.") if switched_off else None
    if delivery.channel is None or not delivery.channel.is_active:
        return Verdict("The channel is switched off.")
    return _about_its_checkpoint(delivery) or _about_its_recipient(delivery)


def _about_its_checkpoint(delivery: Delivery) -> Verdict | None:
    row = delivery.checkpoint
    if delivery.occasion == Occasion.UNROUTED:
        named = [one["id"] for one in delivery.facts.get("checkpoints", [])]
        waits = Checkpoint.objects.for_tenant(delivery.tenant).unrouted().filter(pk__in=named)
        return None if waits.exists() else Verdict("Nothing of it waits in the queue any more.")
    if row is None:
        return None
    if delivery.asks:
        return _about_asking(delivery, row)
    to_requester = delivery.recipient == _requester(row)
    quiet = delivery.occasion in ENDED or (delivery.occasion == Occasion.MOVED_AWAY and not _was_escalated(delivery))
    if quiet and delivery.kind == Kind.EMAIL and not to_requester and not _was_asked(delivery):
        return Verdict("They never had a message that asked them.")
    return None


def _about_asking(delivery: Delivery, row: Checkpoint) -> Verdict | None:
    if not row.is_pending:
        return Verdict(f"It was {row.status} meanwhile.")
    if row.assignment_version != delivery.assignment_version:
        return Verdict("Somebody else is asked meanwhile.")
    if delivery.kind == Kind.EMAIL:
        if delivery.recipient not in _people(row):
            return Verdict("They are no longer among those who are asked.")
        if delivery.occasion == Occasion.REMINDER and is_muted(row, email=delivery.recipient):
            return Verdict("They want no more reminders of this one.")
    return None


def _about_its_recipient(delivery: Delivery) -> Verdict | None:
    if delivery.kind != Kind.EMAIL or delivery.occasion == Occasion.TEST:
        return None
    mark = Unreachable.objects.for_tenant(delivery.tenant).filter(email=delivery.recipient).first()
    return Verdict(f"Cannot be reached: {mark.reason}", DeliveryStatus.FAILED) if mark else None


def _people(row: Checkpoint) -> list[str]:
    assigned = Assignment(row.assignee_raw, AssigneeType(row.assignee_type), row.assignee_value)
    return assignment.people(assigned, tenant=row.tenant)


def _requester(row: Checkpoint) -> str:
    if not row.requested_by or directory.looks_like_email(row.requested_by):
        return row.requested_by
    membership = directory.membership_of(row.tenant, row.requested_by)
    return membership.user.email if membership else ""


def _was_escalated(delivery: Delivery) -> bool:
    """Whoever let the time run out is told so, also when their own mail never left."""
    return bool(delivery.facts.get("escalated"))


def _was_asked(delivery: Delivery) -> bool:
    asked = Delivery.objects.filter(
        checkpoint=delivery.checkpoint_id, recipient=delivery.recipient, occasion__in=list(ASKING)
    )
    return bool(asked.filter(status__in=[*REACHED, DeliveryStatus.BOUNCED]).exists())
