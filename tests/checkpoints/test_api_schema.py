"""The OpenAPI document is exact: everything the server does is in it, and everything in it happens."""

import json
import re
import shlex
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from django.db import OperationalError
from django.http import HttpResponse
from django.test import Client
from jsonschema import Draft202012Validator

from checkpoints import lifecycle, policy
from checkpoints.api import lists, problems
from checkpoints.api.schema import document, pages, parameters
from checkpoints.api.schema.refusals import REFUSALS
from checkpoints.api.schema.words import FIELDS
from checkpoints.api.urls import ALIASES
from checkpoints.models import Checkpoint
from notifications import policy as policy_of_webhooks
from notifications import webhooks
from notifications.models import Delivery
from tenants import keys, scopes, setup
from tenants.actors import Actor
from tenants.models import Tenant, User
from tests import conforming
from tests.api_client import ApiClient
from tests.routes import every_route

DONE = {200, 201, 202, 204}
TOLD = document.document()
OPERATIONS = {
    operation["operationId"]: (method, path, operation)
    for path, methods in TOLD["paths"].items()
    for method, operation in methods.items()
    if method != "parameters"
}


def everything(found: Any) -> Iterator[dict[str, Any]]:
    """Every object in the document."""
    if isinstance(found, dict):
        yield found
    for inner in found.values() if isinstance(found, dict) else found if isinstance(found, list) else []:
        yield from everything(inner)


def scopes_of(operation: str) -> set[str]:
    return {scope for one in OPERATIONS[operation][2]["security"] for scope in one.get("key", [])}


# --- The document -------------------------------------------------------------------------------------------------


def test_every_route_is_described():
    """A new route: say in checkpoints/api/schema/operations.py what it does."""
    assert document.undescribed() == []


def test_every_address_is_in_the_document_under_one_name():
    for route in every_route():
        if route.is_api and "anything" not in route.parameters and route.pattern != "v1/docs":
            assert conforming.path_of(route.pattern) in TOLD["paths"]
    assert not [path for path in TOLD["paths"] if path[1:].startswith(ALIASES)]


def test_everybody_may_read_it_and_keep_it(client):
    answered = client.get("/v1/schema")
    assert (answered.status_code, answered["Content-Type"]) == (200, "application/json")
    assert answered.json()["openapi"] == "3.1.0"
    assert "public" in answered["Cache-Control"]
    again = client.get("/v1/schema", headers={"If-None-Match": f"W/{answered['ETag']}"})
    assert (again.status_code, again.content, again["ETag"]) == (304, b"", answered["ETag"])
    assert client.get("/v1/schema", headers={"If-None-Match": '"older"'}).status_code == 200


def test_every_reference_leads_somewhere():
    references = [found for found in everything(TOLD) if "$ref" in found]
    assert len(references) > 100
    for reference in references:
        assert conforming.resolved(reference)


def test_every_schema_is_a_json_schema():
    for schema in TOLD["components"]["schemas"].values():
        Draft202012Validator.check_schema(schema)
    for found in everything(TOLD["paths"]):
        if "schema" in found:
            Draft202012Validator.check_schema(found["schema"])


def test_names_of_operations_are_unique_and_tags_are_set():
    listed = [found["operationId"] for found in everything(TOLD["paths"]) if "operationId" in found]
    assert len(listed) == len(set(listed)) == len(OPERATIONS)
    assert all(operation["tags"] and operation["summary"] for _, _, operation in OPERATIONS.values())


def test_every_example_conforms_to_its_schema():
    looked_at = 0
    for found in everything(TOLD):
        if "schema" not in found:
            continue
        examples = [conforming.resolved(example)["value"] for example in found.get("examples", {}).values()]
        for example in [*examples, *([found["example"]] if "example" in found else [])]:
            conforming.validate(example, found["schema"], f"The example {str(example)[:200]}")
            looked_at += 1
    assert looked_at > 100


def test_every_field_is_explained():
    """A new field: say in checkpoints/api/schema/words.py what it means."""
    schemas = TOLD["components"]["schemas"]
    shapes = [schemas["Checkpoint"]] + [
        conforming.resolved(content["schema"])
        for _, _, operation in OPERATIONS.values()
        for content in operation.get("requestBody", {"content": {}})["content"].values()
    ]
    names = {name for shape in shapes for name in shape["properties"]}
    assert names - FIELDS.keys() == set()
    assert FIELDS.keys() - names == set()


