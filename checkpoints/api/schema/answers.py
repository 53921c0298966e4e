"""What is answered: JSON Schemas of rows, pages and history, read off the model and ``represent``."""

from typing import Any

from django.db import models

from checkpoints.api import lists, represent
from checkpoints.api.schema.bodies import ACTION, OPTIONS, Schema, described
from checkpoints.models import AssigneeType, Checkpoint, Priority

MOMENT: Schema = {
    "type": "string",
    "format": "date-time",
    "pattern": r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$",
}
UUID: Schema = {"type": "string", "format": "uuid"}
TEXT: Schema = {"type": "string"}
TEXT_OR_NULL: Schema = {"type": ["string", "null"]}
OBJECT_OR_NULL: Schema = {"type": ["object", "null"]}
ADDRESS: Schema = {"type": "string", "format": "uri"}

COUNT: Schema = {"type": "integer", "minimum": 0}
DIGEST: Schema = {"type": "string", "pattern": "^[0-9a-f]{64}$"}

RESOLUTION: Schema = {
    "type": ["object", "null"],
    "required": ["decision"],
    "properties": {
        "decision": TEXT | {"description": "The chosen option; `default` when the deadline chose."},
        "response": {"type": ["string", "object", "null"]},
        "comment": TEXT_OR_NULL,
        "via": TEXT | {"description": "The way it came: `api`, `admin`, `link`, `queue` or `timeout`."},
        "override": {"const": True, "description": "A tenant admin decided in place of an assignee."},
        "auto_expired": {"const": True, "description": "The deadline decided."},
        "option": TEXT_OR_NULL | {"description": "The `default_option`, when the deadline chose it."},
        "edited_args": {"type": "object", "description": "The action's arguments, as the decider changed them."},
        "action_digest": DIGEST | {"description": "SHA-256 of the canonical JSON of the action as decided."},
        "approvals": COUNT | {"description": "With a quorum: how many approved."},
        "rejections": COUNT | {"description": "With a quorum: how many did not."},
    },
    "additionalProperties": False,
}
# Columns of JSON say nothing about what is in them.
INSIDE: dict[str, Schema] = {
    "options": OPTIONS,
    "hitl_spec": OBJECT_OR_NULL,
    "action": ACTION,
    "hitl_target": OBJECT_OR_NULL,
    "assignee_resolved": {
        "type": "object",
        "required": ["type", "value", "reason"],
        "properties": {
            "type": {"type": "string", "enum": AssigneeType.values},
            "value": TEXT_OR_NULL,
            "reason": TEXT_OR_NULL | {"description": "Why nobody is asked, in a sentence."},
        },
        "additionalProperties": False,
    },
    "context": {},
    "escalation_chain": {"type": "array", "items": TEXT},
    "resolution": RESOLUTION,
}
VOTE: Schema = {
    "type": "object",
    "required": ["voter", "decision", "comment", "at"],
    "properties": {"voter": TEXT, "decision": TEXT, "comment": TEXT_OR_NULL, "at": MOMENT},
    "additionalProperties": False,
}
QUORUM: Schema = {
    "type": ["object", "null"],
    "required": ["required_approvals", "rejections_allowed", "approvals", "rejections", "missing", "votes"],
    "properties": {
        "required_approvals": COUNT,
        "rejections_allowed": COUNT,
        "approvals": COUNT,
        "rejections": COUNT,
        "missing": COUNT | {"description": "How many approvals are still needed."},
        "votes": {"type": "array", "items": VOTE},
    },
    "additionalProperties": False,
}
COMPUTED: dict[str, Schema] = {
    "id": UUID,
    "tenant_id": TEXT,
    "core_id": TEXT,
    "priority": {"type": "string", "enum": Priority.words()},
    "supersedes": UUID | {"type": ["string", "null"]},
    "quorum": QUORUM,
    "links": {
        "type": "object",
        "required": ["decide"],
        "properties": {"decide": ADDRESS | {"description": "The checkpoint's page for people who sign in."}},
        "additionalProperties": False,
    },
}
EVENTS = (
    "created",
    "voted",
    "resolved",
    "cancelled",
    "expired",
    "escalated",
    "reassigned",
    "rerouted",
    "claimed",
    "released",
    "extended",
    "reminded",
    "commented",
)


def checkpoint() -> Schema:
    columns = {name: _column(name) for name in represent.SAME} | {name: _moment(name) for name in represent.MOMENTS}
    return _whole({name: described(name, schema) for name, schema in (COMPUTED | columns).items()})


def page() -> Schema:
    link = ADDRESS | {"type": ["string", "null"]}
    return _whole(
        {
            "next": link | {"description": "The next page; follow it as it is."},
            "previous": link | {"description": "The page before."},
            "results": {
                "type": "array",
                "items": {"$ref": "#/components/schemas/Checkpoint"},
                "maxItems": lists.LARGEST_PAGE,
            },
        }
    )


def history_entry() -> Schema:
    return _whole(
        {
            "event": {"type": "string", "enum": list(EVENTS), "description": "What happened."},
            "at": MOMENT | {"description": "When."},
            "actor": TEXT | {"description": "Who: `user:…`, `key:…`, `timeout` and so on."},
            "detail": {"type": "object", "description": "What belongs to this kind of event."},
        }
    )


def _whole(properties: dict[str, Schema]) -> Schema:
    """Every field is always there, and no other."""
    return {
        "type": "object",
        "required": list(properties),
        "properties": properties,
        "additionalProperties": False,
    }


def _moment(name: str) -> Schema:
    return MOMENT | {"type": ["string", "null"]} if Checkpoint._meta.get_field(name).null else MOMENT


def _column(name: str) -> Schema:
    if name in INSIDE:
        return INSIDE[name]
    field: Any = Checkpoint._meta.get_field(name)
    schema = _bare(field)
    if not field.null and name not in represent.BLANK_IS_NULL:
        return schema
    # Where "" is told as null, it is not told as "".
    shortest = {"minLength": 1} if name in represent.BLANK_IS_NULL else {}
    return schema | shortest | {"type": [schema["type"], "null"]}


def _bare(field: Any) -> Schema:
    match field:
        case models.BooleanField():
            return {"type": "boolean"}
        case models.IntegerField():
            return {"type": "integer", "minimum": 0}
        case models.CharField() if field.choices:
            return {"type": "string", "enum": [value for value, _ in field.choices]}
        case models.CharField():
            return {"type": "string", "maxLength": field.max_length}
        case models.TextField():
            return {"type": "string"}
    raise TypeError(f"{field.name}: say in checkpoints/api/schema/answers.py what is in it")
