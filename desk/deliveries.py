"""Messages on the desk: what went to whom, how that ended, and every try."""

import uuid
from typing import Any, cast

from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.db.models import Q, QuerySet
from django.db.models.fields.json import KT
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import path
from django.utils.html import format_html
from unfold.decorators import display

from checkpoints import errors
from desk import told
from desk.commands import actor_for, as_identity
from desk.listing import UncountedChangeList
from desk.scoped import TenantAdmin
from desk.templatetags.desk import moment
from notifications import webhooks
from notifications.models import Delivery, DeliveryStatus, Kind
from tenants.models import normal_email

# Of a kind that is rare, more would have to be looked through than anybody waits for.
MOST_LOOKED_THROUGH = 20_000
MOST_FOUND = 1000
MOST_TRIES = 100
# What the list shows, by name: the body of a message may be long.
READ = (
    "tenant",
    "occasion",
    "kind",
    "channel",
    "webhook",
    "recipient",
    "status",
    "next_try_at",
    "tries",
    "last_error",
    "created_at",
    "sent_at",
)


class Newest(UncountedChangeList):
    """Newest first off the index, whatever it is filtered by."""

    def get_queryset(self, request: HttpRequest, exclude_parameters: Any = None) -> QuerySet[Any]:
        rows: QuerySet[Any] = super().get_queryset(request, exclude_parameters)
        # Not joined: a database that starts with the few tenants would sort all their messages.
        rows = rows.select_related(None).prefetch_related("tenant", "channel", "webhook")
        rows = rows.annotate(event_type=KT("facts__body__type")).only(*READ)
        return rows.order_by("-id")

    def get_ordering(self, request: HttpRequest, queryset: QuerySet[Any]) -> list[str]:
        return []

    def empty(self) -> tuple[str, str]:
        if self.query or self.has_active_filters:
            return "Nothing matches", "Search takes a whole address, or the id of a message or a checkpoint."
        return "No messages yet", "Whatever is sent to people, rooms and webhooks is listed here, newest first."


class StatusFilter(admin.SimpleListFilter):
    title = "state"
    parameter_name = "status"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [(str(status), word.capitalize()) for status, word in told.STATES.items()]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        return queryset.filter(status=self.value()) if self.value() in DeliveryStatus.values else queryset


class KindFilter(admin.SimpleListFilter):
    title = f"kind (of the newest {MOST_LOOKED_THROUGH:,})"
    parameter_name = "kind"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [(str(kind), kind.label) for kind in Kind]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        if self.value() not in Kind.values:
            return queryset
        keys = queryset.select_related(None).order_by("-id").values_list("pk", flat=True)
        oldest = keys[MOST_LOOKED_THROUGH - 1 : MOST_LOOKED_THROUGH].first()
        within = Q(pk__gte=oldest) if oldest else Q()
        return queryset.filter(within, kind=self.value())


