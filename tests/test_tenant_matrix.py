"""Tenants are apart: every route, method and standing, generated from the URL configuration.

A route with a parameter that ``values_for`` does not know, or an admin of a model without a row in ``foreign_rows``,
fails here: a new page comes with its coverage or not at all.
"""

import json
import re
import uuid
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.apps import apps
from django.contrib import admin
from django.contrib.contenttypes.models import ContentType
from django.test import Client
from django.utils import timezone
from django_q.models import Failure, Schedule

from checkpoints.models import Checkpoint, JobBeat
from desk import commands
from desk import webhooks as webhooks_on_the_desk
from notifications import webhooks
from notifications.distributing import email_channel
from notifications.models import Channel, Delivery, Webhook
from tenants import actors, keys, setup
from tenants.models import (
    ApiKey,
    Core,
    Delegation,
    Group,
    Membership,
    RefusedKeyCount,
    RequestCount,
    Role,
    Tenant,
    Unreachable,
    User,
)
from tests.routes import Route, every_route

pytestmark = [pytest.mark.both_databases, pytest.mark.heavy, pytest.mark.django_db]

# Everything that belongs to acme carries this word: where an outsider can read it, something leaks.
MARK = "zebra"
METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
BODIES: dict[str, Any] = {
    "resolve": {"decision": "approve"},
    "reassign": {"assignee": "role:tenant_admin"},
    "comment": {"text": "hello"},
    "extend": {"timeout": "9d"},
    "webhooks": {"url": "http://not.for.anybody"},
}
# Addresses without an id, where an answer of any kind is right as long as nothing of another tenant is in it.
OPEN = {"", "healthz", "readyz", "admin/", "admin/login/", "admin/logout/", "admin/jsi18n/", "v1/schema", "v1/docs"}

# No job runs beside these tests, and this one says so.
MAY_BE_UNAVAILABLE = {"readyz"}


@pytest.fixture
def foreign_rows(ask: Callable[..., Checkpoint], acme: Tenant, globex: Tenant, tenant_admin: User) -> dict[type, Any]:
    """One row of acme for every model that the desk or the API shows."""
    Tenant.objects.filter(pk=acme.pk).update(name=f"{MARK} inc")
    person = setup.add_person(acme, f"{MARK}@acme.example", roles=[MARK], groups=[MARK])
    membership = Membership.objects.for_tenant(acme).get(user=person)
    core = Core.objects.create(tenant=acme, slug=MARK)
    made = keys.create(acme, name=MARK)
    # Unrouted, so that it would show in the queue, and with a deadline, so that every command has something to do.
    checkpoint = ask(core_id=MARK, prompt=MARK, execution_id=MARK, timeout="1d", options=["approve"])
    program = actors.program(made.row)
    webhook = webhooks.create(actor=program, url=f"https://{MARK}.example/", description=MARK)
    delivery = webhooks.send_test(webhook, actor=program)
    # Given up: there is something to send again.
    Delivery.objects.filter(pk=delivery.pk).update(status="failed", next_try_at=None, last_error=MARK)
    # Mail is there from the first look on: a page that makes it would seem to write.
    for tenant in (acme, globex):
        email_channel(tenant)
    return {
        Checkpoint: checkpoint,
        Channel: Channel.objects.create(tenant=acme, kind="chat", name=MARK, url=f"https://{MARK}.example/room"),
        Unreachable: Unreachable.objects.create(tenant=acme, email=f"{MARK}@acme.example", reason=MARK),
        Webhook: webhook,
        Delivery: delivery,
        Tenant: acme,
        User: person,
        Membership: membership,
        Role: Role.objects.for_tenant(acme).get(name=MARK),
        Group: Group.objects.for_tenant(acme).get(slug=MARK),
        Core: core,
        Delegation: Delegation.objects.create(
            tenant=acme, core=core, delegate=membership, ends_at=timezone.now() + timedelta(days=1)
        ),
        ApiKey: made.row,
        # Of no tenant, and for operators alone.
        JobBeat: JobBeat.objects.create(name=MARK, error=MARK),
        Schedule: Schedule.objects.create(name=MARK, func=MARK),
        Failure: Failure.objects.create(
            id=MARK, name=MARK, func=MARK, started=timezone.now(), stopped=timezone.now(), success=False
        ),
    }


