"""``/v1/schema`` and ``/v1/docs``: the document for programs, and the same for people. Neither needs a key."""

import hashlib
import json
import re
import shlex
from functools import cache
from typing import Any

from django.http import HttpResponse
from django.template.loader import render_to_string
from django.utils.cache import patch_cache_control
from rest_framework.request import Request

from checkpoints.api import views
from checkpoints.api.schema import document, parameters, rooms
from checkpoints.api.schema.operations import DESCRIBED, Operation
from checkpoints.api.schema.refusals import REFUSALS

# Short: after an update of the server nobody shall read an old description for long.
CACHED_S = 300
LONGEST_LINE = 80
PLACE = re.compile(r"\{(\w+)\}")


class Open(views.View):
    """Says nothing about any tenant, so nobody is asked who they are."""

    authentication_classes = ()
    permission_classes = ()

    def answer(self, request: Request, body: bytes, content_type: str) -> HttpResponse:
        tag = f'"{hashlib.sha256(body).hexdigest()[:32]}"'
        known = {given.removeprefix("W/") for given in views.tags(request.headers.get("If-None-Match", ""))}
        response = HttpResponse(status=304) if known & {tag, "*"} else HttpResponse(body, content_type=content_type)
        if response.status_code == 304:
            del response["Content-Type"]
        response["ETag"] = tag
        patch_cache_control(response, public=True, max_age=CACHED_S)
        return response


class Document(Open):
    def get(self, request: Request) -> HttpResponse:
        return self.answer(request, document.text(), "application/json")


class Docs(Open):
    for_people = True

    def get(self, request: Request) -> HttpResponse:
        return self.answer(request, page(), "text/html; charset=utf-8")


@cache
def page() -> bytes:
    return render_to_string("api/docs.html", context()).encode()


DESCRIBED[Document] = {
    "get": Operation(
        name="schema",
        summary="Read this document",
        tag="About the API",
        headers=("If-None-Match",),
        answer={"type": "object", "required": ["openapi"], "properties": {"openapi": {"const": "3.1.0"}}},
        answer_words="OpenAPI 3.1.",
        example=lambda: {"openapi": "3.1.0"},
    )
}


def context() -> dict[str, Any]:
    told = document.document()
    groups: dict[str, list[dict[str, Any]]] = {}
    for path, methods in told["paths"].items():
        for method, operation in methods.items():
            if method != "parameters":
                shared = methods.get("parameters", [])
                groups.setdefault(operation["tags"][0], []).append(_operation(method, path, operation, shared))
    schemas = told["components"]["schemas"]
    return {
        "info": told["info"],
        "server": told["servers"][0]["url"],
        "variables": [variable(name) for name, given in parameters.SHARED.items() if given["in"] == "path"],
        "security": told["components"]["securitySchemes"],
        "groups": groups,
        "row": _fields(schemas["Checkpoint"]),
        "option": _fields(schemas["Option"]),
        "others": [
            {"name": name, "title": row.title, "note": row.note, "fields": _fields(schemas[name])}
            for name, row in rooms.ROWS.items()
            if row.title
        ],
        "problems": [_problem(name, schema) for name, schema in schemas.items() if name in REFUSALS],
    }


