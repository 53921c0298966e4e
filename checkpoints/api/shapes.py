"""What a body may look like: names and types. What they mean is checked by ``lifecycle``."""

import json
import uuid
from datetime import UTC, datetime
from functools import cache
from typing import Any

from django.utils.dateparse import parse_datetime
from rest_framework import serializers

from checkpoints.api.parsing import TooLarge, walk
from checkpoints.assignment import RAW_LENGTH
from checkpoints.deadlines import FORMS
from checkpoints.lifecycle.deciding import COMMENT_LENGTH
from checkpoints.models import ExpiryAction, Priority, Routing

LARGEST = 2_147_483_647
# A page shows up to 200 of them.
CONTEXT_BYTES = 256 * 1024
# So many unknown fields are named; a body full of them must not become an answer many times its size.
MOST_UNKNOWN = 20
# The event holds the answer three levels down, and MariaDB takes no JSON of more than 31 levels.
RESPONSE_DEPTH = 24


class Text(serializers.CharField):
    """A JSON string, kept as it is; a number is not quietly turned into one."""

    default_error_messages = {"invalid": "Give a string."}

    def __init__(self, **options: Any) -> None:
        super().__init__(**{"trim_whitespace": False, "allow_blank": True} | options)

    def to_internal_value(self, data: Any) -> str:
        if not isinstance(data, str):
            self.fail("invalid")
        return data


class Assignee(Text):
    """An assignee string is stored in lower case as well, which makes a few letters longer (İ)."""

    def __init__(self, *, max_length: int = RAW_LENGTH, **options: Any) -> None:
        super().__init__(max_length=max_length, **options)

    def to_internal_value(self, data: Any) -> str:
        given = super().to_internal_value(data)
        # What is too long as it was given is reported by the base.
        if len(given.lower()) > int(self.max_length or 0) >= len(given):
            self.fail("max_length", max_length=self.max_length)
        return given


class Texts(serializers.ListField):
    def to_internal_value(self, data: Any) -> Any:
        # Before a look at the items: a million wrong ones must not become a million messages.
        if isinstance(data, list) and len(data) > int(self.max_length or 0):
            self.fail("max_length", max_length=self.max_length)
        return super().to_internal_value(data)


class Whole(serializers.Field):
    default_error_messages = {
        "invalid": "Give a whole number.",
        "range": "Give a whole number from {least} to {most}.",
    }

    def __init__(self, *, least: int = 0, most: int = LARGEST, **options: Any) -> None:
        self.least, self.most = least, most
        super().__init__(**options)

    def to_internal_value(self, data: Any) -> int:
        # 1.0 is a whole number, in JSON as elsewhere.
        whole = isinstance(data, int) or (isinstance(data, float) and data.is_integer())
        if isinstance(data, bool) or not whole:
            self.fail("invalid")
        if not self.least <= data <= self.most:
            self.fail("range", least=self.least, most=self.most)
        return int(data)

    def to_representation(self, value: Any) -> Any:
        return value


class Flag(serializers.BooleanField):
    default_error_messages = {"invalid": "Give true or false."}

    def to_internal_value(self, data: Any) -> bool:
        if not isinstance(data, bool):
            self.fail("invalid", input=data)
        return bool(data)


class Moment(serializers.Field):
    default_error_messages = {"invalid": "Give a date and time such as 2030-01-31T12:00:00Z."}

    def to_internal_value(self, data: Any) -> datetime:
        try:
            parsed = parse_datetime(data) if isinstance(data, str) else None
            if parsed is None:
                self.fail("invalid")
            # Without an offset it is UTC, like every moment in the answers.
            return parsed.replace(tzinfo=UTC) if parsed.tzinfo is None else parsed.astimezone(UTC)
        except (ValueError, OverflowError):
            self.fail("invalid")

    def to_representation(self, value: Any) -> Any:
        return value


class Span(serializers.Field):
    default_error_messages = {"invalid": f"Give a span of time. {FORMS}"}

    def to_internal_value(self, data: Any) -> str | int:
        if isinstance(data, float) and data.is_integer():
            data = int(data)
        if isinstance(data, bool) or not isinstance(data, str | int) or len(str(data)) > 40:
            self.fail("invalid")
        return data

    def to_representation(self, value: Any) -> Any:
        return value


class Word(serializers.ChoiceField):
    default_error_messages = {"invalid_choice": "“{input}” is not known. Use one of: {known}."}

    def to_internal_value(self, data: Any) -> str:
        if not isinstance(data, str) or data not in self.choices:
            self.fail("invalid_choice", input=str(data)[:60], known=", ".join(map(str, self.choices)))
        return str(data)


class Identity(serializers.Field):
    default_error_messages = {"invalid": "Give the id of a checkpoint."}

    def to_internal_value(self, data: Any) -> uuid.UUID:
        try:
            return uuid.UUID(data)
        except (ValueError, AttributeError, TypeError):
            self.fail("invalid")

    def to_representation(self, value: Any) -> Any:
        return value


class Anything(serializers.JSONField):
    def to_internal_value(self, data: Any) -> Any:
        return data


