"""The webhook routes, as the OpenAPI document tells them; ``views.py`` is what answers."""

import uuid
from datetime import timedelta
from functools import partial
from typing import Any

from checkpoints.api import lists
from checkpoints.api.schema import examples, parameters, rooms
from checkpoints.api.schema.answers import ADDRESS, MOMENT, TEXT, TEXT_OR_NULL, UUID
from checkpoints.api.schema.bodies import Schema
from checkpoints.api.schema.operations import EVERY_POST, Operation
from checkpoints.api.schema.parameters import Given
from notifications import policy, webhooks
from notifications.api import represent, shapes, views
from notifications.models import Delivery, DeliveryStatus, DeliveryTry, Kind, Occasion, Webhook

ID = uuid.UUID("01a1ee5c-0c0b-7b52-8f8e-2f60e2f1a3d4")
DELIVERY_ID = uuid.UUID("01a1ee5f-77aa-7c9d-9a46-5d1c6e0b7f21")
SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"  # noqa: S105 (that of the specification's own example)
BODY_OF_A_CHANGE = ("TooLarge", "UnsupportedMediaType")
MOMENT_OR_NULL: Schema = MOMENT | {"type": ["string", "null"]}
TYPES: Schema = {"type": "array", "uniqueItems": True, "items": {"type": "string", "enum": list(webhooks.TYPES)}}

FIELDS = {
    "url": "Where messages go: `https://`, a public address, no user name. `http://` and private addresses only where "
    "the operator allows them.",
    "description": "What it is for, in your words.",
    "events": f"The types it is told of; empty for all of {', '.join(f'`{type}`' for type in webhooks.TYPES)}.",
    "is_active": "Whether it is told anything. `true` switches one on again that was switched off.",
}
WEBHOOK: dict[str, Schema] = {
    "id": UUID | {"description": "Time-ordered (UUIDv7)."},
    "url": TEXT | {"description": "Where messages go."},
    "description": TEXT | {"description": FIELDS["description"]},
    "events": TYPES | {"description": FIELDS["events"]},
    "is_active": {"type": "boolean", "description": "Whether it is told anything."},
    "secret_hint": TEXT | {"description": "The end of the secret, to tell it from others."},
    "previous_secret_ends_at": MOMENT_OR_NULL
    | {"description": "After a rotation: until when messages are signed with the old secret as well."},
    "failing_since": MOMENT_OR_NULL | {"description": "Since when no message has been taken; null while all is well."},
    "disabled_at": MOMENT_OR_NULL | {"description": "When it was switched off by itself."},
    "disabled_reason": TEXT_OR_NULL | {"minLength": 1, "description": "Why it was."},
    "created_at": MOMENT | {"description": "When it was created."},
}
SHOWN_ONCE: Schema = {
    "type": "string",
    "pattern": "^whsec_[A-Za-z0-9+/]{32,86}={0,2}$",
    "description": "What messages are signed with. It is in this answer only: keep it.",
}
TRY: dict[str, Schema] = {
    "at": MOMENT | {"description": "When."},
    "succeeded": {"type": "boolean"},
    "detail": TEXT_OR_NULL | {"minLength": 1, "description": "What the other side said, or what went wrong."},
    "response_status": {"type": ["integer", "null"], "minimum": 0, "description": "The status it answered with."},
    "took_ms": {"type": "integer", "minimum": 0},
}
DELIVERY: dict[str, Schema] = {
    "id": UUID | {"description": "The `webhook-id` of the message, the same in every try."},
    "webhook_id": UUID | {"description": "Where it goes."},
    "type": TEXT_OR_NULL | {"description": f"What it tells of; `{webhooks.TEST_TYPE}` for a test."},
    "checkpoint_id": UUID | {"type": ["string", "null"], "description": "The checkpoint it tells of."},
    "status": {
        "type": "string",
        "enum": DeliveryStatus.values,
        "description": "`waiting` for its next try, `sent`, `failed` when it was given up, `skipped` when there was no "
        "point any more. The others are for mail.",
    },
    "created_at": MOMENT | {"description": "When it was queued."},
    "sent_at": MOMENT_OR_NULL | {"description": "When it was last taken."},
    "next_try_at": MOMENT_OR_NULL | {"description": "When it is tried next; null when it does not wait."},
    "last_error": TEXT_OR_NULL | {"minLength": 1, "description": "Why it was not taken, or not sent at all."},
    "tries": {
        "type": "array",
        "maxItems": represent.MOST_TRIES,
        "items": {"type": "object", "required": list(TRY), "properties": TRY, "additionalProperties": False},
        "description": f"Every try, oldest first; of very many the last {represent.MOST_TRIES}.",
    },
}
STATUS: Given = {"status": ({"type": "string", "enum": DeliveryStatus.values}, "Where it stands.", "failed")}
ALWAYS_THERE = "Every field is always there; what there is none of is `null`. Moments are UTC."
ROTATED = "A new secret, shown in this answer only. Messages are signed with both for 24 hours."