def _problem(name: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {
        "name": name,
        "status": schema["properties"]["status"]["const"],
        "code": schema["properties"]["code"]["const"],
        "when": schema["description"],
        "example": written(document.document()["components"]["examples"][name]["value"]),
    }


def written(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False)


def _operation(method: str, path: str, operation: dict[str, Any], shared: list[dict[str, Any]]) -> dict[str, Any]:
    parameters = [resolve(given) for given in [*shared, *operation["parameters"]]]
    content = next(iter(operation.get("requestBody", {"content": {}})["content"].values()), None)
    return operation | {
        "method": method.upper(),
        "path": path,
        "parameters": [given | {"type": spoken(given["schema"])} for given in parameters],
        "scopes": [scope for one in operation["security"] for scope in one.get("key", [])],
        "people": any("session" in one for one in operation["security"]),
        "fields": _fields(resolve(content["schema"])) if content else [],
        "has_body": content is not None,
        "curl": curl(method, path, operation),
        "responses": [
            _response(status, resolve(response), is_problem=int(status) >= 400)
            for status, response in operation["responses"].items()
        ],
    }


def _response(status: str, response: dict[str, Any], *, is_problem: bool) -> dict[str, Any]:
    """An answer with its example; a problem by its code, since the page shows each problem once."""
    (content,) = response.get("content", {"": {"examples": {}}}).values()
    examples = content["examples"]
    return {
        "status": status,
        "description": response["description"],
        "codes": [(code, example["$ref"].rpartition("/")[2]) for code, example in examples.items()]
        if is_problem
        else [],
        "examples": [] if is_problem else [written(example["value"]) for example in examples.values()],
    }


def resolve(given: dict[str, Any]) -> dict[str, Any]:
    """What a reference into the document refers to; anything else as it is."""
    found: Any = document.document()
    if "$ref" not in given:
        return given
    for part in given["$ref"].removeprefix("#/").split("/"):
        found = found[part]
    return dict(found)


def _name(reference: dict[str, Any]) -> str:
    return str(reference["$ref"].rpartition("/")[2])


def _fields(schema: dict[str, Any]) -> list[dict[str, Any]]:
    required = schema.get("required", [])
    return [
        {
            "name": name,
            "type": spoken(inner),
            "required": name in required,
            "description": inner.get("description", ""),
        }
        for name, inner in schema.get("properties", {}).items()
    ]


def spoken(schema: dict[str, Any]) -> str:
    """A schema in a few words."""
    if "$ref" in schema:
        return _name(schema)
    if "enum" in schema:
        return " | ".join("null" if word is None else str(word) for word in schema["enum"])
    if "const" in schema:
        return json.dumps(schema["const"])
    if "anyOf" in schema:
        return " or ".join(dict.fromkeys(spoken(one) for one in schema["anyOf"]))
    kinds = schema.get("type", "any JSON")
    words = [kinds] if isinstance(kinds, str) else list(kinds)
    named = {"date-time": "moment", "uuid": "UUID", "uri": "address"}.get(schema.get("format", ""))
    words = [named if named and word == "string" else word for word in words]
    limits = [
        f"{label} {schema[name]:,}"
        for name, label in (("minimum", "from"), ("maximum", "to"), ("maxLength", "up to"), ("maxItems", "up to"))
        if schema.get(name) is not None
    ]
    return " or ".join(words) + (f", {' '.join(limits)}" if limits else "")


def variable(name: str) -> str:
    """What an id is called in a shell."""
    return "ID" if name == "checkpoint_id" else name.upper()


def curl(method: str, path: str, operation: dict[str, Any]) -> str:
    """A line for a shell in which HOLDPOINT_URL, HOLDPOINT_KEY and the ids are set."""
    query = "&".join(
        f"{given['name']}={given['example']}"
        for given in operation["parameters"]
        if given.get("in") == "query" and given["name"] in {"status", "order", "page_size"}
    )
    address = PLACE.sub(lambda found: f"${variable(found[1])}", path) + (f"?{query}" if query else "")
    # Without being told, curl sends a GET, and a POST when it is given data.
    verb = f"-X {method.upper()} " if method not in {"get", "post"} else ""
    parts = [f'curl -sS {verb}"$HOLDPOINT_URL{address}"']
    if operation["security"]:
        parts.append('-H "Authorization: Bearer $HOLDPOINT_KEY"')
    if "requestBody" in operation:
        (content,) = operation["requestBody"]["content"].values()
        body = next(iter(content["examples"].values()))["value"]
        line = json.dumps(body, ensure_ascii=False)
        parts += [
            '-H "Content-Type: application/json"',
            f"-d {shlex.quote(line if len(line) <= LONGEST_LINE else written(body))}",
        ]
    return " \\\n  ".join(parts)
