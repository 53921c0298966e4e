"""Tenant admins hear of what came into the queue: one message per look, not one per checkpoint."""

from datetime import datetime

from django.utils import timezone

from checkpoints import prose
from checkpoints.models import Checkpoint
from checkpoints.sweeps import Outcome
from notifications.distributing import dedupe_key, email_channel
from notifications.models import Channel, Delivery, Kind, Occasion, UnroutedNotice
from tenants import directory
from tenants.fields import new_id
from tenants.models import Tenant
from tenants.transactions import attempt

MOST_NAMED = 20
# More wait for the next look: SQLite takes no statement with any number of values.
MOST_AT_ONCE = 5000


def tell_of_unrouted(*, now: datetime | None = None) -> Outcome:
    at = now or timezone.now()
    outcome = Outcome()
    untold = UnroutedNotice.objects.filter(told_at__isnull=True)
    for tenant in Tenant.objects.filter(pk__in=list(untold.values_list("tenant_id", flat=True).distinct())):
        keys = list(untold.filter(tenant=tenant).order_by("id").values_list("pk", flat=True)[:MOST_AT_ONCE])
        outcome.done += _tell(tenant, keys, at)
    return outcome


def _tell(tenant: Tenant, keys: list[int], at: datetime) -> int:
    def work() -> int:
        # Whoever marks them tells of them: a second worker finds none left.
        if not UnroutedNotice.objects.filter(pk__in=keys, told_at__isnull=True).update(told_at=at):
            return 0
        mine = list(UnroutedNotice.objects.filter(pk__in=keys, told_at=at).values_list("pk", flat=True))
        rows = _still_waiting(tenant, mine)
        if not rows:
            return 0
        Delivery.objects.bulk_create(_deliveries(tenant, rows, mine, at), ignore_conflicts=True)
        return len(rows)

    return attempt(work)


def _still_waiting(tenant: Tenant, keys: list[int]) -> list[Checkpoint]:
    notices = UnroutedNotice.objects.filter(pk__in=keys).values_list("checkpoint_id", "assignment_version")
    versions = dict(notices)
    rows = Checkpoint.objects.for_tenant(tenant).unrouted().most_urgent_first().filter(pk__in=list(versions))
    return [row for row in rows if row.assignment_version == versions[row.pk]]


def _deliveries(tenant: Tenant, rows: list[Checkpoint], keys: list[int], at: datetime) -> list[Delivery]:
    facts = {
        "checkpoints": [
            {
                "id": str(row.pk),
                "prompt": prose.to_line(row.prompt),
                "reason": row.unrouted_reason,
                "priority": row.priority_word,
            }
            for row in rows[:MOST_NAMED]
        ],
        "more": max(0, len(rows) - MOST_NAMED),
    }
    email = email_channel(tenant)
    chats = Channel.objects.for_tenant(tenant).filter(kind=Kind.CHAT, is_active=True)
    outlets = [(email, user.email) for user in directory.admins_of(tenant)] + [(chat, "") for chat in chats]
    return [
        Delivery(
            id=new_id(),
            tenant=tenant,
            dedupe_key=dedupe_key(Occasion.UNROUTED, channel.lane, recipient, *keys),
            occasion=Occasion.UNROUTED,
            kind=channel.kind,
            lane=channel.lane,
            channel=channel,
            recipient=recipient,
            facts=facts,
            created_at=at,
            next_try_at=at,
        )
        for channel, recipient in outlets
        if channel.takes(Occasion.UNROUTED)
    ]
