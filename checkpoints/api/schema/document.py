"""The OpenAPI 3.1 document, put together once per process."""

import json
import re
from collections.abc import Iterator
from functools import cache
from typing import Any

from django.conf import settings
from django.urls import URLPattern, URLResolver, get_resolver

from checkpoints.api import problems
from checkpoints.api.parsing import StrictJSONParser
from checkpoints.api.schema import answers, bodies, examples, parameters, rooms
from checkpoints.api.schema.operations import DESCRIBED, Operation, refusals_of
from checkpoints.api.schema.refusals import HEADERS, REFUSALS
from checkpoints.api.urls import ALIASES

VERSION = "1"
PREFIX = "v1/"
PARAMETER = re.compile(r"<(?:\w+:)?(\w+)>")
JSON = StrictJSONParser.media_type
DESCRIPTION = """\
A program suspends at a checkpoint and waits for a person's decision. JSON in UTF-8 over HTTP.

`HEAD` works wherever `GET` does. Text with NUL characters or halves of surrogate pairs is refused with 400. Every \
other address below `/v1/` is 404 `not_found`. What the web server itself refuses, such as a line that is not HTTP, \
does not get as far as this description.
"""
SECURITY: dict[str, dict[str, Any]] = {
    "key": {
        "type": "http",
        "scheme": "bearer",
        "description": "An API key. It belongs to one tenant and carries scopes; the operation names the one it needs.",
    },
    "session": {
        "type": "apiKey",
        "in": "cookie",
        "name": settings.SESSION_COOKIE_NAME,
        "description": "A person who has signed in. Ignored when an `Authorization` header is sent.",
    },
    "csrf": {
        "type": "apiKey",
        "in": "header",
        "name": "X-CSRFToken",
        "description": "With a session, for everything that writes: the value of the cookie `csrftoken`.",
    },
}
ANSWER_HEADERS: dict[str, dict[str, Any]] = {
    "X-Request-ID": {"description": "The name of this request.", "schema": {"type": "string", "minLength": 1}},
    "ETag": {"description": "The version, for `If-Match` and `If-None-Match`.", "schema": {"type": "string"}},
    "Location": {"description": "The address of the new row.", "schema": {"type": "string", "format": "uri-reference"}},
    "Allow": {"description": "The methods that work here.", "schema": {"type": "string"}},
    "Retry-After": {"description": "Seconds to wait.", "schema": {"type": "integer", "minimum": 1}},
    "WWW-Authenticate": {"description": "How to authenticate.", "schema": {"type": "string"}},
}


@cache
def text() -> bytes:
    return json.dumps(document(), ensure_ascii=False, separators=(",", ":")).encode()


@cache
def document() -> dict[str, Any]:
    return {
        "openapi": "3.1.0",
        "info": {"title": "Holdpoint", "version": VERSION, "description": DESCRIPTION},
        "servers": [{"url": settings.BASE_URL}],
        "paths": {path: _path(path, view) for path, view in routes() if view in DESCRIBED},
        "components": {
            "schemas": _schemas(),
            "responses": {name: _refused([name]) for name in REFUSALS},
            "examples": {
                name: {"value": refusal.example(_row_for(refusal.code))} for name, refusal in REFUSALS.items()
            },
            "parameters": parameters.SHARED,
            "headers": {name: {"required": True} | header for name, header in ANSWER_HEADERS.items()},
            "securitySchemes": SECURITY,
        },
    }


def routes() -> Iterator[tuple[str, type]]:
    """Every view below /v1/ with its address; the other names of an address stay out."""
    for pattern, callback in _walk(get_resolver(), ""):
        view = getattr(callback, "cls", None)
        if view is not None and pattern.startswith(PREFIX) and not pattern.startswith(ALIASES):
            yield "/" + PARAMETER.sub(r"{\1}", pattern), view


def _walk(resolver: URLResolver, before: str) -> Iterator[tuple[str, Any]]:
    for entry in resolver.url_patterns:
        here = f"{before}{entry.pattern}"
        if isinstance(entry, URLPattern):
            yield here, entry.callback
        else:
            yield from _walk(entry, here)


