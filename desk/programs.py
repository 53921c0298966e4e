"""Cores, who stands in for them, and the keys that programs use."""

from typing import Any

from django import forms
from django.conf import settings
from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone
from unfold.decorators import action, display
from unfold.widgets import UnfoldAdminCheckboxSelectMultipleWidget

from desk.scoped import TenantAdmin, TenantForm
from desk.templatetags.desk import in_full, moment
from tenants import keys, scopes
from tenants.models import ApiKey, Core, Delegation


@admin.register(Core)
class CoreAdmin(TenantAdmin):
    list_display = ("slug", "name", "since")
    fields = ("tenant", "slug", "name")
    search_fields = ("slug",)
    ordering = ("slug",)

    def get_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        return [name for name in self.fields if name not in self.get_exclude(request, obj)]

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        fixed = list(super().get_readonly_fields(request, obj))
        return [*fixed, "slug"] if obj is not None else fixed

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    @display(description="First seen")
    def since(self, row: Core) -> str:
        return moment(row.created_at, row.tenant)


@admin.register(Delegation)
class DelegationAdmin(TenantAdmin):
    list_display = ("core", "delegate", "begins", "ends", "state")
    fields = ("tenant", "core", "delegate", "starts_at", "ends_at")
    autocomplete_fields = ("core", "delegate")
    ordering = ("-starts_at", "-id")

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        return super().get_queryset(request).select_related("core", "delegate__user")

    def get_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        return [name for name in self.fields if name not in self.get_exclude(request, obj)]

    @display(description="From")
    def begins(self, row: Delegation) -> str:
        return moment(row.starts_at, row.tenant)

    @display(description="Until")
    def ends(self, row: Delegation) -> str:
        return moment(row.ends_at, row.tenant) if row.ends_at else "further notice"

    @display(description="Now")
    def state(self, row: Delegation) -> str:
        now = timezone.now()
        if row.starts_at > now:
            return "not yet"
        return "over" if row.ends_at is not None and row.ends_at <= now else "in force"


class ApiKeyForm(TenantForm):
    scopes = forms.MultipleChoiceField(
        choices=[(scope, scope) for scope in scopes.ALL],
        initial=scopes.ALL,
        widget=UnfoldAdminCheckboxSelectMultipleWidget(),
        help_text="What programs with this key may do.",
    )

    def clean_name(self) -> str:
        return str(self.cleaned_data["name"]).strip()

    def clean_expires_at(self) -> Any:
        expires_at = self.cleaned_data.get("expires_at")
        if expires_at is not None and expires_at <= timezone.now():
            raise forms.ValidationError("Choose a time to come, or leave it empty.")
        return expires_at

    def clean_rate_per_minute(self) -> int | None:
        wanted: int | None = self.cleaned_data.get("rate_per_minute")
        most = settings.API_RATE_PER_MINUTE
        # Tenants may hold their programs back; only an operator, on the command line, lets one go faster.
        if wanted is not None and most and wanted > most:
            raise forms.ValidationError(f"This server allows {most:,} at most. Ask its operator for more.")
        return wanted


@admin.register(ApiKey)
class ApiKeyAdmin(TenantAdmin):
    form = ApiKeyForm
    list_display = ("name", "begins_with", "allowed", "used", "state")
    fields = ("tenant", "name", "scopes", "expires_at", "rate_per_minute")
    ordering = ("name", "-created_at")
    actions = ("rotate", "revoke")

    def get_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        if obj is not None:
            return ["tenant", "name", "begins_with", "allowed", "limit", "state", "made", "ends", "ended", "last_used"]
        return [name for name in self.fields if name not in self.get_exclude(request, obj)]

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        return self.get_fields(request, obj) if obj is not None else []

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        # A key is made, rotated and revoked; never rewritten.
        return obj is None and super().has_change_permission(request, obj)

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        given = form.cleaned_data
        made = keys.create(
            obj.tenant,
            name=given["name"],
            scopes=given["scopes"],
            expires_at=given.get("expires_at"),
            rate_per_minute=given.get("rate_per_minute"),
        )
        obj.pk, obj._state.adding = made.row.pk, False
        request._desk_secret = made.secret  # type: ignore[attr-defined]

    def response_add(self, request: HttpRequest, obj: Any, post_url_continue: str | None = None) -> HttpResponse:
        return self.show_once(request, obj.name, request._desk_secret)  # type: ignore[attr-defined]

    def show_once(self, request: HttpRequest, name: str, secret: str) -> HttpResponse:
        """Straight into this one answer: a redirect would have to keep the secret somewhere."""
        context = {**self.admin_site.each_context(request), "title": "API key", "opts": None}
        response = render(request, "desk/api_key.html", {**context, "name": name, "secret": secret})
        response["Cache-Control"] = "no-store"
        return response

    @action(description="Rotate: make a successor, keep this one for a day")
    def rotate(self, request: HttpRequest, queryset: Any) -> HttpResponse | None:
        rows = [row for row in queryset if self._may_end(request, row)]
        if len(rows) != 1:
            messages.error(request, "Choose one live key: its successor is shown once.")
            return None
        try:
            made = keys.rotate(rows[0])
        except keys.DeadKey as error:
            # Revoked by somebody else since the list was read.
            messages.error(request, str(error))
            return None
        self.log_change(request, rows[0], "Rotated.")
        return self.show_once(request, made.row.name, made.secret)

    @action(description="Revoke: it stops working at once")
    def revoke(self, request: HttpRequest, queryset: Any) -> None:
        rows = [row for row in queryset if self._may_end(request, row)]
        for row in rows:
            keys.revoke(row)
            self.log_change(request, row, "Revoked.")
        messages.success(request, f"Revoked {len(rows)} key{'s' if len(rows) != 1 else ''}.")

    def _may_end(self, request: HttpRequest, row: ApiKey) -> bool:
        return super().has_change_permission(request, row) and row.is_live(at=timezone.now())

    def get_actions(self, request: HttpRequest) -> Any:
        return super().get_actions(request) if self.has_add_permission(request) else {}

    @display(description="Begins with")
    def begins_with(self, row: ApiKey) -> str:
        return f"{row.prefix}_…"

    @display(description="Scopes")
    def allowed(self, row: ApiKey) -> str:
        return "all" if set(row.scopes) >= set(scopes.ALL) else ", ".join(row.scopes)

    @display(description="Requests a minute")
    def limit(self, row: ApiKey) -> str:
        return f"{row.rate_per_minute:,}" if row.rate_per_minute else "as many as this server allows any key"

    @display(description="Made")
    def made(self, row: ApiKey) -> str:
        return in_full(row.created_at, row.tenant, "")

    @display(description="Expires")
    def ends(self, row: ApiKey) -> str:
        return in_full(row.expires_at, row.tenant, "never")

    @display(description="Revoked")
    def ended(self, row: ApiKey) -> str:
        return in_full(row.revoked_at, row.tenant, "no")

    @display(description="Last used")
    def last_used(self, row: ApiKey) -> str:
        return in_full(row.last_used_at, row.tenant, "never")

    @display(description="Last used")
    def used(self, row: ApiKey) -> str:
        return moment(row.last_used_at, row.tenant) if row.last_used_at else "never"

    @display(description="State")
    def state(self, row: ApiKey) -> str:
        if row.revoked_at is not None:
            return "revoked"
        return "live" if row.is_live(at=timezone.now()) else "expired"
