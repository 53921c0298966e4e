"""HOW PEOPLE HEAR: channels and webhooks of a tenant, and one delivery per recipient, channel and occasion."""

from datetime import datetime
from typing import Any, ClassVar, Self

from django.core.validators import MaxLengthValidator
from django.db import models
from django.utils import timezone

from checkpoints.models import Checkpoint
from tenants.fields import ExactCharField
from tenants.scoping import TenantModel, TenantOwned, TenantQuerySet


class Kind(models.TextChoices):
    EMAIL = "email"
    CHAT = "chat"
    WEBHOOK = "webhook"


class Occasion(models.TextChoices):
    """Why somebody hears of something. The first four ask for a decision; the others tell."""

    CREATED = "created"
    REASSIGNED = "reassigned"
    ESCALATED = "escalated"
    REMINDER = "reminder"
    MOVED_AWAY = "moved_away", "no longer theirs"
    DECIDED = "decided"
    CANCELLED = "cancelled"
    SUPERSEDED = "superseded"
    EXPIRED = "expired"
    COMMENTED = "commented"
    UNROUTED = "unrouted", "waiting in the queue"
    WEBHOOK_DISABLED = "webhook_disabled", "webhook switched off"
    EVENT = "event"
    TEST = "test"


ASKING = frozenset({Occasion.CREATED, Occasion.REASSIGNED, Occasion.ESCALATED, Occasion.REMINDER})


class DeliveryStatus(models.TextChoices):
    WAITING = "waiting"
    # The transport took it; more is not known unless the provider reports back.
    SENT = "sent"
    DELIVERED = "delivered"
    BOUNCED = "bounced"
    REJECTED = "rejected"
    COMPLAINED = "complained"
    # Given up: a permanent refusal, or tried for a day.
    FAILED = "failed"
    # Looked at again before sending, and no longer true: decided, reassigned, muted.
    SKIPPED = "skipped"


REACHED = frozenset({DeliveryStatus.SENT, DeliveryStatus.DELIVERED, DeliveryStatus.COMPLAINED})


class Channel(TenantModel):
    """How a tenant's people hear: mail (one per tenant, made by itself) and rooms of a chat."""

    kind = ExactCharField(max_length=16, choices=[(Kind.EMAIL, "email"), (Kind.CHAT, "chat")])
    name = models.CharField(max_length=100)
    is_active = models.BooleanField(default=True, help_text="Off: nothing is sent this way.")
    # Of a chat: its incoming webhook, which is a secret. Of mail: nothing, the transport is the server's.
    url = models.TextField(blank=True, default="", validators=[MaxLengthValidator(2000)])
    reply_to = models.CharField(max_length=254, blank=True, default="", help_text="Where answers to mails go.")
    occasions = models.JSONField(default=list, blank=True, help_text="Empty: every occasion.")
    created_at = models.DateTimeField(default=timezone.now, editable=False)

    class Meta:
        ordering = ["kind", "name"]
        constraints = [models.UniqueConstraint(fields=["tenant", "kind", "name"], name="channel_once_per_name")]

    def __str__(self) -> str:
        return self.name

    @property
    def lane(self) -> str:
        """What one failing transport holds up: mail as a whole, and each room by itself."""
        return str(Kind.EMAIL) if self.kind == Kind.EMAIL else f"{self.kind}:{self.pk}"

    def takes(self, occasion: str) -> bool:
        return self.is_active and (not self.occasions or occasion in self.occasions)


class Webhook(TenantModel):
    """A machine that wants to know: signed messages by Standard Webhooks."""

    url = models.TextField(validators=[MaxLengthValidator(2000)])
    description = models.CharField(max_length=200, blank=True, default="")
    # ["checkpoint.resolved", …]; empty: every type.
    events = models.JSONField(default=list, blank=True)
    is_active = models.BooleanField(default=True)
    # whsec_<base64>; after a rotation the old one signs as well until it ends.
    secret = ExactCharField(max_length=100)
    previous_secret = ExactCharField(max_length=100, blank=True, default="")
    previous_secret_ends_at = models.DateTimeField(null=True, blank=True)
    failing_since = models.DateTimeField(null=True, blank=True)
    disabled_at = models.DateTimeField(null=True, blank=True)
    disabled_reason = models.TextField(blank=True, default="")
    created_at = models.DateTimeField(default=timezone.now, editable=False)

    class Meta:
        ordering = ["id"]
        indexes = [models.Index(fields=["tenant", "id"], name="webhook_newest")]

    def __str__(self) -> str:
        return self.description or self.url

    @property
    def lane(self) -> str:
        return f"{Kind.WEBHOOK}:{self.pk}"

    def takes(self, type: str) -> bool:
        return self.is_active and (not self.events or type in self.events)

    def secrets(self, *, at: datetime) -> list[str]:
        """The newest first; every message is signed with each."""
        old = self.previous_secret if self.previous_secret_ends_at and at < self.previous_secret_ends_at else ""
        return [self.secret, *([old] if old else [])]


class DeliverySet(TenantQuerySet):
    def due(self, at: datetime) -> Self:
        return self.filter(status=DeliveryStatus.WAITING, next_try_at__lte=at)


