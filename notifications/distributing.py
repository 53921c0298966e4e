"""Events → deliveries: one per recipient, channel and occasion, in the transaction that marks the events."""

import hashlib
import json
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from checkpoints.events import moment
from checkpoints.masking import masked
from checkpoints.models import Checkpoint, Event
from notifications import audience
from notifications.audience import Told
from notifications.models import ASKING, Channel, Delivery, Kind, Occasion, UnroutedNotice, Webhook
from tenants.fields import new_id
from tenants.models import Tenant

WEBHOOK_TYPES = tuple(
    f"checkpoint.{name}" for name in ("created", "reassigned", "escalated", "resolved", "cancelled", "expired")
)
MOST_BODY_BYTES = 20_000


def dedupe_key(*parts: Any) -> str:
    return hashlib.sha256("\n".join(map(str, parts)).encode()).hexdigest()


def email_channel(tenant: Tenant) -> Channel:
    """Every tenant has mail from its first message on; an admin may switch it off."""
    channel: Channel | None = Channel.objects.for_tenant(tenant).filter(kind=Kind.EMAIL).order_by("id").first()
    return channel or Channel.objects.get_or_create(tenant=tenant, kind=Kind.EMAIL, name="Email")[0]


@dataclass(slots=True)
class Outlets:
    """The ways out of each tenant, asked once per batch."""

    found: dict[uuid.UUID, tuple[Channel, list[Channel], list[Webhook]]] = field(default_factory=dict)

    def of(self, tenant: Tenant) -> tuple[Channel, list[Channel], list[Webhook]]:
        if tenant.pk not in self.found:
            chats = Channel.objects.for_tenant(tenant).filter(kind=Kind.CHAT, is_active=True)
            webhooks = Webhook.objects.for_tenant(tenant).filter(is_active=True)
            self.found[tenant.pk] = (email_channel(tenant), list(chats), list(webhooks))
        return self.found[tenant.pk]


def take(events: Sequence[Event], at: datetime) -> None:
    """The consumer: what it writes is written once, however often it is handed the same event."""
    ours = [event for event in events if event.subject_type == "checkpoint"]
    keys = {event.subject_id for event in ours}
    rows: dict[uuid.UUID, Checkpoint] = {
        row.pk: row for row in Checkpoint.objects.select_related("core", "tenant").filter(pk__in=keys)
    }
    outlets, known = Outlets(), audience.Directory()
    asked = _asked_before(rows)
    deliveries: list[Delivery] = []
    notices: list[UnroutedNotice] = []
    for event in ours:
        row = rows.get(event.subject_id)
        if row is None:
            continue
        made = _deliveries(event, row, outlets, known, asked.setdefault(row.pk, {}), at)
        deliveries += made
        version = audience.became_unrouted(event) if audience.speaks_to_people(row) else None
        if version is not None:
            notices.append(UnroutedNotice(tenant=row.tenant, checkpoint=row, assignment_version=version))
    Delivery.objects.bulk_create(deliveries, ignore_conflicts=True, batch_size=500)
    UnroutedNotice.objects.bulk_create(notices, ignore_conflicts=True)


def _asked_before(rows: dict[uuid.UUID, Checkpoint]) -> dict[uuid.UUID, dict[str, None]]:
    """Who had, or is about to have, a message that asks about it, in the order in which they were asked."""
    asked: dict[uuid.UUID, dict[str, None]] = {}
    found = Delivery.objects.filter(checkpoint__in=list(rows), kind=Kind.EMAIL, occasion__in=list(ASKING))
    for key, recipient in found.order_by("id").values_list("checkpoint_id", "recipient"):
        asked.setdefault(key, {})[recipient] = None
    return asked


