"""The record of events, as the document tells it; ``checkpoints/api/audit.py`` is what answers."""

from typing import Any

from checkpoints import policy
from checkpoints.api import lists, represent
from checkpoints.api.schema import examples, parameters
from checkpoints.api.schema.bodies import Schema
from checkpoints.api.schema.operations import Operation
from checkpoints.api.schema.parameters import MOMENT, PLACES, TEXT, Given

FILTERS: Given = {
    "module": ({"type": "string", "enum": ["scaicore"]}, "The one module there is.", "scaicore"),
    "event": (TEXT, "The exact short name.", "resolved"),
    "type": (TEXT, "The exact type.", "checkpoint.resolved"),
    "actor": (TEXT, "The exact word and name of whoever did it.", "user:ann@acme.example"),
    "via": (TEXT, "The exact way it was done.", "api"),
    "checkpoint_id": ({"type": "string", "format": "uuid"}, "One checkpoint.", "01a1ee58-a5bb-75cf-8a85-8c8c5b24af97"),
    "after": (MOMENT, "Later than this; write a `+` as `%2B`.", "2030-01-01T00:00:00Z"),
    "before": (MOMENT, "Earlier than this.", "2031-01-01T00:00:00Z"),
    **PLACES,
}
DIGEST: Schema = {"type": "string", "minLength": 1, "maxLength": 64}
OBJECT: Schema = {"type": "object"}
ENTRY: dict[str, Schema] = {
    "id": {"type": "integer", "minimum": 1, "description": "The event's number; grows, with gaps."},
    "checkpoint_id": {"type": "string", "format": "uuid", "description": "What it happened to."},
    "sequence": {"type": "integer", "minimum": 0, "description": "Its place in the checkpoint's chain, from 1."},
    "event": TEXT | {"description": "The short name, as in the history."},
    "type": TEXT | {"description": "The name with its subject, such as `checkpoint.resolved`."},
    "at": MOMENT | {"description": "When."},
    "actor": TEXT | {"description": "Who: `user:…`, `key:…`, `timeout` and so on."},
    "via": TEXT | {"description": "The way: `api`, `admin`, `timeout`, `sweep` and so on."},
    "address": {"type": ["string", "null"], "minLength": 1, "description": "Where the request came from."},
    "detail": OBJECT | {"description": "What belongs to this kind of event."},
    "before": OBJECT | {"description": "The columns that changed, as they were."},
    "after": OBJECT | {"description": "The same columns, as they were from then on."},
    "previous_digest": DIGEST
    | {"type": ["string", "null"], "description": "The digest of the event before; null for the first."},
    "digest": DIGEST | {"description": "SHA-256 over this event and `previous_digest`."},
}
LINK: Schema = {"type": ["string", "null"], "format": "uri"}


def _page() -> Schema:
    entry = {"type": "object", "required": list(ENTRY), "properties": ENTRY, "additionalProperties": False}
    properties = {
        "next": LINK | {"description": "The next page; follow it as it is."},
        "previous": LINK | {"description": "The page before."},
        "results": {"type": "array", "items": entry, "maxItems": lists.LARGEST_PAGE},
    }
    return {
        "type": "object",
        "required": list(properties),
        "properties": properties,
        "additionalProperties": False,
    }


def _example() -> dict[str, Any]:
    entry = {
        "id": 1207,
        "checkpoint_id": "01a1ee58-a5bb-75cf-8a85-8c8c5b24af97",
        "sequence": 3,
        "event": "reminded",
        "type": "checkpoint.reminded",
        "at": represent.moment(examples.LATER),
        "actor": "key:refund-agent",
        "via": "api",
        "address": "192.0.2.10",
        "detail": {},
        "before": {"reminder_count": 0},
        "after": {"reminder_count": 1},
        "previous_digest": "9f2b7d0c6c9d4f6a8e0d3b1c5a7f9e2d4c6b8a0f1e3d5c7b9a8f6e4d2c0b1a39",
        "digest": "e77a56be2c6d2abdd618265e2678d9f89e16cb2a879e7488a3fc03f2b79e6285",
    }
    return {"next": None, "previous": None, "results": [entry]}


def _operation(name: str, summary: str, description: str, query: Given) -> Operation:
    return Operation(
        name=name,
        summary=summary,
        description=f"{description} People: tenant admins and auditors.",
        tag="Audit",
        scopes=policy.SCOPES["audit"],
        query=lambda: parameters.query(query),
        answer=_page(),
        answer_words="A page.",
        answer_headers=(),
        example=_example,
    )


ONE_CHECKPOINT = _operation(
    "audit_checkpoint", "Read the record of a checkpoint", "Every event of one checkpoint, oldest first.", PLACES
)
TENANT = _operation("audit", "Read the record of the tenant", "Every event of the tenant, newest first.", FILTERS)