def undescribed() -> list[str]:
    """What the server does and the document does not say."""
    return [
        f"{method.upper()} {path} ({view.__name__})"
        for path, view in routes()
        for method in ("get", "post", "put", "patch", "delete")
        if method in view.http_method_names  # type: ignore[attr-defined]
        and hasattr(view, method)
        and not getattr(view, "for_people", False)
        and method not in DESCRIBED.get(view, {})
    ]


def _path(path: str, view: type) -> dict[str, Any]:
    named = [_reference("parameters", name) for name in re.findall(r"\{(\w+)\}", path)]
    operations = {method: _operation(method, operation) for method, operation in DESCRIBED[view].items()}
    return ({"parameters": named} if named else {}) | operations


def _operation(method: str, operation: Operation) -> dict[str, Any]:
    headers = [*operation.headers, *(["X-Tenant"] if operation.people and operation.scopes else []), "X-Request-ID"]
    found: dict[str, Any] = {
        "operationId": operation.name,
        "tags": [operation.tag],
        "summary": operation.summary,
        "description": operation.description,
        "security": _security(method, operation),
        "parameters": [
            *(operation.query() if operation.query else []),
            *(_reference("parameters", name) for name in headers),
        ],
        "responses": _responses(operation),
    }
    if operation.body is not None:
        found["requestBody"] = {
            "required": bodies.must_be_sent(operation.body),
            "content": {
                JSON: {
                    "schema": _reference("schemas", operation.body.__name__),
                    "examples": {name: {"value": value} for name, value in operation.bodies.items()},
                }
            },
        }
    return {name: value for name, value in found.items() if value != ""}


def _security(method: str, operation: Operation) -> list[dict[str, list[str]]]:
    keys: list[dict[str, list[str]]] = [{"key": [scope]} for scope in operation.scopes]
    if not operation.people or not keys:
        return keys
    return [*keys, {"session": []} if method == "get" else {"session": [], "csrf": []}]


def _responses(operation: Operation) -> dict[str, Any]:
    found: dict[str, Any] = {
        str(operation.status): {
            "description": operation.answer_words,
            "headers": _headers(operation.answer_headers),
            **_content(operation),
        }
    }
    if operation.has_304:
        found["304"] = {"description": "The copy you have is current. No body.", "headers": _headers(("ETag",))}
    by_status: dict[int, list[str]] = {}
    for name in refusals_of(operation):
        by_status.setdefault(REFUSALS[name].status, []).append(name)
    for status, names in sorted(by_status.items()):
        found[str(status)] = _reference("responses", names[0]) if len(names) == 1 else _refused(names)
    return found


def _content(operation: Operation) -> dict[str, Any]:
    answer = operation.answer
    if answer is None:
        return {}
    schema = answer if isinstance(answer, dict) else _reference("schemas", answer)
    return {"content": {JSON: {"schema": schema, "examples": {"answer": {"value": operation.example()}}}}}


def _refused(names: list[str]) -> dict[str, Any]:
    refusals = [REFUSALS[name] for name in names]
    schemas = [_reference("schemas", name) for name in names]
    return {
        "description": " ".join(refusal.when for refusal in refusals),
        "headers": _headers(HEADERS.get(refusals[0].status, ())),
        "content": {
            problems.CONTENT_TYPE: {
                "schema": schemas[0] if len(schemas) == 1 else {"oneOf": schemas},
                "examples": {REFUSALS[name].code: _reference("examples", name) for name in names},
            }
        },
    }


def _row_for(code: str) -> dict[str, Any]:
    ended = {"already_resolved": examples.resolved_row, "already_cancelled": examples.cancelled_row}
    return ended.get(code, examples.row)()


def _headers(names: tuple[str, ...]) -> dict[str, Any]:
    return {name: _reference("headers", name) for name in (*names, "X-Request-ID")}


def _schemas() -> dict[str, Any]:
    shapes = {
        operation.body.__name__: bodies.body(operation.body)
        for operations in DESCRIBED.values()
        for operation in operations.values()
        if operation.body is not None
    }
    return {
        "Checkpoint": answers.checkpoint(),
        "Page": answers.page(),
        "HistoryEntry": answers.history_entry(),
        "Option": bodies.OPTION,
        **{name: row.schema() for name, row in rooms.ROWS.items()},
        **shapes,
        **{name: refusal.schema() for name, refusal in REFUSALS.items()},
    }


def _reference(kind: str, name: str) -> dict[str, str]:
    return {"$ref": f"#/components/{kind}/{name}"}
