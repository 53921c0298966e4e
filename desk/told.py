"""Who was told what about a checkpoint, and whom no message reaches: in words, and in a fixed number of queries."""

import uuid
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from django.db.models import Exists, OuterRef
from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import mark_safe

from checkpoints import assignment
from checkpoints.assignment import Assignment
from checkpoints.models import AssigneeType, Checkpoint, Routing
from desk.templatetags.desk import moment
from notifications import audience
from notifications.models import Delivery, DeliveryStatus, Kind, Occasion
from tenants import reachability
from tenants.models import Membership, Unreachable

MOST_LOOKED_AT = 500
MOST_SHOWN = 40
ONE_PERSON = {AssigneeType.USER, AssigneeType.DELEGATED_USER}

STATES = {
    DeliveryStatus.WAITING: "waiting",
    DeliveryStatus.SENT: "sent",
    DeliveryStatus.DELIVERED: "delivered",
    DeliveryStatus.BOUNCED: "came back",
    DeliveryStatus.REJECTED: "refused",
    DeliveryStatus.COMPLAINED: "marked as spam",
    DeliveryStatus.FAILED: "given up",
    DeliveryStatus.SKIPPED: "not sent",
}
NOT_YET = mark_safe('<span class="hp-label">not told yet</span>')
TROUBLE = {DeliveryStatus.BOUNCED, DeliveryStatus.REJECTED, DeliveryStatus.COMPLAINED, DeliveryStatus.FAILED}
OCCASIONS = {
    Occasion.CREATED: "new checkpoint",
    Occasion.REASSIGNED: "reassigned",
    Occasion.ESCALATED: "escalated",
    Occasion.REMINDER: "reminder",
    Occasion.MOVED_AWAY: "no longer theirs",
    Occasion.DECIDED: "decided",
    Occasion.CANCELLED: "cancelled",
    Occasion.SUPERSEDED: "replaced by a newer one",
    Occasion.EXPIRED: "expired",
    Occasion.COMMENTED: "comment",
    Occasion.UNROUTED: "waiting in the queue",
    Occasion.WEBHOOK_DISABLED: "webhook switched off",
    Occasion.EVENT: "event",
    Occasion.TEST: "test",
}


def recipient(delivery: Delivery) -> str:
    """An address, or the room or the webhook by its name."""
    if delivery.recipient:
        return delivery.recipient
    if delivery.kind == Kind.WEBHOOK:
        return f"webhook {delivery.webhook}"
    return f"room “{delivery.channel}”"


def label(status: str) -> str:
    return format_html('<span class="hp-label hp-{}">{}</span>', status, STATES[DeliveryStatus(status)])


def explanation(delivery: Delivery) -> str:
    """What the one word of its state leaves open."""
    if delivery.status != DeliveryStatus.WAITING:
        return delivery.last_error
    before = f" {delivery.last_error}" if delivery.last_error else ""
    due = delivery.next_try_at is None or delivery.next_try_at <= timezone.now()
    at = "in a moment" if due else moment(delivery.next_try_at, delivery.tenant)
    return format_html("next try {}.{}", at, before)


def tries(delivery: Delivery) -> str:
    if not delivery.tries:
        return "not tried yet"
    # Looked at again, and left: that was no try.
    if delivery.status == DeliveryStatus.SKIPPED:
        return "no try"
    return f"{delivery.tries} {'try' if delivery.tries == 1 else 'tries'}"


@dataclass(frozen=True, slots=True)
class Entry:
    """The latest of one recipient; no delivery: nothing has been written to them yet."""

    name: str
    delivery: Delivery | None = None
    unreachable: bool = False

    @property
    def is_trouble(self) -> bool:
        return self.unreachable or (self.delivery is not None and self.delivery.status in TROUBLE)

    @property
    def state(self) -> str:
        return label(self.delivery.status) if self.delivery else NOT_YET

    @property
    def why(self) -> str:
        return explanation(self.delivery) if self.delivery else ""

    @property
    def occasion(self) -> str:
        return OCCASIONS[Occasion(self.delivery.occasion)] if self.delivery else ""

    @property
    def tries(self) -> str:
        return tries(self.delivery) if self.delivery else ""

    @property
    def when(self) -> Any:
        return (self.delivery.sent_at or self.delivery.created_at) if self.delivery else None


