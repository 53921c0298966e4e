"""How the desk puts times and people into words."""

import json
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

from django import template
from django.utils import timezone
from django.utils.html import format_html
from django.utils.timesince import timesince, timeuntil

from checkpoints import masking, prose
from checkpoints.models import Checkpoint
from desk import stories

register = template.Library()


@register.filter
def moment(at: datetime | None, tenant: Any) -> str:
    """Relative for the eye, exact on hover, in the tenant's zone."""
    if at is None:
        return "none"
    local = at.astimezone(ZoneInfo(tenant.time_zone))
    exact = f"{local:%A, %d %B %Y, %H:%M:%S} {tenant.time_zone}"
    return format_html('<time datetime="{}" title="{}">{}</time>', at.isoformat(), exact, relative(at))


def relative(at: datetime) -> str:
    now = timezone.now()
    if abs((at - now).total_seconds()) < 60:
        return "just now" if at <= now else "in a moment"
    return f"{timesince(at, now, depth=1)} ago" if at < now else f"in {timeuntil(at, now, depth=1)}"


@register.filter
def exactly(at: datetime | None, tenant: Any) -> str:
    return f"{at.astimezone(ZoneInfo(tenant.time_zone)):%d %B %Y, %H:%M} ({tenant.time_zone})" if at else "none"


def in_full(at: datetime | None, tenant: Any, otherwise: str) -> str:
    """Both at once, where there is room for it."""
    if at is None:
        return otherwise
    return format_html('{}, <span class="hp-when">{}</span>', moment(at, tenant), exactly(at, tenant))


@register.filter
def rendered(text: str) -> str:
    """What a program wrote, as Markdown that can do no harm."""
    return prose.to_html(text)


@register.filter
def without_secrets(value: Any) -> Any:
    return masking.masked(value)


@register.filter
def actor(label: str) -> str:
    return stories.who(label)


@register.filter
def assigned(checkpoint: Checkpoint) -> str:
    return stories.asked(checkpoint)


AFTERWARDS = {
    "none": "it expires",
    "reject": "it expires",
    "cancel": "it is cancelled",
    "default_option": "the default is taken",
    "approve": "it is approved",
    "escalate": "it expires",
}


@register.filter
def afterwards(checkpoint: Checkpoint) -> str:
    """What the deadline does, in words."""
    if checkpoint.expiry_action == "escalate" and checkpoint.escalation_target:
        return f"it goes to {checkpoint.escalation_target}"
    if checkpoint.expiry_action == "default_option" and checkpoint.default_option:
        return f"“{checkpoint.default_option}” is taken"
    return AFTERWARDS[checkpoint.expiry_action]


@register.simple_tag
def page_url(cl: Any, number: int) -> str:
    return str(cl.get_query_string({"p": number}))


@register.filter
def arguments(action: dict[str, Any]) -> str:
    """An action without arguments has none to show, which is an empty object."""
    return as_json(action.get("args", {}))


@register.filter
def as_json(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False)