def _whole(properties: dict[str, Schema]) -> Schema:
    return {
        "type": "object",
        "required": list(properties),
        "properties": properties,
        "additionalProperties": False,
    }


def _page(name: str) -> Schema:
    link = ADDRESS | {"type": ["string", "null"]}
    return _whole(
        {
            "next": link | {"description": "The next page; follow it as it is."},
            "previous": link | {"description": "The page before."},
            "results": {
                "type": "array",
                "items": {"$ref": f"#/components/schemas/{name}"},
                "maxItems": lists.LARGEST_PAGE,
            },
        }
    )


def _webhook(**columns: Any) -> Webhook:
    # Never saved: what the API would show of it is all that is wanted.
    given = {"id": ID, "url": "https://hooks.acme.example/holdpoint", "description": "Our engine", "secret": SECRET}
    return Webhook(**given | {"events": ["checkpoint.resolved"], "created_at": examples.CREATED} | columns)


def example_webhook() -> dict[str, Any]:
    return represent.webhook(_webhook(), at=examples.CREATED)


def example_new() -> dict[str, Any]:
    return represent.with_secret(_webhook(), at=examples.CREATED)


def example_rotated() -> dict[str, Any]:
    ends_at = examples.LATER + webhooks.OVERLAP
    return represent.with_secret(_webhook(previous_secret_ends_at=ends_at), at=examples.LATER)


def example_delivery() -> dict[str, Any]:
    tried = DeliveryTry(at=examples.LATER, succeeded=False, detail="HTTP 503", response_status=503, took_ms=120)
    return _delivery(
        "checkpoint.resolved",
        [tried],
        checkpoint_id=examples.ID,
        next_try_at=examples.LATER + timedelta(minutes=1),
        last_error=tried.detail,
    )


def example_test() -> dict[str, Any]:
    return _delivery(webhooks.TEST_TYPE, [], next_try_at=examples.LATER)


def _delivery(type: str, tries: list[DeliveryTry], **columns: Any) -> dict[str, Any]:
    made = Delivery(
        id=DELIVERY_ID,
        webhook_id=ID,
        occasion=Occasion.EVENT,
        kind=Kind.WEBHOOK,
        facts={"body": {"type": type}},
        created_at=examples.LATER,
        **columns,
    )
    return represent.delivery(made, tries)


def _paged(example: dict[str, Any]) -> dict[str, Any]:
    return {"next": None, "previous": None, "results": [example]}


