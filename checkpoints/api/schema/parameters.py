"""What may stand in the address and in the headers."""

from typing import Any

from checkpoints import idempotency
from checkpoints.api import lists
from checkpoints.api.schema.bodies import Schema
from checkpoints.models import AssigneeType, Priority, Routing, Status

# By name: what it may be, what it means, and an example.
Given = dict[str, tuple[Schema, str, str]]
TEXT: Schema = {"type": "string"}
MOMENT: Schema = {"type": "string", "format": "date-time"}


def header(name: str, description: str, schema: Schema, example: str) -> dict[str, Any]:
    return {"name": name, "in": "header", "description": description, "schema": schema, "example": example}


# In the order in which the page shows them.
SHARED: dict[str, dict[str, Any]] = {
    "checkpoint_id": {
        "name": "checkpoint_id",
        "in": "path",
        "required": True,
        "description": "The checkpoint's id.",
        "schema": {"type": "string", "format": "uuid"},
        "example": "01a1ee58-a5bb-75cf-8a85-8c8c5b24af97",
    },
    "If-None-Match": header(
        "If-None-Match", "The `ETag` of the copy you have: while it is current, the answer is 304.", TEXT, '"3"'
    ),
    "If-Match": header(
        "If-Match",
        "The `ETag` you read: the command runs only while the row is still at it, otherwise the answer is 412. "
        "`*` means any version.",
        TEXT,
        '"3"',
    ),
    "Idempotency-Key": header(
        "Idempotency-Key",
        "A name for this request. A repeat with the same name and body has no second effect and gets the first answer, "
        "byte for byte, for 24 hours.",
        {
            "type": "string",
            "minLength": 1,
            "maxLength": idempotency.KEY_LENGTH,
            "pattern": "^[!-~](?:[ -~]*[!-~])?$",
        },
        "refund-991-ask",
    ),
    "X-Tenant": header(
        "X-Tenant", "The tenant's slug, for a signed-in person who belongs to several. A key has one.", TEXT, "acme"
    ),
    "X-Request-ID": header(
        "X-Request-ID",
        "Your name for this request, repeated in the answer and in our log: letters, digits, `.` `_` `-`, up to 64. "
        "Anything else is replaced.",
        TEXT,
        "refund-991-a",
    ),
}

FILTERS: Given = {
    "status": ({"type": "string", "enum": Status.values}, "Where it stands.", "pending"),
    "priority": ({"type": "string", "enum": Priority.words()}, "How urgent it is.", "high"),
    "checkpoint_type": (TEXT, "The exact type.", "approval"),
    "assignee": (TEXT, "An assignment such as `group:finance`: what is assigned to exactly that.", "group:finance"),
    "assignee_type": ({"type": "string", "enum": AssigneeType.values}, "What kind of assignee.", "group"),
    "core_id": (TEXT, "The exact program.", "refund-agent"),
    "flow_name": (TEXT, "The exact flow.", "refund"),
    "execution_id": (TEXT, "The exact execution.", "exec-81f2"),
    "instance_key": (TEXT, "The exact entity.", "customer-17"),
    "routing": ({"type": "string", "enum": Routing.values}, "Whether people are asked.", "people"),
    "created_after": (MOMENT, "Created later than this; write a `+` as `%2B`.", "2030-01-01T00:00:00Z"),
    "created_before": (MOMENT, "Created earlier than this.", "2031-01-01T00:00:00Z"),
    "expires_before": (MOMENT, "Its deadline is earlier than this.", "2031-01-01T00:00:00Z"),
    "order": (
        {"type": "string", "enum": list(lists.ORDERS), "default": lists.ORDERS[0]},
        "`newest` first, or most `urgent` first: by priority, then oldest first.",
        "urgent",
    ),
    "page_size": (
        {"type": "integer", "minimum": 1, "maximum": lists.LARGEST_PAGE, "default": lists.PAGE_SIZE},
        "How many rows.",
        "20",
    ),
    "cursor": (TEXT, "A place in the list. Follow `next` and `previous` as they are; do not make one.", ""),
}
PLACES: Given = {name: FILTERS[name] for name in ("page_size", "cursor")}


def query(given: Given) -> list[dict[str, Any]]:
    return [
        {"name": name, "in": "query", "description": description, "schema": schema}
        | ({"example": int(example) if schema["type"] == "integer" else example} if example else {})
        for name, (schema, description, example) in given.items()
    ]


def filters() -> list[dict[str, Any]]:
    return query(FILTERS)
