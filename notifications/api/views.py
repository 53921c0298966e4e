"""Thin adapters: check the shape, call one verb, answer with the row."""

import uuid
from functools import partial
from typing import Any

from django.http import HttpResponse
from django.utils import timezone
from rest_framework.request import Request
from rest_framework.response import Response

from checkpoints.api import lists
from checkpoints.api.views import View, Work, as_bytes
from checkpoints.idempotency import Answered
from notifications import policy, webhooks
from notifications.api import represent, shapes
from notifications.models import Delivery, DeliveryStatus, Webhook

NEWEST = lists.ByColumn("w", "id", uuid.UUID, descending=True)
LATEST = lists.ByColumn("d", "id", uuid.UUID, descending=True)
FILTERS = {"status": lists.word("status", DeliveryStatus.values)}
PAGING = ("cursor", "page_size")


def render_secret(row: Webhook) -> Answered:
    return Answered(200, {}, as_bytes(represent.with_secret(row, at=timezone.now())))


def render_new(row: Webhook) -> Answered:
    return Answered(201, {"Location": f"/v1/webhooks/{row.pk}"}, render_secret(row).body)


def render_queued(row: Delivery) -> Answered:
    """Taken, not sent: a worker does that."""
    (told,) = represent.deliveries([row])
    return Answered(202, {}, as_bytes(told))


def shown(rows: list[Webhook]) -> list[dict[str, Any]]:
    now = timezone.now()
    return [represent.webhook(row, at=now) for row in rows]


class Webhooks(View):
    def get(self, request: Request) -> Response:
        policy.admit(self.actor)
        rows = lists.filtered(request, Webhook.objects.for_tenant(self.actor.tenant), filters={}, paging=PAGING)
        return Response(lists.paged(request, rows, walk=NEWEST, shown=shown))

    def post(self, request: Request) -> HttpResponse:
        policy.admit(self.actor)
        return self.once("webhooks", self.prepare, render_new)

    def prepare(self) -> Work[Webhook]:
        given = self.read(shapes.CreateWebhook)
        return lambda along: webhooks.create(actor=self.actor, along=along, **given)


class OneWebhook(View):
    http_method_names = ["get", "head", "patch", "delete"]

    def get(self, request: Request, webhook_id: uuid.UUID) -> Response:
        policy.admit(self.actor)
        return self.answer(policy.find_webhook(self.actor, webhook_id))

    def patch(self, request: Request, webhook_id: uuid.UUID) -> Response:
        policy.admit(self.actor)
        found = policy.find_webhook(self.actor, webhook_id)
        wish = webhooks.Wish(**self.read(shapes.ChangeWebhook))
        return self.answer(webhooks.change(found, actor=self.actor, wish=wish))

    def delete(self, request: Request, webhook_id: uuid.UUID) -> Response:
        policy.admit(self.actor)
        webhooks.delete(policy.find_webhook(self.actor, webhook_id), actor=self.actor)
        return Response(status=204)

    def answer(self, found: Webhook) -> Response:
        return Response(represent.webhook(found, at=timezone.now()))


class RotateSecret(View):
    http_method_names = ["post"]

    def post(self, request: Request, webhook_id: uuid.UUID) -> HttpResponse:
        policy.admit(self.actor)
        return self.once(f"webhooks/{webhook_id}/rotate-secret", partial(self.prepare, webhook_id), render_secret)

    def prepare(self, webhook_id: uuid.UUID) -> Work[Webhook]:
        found = policy.find_webhook(self.actor, webhook_id)
        self.read(shapes.Nothing)
        return lambda along: webhooks.rotate(found, actor=self.actor, along=along)


class SendTest(View):
    http_method_names = ["post"]

    def post(self, request: Request, webhook_id: uuid.UUID) -> HttpResponse:
        policy.admit(self.actor)
        return self.once(f"webhooks/{webhook_id}/test", partial(self.prepare, webhook_id), render_queued)

    def prepare(self, webhook_id: uuid.UUID) -> Work[Delivery]:
        found = policy.find_webhook(self.actor, webhook_id)
        self.read(shapes.Nothing)
        return lambda along: webhooks.send_test(found, actor=self.actor, along=along)


class Deliveries(View):
    def get(self, request: Request, webhook_id: uuid.UUID) -> Response:
        policy.admit(self.actor)
        found = policy.find_webhook(self.actor, webhook_id)
        every = Delivery.objects.for_tenant(self.actor.tenant).filter(webhook=found)
        rows = lists.filtered(request, every, filters=FILTERS, paging=PAGING)
        return Response(lists.paged(request, rows, walk=LATEST, shown=represent.deliveries))


class Redeliver(View):
    http_method_names = ["post"]

    def post(self, request: Request, webhook_id: uuid.UUID, delivery_id: uuid.UUID) -> HttpResponse:
        policy.admit(self.actor)
        route = f"webhooks/{webhook_id}/deliveries/{delivery_id}/redeliver"
        return self.once(route, partial(self.prepare, webhook_id, delivery_id), render_queued)

    def prepare(self, webhook_id: uuid.UUID, delivery_id: uuid.UUID) -> Work[Delivery]:
        found = policy.find_delivery(self.actor, policy.find_webhook(self.actor, webhook_id), delivery_id)
        self.read(shapes.Nothing)
        return lambda along: webhooks.redeliver(found, actor=self.actor, along=along)
