"""Addresses that no mail reaches, until a mail arrives there again or an admin says so."""

import uuid
from typing import Any

from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import path
from django.utils.html import format_html
from unfold.decorators import action, display

from desk.listing import UncountedChangeList
from desk.scoped import TenantAdmin, administered
from desk.templatetags.desk import in_full, moment
from tenants import reachability
from tenants.models import Unreachable, normal_email


class Addresses(UncountedChangeList):
    def __init__(self, request: HttpRequest, *args: Any) -> None:
        super().__init__(request, *args)
        self.title = "Cannot be reached"

    def empty(self) -> tuple[str, str]:
        if self.query or self.has_active_filters:
            return "Nobody matches", "Search takes a whole address."
        return "Everybody can be reached", "An address from which a mail came back for good shows up here."


@admin.register(Unreachable)
class UnreachableAdmin(TenantAdmin):
    list_display = ("address", "why", "marked", "clear")
    ordering = ("email",)
    search_fields = ("email",)
    search_help_text = "Search a whole address"
    change_list_template = "desk/checkpoints.html"
    actions = ("reachable_again",)

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> Any:
        return Addresses

    def get_search_results(self, request: HttpRequest, queryset: Any, search_term: str) -> tuple[Any, bool]:
        term = normal_email(search_term)
        return (queryset.filter(email=term) if term else queryset), False

    def get_list_display(self, request: HttpRequest) -> Any:
        columns = list(super().get_list_display(request))
        return columns if administered(request) else [name for name in columns if name != "clear"]

    def get_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        return ["tenant", "email", "reason", "marked_in_full"]

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        return self.get_fields(request, obj)

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        # Marked by what comes back, and cleared as a whole.
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def get_actions(self, request: HttpRequest) -> Any:
        return super().get_actions(request) if administered(request) else {}

    def get_urls(self) -> Any:
        clear = self.admin_site.admin_view(self.clear_view)
        return [path("<uuid:object_id>/clear/", clear, name="tenants_unreachable_clear"), *super().get_urls()]

    def clear_view(self, request: HttpRequest, object_id: uuid.UUID) -> HttpResponse:
        rows = self.get_queryset(request).filter(pk=object_id)
        if not rows:
            raise Http404
        if request.method == "POST":
            if not self._within(administered(request), rows[0]):
                raise PermissionDenied
            self.reachable_again(request, rows)
        return redirect("admin:tenants_unreachable_changelist")

    @action(description="Reachable again")
    def reachable_again(self, request: HttpRequest, queryset: Any) -> None:
        rows = [row for row in queryset if self._within(administered(request), row)]
        for row in rows:
            reachability.clear_unreachable(row.tenant, row.email)
        number = f"{len(rows)} address{'es' if len(rows) != 1 else ''}"
        messages.success(request, f"{number} will be written to again, from the next message on.")

    @display(description="Address")
    def address(self, row: Unreachable) -> str:
        return row.email

    @display(description="Why")
    def why(self, row: Unreachable) -> str:
        return format_html('<span class="hp-reason">{}</span>', row.reason)

    @display(description="")
    def clear(self, row: Unreachable) -> str:
        # Within the list's own form, so that its token goes along.
        button = '<button class="hp-button" type="submit" formaction="{}/clear/">Reachable again</button>'
        return format_html(button, row.pk)

    @display(description="Since")
    def marked(self, row: Unreachable) -> str:
        return moment(row.since, row.tenant)

    @display(description="Since")
    def marked_in_full(self, row: Unreachable) -> str:
        return in_full(row.since, row.tenant, "")
