"""The sidebar: what a person may open, and how many checkpoints wait for somebody to take them."""

from typing import Any

from django.http import HttpRequest
from django.templatetags.static import static
from django.urls import reverse

from checkpoints.models import Checkpoint
from desk.scoped import looked_after

MOST_COUNTED = 99


def stylesheet(request: HttpRequest) -> str:
    return static("desk/desk.css")


def icon(request: HttpRequest) -> str:
    return static("holdpoint/icon.svg")


def sections(request: HttpRequest) -> list[dict[str, Any]]:
    decisions = [
        _item("Queue", "inbox", "checkpoints_checkpoint", badge=waiting(request)),
    ]
    people = [
        _item("People", "group", "tenants_membership"),
        _item("Groups", "diversity_3", "tenants_group"),
        _item("Roles", "badge", "tenants_role"),
    ]
    programs = [
        _item("Cores", "memory", "tenants_core"),
        _item("Delegations", "swap_horiz", "tenants_delegation"),
        _item("API keys", "key", "tenants_apikey"),
    ]
    heard = [
        _item("Channels", "forum", "notifications_channel"),
        _item("Webhooks", "webhook", "notifications_webhook"),
        _item("Deliveries", "outgoing_mail", "notifications_delivery"),
        _item("Cannot be reached", "unsubscribe", "tenants_unreachable"),
    ]
    tenants = [_item("Tenants", "domain", "tenants_tenant")]
    if request.user.is_superuser:
        tenants += [
            _item("Accounts", "manage_accounts", "tenants_user"),
            _item("Jobs", "schedule", "checkpoints_jobbeat"),
            _item("Schedules", "timer", "django_q_schedule"),
            _item("Failed jobs", "report", "django_q_failure"),
        ]
    return [
        {"title": "Decisions", "items": decisions},
        {"title": "Who decides", "items": people, "separator": True},
        {"title": "Programs", "items": programs, "separator": True},
        {"title": "Messages", "items": heard, "separator": True},
        {"title": "Set-up", "items": tenants, "separator": True},
    ]


def waiting(request: HttpRequest) -> str:
    """Counted only as far as a person can take in: the look stops after that many rows of the index."""
    tenants = [tenant.pk for tenant in looked_after(request)]
    rows = Checkpoint.objects.filter(tenant__in=tenants).unrouted().order_by()
    found = len(rows.values_list("pk", flat=True)[: MOST_COUNTED + 1])
    return f"{MOST_COUNTED}+" if found > MOST_COUNTED else str(found or "")


def _item(title: str, icon: str, model: str, *, badge: str = "") -> dict[str, Any]:
    item: dict[str, Any] = {"title": title, "icon": icon, "link": reverse(f"admin:{model}_changelist")}
    if badge:
        item["badge"] = badge
    return item
