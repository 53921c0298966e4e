"""Addresses that mail cannot reach, per tenant: marked by a hard bounce, cleared by the next mail that arrives."""

from collections.abc import Iterable
from datetime import datetime

from tenants.models import Tenant, Unreachable, normal_email


def mark_unreachable(tenant: Tenant, email: str, *, reason: str, at: datetime) -> None:
    Unreachable.objects.get_or_create(
        tenant=tenant, email=normal_email(email), defaults={"reason": reason, "since": at}
    )


def clear_unreachable(tenant: Tenant, email: str, *, arrived_at: datetime | None = None) -> None:
    """A report of an older mail says nothing about a newer bounce."""
    marks = Unreachable.objects.for_tenant(tenant).filter(email=normal_email(email))
    if arrived_at is not None:
        marks = marks.filter(since__lt=arrived_at)
    marks.delete()


def unreachable_among(tenant: Tenant, emails: Iterable[str]) -> dict[str, str]:
    """Those of them that cannot be reached, each with the reason."""
    marks = Unreachable.objects.for_tenant(tenant).filter(email__in=list(emails))
    return dict(marks.values_list("email", "reason"))
