"""Signed messages to machines, by Standard Webhooks."""

from datetime import datetime

from django.conf import settings
from django.utils import timezone

from checkpoints.events import canonical
from notifications import signing
from notifications.channels.answers import seconds_asked_for
from notifications.channels.base import Channel, ChannelError, Receipt
from notifications.models import Delivery, Webhook
from tenants import egress

SECONDS = 10.0
GONE = 410
WAIT = {429, 503}


class WebhookCall(Channel):
    """Each webhook is a lane of its own, so that whatever goes wrong holds up nobody else."""

    def send(self, delivery: Delivery) -> Receipt:
        webhook = delivery.webhook
        if webhook is None:
            raise ChannelError("The webhook is no longer there.", permanent=True)
        now = timezone.now()
        body = canonical(delivery.facts["body"])
        headers = {"Content-Type": "application/json", "User-Agent": f"Holdpoint/{settings.VERSION}"}
        try:
            answer = egress.post(
                webhook.url,
                content=body,
                headers=headers | _signatures(delivery, webhook, body, now),
                timeout=SECONDS,
            )
        except egress.EgressError as error:
            raise ChannelError(error.detail, permanent=error.permanent, whole_lane=True) from error
        if 200 <= answer.status < 300:
            return Receipt(message_id=str(delivery.pk), response_status=answer.status)
        raise _refusal(answer, now)


def _signatures(delivery: Delivery, webhook: Webhook, body: bytes, now: datetime) -> dict[str, str]:
    try:
        # The id is the same in every try: receivers know a repetition by it.
        return signing.signed_headers(message_id=str(delivery.pk), body=body, secrets=webhook.secrets(at=now), at=now)
    except ValueError as error:
        raise ChannelError("The secret of the webhook cannot be read; rotate it.", permanent=True) from error


def _refusal(answer: egress.Answer, now: datetime) -> ChannelError:
    """The status alone is told: what an endpoint wrote is for whoever runs it."""
    if answer.status == GONE:
        return ChannelError("It answered 410: gone.", permanent=True, gone=True, response_status=GONE)
    detail = f"It answered {answer.status}."
    if 300 <= answer.status < 400:
        detail = f"It answered {answer.status}: redirects are not followed."
    asked = answer.headers.get("retry-after") if answer.status in WAIT else None
    return ChannelError(
        detail, whole_lane=True, retry_after=seconds_asked_for(asked, at=now), response_status=answer.status
    )
