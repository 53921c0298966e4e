"""Holds every answer of the API to the OpenAPI document: its status is listed, its body, type and headers are as told.

``tests/conftest.py`` puts this in front of the product's middleware, so that every request of every test is looked at.
"""

import json
import re
from collections.abc import Callable
from functools import cache
from typing import Any

from django.http import HttpRequest, HttpResponse
from jsonschema import Draft202012Validator, FormatChecker

from checkpoints.api.schema import document
from checkpoints.api.urls import ALIASES

WHERE = "Describe it in checkpoints/api/schema."
NOT_FOUND = "not_found"
CONVERTED = re.compile(r"<(?:\w+:)?(\w+)>")


class Conforms:
    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        response = self.get_response(request)
        match = request.resolver_match
        if match is None or not request.path.startswith(("/v1/", "/api/")):
            return response
        if response.status_code == 500:
            # A fault of ours is never part of the description. The test that provoked it says what it expects.
            return response
        if getattr(match.func, "__name__", "") == NOT_FOUND:
            check(response, refused("NotFound"), f"{request.method} {request.path}", head=request.method == "HEAD")
        elif not getattr(getattr(match.func, "cls", None), "for_people", False):
            check_operation(request.method or "", path_of(match.route), response)
        return response


def path_of(route: str) -> str:
    for alias in ALIASES:
        if route.startswith(alias):
            route = document.PREFIX + route.removeprefix(alias)
    return "/" + CONVERTED.sub(r"{\1}", route)


def check_operation(method: str, path: str, response: HttpResponse) -> None:
    operations = document.document()["paths"].get(path)
    what = f"{method} {path} → {response.status_code}"
    assert operations is not None, f"{path} is not in the document. {WHERE}"
    told = operations.get("get" if method == "HEAD" else method.lower())
    if told is None:
        # A method that does not work here is refused like any other request.
        told = next(operations[name] for name in ("get", "post") if name in operations)
        assert response.status_code >= 400, what
    listed = told["responses"].get(str(response.status_code))
    assert listed is not None, f"{what} is not in the document: {response.content[:500]!r}. {WHERE}"
    check(response, resolved(listed), what, head=method == "HEAD")


def check(response: HttpResponse, told: dict[str, Any], what: str, *, head: bool) -> None:
    for name, header in told.get("headers", {}).items():
        assert name in response.headers, f"{what} lacks the header {name}"
        schema = resolved(header)["schema"]
        value: Any = response[name]
        validate(int(value) if schema["type"] == "integer" else value, schema, f"{what}, {name}")
    if "content" not in told:
        assert response.content == b"", what
        return
    content_type = response["Content-Type"].partition(";")[0]
    assert content_type in told["content"], f"{what} is {content_type}"
    if not head:
        validate(json.loads(response.content), told["content"][content_type]["schema"], what)


def refused(name: str) -> dict[str, Any]:
    found: dict[str, Any] = document.document()["components"]["responses"][name]
    return found


def resolved(given: dict[str, Any]) -> dict[str, Any]:
    if "$ref" not in given:
        return given
    found: Any = document.document()
    for part in given["$ref"].removeprefix("#/").split("/"):
        found = found[part]
    return dict(found)


def validate(value: Any, schema: dict[str, Any], what: str) -> None:
    trouble = [f"{'/'.join(map(str, error.absolute_path))}: {error.message[:300]}" for error in faults(value, schema)]
    assert not trouble, f"{what} does not conform to the document: {trouble}. {WHERE}"


def faults(value: Any, schema: dict[str, Any]) -> list[Any]:
    return list(validator(json.dumps(schema)).iter_errors(value))


@cache
def validator(schema: str) -> Draft202012Validator:
    """With the components beside it, so that its references lead somewhere."""
    whole = json.loads(schema) | {"components": {"schemas": document.document()["components"]["schemas"]}}
    return Draft202012Validator(whole, format_checker=FormatChecker())