@admin.register(Delivery)
class DeliveriesAdmin(TenantAdmin):
    list_display = ("to", "occasion_in_words", "by", "state", "when", "tried")
    list_filter = (StatusFilter, KindFilter)
    list_filter_sheet = True
    search_fields = ("id",)
    search_help_text = "Search a whole address"
    change_list_template = "desk/checkpoints.html"
    actions = ()

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> Any:
        return Newest

    def get_search_results(self, request: HttpRequest, queryset: Any, search_term: str) -> tuple[Any, bool]:
        term = search_term.strip()
        if not term:
            return queryset, False
        if (identity := as_identity(term)) is not None:
            return queryset.filter(pk__in=self._named(request, identity)), False
        return queryset.filter(pk__in=self._to(request, normal_email(term))), False

    def _named(self, request: HttpRequest, identity: uuid.UUID) -> list[uuid.UUID]:
        """The message itself, or those about a checkpoint: each by its own index."""
        rows = self.get_queryset(request).select_related(None).order_by()
        about = rows.filter(checkpoint=identity).order_by("-id").values_list("pk", flat=True)
        return [identity, *about[:MOST_FOUND]]

    def _to(self, request: HttpRequest, address: str) -> list[uuid.UUID]:
        """Off the index by recipient, which knows when each was sent; those that were not sent come along."""
        rows = self.get_queryset(request).select_related(None).filter(kind=Kind.EMAIL, recipient=address)
        unsent = rows.filter(sent_at__isnull=True).order_by().values_list("pk", flat=True)
        sent = rows.filter(sent_at__isnull=False).order_by("-sent_at").values_list("pk", flat=True)
        return [*unsent[:MOST_FOUND], *sent[:MOST_FOUND]]

    # --- Written by events alone -----------------------------------------------------------------------------------

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def may_redeliver(self, request: HttpRequest, row: Delivery) -> bool:
        return row.kind == Kind.WEBHOOK and super().has_change_permission(request, row)

    # --- Columns --------------------------------------------------------------------------------------------------

    @display(description="To")
    def to(self, row: Delivery) -> str:
        return told.recipient(row)

    @display(description="Occasion")
    def occasion_in_words(self, row: Delivery) -> str:
        return occasion_of(row)

    @display(description="By")
    def by(self, row: Delivery) -> str:
        return str(row.kind)

    @display(description="State")
    def state(self, row: Delivery) -> str:
        return format_html('{} <span class="hp-reason">{}</span>', told.label(row.status), told.explanation(row))

    @display(description="When")
    def when(self, row: Delivery) -> str:
        return moment(row.sent_at or row.created_at, row.tenant)

    @display(description="Tries")
    def tried(self, row: Delivery) -> str:
        return told.tries(row)

    # --- Pages ----------------------------------------------------------------------------------------------------

    def get_urls(self) -> Any:
        again = self.admin_site.admin_view(self.redeliver_view)
        return [
            path("<uuid:object_id>/redeliver/", again, name="notifications_delivery_redeliver"),
            *super().get_urls(),
        ]

    def one(self, request: HttpRequest, identity: Any) -> Delivery:
        rows = self.get_queryset(request).select_related("channel", "webhook", "checkpoint__core", "tenant")
        row = rows.filter(pk=as_identity(str(identity))).first()
        if row is None:
            raise Http404
        return cast(Delivery, row)

    def changeform_view(
        self, request: HttpRequest, object_id: str | None = None, form_url: str = "", extra_context: Any = None
    ) -> Any:
        if object_id is None:
            raise PermissionDenied
        row = self.one(request, object_id)
        if request.method not in {"GET", "HEAD"}:
            raise PermissionDenied
        return self.page(request, row)

    def history_view(self, request: HttpRequest, object_id: str, extra_context: Any = None) -> Any:
        # Its tries are its history, and they are on its page.
        return redirect("admin:notifications_delivery_change", self.one(request, object_id).pk)

    def page(self, request: HttpRequest, row: Delivery) -> HttpResponse:
        context = {
            **self.admin_site.each_context(request),
            "title": "Delivery",
            "opts": None,
            "delivery": row,
            "to": told.recipient(row),
            "state": told.label(row.status),
            "why": told.explanation(row),
            "occasion": occasion_of(row),
            "body": row.facts.get("body"),
            "tries": list(row.recorded_tries.order_by("-id")[:MOST_TRIES]),
            "may_redeliver": self.may_redeliver(request, row) and row.status != DeliveryStatus.WAITING,
        }
        return render(request, "desk/delivery.html", context)

    def redeliver_view(self, request: HttpRequest, object_id: uuid.UUID) -> HttpResponse:
        row = self.one(request, object_id)
        if request.method == "POST":
            if not self.may_redeliver(request, row):
                raise PermissionDenied
            try:
                webhooks.redeliver(row, actor=actor_for(request, row.tenant))
            except errors.Refusal as refusal:
                messages.error(request, refusal.detail)
            else:
                messages.success(request, "It is on its way again, as the same message with the same id.")
        if request.POST.get("from") == "webhook":
            return redirect("admin:notifications_webhook_change", row.webhook_id)
        return redirect("admin:notifications_delivery_change", row.pk)


def occasion_of(row: Delivery) -> str:
    """Of a webhook the type of the event says more."""
    if row.kind == Kind.WEBHOOK:
        annotated = getattr(row, "event_type", None)
        return str(annotated if annotated is not None else (row.facts.get("body") or {}).get("type") or row.occasion)
    return told.OCCASIONS[row.occasion]  # type: ignore[index]