class Shape(serializers.Serializer):
    """Refuses what it does not know, by name."""

    later: dict[str, str] = {}

    def to_internal_value(self, data: Any) -> Any:
        if not isinstance(data, dict):
            raise serializers.ValidationError({"body": ["Send a JSON object."]})
        wrong: dict[str, Any] = {}
        for name in data:
            if name in self.later:
                wrong[name] = [self.later[name]]
            elif name not in self.fields:
                wrong[name[:100]] = [f"Unknown field. Known: {', '.join(self.fields)}."]
            if len(wrong) >= MOST_UNKNOWN:
                break
        try:
            values = super().to_internal_value(data)
        except serializers.ValidationError as error:
            wrong = {**error.detail, **wrong} if isinstance(error.detail, dict) else wrong
        if wrong:
            raise serializers.ValidationError(wrong)
        return values


@cache
def _reader(shape: type[Shape]) -> Shape:
    return shape()


def read(shape: type[Shape], data: Any) -> dict[str, Any]:
    """The body, checked. One reader per shape: DRF copies every field for a new serializer, and checking keeps none."""
    return dict(_reader(shape).run_validation(data))


NOT_YET = "Not available in this version."


class Create(Shape):
    later = dict.fromkeys(("state", "state_base64", "state_ref", "hitl_spec", "hitl_target"), NOT_YET)

    core_id = Text()
    prompt = Text(required=False)
    checkpoint_type = Text(required=False, max_length=64, allow_blank=False)
    routing = Word(Routing.values, required=False)
    execution_id = Text(required=False, max_length=200)
    flow_name = Text(required=False, max_length=200)
    block_index = Whole(required=False, allow_null=True)
    node_id = Text(required=False, max_length=200)
    instance_key = Text(required=False, max_length=200)
    options = Anything(required=False, allow_null=True)
    default_option = Text(required=False, allow_null=True, max_length=100)
    action = Anything(required=False, allow_null=True)
    hitl_message_id = Text(required=False, max_length=200)
    assignee = Assignee(required=False, allow_null=True)
    assignee_raw = Assignee(required=False, allow_null=True)
    requested_by = Assignee(required=False, max_length=254)
    forbid_requester = Flag(required=False)
    required_approvals = Whole(least=1, most=1000, required=False)
    rejections_allowed = Whole(least=0, most=1000, required=False)
    context = Anything(required=False, allow_null=True)  # type: ignore[assignment]
    priority = Word(Priority.words(), required=False)
    expires_at = Moment(required=False, allow_null=True)
    timeout = Span(required=False, allow_null=True)
    expiry_action = Word(ExpiryAction.values, required=False)
    escalation_target = Assignee(required=False, allow_null=True)
    escalation_chain = Texts(child=Assignee(), required=False, max_length=20)
    reminder_interval_m = Whole(least=1, most=5_256_000, required=False, allow_null=True)
    supersedes = Identity(required=False, allow_null=True)

    def validate(self, values: dict[str, Any]) -> dict[str, Any]:
        if "assignee_raw" in values:
            if "assignee" in values:
                raise serializers.ValidationError({"assignee_raw": ["It is another name for assignee: give one."]})
            values["assignee"] = values.pop("assignee_raw")
        size = len(json.dumps(values.get("context"), ensure_ascii=False, separators=(",", ":")).encode())
        if size > CONTEXT_BYTES:
            raise TooLarge(f"context has {size:,} bytes; at most {CONTEXT_BYTES:,} are kept.")
        return values


class Resolve(Shape):
    decision = Text(required=False, allow_null=True, max_length=100)
    resolution = Text(required=False, allow_null=True, max_length=100)
    response = Anything(required=False, allow_null=True)
    comment = Text(required=False, allow_null=True, max_length=COMMENT_LENGTH)
    edited_args = Anything(required=False, allow_null=True)

    def validate(self, values: dict[str, Any]) -> dict[str, Any]:
        if "resolution" in values:
            if "decision" in values:
                raise serializers.ValidationError({"resolution": ["It is another name for decision: give one."]})
            values["decision"] = values.pop("resolution")
        response = values.get("response")
        if response is not None and not isinstance(response, str | dict):
            raise serializers.ValidationError({"response": ["Give a string, or an object of field: value."]})
        for name in ("response", "edited_args"):
            if any(depth > RESPONSE_DEPTH for _, _, depth in walk(values.get(name))):
                raise TooLarge(f"{name} is nested more than {RESPONSE_DEPTH} levels deep.")
        return values


class Cancel(Shape):
    reason = Text(required=False, allow_null=True, max_length=COMMENT_LENGTH)


class Reassign(Shape):
    assignee = Assignee(allow_null=True)
    comment = Text(required=False, allow_null=True, max_length=COMMENT_LENGTH)


class OnBehalf(Shape):
    def get_fields(self) -> dict[str, serializers.Field]:
        # "for" is a keyword of Python, so it cannot be written as an attribute.
        return {"for": Text(required=False, allow_null=True, max_length=254)}


class Extend(Shape):
    expires_at = Moment(required=False, allow_null=True)
    timeout = Span(required=False, allow_null=True)


class Remind(Shape):
    pass


class Comment(Shape):
    text = Text(max_length=COMMENT_LENGTH)