def test_every_filter_is_described():
    assert set(parameters.FILTERS) == {*lists.FILTERS, *lists.PAGING}


def test_every_code_is_described():
    assert {refusal.code for refusal in REFUSALS.values()} == {*problems.STATUS, *problems.CODES.values()}
    for refusal in REFUSALS.values():
        known = {problems.STATUS.get(refusal.code)} | {status for status, code in problems.CODES.items()}
        assert refusal.status in known


def test_every_post_takes_an_idempotency_key_and_every_command_a_version():
    for method, path, operation in OPERATIONS.values():
        headers = {conforming.resolved(given)["name"] for given in operation["parameters"]}
        assert ("Idempotency-Key" in headers) == (method == "post"), path
        assert ("If-Match" in headers) == (method == "post" and "{checkpoint_id}" in path), path


def test_every_scope_is_one_that_a_key_can_have():
    named = {
        scope
        for _, _, operation in OPERATIONS.values()
        for one in operation["security"]
        for scope in one.get("key", [])
    }
    assert named
    assert named <= set(scopes.ALL)


# --- Everything in it happens -------------------------------------------------------------------------------------


class World:
    """A tenant in which every operation can succeed, and ways to make it fail."""

    def __init__(self, acme: Tenant, program: Actor, api: ApiClient) -> None:
        self.acme, self.program, self.api = acme, program, api
        self.ann = setup.add_person(acme, "ann@acme.example", roles=["approver"], groups=["finance"])
        self.bob = setup.add_person(acme, "bob@acme.example", roles=["approver"], groups=["finance"])
        self.admin = setup.add_person(acme, "root@acme.example", roles=["tenant_admin"])

    def row(self, operation: str, **fields: Any) -> Any:
        if operation in OPERATIONS and "{webhook_id}" in OPERATIONS[operation][1]:
            return self.delivery()
        given = {"assignee": "group:finance", "options": ["approve", "reject"], "timeout": "1h"} | fields
        draft = lifecycle.Draft(core_id="refund-agent", prompt="Refund?", **given)
        made = lifecycle.create(draft, actor=self.program)
        if operation == "release":
            made = lifecycle.claim(made, actor=self.program, on_behalf_of=self.ann)
        return made

    def delivery(self) -> Delivery:
        """One that was sent, to a webhook of its own."""
        webhook = webhooks.create(actor=self.program, url="https://hooks.acme.example/holdpoint")
        sent = webhooks.send_test(webhook, actor=self.program)
        Delivery.objects.filter(pk=sent.pk).update(status="sent", next_try_at=None)
        return sent

    def address(self, path: str, row: Any) -> str:
        if isinstance(row, Delivery):
            path = path.replace("{webhook_id}", str(row.webhook_id)).replace("{delivery_id}", str(row.pk))
        return path.replace("{checkpoint_id}", str(row.pk)).removeprefix("/v1")

    def body(self, operation: str) -> Any:
        content = OPERATIONS[operation][2].get("requestBody", {"content": {}})["content"]
        return next((dict(next(iter(given["examples"].values()))["value"]) for given in content.values()), None)

    def call(
        self,
        operation: str,
        row: Any = None,
        body: Any = None,
        *,
        api: ApiClient | None = None,
        **rest: Any,
    ) -> HttpResponse:
        method, path, _ = OPERATIONS[operation]
        row = row or self.row(operation)
        address = self.address(path, row)
        method = rest.pop("method", method.upper())
        return (api or self.api).request(method, address, self.body(operation) if body is None else body, **rest)

    def browser(self, user: User) -> ApiClient:
        client = Client()
        client.force_login(user, backend="tenants.signin.EmailBackend")
        return ApiClient(browser=client)


@pytest.fixture
def world(acme: Tenant, program: Actor, api: ApiClient) -> World:
    return World(acme, program, api)


def ended(world: World, operation: str, row: Checkpoint) -> HttpResponse:
    if operation == "create":
        return world.call(operation, body={"core_id": "refund-agent", "prompt": "Again?", "supersedes": str(row.pk)})
    return world.call(operation, row)


def already_resolved(world: World, operation: str) -> HttpResponse:
    row = world.row("")
    world.api.resolve(row, "reject")
    return ended(world, operation, row)


def already_cancelled(world: World, operation: str) -> HttpResponse:
    row = world.row("")
    world.api.command(row, "cancel")
    return ended(world, operation, row)


def already_expired(world: World, operation: str) -> HttpResponse:
    row = world.row("", expiry_action="reject")
    lifecycle.expire_one(row, at=row.expires_at)
    return ended(world, operation, row)


