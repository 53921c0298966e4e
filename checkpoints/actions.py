"""The action a decision is about: its shape, its schema, and the digest that binds the decision to it."""

import hashlib
from typing import Any

import jsonschema
import referencing
from jsonschema.exceptions import SchemaError
from jsonschema.validators import validator_for
from referencing.exceptions import Unresolvable

from checkpoints import events

KEYS = {"name", "args", "args_schema"}
NAME_LENGTH = 200
MOST_PROBLEMS = 20


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
        validator_for(schema, default=jsonschema.Draft202012Validator).check_schema(schema)
    except SchemaError as error:
        return [f"args_schema is not a JSON Schema: {error.message[:300]}"]
    except RecursionError:
        return ["args_schema is nested too deeply."]
    return [f"args do not fit args_schema: {message}" for message in problems_with_args(action, action.get("args", {}))]


def problems_with_args(action: dict[str, Any], args: Any) -> list[str]:
    """Where arguments do not fit the action's schema. Nothing is fetched: a schema speaks only of itself."""
    if not isinstance(args, dict):
        return ["give an object."]
    schema = action.get("args_schema")
    if not schema:
        return []
    validator = validator_for(schema, default=jsonschema.Draft202012Validator)(schema, registry=referencing.Registry())
    try:
        errors = [error for error, _ in zip(validator.iter_errors(args), range(MOST_PROBLEMS), strict=False)]
    except Unresolvable:
        return ["the schema refers to something outside itself."]
    except RecursionError:
        return ["the schema never ends."]
    return [f"{_place(error)}{error.message[:300]}" for error in errors]


def _place(error: Any) -> str:
    path = ".".join(str(step) for step in error.absolute_path)
    return f"{path}: " if path else ""


def as_decided(action: dict[str, Any], edited_args: dict[str, Any] | None) -> dict[str, Any]:
    return action if edited_args is None else action | {"args": edited_args}


def digest_of(action: dict[str, Any]) -> str:
    """SHA-256 of the canonical JSON, so that a runtime can refuse to do anything else."""
    return hashlib.sha256(events.canonical(action)).hexdigest()
