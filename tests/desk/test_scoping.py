"""The admin base that every tenant model uses."""

import pytest
from django.contrib import admin
from django.db.models import ForeignKey, ManyToManyField
from django.test import RequestFactory

from desk.scoped import DeskAdmin, TenantAdmin
from tenants.models import Tenant, User
from tenants.scoping import TenantOwned


def test_every_admin_of_a_tenant_model_uses_the_scoped_base() -> None:
    for model, model_admin in admin.site._registry.items():
        owned = any(field.name == "tenant" for field in model._meta.get_fields())
        assert isinstance(model_admin, TenantAdmin if owned else DeskAdmin), model


def test_no_admin_has_inlines_that_would_go_around_it() -> None:
    assert [model for model, model_admin in admin.site._registry.items() if model_admin.inlines] == []


def test_every_choice_on_a_form_is_scoped(acme: Tenant, globex: Tenant, outsider: User) -> None:
    request = RequestFactory().get("/admin/")
    request.user = outsider
    for model, model_admin in admin.site._registry.items():
        if not isinstance(model_admin, TenantAdmin):
            continue
        for field in [*model._meta.fields, *model._meta.many_to_many]:
            if isinstance(field, ForeignKey | ManyToManyField) and field.editable:
                related = field.related_model
                if related is not Tenant and not issubclass(related, TenantOwned):
                    with pytest.raises(TypeError):
                        model_admin.choices(related, request)
                    continue
                tenants = {getattr(row, "tenant", row) for row in model_admin.choices(related, request)}
                assert tenants <= {globex}, f"{model.__name__}.{field.name}"
