"""The action a decision is about: its shape, its schema, and the digest that binds the decision to it."""

import hashlib
import itertools
from typing import Any

import jsonschema
import referencing
from jsonschema.exceptions import SchemaError
from referencing.exceptions import Unresolvable

from checkpoints import events

KEYS = {"name", "args", "args_schema"}
NAME_LENGTH = 200
MOST_PROBLEMS = 20
MOST_REFERENCES = 1000
UNSUPPORTED = {"pattern", "patternProperties", "$dynamicRef", "$recursiveRef"}
# Keywords whose value names schemas, and keywords whose value is no schema.
MAPS = {"properties", "$defs", "definitions", "dependentSchemas"}
PLAIN = {"const", "default", "enum", "examples", "dependentRequired"}


def problems_with(action: Any) -> list[str]:
    """Everything wrong with an action as a program gives it."""
    if not isinstance(action, dict):
        return ["Give an object with name and args."]
    unknown = sorted(set(action) - KEYS)[:5]
    found = [f"Unknown key “{key[:60]}”; known: args, args_schema, name." for key in unknown]
    name = action.get("name")
    if not isinstance(name, str) or not name.strip() or len(name) > NAME_LENGTH:
        found.append(f"name must be a string of 1 to {NAME_LENGTH} characters that is not blank.")
    if not isinstance(action.get("args", {}), dict):
        found.append("args must be an object.")
    if found or action.get("args_schema") is None:
        return found
    schema = action["args_schema"]
    if not isinstance(schema, dict):
        return ["args_schema must be a JSON Schema object."]
    try:
        jsonschema.Draft202012Validator.check_schema(schema)
        if used := _unsupported(schema):
            return [f"args_schema uses “{used}”, which is not supported."]
    except SchemaError as error:
        return [f"args_schema is not a JSON Schema: {error.message[:300]}"]
    except Exception:  # noqa: BLE001 (whatever a strange schema does to the library, it is the schema that is wrong)
        return ["args_schema cannot be used."]
    return [f"args do not fit args_schema: {message}" for message in problems_with_args(action, action.get("args", {}))]


def problems_with_args(action: dict[str, Any], args: Any) -> list[str]:
    """Where arguments do not fit the action's schema. Nothing is fetched, and nothing runs for long."""
    if not isinstance(args, dict):
        return ["give an object."]
    schema = action.get("args_schema")
    if not schema:
        return []
    try:
        validator = _bounded()(schema, registry=referencing.Registry())
        errors = [error for error, _ in zip(validator.iter_errors(args), range(MOST_PROBLEMS), strict=False)]
        return [f"{_place(error)}{error.message[:300]}" for error in errors]
    except Unresolvable:
        return ["the schema refers to something outside itself."]
    except TooMuch:
        return ["the schema takes too long to apply."]
    except Exception:  # noqa: BLE001 (as above)
        return ["the schema cannot be applied to this."]


class TooMuch(Exception):
    """A schema that refers to itself again and again could keep a worker, and its neighbours, busy for ever."""


def _bounded() -> Any:
    """A validator that follows only so many references."""
    left = itertools.count(MOST_REFERENCES, -1)
    follow = jsonschema.Draft202012Validator.VALIDATORS["$ref"]

    def counted(*arguments: Any) -> Any:
        if next(left) <= 0:
            raise TooMuch
        return follow(*arguments)

    return jsonschema.validators.extend(jsonschema.Draft202012Validator, {"$ref": counted})


def _unsupported(schema: Any) -> str:
    """Regular expressions can be made to run for ever; dynamic references cannot be counted."""
    waiting = [schema]
    while waiting:
        here = waiting.pop()
        if not isinstance(here, dict):
            continue
        if used := UNSUPPORTED & set(here):
            return sorted(used)[0]
        for key, inner in here.items():
            if key in MAPS and isinstance(inner, dict):
                waiting.extend(inner.values())
            elif isinstance(inner, list):
                waiting.extend(inner)
            elif key not in PLAIN:
                waiting.append(inner)
    return ""


def _place(error: Any) -> str:
    path = ".".join(str(step) for step in error.absolute_path)
    return f"{path}: " if path else ""


def as_decided(action: dict[str, Any], edited_args: dict[str, Any] | None) -> dict[str, Any]:
    return action if edited_args is None else action | {"args": edited_args}


def digest_of(action: dict[str, Any]) -> str:
    """SHA-256 of the canonical JSON, so that a runtime can refuse to do anything else."""
    return hashlib.sha256(events.canonical(action)).hexdigest()
