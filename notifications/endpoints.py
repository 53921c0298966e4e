"""What failures and successes mean for a webhook: one that is gone, or dead for days, is switched off, and told of."""

from datetime import datetime, timedelta

from django.conf import settings

from notifications.channels.base import ChannelError
from notifications.distributing import dedupe_key, email_channel
from notifications.models import Delivery, Kind, Occasion, Webhook
from tenants import directory
from tenants.fields import new_id


def succeeded(webhook: Webhook) -> None:
    if webhook.failing_since is not None:
        Webhook.objects.filter(pk=webhook.pk).update(failing_since=None)


def failed(webhook: Webhook, error: ChannelError, *, at: datetime) -> None:
    if error.gone:
        switch_off(webhook, reason="It answered 410: gone for good.", at=at)
        return
    first = Webhook.objects.filter(pk=webhook.pk, failing_since__isnull=True).update(failing_since=at)
    if first or webhook.failing_since is None:
        return
    days = settings.WEBHOOK_DISABLE_DAYS
    if days and at - webhook.failing_since > timedelta(days=days):
        reason = f"Nothing has arrived there for {days} days. The last answer: {error.detail}"
        switch_off(webhook, reason=reason, at=at)


def switch_off(webhook: Webhook, *, reason: str, at: datetime) -> None:
    """Once, however many messages fail at the same moment; the tenant's admins hear of it by mail."""
    on = Webhook.objects.filter(pk=webhook.pk, is_active=True)
    if not on.update(is_active=False, disabled_at=at, disabled_reason=reason):
        return
    channel = email_channel(webhook.tenant)
    if not channel.takes(Occasion.WEBHOOK_DISABLED):
        return
    Delivery.objects.bulk_create(
        [
            Delivery(
                id=new_id(),
                tenant=webhook.tenant,
                dedupe_key=dedupe_key(Occasion.WEBHOOK_DISABLED, webhook.pk, at, admin.email),
                occasion=Occasion.WEBHOOK_DISABLED,
                kind=Kind.EMAIL,
                lane=channel.lane,
                channel=channel,
                recipient=admin.email,
                facts={"url": webhook.url, "reason": reason},
                created_at=at,
                next_try_at=at,
            )
            for admin in directory.admins_of(webhook.tenant)
        ],
        ignore_conflicts=True,
    )
