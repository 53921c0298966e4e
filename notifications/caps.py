"""No address and no tenant sends or gets more mail in an hour than the operator allows: what is over waits."""

import uuid
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from django.conf import settings
from django.db import models
from django.utils import timezone

from notifications.models import Delivery, Kind

WINDOW = timedelta(hours=1)


@dataclass(slots=True)
class Caps:
    """Counted afresh by each worker of a lane: several at once may overshoot by what they send meanwhile."""

    sent_by_tenant: dict[uuid.UUID, int] = field(default_factory=dict)

    def hold(self, delivery: Delivery) -> datetime | None:
        """Until when it has to wait; None when it may go."""
        if delivery.kind != Kind.EMAIL:
            return None
        since = timezone.now() - WINDOW
        to_this_address = Delivery.objects.filter(
            tenant=delivery.tenant_id, kind=Kind.EMAIL, recipient=delivery.recipient, sent_at__gt=since
        )
        most = settings.MAIL_PER_RECIPIENT_PER_HOUR
        if most and to_this_address[:most].count() >= most:
            return self._free_again(to_this_address)
        of_this_tenant = Delivery.objects.filter(tenant=delivery.tenant_id, kind=Kind.EMAIL, sent_at__gt=since)
        most = settings.MAIL_PER_TENANT_PER_HOUR
        if not most:
            return None
        if delivery.tenant_id not in self.sent_by_tenant:
            self.sent_by_tenant[delivery.tenant_id] = of_this_tenant[:most].count()
        return self._free_again(of_this_tenant) if self.sent_by_tenant[delivery.tenant_id] >= most else None

    def count(self, delivery: Delivery) -> None:
        if delivery.tenant_id in self.sent_by_tenant:
            self.sent_by_tenant[delivery.tenant_id] += 1

    def _free_again(self, sent: models.QuerySet[Delivery]) -> datetime:
        """When the oldest of the hour is an hour old; not at once, so that nobody spins."""
        now = timezone.now()
        oldest = sent.order_by("sent_at").values_list("sent_at", flat=True).first()
        return max((oldest or now) + WINDOW, now + timedelta(minutes=1))
