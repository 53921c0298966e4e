"""What may be sent: JSON Schemas read off the shapes. A field of an unknown kind is an error, not a guess."""

from typing import Any

from rest_framework import serializers

from checkpoints import actions, answers, deadlines
from checkpoints.api import shapes
from checkpoints.api.schema.words import FIELDS
from checkpoints.lifecycle.creating import PROMPT_LENGTH
from tenants.models import CORE_SLUG

Schema = dict[str, Any]

# One of the forms of deadlines.FORMS, and not zero.
SPAN = (
    r"^(?:[1-9]\d{0,9}[smhd]?"
    r"|P(?=[0-9T])(?:\d{1,6}W)?(?:\d{1,6}D)?(?:T(?=\d)(?:\d{1,8}H)?(?:\d{1,8}M)?(?:\d{1,10}S)?)?)$"
)
OPTION_ID: Schema = {
    "type": "string",
    "minLength": 1,
    "maxLength": answers.OPTION_LENGTH,
    "pattern": r"\S",
    "not": {"const": answers.RESERVED},
}
OPTION: Schema = {
    "type": "object",
    "required": ["id"],
    "properties": {
        "id": OPTION_ID,
        "label": {"type": ["string", "null"], "description": "What people read; the id when left out."},
        "description": {"type": ["string", "null"], "description": "A sentence below it."},
        "variant": {"type": ["string", "null"], "description": "How it looks, such as `primary`."},
        "requires_comment": {"type": "boolean", "description": "Whether choosing it needs a comment."},
    },
    "additionalProperties": False,
}
OPTIONS: Schema = {
    "type": ["array", "null"],
    "maxItems": answers.MOST_OPTIONS,
    "items": {"anyOf": [OPTION_ID, {"$ref": "#/components/schemas/Option"}]},
}
ACTION: Schema = {
    "type": ["object", "null"],
    "required": ["name"],
    "properties": {
        "name": {"type": "string", "minLength": 1, "maxLength": actions.NAME_LENGTH, "pattern": r"\S"},
        "args": {"type": "object", "description": "Its arguments."},
        "args_schema": {"type": ["object", "null"], "description": "A JSON Schema that the arguments fit."},
    },
    "additionalProperties": False,
}
# What a shape leaves to lifecycle and a JSON Schema can still say.
SHARPER: dict[type[shapes.Shape], dict[str, Schema]] = {
    shapes.Create: {
        "core_id": {"pattern": CORE_SLUG.pattern.replace(r"\Z", "$")},
        "prompt": {"maxLength": PROMPT_LENGTH},
        "options": OPTIONS,
        "action": ACTION,
    },
    shapes.Resolve: {
        "response": {"type": ["string", "object", "null"]},
        "edited_args": {"type": ["object", "null"]},
    },
    shapes.Comment: {"text": {"pattern": r"\S"}},
}
RULES: dict[type[shapes.Shape], Schema] = {
    shapes.Create: {
        "anyOf": [
            {"required": ["prompt"], "properties": {"prompt": {"pattern": r"\S"}}},
            {"required": ["checkpoint_type"], "properties": {"checkpoint_type": {"const": "debug_breakpoint"}}},
        ],
        "not": {"required": ["assignee", "assignee_raw"]},
    },
    shapes.Resolve: {"not": {"required": ["decision", "resolution"]}},
    shapes.Extend: {
        "oneOf": [
            {
                "required": ["timeout"],
                "properties": {"timeout": {"type": ["string", "integer"]}, "expires_at": {"type": "null"}},
            },
            {
                "required": ["expires_at"],
                "properties": {"expires_at": {"type": "string"}, "timeout": {"type": "null"}},
            },
        ],
    },
}


def body(shape: type[shapes.Shape]) -> Schema:
    fields = shape().fields
    sharper = SHARPER.get(shape, {})
    found: Schema = {
        "type": "object",
        "properties": {name: described(name, of(field) | sharper.get(name, {})) for name, field in fields.items()},
        "additionalProperties": False,
    }
    if required := [name for name, field in fields.items() if field.required]:
        found["required"] = required
    return found | RULES.get(shape, {})


def described(name: str, schema: Schema) -> Schema:
    return schema | ({"description": FIELDS[name]} if name in FIELDS else {})


def must_be_sent(shape: type[shapes.Shape]) -> bool:
    """A command without a body counts as an empty object; for some shapes that is not enough."""
    return not shape(data={}).is_valid() or "oneOf" in RULES.get(shape, {})


def of(field: serializers.Field) -> Schema:
    schema = _bare(field)
    if not field.allow_null or not schema:
        return schema
    if "anyOf" in schema:
        return {"anyOf": [*schema["anyOf"], {"type": "null"}]}
    nullable = schema | {"type": [schema["type"], "null"]}
    return nullable | {"enum": [*schema["enum"], None]} if "enum" in schema else nullable


def _bare(field: serializers.Field) -> Schema:
    match field:
        case shapes.Text():
            shortest = {} if field.allow_blank else {"minLength": 1}
            longest = {"maxLength": field.max_length} if field.max_length else {}
            return {"type": "string"} | shortest | longest
        case shapes.Whole():
            return {"type": "integer", "minimum": field.least, "maximum": field.most}
        case shapes.Flag():
            return {"type": "boolean"}
        case shapes.Moment():
            return {"type": "string", "format": "date-time"}
        case shapes.Span():
            longest_span = int(deadlines.LONGEST.total_seconds())
            seconds = {"type": "integer", "minimum": 1, "maximum": longest_span}
            return {"anyOf": [seconds, {"type": "string", "pattern": SPAN, "maxLength": 40}]}
        case shapes.Word():
            return {"type": "string", "enum": [str(word) for word in field.choices]}
        case shapes.Identity():
            return {"type": "string", "format": "uuid"}
        case shapes.Anything():
            return {}
        case shapes.Shape():
            return body(type(field))
        case serializers.ListField():
            return {"type": "array", "items": of(field.child)} | (
                {"maxItems": field.max_length} if field.max_length is not None else {}
            )
    raise TypeError(f"{type(field).__name__}: say in checkpoints/api/schema/bodies.py what may be sent")
