"""Who may see and change a tenant's webhooks, and why. API and desk ask here; nobody else knows the rules."""

import uuid

from checkpoints import errors
from checkpoints.policy import Verdict
from notifications.models import Delivery, Webhook
from tenants import directory
from tenants.actors import Actor

SCOPES = {"webhooks": ("webhooks:manage",)}


class NoSuchWebhook(errors.NotFound):
    sentence = "There is no such webhook."


class NoSuchDelivery(errors.NotFound):
    sentence = "There is no such delivery."


def verdict(actor: Actor) -> Verdict:
    if actor.key is not None:
        (scope,) = SCOPES["webhooks"]
        allowed = actor.key.has_scope(scope)
        return Verdict(allowed, f"The key has the scope {scope}." if allowed else f"This key lacks the scope {scope}.")
    if actor.user is None:
        return Verdict(False, "Nobody is signed in.")
    if directory.standing(actor.tenant, actor.user).is_admin:
        return Verdict(True, "They are a tenant admin.")
    return Verdict(False, "Only a tenant admin may manage webhooks.")


def admit(actor: Actor) -> None:
    """Before a row is looked at, so that a missing scope says nothing about ids."""
    verdict(actor).enforce()


def find_webhook(actor: Actor, webhook_id: uuid.UUID) -> Webhook:
    webhook: Webhook | None = Webhook.objects.for_tenant(actor.tenant).filter(pk=webhook_id).first()
    if webhook is None:
        raise NoSuchWebhook
    return webhook


def find_delivery(actor: Actor, webhook: Webhook, delivery_id: uuid.UUID) -> Delivery:
    deliveries = Delivery.objects.for_tenant(actor.tenant).filter(webhook=webhook)
    delivery: Delivery | None = deliveries.filter(pk=delivery_id).first()
    if delivery is None:
        raise NoSuchDelivery
    return delivery
