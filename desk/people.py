"""People, groups and roles of a tenant."""

from typing import Any, cast

from django import forms
from django.contrib import admin
from django.core.exceptions import ValidationError
from django.db.models import Exists, OuterRef, QuerySet
from django.http import HttpRequest
from django.utils.html import format_html
from unfold.decorators import display
from unfold.widgets import UnfoldAdminCheckboxSelectMultipleWidget, UnfoldAdminTextInputWidget

from desk.scoped import SeveralChoices, TenantAdmin, TenantForm
from desk.templatetags.desk import exactly
from tenants import directory, setup
from tenants.models import STANDARD_ROLES, TENANT_ADMIN, Group, Membership, Role, Unreachable, User, normal_email


class PersonForm(TenantForm):
    email = forms.CharField(max_length=254, widget=UnfoldAdminTextInputWidget())
    name = forms.CharField(max_length=200, required=False, widget=UnfoldAdminTextInputWidget())
    groups = SeveralChoices(Group.objects.none(), required=False, widget=UnfoldAdminCheckboxSelectMultipleWidget())

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if not self.instance._state.adding:
            self.fields["groups"].initial = self.instance.groups.all()

    def clean_email(self) -> str:
        email = normal_email(self.cleaned_data["email"])
        try:
            User(email=email).clean()
        except ValidationError as error:
            raise ValidationError(error.messages) from error
        return email

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean()
        if self.instance._state.adding:
            self._check_new(cleaned)
        elif self._was_last_admin() and not self._stays_admin(cleaned):
            raise ValidationError("Nobody else is tenant admin here. Make somebody else one first.")
        return cleaned

    def _check_new(self, cleaned: dict[str, Any]) -> None:
        tenant = self.instance.tenant_id and self.instance.tenant
        email = cleaned.get("email")
        known = directory.membership_of(tenant, email) if tenant and email else None
        if known is not None and known.is_active:
            self.add_error("email", f"{email} is in {tenant} already.")

    def _was_last_admin(self) -> bool:
        return directory.admins_of(self.instance.tenant) == [self.instance.user]

    def _stays_admin(self, cleaned: dict[str, Any]) -> bool:
        roles = {role.name for role in cleaned.get("roles") or []}
        return bool(cleaned.get("is_active")) and TENANT_ADMIN in roles


@admin.register(Membership)
class PeopleAdmin(TenantAdmin):
    form = PersonForm
    list_display = ("email", "named", "held_roles", "in_groups", "is_active")
    search_fields = ("user__email",)
    search_help_text = "Search an address"
    ordering = ("user__email",)

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        mark = Unreachable.objects.filter(tenant=OuterRef("tenant"), email=OuterRef("user__email"))
        rows = super().get_queryset(request).select_related("user").prefetch_related("roles", "groups")
        return cast(QuerySet[Any], rows.annotate(is_unreachable=Exists(mark)))

    def get_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        if obj is None:
            fields = ["tenant", "email", "name", "roles", "groups"]
            return [name for name in fields if name not in self.get_exclude(request, obj)]
        return ["tenant", "person", "reached", "roles", "groups", "is_active"]

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        fixed = list(super().get_readonly_fields(request, obj))
        if obj is not None:
            fixed += ["person", "reached"]
            if not self.has_change_permission(request, obj):
                fixed.append("in_groups")
        return fixed

    def formfield_for_manytomany(self, db_field: Any, request: HttpRequest, **kwargs: Any) -> Any:
        field = super().formfield_for_manytomany(
            db_field, request, widget=UnfoldAdminCheckboxSelectMultipleWidget(), **kwargs
        )
        field.help_text = ""
        return field

    def get_form(self, request: HttpRequest, obj: Any = None, change: bool = False, **kwargs: Any) -> Any:
        form = super().get_form(request, obj, change, **kwargs)
        if "groups" in form.base_fields:
            form.base_fields["groups"].queryset = self.choices(Group, request)
        if obj is not None:
            for name in ("email", "name"):
                form.base_fields.pop(name, None)
        return form

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        # Switched off instead, so that a removed person stays refused.
        return False

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        if change:
            super().save_model(request, obj, form, change)
            return
        user = setup.add_person(obj.tenant, form.cleaned_data["email"], name=form.cleaned_data["name"])
        known = Membership.objects.for_tenant(obj.tenant).get(user=user)
        # The form goes on with the row that add_person made (or switched on again).
        obj.pk, obj.user, obj.is_active = known.pk, user, True
        obj._state.adding = False

    def save_related(self, request: HttpRequest, form: Any, formsets: Any, change: bool) -> None:
        super().save_related(request, form, formsets, change)
        form.instance.groups.set(form.cleaned_data["groups"])

    @display(description="Email")
    def email(self, row: Membership) -> str:
        if not getattr(row, "is_unreachable", False):
            return row.user.email
        return format_html('{} <span class="hp-label hp-unreachable">⚠ cannot be reached</span>', row.user.email)

    @display(description="Person")
    def person(self, row: Membership) -> str:
        return f"{row.name} ({row.user.email})" if row.name else row.user.email

    @display(description="Mail")
    def reached(self, row: Membership) -> str:
        mark = Unreachable.objects.for_tenant(row.tenant).filter(email=row.user.email).first()
        if mark is None:
            return "nothing has come back"
        badge = '<span class="hp-label hp-unreachable">⚠ cannot be reached</span> since {}. {}'
        return format_html(badge, exactly(mark.since, row.tenant), mark.reason)

    @display(description="Name")
    def named(self, row: Membership) -> str:
        return row.name or "none"

    @display(description="Roles")
    def held_roles(self, row: Membership) -> str:
        return ", ".join(role.name for role in row.roles.all()) or "none"

    @display(description="Groups")
    def in_groups(self, row: Membership) -> str:
        return ", ".join(group.slug for group in row.groups.all()) or "none"


@admin.register(Group)
class GroupAdmin(TenantAdmin):
    list_display = ("slug", "name", "people")
    fields = ("tenant", "slug", "name", "members")
    autocomplete_fields = ("members",)
    ordering = ("slug",)

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        return super().get_queryset(request).prefetch_related("members__user")

    def get_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        return [name for name in self.fields if name not in self.get_exclude(request, obj)]

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        # Programs write the slug into their checkpoints.
        fixed = list(super().get_readonly_fields(request, obj))
        return [*fixed, "slug"] if obj is not None else fixed

    @display(description="Members")
    def people(self, row: Group) -> str:
        members = [member.user.email for member in row.members.all() if member.is_active and member.user.is_active]
        shown = ", ".join(members[:5])
        return f"{shown} and {len(members) - 5} more" if len(members) > 5 else shown or "nobody"


@admin.register(Role)
class RoleAdmin(TenantAdmin):
    list_display = ("name", "people")
    fields = ("tenant", "name")
    ordering = ("name",)

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        return super().get_queryset(request).prefetch_related("memberships__user")

    def get_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        return [name for name in self.fields if name not in self.get_exclude(request, obj)]

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        # A name is all there is, and programs write it into their checkpoints.
        return obj is None and super().has_change_permission(request, obj)

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        if obj is not None and obj.name in STANDARD_ROLES:
            return False
        return super().has_delete_permission(request, obj)

    def get_actions(self, request: HttpRequest) -> Any:
        # One by one: the check for standard roles looks at each.
        return {}

    @display(description="Held by")
    def people(self, row: Role) -> str:
        held = [member.user.email for member in row.memberships.all() if member.is_active and member.user.is_active]
        shown = ", ".join(held[:5])
        return f"{shown} and {len(held) - 5} more" if len(held) > 5 else shown or "nobody"