def claimed_by_other(world: World, operation: str) -> HttpResponse:
    row = world.row(operation)
    lifecycle.claim(row, actor=world.program, on_behalf_of=world.bob)
    if operation == "claim":
        return world.call(operation, row)
    return world.call(operation, row, api=world.browser(world.ann))


def already_voted(world: World, operation: str) -> HttpResponse:
    row = world.row(operation, required_approvals=2)
    voter = world.browser(world.ann)
    assert world.call(operation, row, api=voter).json()["quorum"]["missing"] == 1
    return world.call(operation, row, {"decision": "reject"}, api=voter)


def not_claimable(world: World, operation: str) -> HttpResponse:
    return world.call(operation, world.row("", assignee="user:ann@acme.example"))


def without_its_scope(world: World, operation: str) -> HttpResponse:
    others = sorted(set(scopes.ALL) - scopes_of(operation))
    return world.call(operation, api=ApiClient(secret=keys.create(world.acme, name="n", scopes=others).secret))


def other_body_same_key(world: World, operation: str) -> HttpResponse:
    row = world.row(operation)
    assert world.call(operation, row, Idempotency_Key="k").status_code in DONE
    return world.call(operation, row, {"something": "else"}, Idempotency_Key="k")


def too_deep(world: World, operation: str) -> HttpResponse:
    return world.call(operation, raw="[" * 40 + "]" * 40)


def foreign_host(world: World, operation: str) -> HttpResponse:
    return world.call(operation, Host="elsewhere.example")


def unknown_tenant(world: World, operation: str) -> HttpResponse:
    return world.call(operation, api=world.browser(world.admin), X_Tenant="nobody")


HAPPENS: dict[str, Callable[[World, str], HttpResponse]] = {
    "Invalid": foreign_host,
    "InvalidDecision": lambda world, operation: world.call(operation, body={"decision": "maybe"}),
    "Unauthenticated": lambda world, operation: world.call(operation, api=ApiClient()),
    "Forbidden": without_its_scope,
    "NotFound": unknown_tenant,
    "MethodNotAllowed": lambda world, operation: world.call(operation, method="PUT"),
    "AlreadyResolved": already_resolved,
    "AlreadyCancelled": already_cancelled,
    "AlreadyExpired": already_expired,
    "AlreadyVoted": already_voted,
    "ClaimedByOther": claimed_by_other,
    "NotClaimable": not_claimable,
    "NobodyToRemind": lambda world, operation: world.call(operation, world.row("", routing="external")),
    "LengthRequired": lambda world, operation: world.call(operation, Transfer_Encoding="chunked"),
    "Stale": lambda world, operation: world.call(operation, If_Match='"99"'),
    "TooLarge": too_deep,
    "UnsupportedMediaType": lambda world, operation: world.call(operation, content_type="text/plain"),
    "IdempotencyMismatch": other_body_same_key,
}


def operations_with(name: str) -> list[str]:
    """Those that list this refusal."""
    refusal = REFUSALS[name]
    return [
        operation
        for operation, (_, _, told) in OPERATIONS.items()
        if str(refusal.status) in told["responses"]
        for content in conforming.resolved(told["responses"][str(refusal.status)])["content"].values()
        if refusal.code in content["examples"]
    ]


def check_refused(response: HttpResponse, name: str, operation: str) -> None:
    method, path, _ = OPERATIONS[operation]
    refusal = REFUSALS[name]
    found = json.loads(response.content)
    assert (response.status_code, found["code"]) == (refusal.status, refusal.code), f"{operation}: {found}"
    conforming.check_operation(method.upper(), path, response)


@pytest.mark.parametrize("name", HAPPENS)
def test_every_refusal_happens_where_the_document_lists_it(name, world):
    listed = operations_with(name)
    assert listed
    for operation in listed:
        check_refused(HAPPENS[name](world, operation), name, operation)


def test_a_throttled_request_is_as_told(world, settings, time_machine):
    settings.API_RATE_PER_MINUTE = 1
    # Both requests shall fall into one minute.
    time_machine.move_to(datetime(2030, 1, 30, 12, 0, 5, tzinfo=UTC), tick=False)
    for operation in operations_with("Throttled"):
        secret = keys.create(world.acme, name="hasty").secret
        answers = [world.call(operation, api=ApiClient(secret=secret)) for _ in range(2)]
        check_refused(answers[1], "Throttled", operation)


