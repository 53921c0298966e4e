"""Webhooks and their deliveries as the API shows them. Names are the model's."""

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from django.db.models import Prefetch, prefetch_related_objects

from checkpoints.api.represent import moment
from notifications import webhooks
from notifications.models import Delivery, DeliveryTry, Webhook

# Of one delivery; a redelivery adds more to those of a day.
MOST_TRIES = 50


def webhook(row: Webhook, *, at: datetime) -> dict[str, Any]:
    ends_at = row.previous_secret_ends_at
    return {
        "id": str(row.pk),
        "url": row.url,
        "description": row.description,
        "events": row.events,
        "is_active": row.is_active,
        "secret_hint": webhooks.hint(row.secret),
        "previous_secret_ends_at": moment(ends_at) if ends_at and at < ends_at else None,
        "failing_since": moment(row.failing_since),
        "disabled_at": moment(row.disabled_at),
        "disabled_reason": row.disabled_reason or None,
        "created_at": moment(row.created_at),
    }


def with_secret(row: Webhook, *, at: datetime) -> dict[str, Any]:
    """Only where the secret was made: nobody can read it again."""
    return webhook(row, at=at) | {"secret": row.secret}


def deliveries(rows: Iterable[Delivery]) -> list[dict[str, Any]]:
    """With their tries, in one more query for all of them."""
    found = list(rows)
    latest = DeliveryTry.objects.order_by("-id")[:MOST_TRIES]
    prefetch_related_objects(found, Prefetch("recorded_tries", queryset=latest, to_attr="latest_tries"))
    return [delivery(row, reversed(row.latest_tries)) for row in found]  # type: ignore[attr-defined]


def delivery(row: Delivery, tries: Iterable[DeliveryTry]) -> dict[str, Any]:
    body = row.facts.get("body")
    return {
        "id": str(row.pk),
        "webhook_id": str(row.webhook_id),
        "type": body.get("type") if isinstance(body, dict) else None,
        "checkpoint_id": str(row.checkpoint_id) if row.checkpoint_id else None,
        "status": row.status,
        "created_at": moment(row.created_at),
        "sent_at": moment(row.sent_at),
        "next_try_at": moment(row.next_try_at),
        "last_error": row.last_error or None,
        "tries": [one_try(found) for found in tries],
    }


def one_try(row: DeliveryTry) -> dict[str, Any]:
    return {
        "at": moment(row.at),
        "succeeded": row.succeeded,
        "detail": row.detail or None,
        "response_status": row.response_status,
        "took_ms": row.took_ms,
    }
