"""Whatever stands where an id should: the desk answers in words."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.contrib import admin
from django.db.models import Model
from django.test import Client

from tenants.models import Group, Tenant, User

RUBBISH = ("x", "", " ", "\x00", "'", "😀", "-1", "1" * 40, "00000000-0000-0000-0000-00000000000g")


@pytest.fixture(params=["tenant admin", "operator"])
def browser(request: pytest.FixtureRequest, signed_in: Callable[[User], Client], tenant_admin: User) -> Client:
    if request.param == "operator":
        return signed_in(User.objects.create_superuser("op@example.com"))
    return signed_in(tenant_admin)


def models_and_actions() -> Iterator[tuple[type[Model], str]]:
    for model, model_admin in admin.site._registry.items():
        for action in {"delete_selected", *model_admin.actions}:
            yield model, action if isinstance(action, str) else action.__name__


def address_of(model: type[Model]) -> str:
    return f"/admin/{model._meta.app_label}/{model._meta.model_name}/"


def test_an_action_on_mangled_ids_touches_nothing(browser: Client, unrouted: Any) -> None:
    # A tenant's mail is there from the first look on.
    browser.get("/admin/notifications/channel/")
    for model, action in models_and_actions():
        before = model._default_manager.count()
        for more in ({}, {"post": "yes"}, {"index": "0"}, {"index": "x", "select_across": "x"}):
            form = {"action": action, "_selected_action": list(RUBBISH)} | more
            response = browser.post(address_of(model), form, follow=True)
            assert response.status_code < 500, f"{action} on {model.__name__}"
        assert model._default_manager.count() == before
    unrouted.refresh_from_db()
    assert unrouted.row_version == 1


def test_an_action_on_nothing_but_a_mangled_id_says_so(desk: Client, unrouted: Any) -> None:
    for action in ("claim_selected", "reassign_selected"):
        form = {"action": action, "_selected_action": "x"}
        response = desk.post("/admin/checkpoints/checkpoint/", form, follow=True)
        assert "Items must be selected in order to perform actions on them." in response.content.decode()


def test_an_action_still_reaches_the_row_beside_a_mangled_id(desk: Client, unrouted: Any) -> None:
    form = {"action": "claim_selected", "_selected_action": ["x", str(unrouted.pk)]}
    desk.post("/admin/checkpoints/checkpoint/", form)
    unrouted.refresh_from_db()
    assert not unrouted.is_unrouted


@pytest.mark.parametrize("rubbish", RUBBISH)
def test_every_add_form_answers_a_mangled_choice(browser: Client, acme: Tenant, rubbish: str) -> None:
    for model in admin.site._registry:
        names = [field.name for field in [*model._meta.fields, *model._meta.many_to_many]] + ["groups"]
        form = {name: rubbish for name in names if name != "id"}
        if rubbish != "\x00":
            assert browser.get(f"{address_of(model)}add/", form).status_code < 500, model.__name__
        response = browser.post(f"{address_of(model)}add/", form)
        assert response.status_code < 500, model.__name__


@pytest.mark.parametrize(
    ("model", "form"),
    [
        ("delegation", {"core": "x", "delegate": "x"}),
        ("group", {"slug": "legal", "members": ["x"]}),
        ("membership", {"email": "new@acme.example", "roles": ["x"]}),
        ("membership", {"email": "new@acme.example", "groups": ["x"]}),
    ],
)
def test_a_mangled_choice_is_refused_like_an_unknown_one(desk: Client, model: str, form: dict[str, Any]) -> None:
    response = desk.post(f"/admin/tenants/{model}/add/", form)
    assert response.status_code == 200
    assert "Select a valid choice." in response.content.decode()
    assert not Group.objects.filter(slug="legal").exists()