def everything() -> dict[str, list[Any]]:
    """All rows of the product, so that any write shows."""
    found: dict[str, list[Any]] = {}
    for label in ("tenants", "checkpoints", "notifications"):
        for model in apps.get_app_config(label).get_models(include_auto_created=True):
            if model in {RequestCount, RefusedKeyCount}:
                continue  # the spy's own requests are counted
            rows = model._default_manager.order_by("pk").values()
            # The spy's own sign-in and the use of its own key are no trespass.
            found[model._meta.label] = [
                {name: value for name, value in row.items() if name not in {"last_used_at", "last_login"}}
                for row in rows
            ]
    return found


def values_for(route: Route, rows: dict[type, Any]) -> dict[str, list[Any]]:
    """What stands for each parameter of a route: the foreign row that it would lead to."""
    checkpoint = rows[Checkpoint].pk
    values: dict[str, list[Any]] = {
        "checkpoint_id": [checkpoint],
        "webhook_id": [rows[Webhook].pk],
        "delivery_id": [rows[Delivery].pk],
        "command": list(commands.COMMANDS),
        "content_type_id": [ContentType.objects.get_for_model(Checkpoint).pk],
        "object_id": [checkpoint],
        "who": ["zz"],
        "token": ["zz"],
        # Reports of mail providers: believed only from the one in use, which proves who it is.
        "provider": ["postmark", "nobody"],
        "app_label": ["tenants", "checkpoints"],
        "url": ["nothing-here"],
        "anything": ["nothing-here"],
    }
    for model, row in rows.items():
        if route.pattern.startswith(f"admin/{model._meta.app_label}/{model._meta.model_name}/"):
            values["object_id"] = [row.pk]
    if route.pattern.startswith("admin/notifications/webhook/"):
        values["command"] = list(webhooks_on_the_desk.COMMANDS)
    return values


def names_a_row(route: Route) -> bool:
    return bool({"checkpoint_id", "webhook_id", "object_id"} & set(route.parameters))


def body_for(address: str) -> dict[str, Any]:
    before, _, last = address.rstrip("/").rpartition("/")
    return {"description": "mine"} if before == "/v1/webhooks" else BODIES.get(last, {})


def answers(client: Client, route: Route, rows: dict[type, Any], headers: dict[str, str]) -> list[tuple[str, Any]]:
    """Every method on every address of the route, as JSON to the API and as a form elsewhere."""
    found = []
    for address in route.addresses(values_for(route, rows)):
        for method in METHODS:
            if route.is_api:
                response = client.generic(
                    method, address, json.dumps(body_for(address)), content_type="application/json", headers=headers
                )
            elif method == "POST":
                response = client.post(address, body_for(address), headers=headers)
            else:
                response = client.generic(method, address, headers=headers)
            found.append((f"{method} {address}", response))
    return found


def readable(response: Any) -> bytes:
    parts = getattr(response, "streaming_content", None)
    body = b"".join(parts) if parts is not None else response.content
    # The catch-all repeats the address it was asked for, which holds no secret.
    return bytes(body)


def test_every_model_on_the_desk_has_a_row_in_the_matrix(foreign_rows: dict[type, Any]) -> None:
    assert set(admin.site._registry) <= set(foreign_rows)


def test_every_parameter_of_every_route_is_known(foreign_rows: dict[type, Any]) -> None:
    for route in every_route():
        unknown = set(route.parameters) - set(values_for(route, foreign_rows))
        assert not unknown, f"{route.pattern}: say in values_for what stands for {unknown}"


@pytest.fixture
def globex_auditor(globex: Tenant) -> User:
    return setup.add_person(globex, "auditor@globex.example", roles=["auditor"])


@pytest.fixture
def globex_approver(globex: Tenant) -> User:
    return setup.add_person(globex, "approver@globex.example", roles=["approver"])


@pytest.mark.parametrize("standing", ["outsider", "globex_auditor"])
def test_on_the_desk_a_foreign_row_is_not_there(
    standing: str, request: pytest.FixtureRequest, foreign_rows: dict[type, Any], signed_in: Callable[[User], Client]
) -> None:
    client = signed_in(request.getfixturevalue(standing))
    before = everything()
    for route in every_route():
        if not route.is_admin or not names_a_row(route):
            continue
        for what, response in answers(client, route, foreign_rows, {}):
            if response.status_code == 302:
                # Django's short form of an address leads to the page itself, which is asked as well.
                assert response["Location"].endswith("/change/"), what
                continue
            expected = {404} if not what.startswith(("OPTIONS", "PUT", "PATCH", "DELETE")) else {404, 405}
            assert response.status_code in expected, f"{what} answered {response.status_code}"
            assert MARK.encode() not in readable(response), what
    assert everything() == before