class Delivery(TenantModel):
    """One message to one recipient by one channel on one occasion. Sent at least once, and never silently lost.

    ``next_try_at`` is queue and lease in one: whoever sends it first moves it to the end of the lease, guarded by its
    old value. A sender that dies leaves a moment that comes by itself.
    """

    # Written once per occasion however often an event is distributed.
    dedupe_key = ExactCharField(max_length=64, unique=True)
    checkpoint = models.ForeignKey(
        Checkpoint, on_delete=models.CASCADE, related_name="deliveries", null=True, blank=True, db_index=False
    )
    occasion = ExactCharField(max_length=20, choices=Occasion.choices)
    kind = ExactCharField(max_length=16, choices=Kind.choices)
    lane = ExactCharField(max_length=60)
    channel = models.ForeignKey(
        Channel, on_delete=models.CASCADE, related_name="+", null=True, blank=True, db_index=False
    )
    webhook = models.ForeignKey(
        Webhook, on_delete=models.CASCADE, related_name="deliveries", null=True, blank=True, db_index=False
    )
    # An address for mail; empty where the channel itself is the recipient.
    recipient = ExactCharField(max_length=254, blank=True, default="")
    # Of the checkpoint, when it asked: an assignment that has moved on makes the message untrue.
    assignment_version = models.PositiveIntegerField(default=0)
    # What has to be said beside the checkpoint itself: who, from whom, the body of a webhook message.
    facts = models.JSONField(default=dict)

    status = ExactCharField(max_length=16, choices=DeliveryStatus.choices, default=DeliveryStatus.WAITING)
    next_try_at = models.DateTimeField(null=True, blank=True, default=timezone.now)
    tries = models.PositiveSmallIntegerField(default=0)
    last_error = models.TextField(blank=True, default="")
    # The transport's name for it, by which its receipts find back.
    message_id = ExactCharField(max_length=255, blank=True, default="")
    created_at = models.DateTimeField(default=timezone.now)
    sent_at = models.DateTimeField(null=True, blank=True)

    objects: ClassVar[Any] = DeliverySet.as_manager()

    class Meta:
        ordering = ["-id"]
        verbose_name_plural = "deliveries"
        constraints = [
            models.CheckConstraint(condition=models.Q(status__in=DeliveryStatus.values), name="delivery_status_known"),
            models.CheckConstraint(
                condition=models.Q(status=DeliveryStatus.WAITING, next_try_at__isnull=False)
                | (~models.Q(status=DeliveryStatus.WAITING) & models.Q(next_try_at__isnull=True)),
                name="delivery_waits_for_a_moment",
            ),
        ]
        indexes = [
            models.Index(fields=["tenant", "id"], name="delivery_newest"),
            models.Index(fields=["tenant", "status", "id"], name="delivery_by_status"),
            models.Index(fields=["status", "lane", "next_try_at"], name="delivery_due"),
            models.Index(fields=["checkpoint", "id"], name="delivery_by_checkpoint"),
            models.Index(fields=["webhook", "id"], name="delivery_by_webhook"),
            models.Index(fields=["channel"], name="delivery_by_channel"),
            models.Index(fields=["message_id"], name="delivery_by_message"),
            # For the caps: how much went to one address, and out of one tenant, within the last hour.
            models.Index(fields=["tenant", "kind", "recipient", "sent_at"], name="delivery_to_recipient"),
            models.Index(fields=["tenant", "kind", "sent_at"], name="delivery_sent"),
        ]

    def __str__(self) -> str:
        return f"{self.occasion} → {self.recipient or self.lane}"

    @property
    def asks(self) -> bool:
        return self.occasion in ASKING


class DeliveryTry(TenantOwned):
    """Each try is on record, the failed ones too."""

    id = models.BigAutoField(primary_key=True)
    delivery = models.ForeignKey(Delivery, on_delete=models.CASCADE, related_name="recorded_tries", db_index=False)
    at = models.DateTimeField()
    succeeded = models.BooleanField()
    # What the other side said, or what went wrong before it could.
    detail = models.TextField(blank=True, default="")
    response_status = models.PositiveSmallIntegerField(null=True, blank=True)
    took_ms = models.PositiveIntegerField(default=0)

    class Meta:
        ordering = ["id"]
        indexes = [
            models.Index(fields=["tenant", "id"], name="try_newest"),
            models.Index(fields=["delivery", "id"], name="try_by_delivery"),
        ]


class UnroutedNotice(TenantOwned):
    """A checkpoint that came into the queue, until the tenant's admins have been told of it."""

    id = models.BigAutoField(primary_key=True)
    checkpoint = models.ForeignKey(Checkpoint, on_delete=models.CASCADE, related_name="+", db_index=False)
    assignment_version = models.PositiveIntegerField()
    told_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["checkpoint", "assignment_version"], name="unrouted_notice_once")
        ]
        indexes = [
            models.Index(fields=["tenant", "id"], name="unrouted_notice_newest"),
            models.Index(fields=["told_at", "tenant", "id"], name="unrouted_notice_untold"),
        ]


class Mute(TenantOwned):
    """This person wants no more reminders of this checkpoint."""

    id = models.BigAutoField(primary_key=True)
    checkpoint = models.ForeignKey(Checkpoint, on_delete=models.CASCADE, related_name="mutes", db_index=False)
    email = ExactCharField(max_length=254)
    created_at = models.DateTimeField(default=timezone.now)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["checkpoint", "email"], name="mute_once")]
        indexes = [models.Index(fields=["tenant", "id"], name="mute_newest")]
