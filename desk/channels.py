"""How a tenant's people hear: mail, which every tenant has, and rooms of a chat."""

import uuid
from typing import Any, cast
from urllib.parse import urlsplit

from django import forms
from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.core.validators import validate_email
from django.db.models import Exists, OuterRef
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import path
from django.utils.html import format_html
from unfold.decorators import display
from unfold.widgets import UnfoldAdminCheckboxSelectMultipleWidget, UnfoldAdminPasswordWidget

from desk import told
from desk.commands import as_identity
from desk.scoped import TenantAdmin, TenantForm, administered
from notifications import trials
from notifications.distributing import email_channel
from notifications.models import Channel, Kind, Occasion
from tenants import egress
from tenants.models import Tenant, User, normal_email

# A room hears nothing of what became of former assignees; events and tests are not chosen.
OFFERED: dict[Kind, list[Occasion]] = {
    Kind.EMAIL: [one for one in Occasion if one not in {Occasion.EVENT, Occasion.TEST}],
    Kind.CHAT: [
        one
        for one in Occasion
        if one not in {Occasion.EVENT, Occasion.TEST, Occasion.MOVED_AWAY, Occasion.WEBHOOK_DISABLED}
    ],
}
MOST_MADE = 50


def masked(url: str) -> str:
    """Enough to tell two rooms apart, and nothing to post with."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.hostname}/…{url[-4:]}" if url else "none"


class ChannelForm(TenantForm):
    url = forms.CharField(
        label="Incoming webhook",
        required=False,
        strip=True,
        widget=UnfoldAdminPasswordWidget(attrs={"autocomplete": "off"}),
    )
    occasions = forms.MultipleChoiceField(
        widget=UnfoldAdminCheckboxSelectMultipleWidget(), required=False, help_text="What is told this way."
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if self.instance._state.adding:
            self.instance.kind = Kind.CHAT
        offered = [str(one) for one in OFFERED[Kind(self.instance.kind)]]
        if "occasions" in self.fields:
            field = cast(forms.MultipleChoiceField, self.fields["occasions"])
            field.choices = [(one, told.OCCASIONS[Occasion(one)].capitalize()) for one in offered]
            self.initial["occasions"] = self.instance.occasions or offered
        if "url" in self.fields:
            known = not self.instance._state.adding
            self.fields["url"].required = not known
            self.fields["url"].help_text = (
                "The address that your chat gives you for one room (Slack, Mattermost, Rocket.Chat and others). It is "
                f"a secret and is not shown again.{' Leave it empty to keep the one you have.' if known else ''}"
            )

    def _get_validation_exclusions(self) -> set[str]:
        # No form shows it, and a name is taken once per kind.
        return super()._get_validation_exclusions() - {"kind"}

    def clean_name(self) -> str:
        return str(self.cleaned_data["name"]).strip()

    def clean_url(self) -> str:
        given = str(self.cleaned_data.get("url") or "")
        if not given:
            return str(self.instance.url)
        if trouble := egress.trouble_with(given):
            raise forms.ValidationError(trouble)
        return given

    def clean_reply_to(self) -> str:
        given = normal_email(self.cleaned_data.get("reply_to") or "")
        if given:
            validate_email(given)
        return given

    def clean_occasions(self) -> list[str]:
        chosen = set(self.cleaned_data["occasions"])
        offered = [str(one) for one in OFFERED[Kind(self.instance.kind)]]
        if not chosen:
            raise forms.ValidationError("Choose at least one, or switch the channel off.")
        # Everything is written as such, so that an occasion of a later version is among it.
        return [] if chosen >= set(offered) else [one for one in offered if one in chosen]


@admin.register(Channel)
class ChannelsAdmin(TenantAdmin):
    form = ChannelForm
    list_display = ("named", "by", "destination", "told_of", "state", "try_out")
    # Mail first.
    ordering = ("-kind", "name")
    change_form_outer_before_template = "desk/channel.html"
    actions = ()

    def changelist_view(self, request: HttpRequest, extra_context: Any = None) -> Any:
        if request.method == "GET":
            self._make_mail(request)
        return super().changelist_view(request, extra_context)

    def _make_mail(self, request: HttpRequest) -> None:
        """Every tenant has mail, also before its first message; written when somebody may write."""
        mail = Channel.objects.filter(tenant=OuterRef("pk"), kind=Kind.EMAIL)
        tenants = Tenant.objects.filter(pk__in=[tenant.pk for tenant in administered(request)])
        for tenant in tenants.filter(~Exists(mail))[:MOST_MADE]:
            email_channel(tenant)

    # --- Fields ---------------------------------------------------------------------------------------------------

    def get_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        looking = obj is not None and not self.has_change_permission(request, obj)
        occasions = "told_of" if looking else "occasions"
        if obj is None:
            fields = ["tenant", "name", "url", "is_active", occasions]
            return [name for name in fields if name not in self.get_exclude(request, obj)]
        if obj.kind == Kind.EMAIL:
            return ["tenant", "name", "is_active", "reply_to", occasions]
        return ["tenant", "name", "destination", *([] if looking else ["url"]), "is_active", occasions]

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        fixed = [*super().get_readonly_fields(request, obj), "destination", "told_of"]
        return [*fixed, "name"] if obj is not None and obj.kind == Kind.EMAIL else fixed

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        # Switched off instead: what went out this way stays on record.
        return False

    # --- Columns --------------------------------------------------------------------------------------------------

    @display(description="Name")
    def named(self, row: Channel) -> str:
        return row.name

    @display(description="Kind")
    def by(self, row: Channel) -> str:
        return row.get_kind_display()

    @display(description="Goes to")
    def destination(self, row: Channel) -> str:
        if row.kind == Kind.EMAIL:
            return f"each person; answers to {row.reply_to}" if row.reply_to else "each person"
        return masked(row.url)

    @display(description="Told of")
    def told_of(self, row: Channel) -> str:
        if not row.occasions:
            return "everything"
        words = ", ".join(told.OCCASIONS[one] for one in row.occasions if one in told.OCCASIONS)
        return format_html('<span class="hp-reason">{}</span>', words)

    @display(description="State")
    def state(self, row: Channel) -> str:
        word, colour = ("on", "sent") if row.is_active else ("switched off", "skipped")
        return format_html('<span class="hp-label hp-{}">{}</span>', colour, word)

    @display(description="")
    def try_out(self, row: Channel) -> str:
        if not row.is_active:
            return ""
        address = f"{row.pk}/test/"
        # Within the list's own form, so that its token goes along.
        return format_html('<button class="hp-button" type="submit" formaction="{}">Send test</button>', address)

    def get_list_display(self, request: HttpRequest) -> Any:
        columns = list(super().get_list_display(request))
        return columns if administered(request) else [name for name in columns if name != "try_out"]

    # --- Trying it out --------------------------------------------------------------------------------------------

    def get_urls(self) -> Any:
        test = self.admin_site.admin_view(self.test_view)
        return [path("<uuid:object_id>/test/", test, name="notifications_channel_test"), *super().get_urls()]

    def test_view(self, request: HttpRequest, object_id: uuid.UUID) -> HttpResponse:
        row: Channel | None = self.get_queryset(request).filter(pk=as_identity(str(object_id))).first()
        if row is None:
            raise Http404
        if request.method == "POST":
            if not self.has_change_permission(request, row):
                raise PermissionDenied
            if not row.is_active:
                messages.error(request, "It is switched off: nothing is sent this way. Switch it on first.")
            else:
                sent = trials.send_test(row, to=cast(User, request.user).email)
                whom = sent.recipient or f"the room “{row}”"
                messages.success(request, f"A test to {whom} is on its way. How it went is shown under Deliveries.")
        return redirect("admin:notifications_channel_changelist")