@dataclass(frozen=True, slots=True)
class Told:
    entries: list[Entry]
    more: int
    # Of those who are asked now, with the reason: the page says so before anything else.
    unreachable: dict[str, str]


def told(row: Checkpoint) -> Told:
    asked = _asked(row)
    latest: dict[tuple[Any, ...], Delivery] = {}
    # By its own index: the row is within the desk's tenants already.
    for one in row.deliveries.select_related("channel", "webhook").defer("facts").order_by("-id")[:MOST_LOOKED_AT]:
        one.tenant = row.tenant
        latest.setdefault((one.kind, one.recipient, one.channel_id if not one.recipient else None, one.webhook_id), one)
    people = {one.recipient for one in latest.values() if one.recipient}
    marks = reachability.unreachable_among(row.tenant, people | set(asked))
    entries = [Entry(recipient(one), one, one.recipient in marks) for one in latest.values()]
    entries += [Entry(person, None, person in marks) for person in asked if person not in people]
    # Whatever went wrong first; the newest of the others.
    entries.sort(key=lambda entry: not entry.is_trouble)
    unreachable = {person: marks[person] for person in asked if person in marks}
    return Told(entries[:MOST_SHOWN], max(0, len(entries) - MOST_SHOWN), unreachable)


def _asked(row: Checkpoint) -> list[str]:
    if not row.is_pending or row.routing != Routing.PEOPLE:
        return []
    assigned = Assignment(row.assignee_raw, AssigneeType(row.assignee_type), row.assignee_value)
    people = assignment.people(assigned, tenant=row.tenant)
    kept_out = audience.Directory().address(assignment.excluded(row), row.tenant)
    return [person for person in people if person != kept_out]


def mark_unreachable(rows: Iterable[Checkpoint]) -> None:
    """Leaves on each row of a list how many of those who are asked cannot be reached."""
    waiting = [row for row in rows if row.is_pending and not row.is_unrouted]
    tenants = {row.tenant_id for row in waiting}
    if not Unreachable.objects.filter(tenant__in=tenants).exists():
        return
    found = {
        **_people(tenants, {row.assignee_value for row in waiting if row.assignee_type in ONE_PERSON}),
        **_members(tenants, "group", "groups__slug", waiting),
        **_members(tenants, "role", "roles__name", waiting),
    }
    for row in waiting:
        kind = "user" if row.assignee_type in ONE_PERSON else row.assignee_type
        row.cannot_be_reached = found.get((row.tenant_id, kind, row.assignee_value), 0)  # type: ignore[attr-defined]


Marks = dict[tuple[uuid.UUID, str, str], int]


def _people(tenants: set[uuid.UUID], values: set[str]) -> Marks:
    marked = Unreachable.objects.filter(tenant__in=tenants, email__in=values)
    found: Marks = {(tenant, "user", email): 1 for tenant, email in marked.values_list("tenant_id", "email")}
    identities = [value for value in values if "@" not in value]
    if identities:
        members = _unreachable_members(tenants).filter(user__in=identities)
        found |= {(tenant, "user", str(user)): 1 for tenant, user in members.values_list("tenant_id", "user_id")}
    return found


def _members(tenants: set[uuid.UUID], kind: str, column: str, rows: list[Checkpoint]) -> Marks:
    names = {row.assignee_value for row in rows if row.assignee_type == kind}
    found: Marks = defaultdict(int)
    if names:
        members = _unreachable_members(tenants).filter(**{f"{column}__in": names})
        for tenant, name in members.values_list("tenant_id", column):
            found[tenant, kind, name] += 1
    return found


def _unreachable_members(tenants: set[uuid.UUID]) -> Any:
    mark = Unreachable.objects.filter(tenant=OuterRef("tenant"), email=OuterRef("user__email"))
    return Membership.objects.filter(tenant__in=tenants).active().filter(Exists(mark)).order_by()