def test_a_database_out_of_reach_is_as_told(world, monkeypatch):
    def fail(*_: Any) -> None:
        raise OperationalError(2006, "gone away")

    row = world.row("release")
    sent = world.delivery()
    monkeypatch.setattr(policy, "admit", fail)
    monkeypatch.setattr(policy_of_webhooks, "admit", fail)
    for operation in operations_with("Unavailable"):
        of_webhooks = "/webhooks/" in OPERATIONS[operation][1]
        check_refused(world.call(operation, sent if of_webhooks else row), "Unavailable", operation)


def test_no_refusal_is_left_out_of_these_tests():
    assert set(HAPPENS) | {"Throttled", "Unavailable"} == set(REFUSALS)


@pytest.mark.parametrize("operation", OPERATIONS)
def test_every_operation_succeeds_as_told(operation, world):
    response = world.call(operation)
    assert str(response.status_code) == next(iter(OPERATIONS[operation][2]["responses"])), response.content
    if "304" in OPERATIONS[operation][2]["responses"]:
        row = world.row(operation)
        tag = world.call(operation, row)["ETag"]
        assert world.call(operation, row, If_None_Match=tag).status_code == 304


@pytest.mark.parametrize("operation", [name for name, (_, _, told) in OPERATIONS.items() if "requestBody" in told])
def test_every_example_of_a_body_is_accepted(operation, world, time_machine):
    # The examples speak of 2030.
    time_machine.move_to(datetime(2030, 1, 30, tzinfo=UTC))
    (content,) = OPERATIONS[operation][2]["requestBody"]["content"].values()
    api = ApiClient(secret=keys.create(world.acme, name="later").secret)
    assert content["examples"]
    for example in content["examples"].values():
        response = world.call(operation, body=example["value"], api=api)
        assert response.status_code in DONE, response.content


@pytest.mark.parametrize("given", [name for name, (_, _, example) in parameters.FILTERS.items() if example])
def test_every_example_of_a_filter_is_accepted(given, api):
    assert api.list(**{given: parameters.FILTERS[given][2]}).status_code == 200


# --- The page -----------------------------------------------------------------------------------------------------


def test_the_page_shows_every_operation_field_and_problem(client):
    page = client.get("/v1/docs")
    assert (page.status_code, page["Content-Type"]) == (200, "text/html; charset=utf-8")
    text = page.content.decode()
    for name, (_, path, operation) in OPERATIONS.items():
        assert f'id="{name}"' in text
        assert f"<code>{path}</code>" in text
        assert operation["summary"] in text
    for schema in ("Checkpoint", "Webhook", "Delivery"):
        for name in TOLD["components"]["schemas"][schema]["properties"]:
            assert f"<code>{name}</code>" in text
    assert all(f'id="{name}"' in text for name in REFUSALS)
    targets = set(re.findall(r'id="([\w-]+)"', text))
    assert set(re.findall(r'href="#([\w-]+)"', text)) <= targets


def test_the_page_needs_nothing_from_elsewhere_and_runs_no_script(client):
    text = client.get("/v1/docs").content.decode()
    assert "<script" not in text
    assert not re.findall(r"""(?:href|src)=["'](?![/#])""", text)
    assert not re.findall(r"""\s(?:on\w+|style)=["']""", text)


def test_the_page_can_be_kept_too(client):
    tag = client.get("/v1/docs")["ETag"]
    assert client.get("/v1/docs", headers={"If-None-Match": tag}).status_code == 304


@pytest.mark.parametrize("operation", OPERATIONS)
def test_the_curl_line_of_the_page_does_what_it_says(operation, world):
    method, path, told = OPERATIONS[operation]
    words = shlex.split(pages.curl(method, path, told).replace("\\\n", " "))
    # Without being told, curl sends a GET, and a POST exactly when it is given data.
    assert words[2] == "-X" if method not in {"get", "post"} else words[2].startswith("$")
    if words[2] == "-X":
        assert words.pop(3) == method.upper()
        words.pop(2)
    given = dict(zip(words[3::2], words[4::2], strict=True))
    assert ("-d" in given) == ("requestBody" in told)
    row = world.row(operation)
    address = words[2].removeprefix("$HOLDPOINT_URL/v1").replace("$WEBHOOK_ID", "{webhook_id}")
    address = world.address(address.replace("$DELIVERY_ID", "{delivery_id}").replace("$ID", "{checkpoint_id}"), row)
    response = world.api.request(method.upper(), address, raw=given.get("-d"))
    assert response.status_code in DONE, response.content
