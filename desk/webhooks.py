"""Webhooks on the desk: who is called, how it fares, and what can be done about it."""

import uuid
from collections.abc import Callable
from typing import Any, cast

from django import forms
from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import path
from django.utils import timezone
from django.utils.html import format_html
from unfold.decorators import display
from unfold.widgets import UnfoldAdminCheckboxSelectMultipleWidget, UnfoldAdminTextInputWidget

from checkpoints import errors
from desk import told
from desk.commands import actor_for, as_identity
from desk.listing import UncountedChangeList
from desk.scoped import TenantAdmin, TenantForm
from desk.templatetags.desk import in_full, moment
from notifications import webhooks
from notifications.models import Delivery, DeliveryStatus, Webhook
from tenants import egress
from tenants.actors import Actor

RECENT = 20


class WebhookForm(TenantForm):
    url = forms.CharField(
        label="Address",
        max_length=egress.LONGEST_URL,
        widget=UnfoldAdminTextInputWidget(),
        help_text="Where Holdpoint calls. It starts with https:// and everybody on the internet can reach it.",
    )
    events = forms.MultipleChoiceField(
        choices=[(type, type) for type in webhooks.TYPES],
        required=False,
        widget=UnfoldAdminCheckboxSelectMultipleWidget(),
        help_text="Which events are told.",
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if "events" in self.fields:
            self.initial["events"] = self.instance.events or webhooks.TYPES

    def clean_url(self) -> str:
        given = str(self.cleaned_data["url"])
        if trouble := egress.trouble_with(given):
            raise forms.ValidationError(trouble)
        return given

    def clean_events(self) -> list[str]:
        chosen: list[str] = self.cleaned_data["events"]
        if not chosen:
            raise forms.ValidationError("Choose at least one, or switch the webhook off.")
        # Everything is written as such, so that a type of a later version is among it.
        return [] if set(chosen) >= set(webhooks.TYPES) else chosen


def _test(row: Webhook, actor: Actor) -> str:
    webhooks.send_test(row, actor=actor)
    return "A test is on its way. How it went is shown below in a moment."


def _switch_on(row: Webhook, actor: Actor) -> str:
    webhooks.change(row, actor=actor, wish=webhooks.Wish(is_active=True))
    return "Switched on. What happens from now on is told."


def _switch_off(row: Webhook, actor: Actor) -> str:
    webhooks.change(row, actor=actor, wish=webhooks.Wish(is_active=False))
    return "Switched off. Nothing is sent there any more."


def _delete(row: Webhook, actor: Actor) -> str:
    webhooks.delete(row, actor=actor)
    return f"Deleted: {row}."


# "rotate" answers with a page of its own.
COMMANDS: dict[str, Callable[[Webhook, Actor], str] | None] = {
    "test": _test,
    "on": _switch_on,
    "off": _switch_off,
    "delete": _delete,
    "rotate": None,
}


class Webhooks(UncountedChangeList):
    def empty(self) -> tuple[str, str]:
        return "No webhooks yet", "Add one, and a program of yours is called whenever something is asked or decided."


@admin.register(Webhook)
class WebhooksAdmin(TenantAdmin):
    form = WebhookForm
    list_display = ("named", "told_of", "state")
    ordering = ("id",)
    change_list_template = "desk/checkpoints.html"
    change_form_outer_before_template = "desk/webhook.html"
    change_form_outer_after_template = "desk/webhook_deliveries.html"
    actions = ()

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> Any:
        return Webhooks

    # --- Fields ---------------------------------------------------------------------------------------------------

    def get_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        if obj is not None and not self.has_change_permission(request, obj):
            return ["state", "tenant", "description", "url", "told_of", "secret_hint"]
        fields = ["tenant", "description", "url", "events"]
        if obj is not None:
            fields = ["state", *fields, "secret_hint"]
        return [name for name in fields if name not in self.get_exclude(request, obj)]

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        return [*super().get_readonly_fields(request, obj), "told_of", "state", "secret_hint"]

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        # Django would read all its deliveries into one confirmation; the page has a button of its own.
        return False

    # --- Columns --------------------------------------------------------------------------------------------------

    @display(description="Webhook")
    def named(self, row: Webhook) -> str:
        if not row.description:
            return row.url
        return format_html('<span class="hp-question">{}</span><span class="hp-where">{}</span>', str(row), row.url)

    @display(description="Told of")
    def told_of(self, row: Webhook) -> str:
        return format_html('<span class="hp-reason">{}</span>', ", ".join(row.events) or "everything")

    @display(description="State")
    def state(self, row: Webhook) -> str:
        if not row.is_active:
            why = f": {row.disabled_reason}" if row.disabled_reason else ""
            when = format_html(", {}", moment(row.disabled_at, row.tenant)) if row.disabled_at else ""
            return format_html('<span class="hp-label hp-skipped">switched off</span>{}{}', why, when)
        if row.failing_since is not None:
            since = moment(row.failing_since, row.tenant)
            return format_html('<span class="hp-label hp-failed">failing</span> since {}', since)
        return format_html('<span class="hp-label hp-sent">{}</span>', "active")

    @display(description="Secret")
    def secret_hint(self, row: Webhook) -> str:
        hint = webhooks.hint(row.secret)
        ends_at = row.previous_secret_ends_at
        if ends_at is None or ends_at <= timezone.now():
            return hint
        return format_html("{} (the one before it signs as well until {})", hint, in_full(ends_at, row.tenant, ""))

    # --- Writing, by the verbs that the API uses ------------------------------------------------------------------

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        given = form.cleaned_data
        wish = {"url": given["url"], "description": given["description"], "events": given["events"]}
        actor = actor_for(request, obj.tenant)
        if change:
            webhooks.change(obj, actor=actor, wish=webhooks.Wish(**wish))
            return
        made = webhooks.create(actor=actor, **wish)
        obj.pk, obj._state.adding = made.pk, False
        request._desk_secret = made.secret  # type: ignore[attr-defined]

    def response_add(self, request: HttpRequest, obj: Any, post_url_continue: str | None = None) -> HttpResponse:
        return self.show_once(request, obj, request._desk_secret)  # type: ignore[attr-defined]

    def show_once(self, request: HttpRequest, row: Webhook, secret: str) -> HttpResponse:
        """Straight into this one answer: a redirect would have to keep the secret somewhere."""
        context = {**self.admin_site.each_context(request), "title": "Webhook", "opts": None}
        response = render(request, "desk/webhook_secret.html", {**context, "webhook": row, "secret": secret})
        response["Cache-Control"] = "no-store"
        return response

    def changeform_view(
        self, request: HttpRequest, object_id: str | None = None, form_url: str = "", extra_context: Any = None
    ) -> Any:
        try:
            return super().changeform_view(request, object_id, form_url, self._beside(request, object_id))
        except errors.Refusal as refusal:
            # What no form can know: somebody else made the last one that fits, or took this one away.
            messages.error(request, _in_words(refusal))
            return redirect("admin:notifications_webhook_changelist")

    def _beside(self, request: HttpRequest, object_id: str | None) -> dict[str, Any]:
        row = self._found(request, object_id) if object_id is not None else None
        if row is None:
            return {}
        return {"recent": recent(row), "may_redeliver": self.has_change_permission(request, row)}

    def _found(self, request: HttpRequest, identity: Any) -> Webhook | None:
        return cast(Webhook | None, self.get_queryset(request).filter(pk=as_identity(str(identity))).first())

    # --- Commands -------------------------------------------------------------------------------------------------

    def get_urls(self) -> Any:
        do = self.admin_site.admin_view(self.command_view)
        address = "<uuid:object_id>/do/<slug:command>/"
        return [path(address, do, name="notifications_webhook_command"), *super().get_urls()]

    def command_view(self, request: HttpRequest, object_id: uuid.UUID, command: str) -> HttpResponse:
        row = self._found(request, object_id)
        if row is None or command not in COMMANDS:
            raise Http404
        if request.method != "POST":
            return redirect("admin:notifications_webhook_change", row.pk)
        if not self.has_change_permission(request, row):
            raise PermissionDenied
        actor = actor_for(request, row.tenant)
        act = COMMANDS[command]
        try:
            if act is None:
                return self.show_once(request, row, webhooks.rotate(row, actor=actor).secret)
            messages.success(request, act(row, actor))
        except errors.Refusal as refusal:
            messages.error(request, refusal.detail)
        if self._found(request, row.pk) is None:
            return redirect("admin:notifications_webhook_changelist")
        return redirect("admin:notifications_webhook_change", row.pk)


def _in_words(refusal: errors.Refusal) -> str:
    return " ".join(message for found in refusal.errors.values() for message in found) or refusal.detail


def recent(row: Webhook) -> list[dict[str, Any]]:
    """By its own index: the row is within the desk's tenants already."""
    found = []
    for delivery in row.deliveries.order_by("-id")[:RECENT]:
        delivery.tenant, delivery.webhook = row.tenant, row
        found.append(_shown(delivery))
    return found


def _shown(delivery: Delivery) -> dict[str, Any]:
    return {
        "delivery": delivery,
        "type": (delivery.facts.get("body") or {}).get("type") or delivery.occasion,
        "state": told.label(delivery.status),
        "why": told.explanation(delivery),
        "tries": told.tries(delivery),
        "waits": delivery.status == DeliveryStatus.WAITING,
    }
