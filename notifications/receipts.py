"""What a mail provider reports later: delivered, bounced, rejected, complained. Each report moves a delivery forwards.

Reports come more than once, late, and in any order. So a delivery never moves backwards, and a report that moves
nothing changes nothing.
"""

import logging
import re
import uuid
from datetime import datetime
from typing import Any

from anymail.signals import EventType, RejectReason
from django.utils import timezone

from checkpoints import lifecycle
from notifications.channels.mail_refusals import ENHANCED, names_no_mailbox
from notifications.models import Delivery, DeliveryStatus, DeliveryTry, Kind
from tenants import reachability
from tenants.transactions import attempt

logger = logging.getLogger(__name__)

STATUSES = {
    EventType.DELIVERED: DeliveryStatus.DELIVERED,
    EventType.BOUNCED: DeliveryStatus.BOUNCED,
    EventType.REJECTED: DeliveryStatus.REJECTED,
    EventType.FAILED: DeliveryStatus.REJECTED,
    EventType.COMPLAINED: DeliveryStatus.COMPLAINED,
}
# Forwards is a higher number. What has been skipped was never sent, and stays as it is.
ORDER = {
    DeliveryStatus.WAITING: 0,
    DeliveryStatus.FAILED: 0,
    DeliveryStatus.SENT: 1,
    DeliveryStatus.DELIVERED: 2,
    DeliveryStatus.BOUNCED: 3,
    DeliveryStatus.REJECTED: 3,
    DeliveryStatus.COMPLAINED: 3,
}
CODE = re.compile(r"\b([45]\d\d)\b")
LONGEST = 300


def take(*, event: Any, esp_name: str, **_: Any) -> None:
    """Connected to Anymail's signal, which comes from its authenticated address alone."""
    status = STATUSES.get(event.event_type)
    delivery = _delivery_of(event) if status else None
    if status is None or delivery is None:
        return
    now = timezone.now()
    before = delivery.status
    if not attempt(lambda: _move(delivery, status, _detail(event, esp_name, status), str(event.message_id or ""), now)):
        return
    if status == DeliveryStatus.DELIVERED:
        arrived_at = event.timestamp or now
        reachability.clear_unreachable(delivery.tenant, delivery.recipient, arrived_at=arrived_at)
        if before == DeliveryStatus.WAITING and delivery.checkpoint_id and delivery.asks:
            # We never heard that it was taken, and would have sent it once more.
            lifecycle.notified(delivery.checkpoint_id, to=delivery.recipient, channel=delivery.kind, at=now)
    elif leads_nowhere(event):
        reason = f"The mail to {delivery.recipient} came back: {_why(event)}."
        reachability.mark_unreachable(delivery.tenant, delivery.recipient, reason=reason, at=now)


def leads_nowhere(event: Any) -> bool:
    """There is no such mailbox; a full one, or a dislike of this message or its sender, is something else."""
    if event.event_type == EventType.REJECTED:
        return event.reject_reason in {RejectReason.INVALID, RejectReason.BOUNCED}
    if event.event_type != EventType.BOUNCED or _is_soft(event):
        return False
    said = _said(event)
    code = CODE.search(said)
    if code or ENHANCED.search(said):
        return names_no_mailbox(int(code[1]) if code else 0, said)
    return event.reject_reason in {RejectReason.INVALID, RejectReason.BOUNCED}


def _is_soft(event: Any) -> bool:
    """Providers report some troubles that pass as bounces, and say so in a field of their own."""
    raw = event.esp_event if isinstance(event.esp_event, dict) else {}
    kinds = {str(raw.get(name, "")).lower() for name in ("Type", "type", "bounceType", "bounce_class")}
    return bool(kinds & {"softbounce", "soft_bounce", "soft", "transient"})


def _delivery_of(event: Any) -> Delivery | None:
    mails = Delivery.objects.filter(kind=Kind.EMAIL).select_related("tenant")
    found = mails.filter(message_id=event.message_id).first() if event.message_id else None
    if found is None:
        # A mail sent twice has two names there, and only the last one was noted here.
        try:
            found = mails.filter(pk=uuid.UUID(str((event.metadata or {}).get("delivery")))).first()
        except ValueError:
            return None
    return found


def _move(delivery: Delivery, status: DeliveryStatus, detail: str, message_id: str, now: datetime) -> bool:
    earlier = [one for one, place in ORDER.items() if place < ORDER[status]]
    arrived = status == DeliveryStatus.DELIVERED
    moved = Delivery.objects.filter(pk=delivery.pk, status__in=earlier).update(
        status=status,
        next_try_at=None,
        last_error="" if arrived else detail,
        sent_at=delivery.sent_at or now,
        message_id=delivery.message_id or message_id[:255],
    )
    if moved:
        DeliveryTry.objects.create(
            tenant_id=delivery.tenant_id, delivery=delivery, at=now, succeeded=arrived, detail=detail
        )
    return bool(moved)


def _detail(event: Any, esp_name: str, status: DeliveryStatus) -> str:
    said = _said(event)
    return f"{esp_name} reports: {status.label.lower()}{f' ({said})' if said else ''}"


def _why(event: Any) -> str:
    said = _said(event)
    codes = " ".join(found[0] for pattern in (CODE, ENHANCED) if (found := pattern.search(said)))
    if codes and names_no_mailbox(int(codes[:3]) if codes[:3].isdecimal() else 0, said):
        return f"mailbox does not exist ({codes})"
    return said.rstrip(".") or "the provider says that there is no such mailbox"


def _said(event: Any) -> str:
    """In the server's words, or else in the provider's."""
    text = str(event.mta_response or event.description or "")
    return " ".join("".join(char if char.isprintable() else " " for char in text).split())[:LONGEST]
