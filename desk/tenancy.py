"""Tenants and accounts. Making them is for operators; a tenant's settings are for its admins."""

import zoneinfo
from typing import Any

from django import forms
from django.contrib import admin
from django.contrib.auth.models import Group as DjangoGroup
from django.db.models import QuerySet
from django.http import HttpRequest
from unfold.widgets import UnfoldAdminSelectWidget

from desk.scoped import DeskAdmin, administered, looked_after
from tenants import setup
from tenants.models import Tenant, User, normal_email

# Rights come from memberships; Django's own groups would be a second, silent way.
admin.site.unregister(DjangoGroup)


class TenantSettings(forms.ModelForm):
    time_zone = forms.ChoiceField(
        choices=lambda: [(name, name) for name in sorted(zoneinfo.available_timezones())],
        initial="UTC",
        widget=UnfoldAdminSelectWidget(),
    )


@admin.register(Tenant)
class TenantsAdmin(DeskAdmin):
    form = TenantSettings
    list_display = ("name", "slug", "time_zone", "claim_minutes")
    fields = ("slug", "name", "time_zone", "claim_minutes")
    ordering = ("slug",)

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        rows: QuerySet[Any] = super().get_queryset(request)
        return rows.filter(pk__in=[tenant.pk for tenant in looked_after(request)])

    def has_module_permission(self, request: HttpRequest) -> bool:
        return bool(looked_after(request))

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return obj in looked_after(request) if obj is not None else bool(looked_after(request))

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return obj in administered(request) if obj is not None else bool(administered(request))

    def has_add_permission(self, request: HttpRequest) -> bool:
        return bool(request.user.is_superuser)

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        # Programs and people write the slug into addresses and headers.
        return ["slug"] if obj is not None else []

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        super().save_model(request, obj, form, change)
        if not change:
            setup.add_standard_roles(obj)


class AccountForm(forms.ModelForm):
    def clean_email(self) -> str:
        return normal_email(self.cleaned_data["email"])


@admin.register(User)
class AccountsAdmin(DeskAdmin):
    """For operators: an account spans tenants."""

    form = AccountForm
    list_display = ("email", "name", "is_active", "is_superuser")
    fields = ("email", "name", "is_active", "is_superuser")
    search_fields = ("email",)
    ordering = ("email",)

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        rows: QuerySet[Any] = super().get_queryset(request)
        return rows if request.user.is_superuser else rows.none()

    def has_module_permission(self, request: HttpRequest) -> bool:
        return bool(request.user.is_superuser)

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return bool(request.user.is_superuser)

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return bool(request.user.is_superuser)

    def has_add_permission(self, request: HttpRequest) -> bool:
        return bool(request.user.is_superuser)

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        if not change:
            obj.set_unusable_password()
        super().save_model(request, obj, form, change)