def _deliveries(
    event: Event, row: Checkpoint, outlets: Outlets, known: audience.Directory, asked: dict[str, None], at: datetime
) -> Iterable[Delivery]:
    email, chats, webhooks = outlets.of(row.tenant)
    if audience.speaks_to_people(row):
        told = audience.told_by(event, row, known, list(asked))
        for one in told:
            if one.occasion in ASKING:
                asked.update(dict.fromkeys(one.people))
            if email.takes(one.occasion):
                yield from _mails(event, row, email, one, at)
        yield from _chats(event, row, chats, told, at)
    if event.type in WEBHOOK_TYPES:
        yield from (_call(event, row, webhook, at) for webhook in webhooks if webhook.takes(event.type))


def _mails(event: Event, row: Checkpoint, channel: Channel, told: Told, at: datetime) -> Iterable[Delivery]:
    for person in told.people:
        yield _delivery(
            row,
            at,
            key=dedupe_key(event.pk, told.occasion, Kind.EMAIL, person),
            occasion=told.occasion,
            kind=Kind.EMAIL,
            lane=channel.lane,
            channel=channel,
            recipient=person,
            assignment_version=told.version,
            facts=told.facts,
        )


def _chats(event: Event, row: Checkpoint, chats: list[Channel], told: list[Told], at: datetime) -> Iterable[Delivery]:
    """A room hears each occasion once, however many people it concerns; what became of old assignees is no news."""
    for one in told:
        if one.occasion == Occasion.MOVED_AWAY:
            continue
        for channel in chats:
            if channel.takes(one.occasion):
                yield _delivery(
                    row,
                    at,
                    key=dedupe_key(event.pk, one.occasion, channel.lane),
                    occasion=one.occasion,
                    kind=Kind.CHAT,
                    lane=channel.lane,
                    channel=channel,
                    assignment_version=one.version,
                    facts=one.facts,
                )


def _call(event: Event, row: Checkpoint, webhook: Webhook, at: datetime) -> Delivery:
    return _delivery(
        row,
        at,
        key=dedupe_key(event.pk, webhook.lane),
        occasion=Occasion.EVENT,
        kind=Kind.WEBHOOK,
        lane=webhook.lane,
        webhook=webhook,
        assignment_version=row.assignment_version,
        facts={"body": thin(event, row)},
    )


def _delivery(row: Checkpoint, at: datetime, *, key: str, **fields: Any) -> Delivery:
    return Delivery(
        id=new_id(), tenant=row.tenant, checkpoint=row, dedupe_key=key, created_at=at, next_try_at=at, **fields
    )


def thin(event: Event, row: Checkpoint) -> dict[str, Any]:
    """Ids, status and outcome, as they were at this event: a receiver that wants more asks the API."""
    after = event.data.get("after") or {}
    data: dict[str, Any] = {
        "id": str(row.pk),
        "checkpoint_id": str(row.pk),
        "event_id": event.pk,
        "tenant_id": row.tenant.slug,
        "core_id": row.core.slug,
        "execution_id": row.execution_id or None,
        "flow_name": row.flow_name or None,
        "node_id": row.node_id or None,
        "instance_key": row.instance_key or None,
        "checkpoint_type": row.checkpoint_type,
        "status": after.get("status", "pending"),
        "sequence": event.sequence,
        "actor": event.actor,
    }
    if resolution := after.get("resolution"):
        data |= {
            "resolution": masked(resolution),
            "resolved_by": after.get("resolved_by"),
            "resolved_at": after.get("resolved_at"),
        }
    if reason := after.get("close_reason"):
        data |= {"close_reason": reason}
    if audience_of := (event.data.get("detail") or {}).get("assignee_resolved"):
        data["assignee_resolved"] = audience_of
    body = {"type": event.type, "timestamp": moment(event.at), "data": data}
    if len(json.dumps(body, ensure_ascii=False).encode()) > MOST_BODY_BYTES and "resolution" in data:
        kept = {name: data["resolution"].get(name) for name in ("decision", "via", "action_digest", "auto_expired")}
        data["resolution"] = {name: value for name, value in kept.items() if value is not None} | {"truncated": True}
    return body