@pytest.mark.parametrize("standing", ["outsider", "globex_auditor", "globex_approver"])
def test_no_page_shows_anything_of_another_tenant(
    standing: str, request: pytest.FixtureRequest, foreign_rows: dict[type, Any], signed_in: Callable[[User], Client]
) -> None:
    client = signed_in(request.getfixturevalue(standing))
    before = everything()
    for route in every_route():
        if names_a_row(route) or route.pattern.startswith("admin/logout"):
            continue
        for what, response in answers(client, route, foreign_rows, {}):
            assert response.status_code < 500 or route.pattern in MAY_BE_UNAVAILABLE, what
            assert MARK.encode() not in readable(response), what
    assert everything() == before


@pytest.mark.parametrize("session", [False, True])
def test_in_the_api_a_foreign_row_is_not_there(
    session: bool,
    globex: Tenant,
    outsider: User,
    foreign_rows: dict[type, Any],
    signed_in: Callable[[User], Client],
) -> None:
    client = signed_in(outsider) if session else Client()
    headers = {} if session else {"Authorization": f"Bearer {keys.create(globex, name='spy').secret}"}
    before = everything()
    asked = 0
    for route in every_route():
        if not route.is_api or not names_a_row(route):
            continue
        for what, response in answers(client, route, foreign_rows, headers):
            asked += 1
            if response.status_code == 405:
                continue
            assert response.status_code == 404, f"{what} answered {response.status_code}"
            assert MARK.encode() not in readable(response), what
    assert asked > 100
    assert everything() == before


def test_a_foreign_id_and_an_id_that_never_was_get_the_same_answer(
    outsider_api: Any, foreign_rows: dict[type, Any]
) -> None:
    never = str(uuid.uuid4())
    for route in every_route():
        if not route.pattern.startswith(("v1/checkpoints/", "v1/webhooks/")) or not names_a_row(route):
            continue
        named = [str(foreign_rows[model].pk) for model in (Checkpoint, Webhook, Delivery)]
        (foreign,) = route.addresses(values_for(route, foreign_rows))
        unknown = re.sub("|".join(named), never, foreign)
        assert unknown != foreign
        for method in ("GET", "POST", "PATCH", "DELETE"):
            one, other = (
                outsider_api.request(method, address.removeprefix("/v1"), body_for(address)).json()
                for address in (foreign, unknown)
            )
            one.pop("request_id"), other.pop("request_id")
            assert one == other


def test_nobody_gets_anything_without_signing_in(foreign_rows: dict[type, Any]) -> None:
    before = everything()
    for route in every_route():
        for what, response in answers(Client(), route, foreign_rows, {}):
            if route.is_api and route.pattern not in OPEN:
                expected = {404} if "anything" in route.parameters else {401, 405}
                assert response.status_code in expected, f"{what} answered {response.status_code}"
            elif route.is_admin and route.pattern not in OPEN:
                assert response.status_code in {302, 403, 404, 405}, f"{what} answered {response.status_code}"
            assert response.status_code < 500 or route.pattern in MAY_BE_UNAVAILABLE, what
            assert MARK.encode() not in readable(response), what
    assert everything() == before


def test_every_page_of_the_desk_works_for_its_own_admin_and_auditor(
    foreign_rows: dict[type, Any], tenant_admin: User, auditor: User, signed_in: Callable[[User], Client]
) -> None:
    for user, allowed in ((tenant_admin, {200, 302, 403, 404}), (auditor, {200, 302, 403, 404})):
        client = signed_in(user)
        shown = 0
        for route in every_route():
            if not route.is_admin or "logout" in route.pattern:
                continue
            for address in route.addresses(values_for(route, foreign_rows)):
                response = client.get(address)
                assert response.status_code in allowed, f"{user}: {address} answered {response.status_code}"
                shown += response.status_code == 200
        assert shown > 20


def test_an_auditor_changes_nothing(
    foreign_rows: dict[type, Any], auditor: User, signed_in: Callable[[User], Client]
) -> None:
    client = signed_in(auditor)
    before = everything()
    for route in every_route():
        if route.is_admin and "password" not in route.pattern and "logout" not in route.pattern:
            for what, response in answers(client, route, foreign_rows, {}):
                assert response.status_code < 500, what
    assert everything() == before