operation = partial(Operation, tag="Webhooks", scopes=policy.SCOPES["webhooks"], answer_headers=())
command = partial(operation, headers=("Idempotency-Key",), refusals=EVERY_POST)
OPERATIONS: dict[type, dict[str, Operation]] = {
    views.Webhooks: {
        "get": operation(
            name="list_webhooks",
            summary="List webhooks",
            description="Newest first. People: tenant admins, here and below.",
            query=lambda: parameters.query(parameters.PLACES),
            answer=_page("Webhook"),
            answer_words="A page.",
            example=lambda: _paged(example_webhook()),
        ),
        "post": command(
            name="create_webhook",
            summary="Create a webhook",
            description="Signed messages to this address, by Standard Webhooks. The secret is in this answer only. A "
            f"tenant has at most {webhooks.MOST_WEBHOOKS}.",
            body=shapes.CreateWebhook,
            bodies={
                "decisions": {
                    "url": "https://hooks.acme.example/holdpoint",
                    "description": "Our engine",
                    "events": ["checkpoint.resolved", "checkpoint.cancelled", "checkpoint.expired"],
                },
                "everything": {"url": "https://hooks.acme.example/holdpoint"},
            },
            status=201,
            answer="NewWebhook",
            answer_words="The webhook, with its secret.",
            answer_headers=("Location",),
            example=example_new,
        ),
    },
    views.OneWebhook: {
        "get": operation(
            name="read_webhook",
            summary="Read a webhook",
            answer="Webhook",
            answer_words="The webhook, without its secret.",
            example=example_webhook,
        ),
        "patch": operation(
            name="change_webhook",
            summary="Change a webhook",
            description="What is left out stays as it is. `is_active: true` switches it on again, and forgets why it "
            "was off.",
            body=shapes.ChangeWebhook,
            bodies={"switch_on": {"is_active": True}, "every_type": {"events": []}},
            answer="Webhook",
            answer_words="The webhook, as it is now.",
            example=example_webhook,
            refusals=BODY_OF_A_CHANGE,
        ),
        "delete": operation(
            name="delete_webhook",
            summary="Delete a webhook",
            description="With its deliveries: what was not sent yet never is.",
            status=204,
            answer=None,
            answer_words="It is gone. No body.",
        ),
    },
    views.SendTest: {
        "post": command(
            name="test_webhook",
            summary="Send a test",
            description=f"Queues one message of the type `{webhooks.TEST_TYPE}`. Its delivery shows what became of it.",
            body=shapes.Nothing,
            bodies={"empty": {}},
            status=202,
            answer="Delivery",
            answer_words="The delivery, queued.",
            example=example_test,
        )
    },
    views.RotateSecret: {
        "post": command(
            name="rotate_webhook_secret",
            summary="Make a new secret",
            description=f"{ROTATED} Rotated again within that time, the oldest one ends at once.",
            body=shapes.Nothing,
            bodies={"empty": {}},
            answer="NewWebhook",
            answer_words="The webhook, with its new secret.",
            example=example_rotated,
        )
    },
    views.Deliveries: {
        "get": operation(
            name="list_webhook_deliveries",
            summary="List deliveries",
            description="Newest first, each with its tries.",
            query=lambda: parameters.query(STATUS | parameters.PLACES),
            answer=_page("Delivery"),
            answer_words="A page.",
            example=lambda: _paged(example_delivery()),
        )
    },
    views.Redeliver: {
        "post": command(
            name="redeliver",
            summary="Send a delivery again",
            description="The same message, with the same `webhook-id`, is queued once more. One that waits already is "
            "answered as it is.",
            body=shapes.Nothing,
            bodies={"empty": {}},
            status=202,
            answer="Delivery",
            answer_words="The delivery, queued.",
            example=example_delivery,
        )
    },
}


def _place(name: str, what: str, example: uuid.UUID) -> dict[str, Any]:
    return {
        "name": name,
        "in": "path",
        "required": True,
        "description": f"The {what}'s id.",
        "schema": {"type": "string", "format": "uuid"},
        "example": str(example),
    }


def register() -> None:
    address: Schema = {"minLength": 1, "pattern": r"^https?://\S+$"}
    rooms.register(
        operations=OPERATIONS,
        rows={
            "Webhook": rooms.Row(lambda: _whole(WEBHOOK), "A webhook", ALWAYS_THERE),
            "NewWebhook": rooms.Row(lambda: _whole(WEBHOOK | {"secret": SHOWN_ONCE})),
            "Delivery": rooms.Row(lambda: _whole(DELIVERY), "A delivery", ALWAYS_THERE),
        },
        places={
            "webhook_id": _place("webhook_id", "webhook", ID),
            "delivery_id": _place("delivery_id", "delivery", DELIVERY_ID),
        },
        fields=FIELDS,
        sharper={
            shape: {"url": address, "events": TYPES | {"maxItems": len(webhooks.TYPES)}}
            for shape in (shapes.CreateWebhook, shapes.ChangeWebhook)
        },
    )
