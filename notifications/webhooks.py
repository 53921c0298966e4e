"""What can be done to a webhook: the verbs that API and desk share.

``along`` is told the row as it becomes and gives what shall be written in the same transaction: the stored answer of
a request that may be repeated.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db import models
from django.utils import timezone

from checkpoints import errors, nudges
from checkpoints.events import moment
from notifications import policy, signing
from notifications.models import Delivery, DeliveryStatus, DeliveryTry, Kind, Occasion, Webhook
from tenants import egress
from tenants.actors import Actor
from tenants.fields import new_id
from tenants.models import Tenant
from tenants.transactions import attempt

TYPES = (
    *(f"checkpoint.{name}" for name in ("created", "reassigned", "escalated", "resolved", "cancelled", "expired")),
    *(f"run.{name}" for name in ("paused", "completed", "failed")),
)
MOST_WEBHOOKS = 20
DESCRIPTION_LENGTH = 200
# How long the old secret signs beside the new one: a receiver is changed within a working day.
OVERLAP = timedelta(hours=24)
TEST_TYPE = "webhook.test"
BATCH = 500
TRIES = 10

WebhookAlong = Callable[[Webhook], models.Model]
DeliveryAlong = Callable[[Delivery], models.Model]


@dataclass(frozen=True, slots=True)
class Wish:
    """What shall be changed; None leaves a thing as it is."""

    url: str | None = None
    description: str | None = None
    events: Sequence[str] | None = None
    is_active: bool | None = None


def create(
    *,
    actor: Actor,
    url: str,
    description: str = "",
    events: Sequence[str] = (),
    along: WebhookAlong | None = None,
) -> Webhook:
    """The secret is on the row that comes back, and is shown by nobody afterwards."""
    policy.admit(actor)
    _check(Wish(url=url, description=description, events=events))
    webhook = Webhook(
        tenant=actor.tenant, url=url, description=description, events=_in_order(events), secret=signing.new_secret()
    )

    def write() -> None:
        # The tenant's row is the lock: two who create the last one that fits meet here.
        Tenant.objects.select_for_update().get(pk=actor.tenant.pk)
        if Webhook.objects.for_tenant(actor.tenant).count() >= MOST_WEBHOOKS:
            raise errors.InvalidInput({"url": [f"A tenant has at most {MOST_WEBHOOKS} webhooks. Delete one first."]})
        webhook.save(force_insert=True)
        _write(along, webhook)

    attempt(write)
    return webhook


def change(webhook: Webhook, *, actor: Actor, wish: Wish) -> Webhook:
    """Switching it on again forgets why it was off, and how long it had been failing."""
    _admit(actor, webhook)
    _check(wish)

    def write() -> Webhook:
        found = _lock(webhook)
        if wish.url is not None and wish.url != found.url:
            found.url = wish.url
            # How the old address fared says nothing about the new one.
            found.failing_since = None
        if wish.description is not None:
            found.description = wish.description
        if wish.events is not None:
            found.events = _in_order(wish.events)
        if wish.is_active is not None:
            found.is_active = wish.is_active
        if wish.is_active:
            found.failing_since, found.disabled_at, found.disabled_reason = None, None, ""
        found.save()
        return found

    return attempt(write)


def rotate(webhook: Webhook, *, actor: Actor, at: datetime | None = None, along: WebhookAlong | None = None) -> Webhook:
    """A new secret; the one before it signs as well for a day. One that is older still ends now."""
    _admit(actor, webhook)
    now = at or timezone.now()
    secret = signing.new_secret()

    def write() -> Webhook:
        found = _lock(webhook)
        found.previous_secret, found.previous_secret_ends_at = found.secret, now + OVERLAP
        found.secret = secret
        found.save(update_fields=["secret", "previous_secret", "previous_secret_ends_at"])
        _write(along, found)
        return found

    return attempt(write)


def delete(webhook: Webhook, *, actor: Actor) -> None:
    """With its deliveries, some at a time: a receiver of many messages must not hold everybody else up."""
    _admit(actor, webhook)
    deliveries = Delivery.objects.for_tenant(actor.tenant).filter(webhook=webhook)
    # Nothing new is queued for it from here on. Whoever is cut off in the middle can ask again.
    found = Webhook.objects.for_tenant(actor.tenant).filter(pk=webhook.pk)
    attempt(lambda: found.update(is_active=False))
    while attempt(lambda: _delete_some(deliveries)):
        pass

    def finish() -> None:
        locked = _lock(webhook)
        while _delete_some(deliveries):
            pass
        locked.delete()

    attempt(finish)


def send_test(
    webhook: Webhook, *, actor: Actor, at: datetime | None = None, along: DeliveryAlong | None = None
) -> Delivery:
    """One message that means nothing, queued like any other."""
    _admit(actor, webhook)
    now = at or timezone.now()
    identity = new_id()
    body = {"type": TEST_TYPE, "timestamp": moment(now), "data": {"webhook_id": str(webhook.pk)}}
    delivery = Delivery(
        id=identity,
        tenant=actor.tenant,
        dedupe_key=f"test:{identity}",
        occasion=Occasion.TEST,
        kind=Kind.WEBHOOK,
        webhook=webhook,
        lane=webhook.lane,
        facts={"body": body},
        created_at=now,
        next_try_at=now,
    )

    def write() -> None:
        _lock(webhook)
        delivery.save(force_insert=True)
        _write(along, delivery)
        nudges.nudge()

    attempt(write)
    return delivery


def redeliver(
    delivery: Delivery, *, actor: Actor, at: datetime | None = None, along: DeliveryAlong | None = None
) -> Delivery:
    """Queued again, as the same message with the same id; what waits already is left as it is."""
    policy.admit(actor)
    if delivery.tenant_id != actor.tenant.pk or delivery.webhook_id is None:
        raise policy.NoSuchDelivery
    now = at or timezone.now()

    def write() -> Delivery:
        found: Delivery | None = Delivery.objects.for_tenant(actor.tenant).filter(pk=delivery.pk).first()
        if found is None:
            raise policy.NoSuchDelivery
        if found.status == DeliveryStatus.WAITING:
            return found
        # Its tries start anew, or one that was given up would be given up again after the first.
        again: dict[str, Any] = {"status": DeliveryStatus.WAITING, "next_try_at": now, "tries": 0}
        guarded = Delivery.objects.for_tenant(actor.tenant).filter(pk=found.pk, status=found.status)
        if not guarded.update(**again):
            raise _Moved
        for name, value in again.items():
            setattr(found, name, value)
        _write(along, found)
        nudges.nudge()
        return found

    for _ in range(TRIES):
        try:
            return attempt(write)
        except _Moved:
            continue
    raise errors.Busy(None, "This delivery keeps changing. Nothing was written; try again.")


class _Moved(Exception):
    """Somebody else moved the delivery between reading and swapping."""


def hint(secret: str) -> str:
    """Enough to tell two secrets apart, and nothing to sign with."""
    return f"{signing.PREFIX}…{secret.rstrip('=')[-4:]}"


def _admit(actor: Actor, webhook: Webhook) -> None:
    policy.admit(actor)
    if webhook.tenant_id != actor.tenant.pk:
        raise policy.NoSuchWebhook


def _check(wish: Wish) -> None:
    wrong: errors.FieldErrors = {}
    if wish.url is not None and (trouble := egress.trouble_with(wish.url)):
        wrong["url"] = [trouble]
    if wish.description is not None and len(wish.description) > DESCRIPTION_LENGTH:
        wrong["description"] = [f"Give at most {DESCRIPTION_LENGTH} characters."]
    if wish.events is not None:
        if unknown := [type for type in wish.events if type not in TYPES]:
            wrong["events"] = [f"“{unknown[0][:60]}” is not known. Use some of: {', '.join(TYPES)}."]
        elif len(set(wish.events)) < len(wish.events):
            wrong["events"] = ["Name each type once."]
    if wrong:
        raise errors.InvalidInput(wrong)


def _in_order(types: Sequence[str]) -> list[str]:
    return [type for type in TYPES if type in types]


def _lock(webhook: Webhook) -> Webhook:
    found: Webhook | None = Webhook.objects.select_for_update().filter(pk=webhook.pk, tenant=webhook.tenant_id).first()
    if found is None:
        raise policy.NoSuchWebhook
    return found


def _delete_some(deliveries: Any) -> int:
    chosen = list(deliveries.order_by("pk").values_list("pk", flat=True)[:BATCH])
    DeliveryTry.objects.filter(delivery__in=chosen).delete()
    Delivery.objects.filter(pk__in=chosen).delete()
    return len(chosen)


def _write(along: Callable[[Any], models.Model] | None, row: models.Model) -> None:
    if along is not None:
        along(row).save(force_insert=True)