def test_actions_on_foreign_rows_do_nothing(
    foreign_rows: dict[type, Any], outsider: User, signed_in: Callable[[User], Client]
) -> None:
    client = signed_in(outsider)
    before = everything()
    for model in admin.site._registry:
        for name in ("delete_selected", "claim_selected", "reassign_selected", "rotate", "revoke", "reachable_again"):
            address = f"/admin/{model._meta.app_label}/{model._meta.model_name}/"
            response = client.post(
                address, {"action": name, "_selected_action": [str(foreign_rows[model].pk)], "post": "yes"}, follow=True
            )
            assert response.status_code in {200, 403, 404}, f"{name} on {address}: {response.status_code}"
            assert MARK.encode() not in readable(response)
    assert everything() == before


def test_forms_refuse_rows_of_another_tenant(
    foreign_rows: dict[type, Any], globex: Tenant, outsider: User, signed_in: Callable[[User], Client]
) -> None:
    client = signed_in(outsider)
    own_core = Core.objects.create(tenant=globex, slug="own")
    own = Membership.objects.for_tenant(globex).get(user=outsider)
    before = everything()
    start = {"starts_at_0": "2030-01-01", "starts_at_1": "00:00:00"}
    attempts: dict[str, dict[str, Any]] = {
        "group": {"slug": "g", "members": [str(foreign_rows[Membership].pk)]},
        "membership": {"email": "new@globex.example", "roles": [str(foreign_rows[Role].pk)]},
        "delegation": {"core": str(foreign_rows[Core].pk), "delegate": str(own.pk), **start},
    }
    attempts["delegation "] = {"core": str(own_core.pk), "delegate": str(foreign_rows[Membership].pk), **start}
    attempts["membership "] = {"email": "n@globex.example", "groups": [str(foreign_rows[Group].pk)]}
    for model, form in attempts.items():
        for tenant in ({}, {"tenant": str(foreign_rows[Tenant].pk)}):
            response = client.post(f"/admin/tenants/{model.strip()}/add/", form | tenant)
            assert response.status_code == 200, f"{model}: the form was accepted"
            assert MARK.encode() not in readable(response).replace(b"n@globex", b"")
    assert everything() == before


def test_a_tenant_cannot_be_chosen_by_somebody_who_does_not_administer_it(
    foreign_rows: dict[type, Any], acme: Tenant, globex: Tenant, outsider: User, signed_in: Callable[[User], Client]
) -> None:
    signed_in(outsider).post("/admin/tenants/core/add/", {"tenant": str(acme.pk), "slug": "smuggled"})
    assert Core.objects.get(slug="smuggled").tenant == globex


@pytest.mark.parametrize("field", ["members", "delegate", "core"])
def test_autocompletion_offers_nothing_of_another_tenant(
    field: str, foreign_rows: dict[type, Any], outsider: User, signed_in: Callable[[User], Client]
) -> None:
    model = "group" if field == "members" else "delegation"
    asked = {"app_label": "tenants", "model_name": model, "field_name": field, "term": ""}
    response = signed_in(outsider).get("/admin/autocomplete/", asked)
    assert response.status_code == 200
    assert MARK.encode() not in readable(response)


@pytest.mark.parametrize(
    "query", ["tenant=acme", f"q={MARK}", "show=all&tenant=acme", f"show=all&q={MARK}", "tenant__slug=acme", "p=2"]
)
def test_filters_and_search_find_nothing_of_another_tenant(
    query: str, foreign_rows: dict[type, Any], acme: Tenant, outsider: User, signed_in: Callable[[User], Client]
) -> None:
    setup.add_person(setup.create_tenant("third"), outsider.email, roles=["tenant_admin"])
    client = signed_in(outsider)
    for model in admin.site._registry:
        address = f"/admin/{model._meta.app_label}/{model._meta.model_name}/?{query}"
        response = client.get(address, follow=True)
        assert response.status_code in {200, 400, 403}, address
        if response.status_code == 200:
            found = response.context["cl"].result_list
            assert not [row for row in found if getattr(row, "tenant_id", row.pk) == acme.pk], address


def test_nothing_is_left_of_a_tenant_after_the_membership_ends(
    foreign_rows: dict[type, Any], acme: Tenant, tenant_admin: User, signed_in: Callable[[User], Client]
) -> None:
    client = signed_in(tenant_admin)
    address = f"/admin/checkpoints/checkpoint/{foreign_rows[Checkpoint].pk}/change/"
    assert client.get(address).status_code == 200
    Membership.objects.for_tenant(acme).filter(user=tenant_admin).update(is_active=False)
    assert client.get(address).status_code == 302
    assert Checkpoint.objects.filter(pk=foreign_rows[Checkpoint].pk).exists()
