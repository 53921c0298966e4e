"""The checkpoint row and its events: fields, constraints, questions. Changes are made by ``lifecycle`` alone."""

from datetime import datetime, timedelta
from typing import Any, ClassVar, Self

from django.db import models
from django.db.models import Exists, OuterRef, Q
from django.utils import timezone

from tenants.directory import Standing
from tenants.fields import ExactCharField
from tenants.models import Core, Delegation
from tenants.scoping import TenantModel, TenantOwned, TenantQuerySet

ALIKE = ["assignee_type", "forbid_requester", "required_approvals", "rejections_allowed", "core", "assignee_value"]


class Status(models.TextChoices):
    PENDING = "pending"
    RESOLVED = "resolved"
    EXPIRED = "expired"
    CANCELLED = "cancelled"


class Routing(models.TextChoices):
    PEOPLE = "people"
    EXTERNAL = "external"


class AssigneeType(models.TextChoices):
    USER = "user"
    GROUP = "group"
    ROLE = "role"
    DELEGATED_USER = "delegated_user"
    UNROUTED = "unrouted"


class Priority(models.IntegerChoices):
    """Most urgent first is ascending: the queue is read off its index."""

    CRITICAL = 0
    HIGH = 1
    NORMAL = 2
    LOW = 3

    @property
    def word(self) -> str:
        return self.name.lower()

    @classmethod
    def words(cls) -> list[str]:
        return [priority.word for priority in reversed(cls)]

    @classmethod
    def named(cls, word: str) -> "Priority":
        return cls[word.upper()]


class ExpiryAction(models.TextChoices):
    NONE = "none"
    CANCEL = "cancel"
    DEFAULT_OPTION = "default_option"
    ESCALATE = "escalate"
    APPROVE = "approve"
    REJECT = "reject"


class CheckpointSet(TenantQuerySet):
    def pending(self) -> Self:
        return self.filter(status=Status.PENDING)

    def unrouted(self) -> Self:
        """What waits in the queue for a tenant admin."""
        return self.pending().filter(assignee_type=AssigneeType.UNROUTED, routing=Routing.PEOPLE)

    def most_urgent_first(self) -> Self:
        return self.order_by("priority", "id")

    def newest_first(self) -> Self:
        return self.order_by("-id")

    def due(self, at: datetime) -> Self:
        """Deadline passed, and not set aside after a failed try."""
        return self.pending().filter(expires_at__lte=at).exclude(sweep_retry_at__gt=at)

    def actionable_by(self, standing: Standing, *, at: datetime) -> Self:
        return self.pending().filter(assigned_to(standing, at=at))

    def visible_to(self, standing: Standing, *, at: datetime) -> Self:
        """An approver's view: what they may decide, have decided, or requested."""
        email = standing.user.email
        decided = Q(resolved_by__in=[f"user:{email}", f"link:{email}"])
        requested = Q(requested_by__in=[email, str(standing.user.pk)])
        # A vote is a decision, also when somebody else's made the number full.
        voted = Exists(Vote.objects.filter(checkpoint=OuterRef("pk"), voter=email))
        return self.filter((Q(status=Status.PENDING) & assigned_to(standing, at=at)) | decided | requested | voted)


def assigned_to(standing: Standing, *, at: datetime) -> Q:
    current = Delegation.objects.current(at)
    # As in the directory: where two overlap, the later start wins.
    later = current.filter(core=OuterRef("core")).filter(
        Q(starts_at__gt=OuterRef("starts_at")) | Q(starts_at=OuterRef("starts_at"), id__gt=OuterRef("id"))
    )
    delegated = current.filter(~Exists(later), delegate__user=standing.user).values("core")
    assigned = Q(assignee_type=AssigneeType.USER, assignee_value__in=[standing.user.email, str(standing.user.pk)])
    assigned |= Q(assignee_type=AssigneeType.DELEGATED_USER, core__in=delegated)
    if standing.groups:
        assigned |= Q(assignee_type=AssigneeType.GROUP, assignee_value__in=sorted(standing.groups))
    if standing.roles:
        assigned |= Q(assignee_type=AssigneeType.ROLE, assignee_value__in=sorted(standing.roles))
    return assigned


class Checkpoint(TenantModel):
    # No index of its own: checkpoint_by_core starts with it. Two of them make MariaDB merge instead of read in order.
    core = models.ForeignKey(Core, on_delete=models.PROTECT, related_name="+", db_index=False)

    execution_id = ExactCharField(max_length=200, blank=True, default="")
    flow_name = ExactCharField(max_length=200, blank=True, default="")
    block_index = models.PositiveIntegerField(null=True, blank=True)
    node_id = ExactCharField(max_length=200, blank=True, default="")
    instance_key = ExactCharField(max_length=200, blank=True, default="")

    checkpoint_type = ExactCharField(max_length=64, default="approval")
    routing = ExactCharField(max_length=16, choices=Routing.choices, default=Routing.PEOPLE)
    prompt = models.TextField(blank=True, default="")
    options = models.JSONField(null=True, blank=True)
    default_option = models.CharField(max_length=100, null=True, blank=True)  # noqa: DJ001 (null: none was given)
    hitl_spec = models.JSONField(null=True, blank=True)
    action = models.JSONField(null=True, blank=True)
    action_digest = ExactCharField(max_length=64, blank=True, default="")
    hitl_target = models.JSONField(null=True, blank=True)
    hitl_message_id = ExactCharField(max_length=200, blank=True, default="")

    assignee_raw = models.CharField(max_length=300, blank=True, default="")
    assignee_type = ExactCharField(max_length=16, choices=AssigneeType.choices, default=AssigneeType.UNROUTED)
    assignee_value = ExactCharField(max_length=300, blank=True, default="")
    assignee_resolved = models.JSONField(default=dict)
    assignment_version = models.PositiveIntegerField(default=1)

    row_version = models.PositiveIntegerField(default=1)
    event_count = models.PositiveIntegerField(default=0)
    event_head = ExactCharField(max_length=64, blank=True, default="")

    claimed_by = ExactCharField(max_length=254, blank=True, default="")
    claimed_at = models.DateTimeField(null=True, blank=True)
    requested_by = ExactCharField(max_length=254, blank=True, default="")
    forbid_requester = models.BooleanField(default=False)
    required_approvals = models.PositiveSmallIntegerField(default=1)
    rejections_allowed = models.PositiveSmallIntegerField(default=0)
    context = models.JSONField(null=True, blank=True)

    status = ExactCharField(max_length=16, choices=Status.choices, default=Status.PENDING)
    priority = models.PositiveSmallIntegerField(choices=Priority.choices, default=Priority.NORMAL)

    expires_at = models.DateTimeField(null=True, blank=True)
    window_s = models.PositiveIntegerField(null=True, blank=True)
    timeout_raw = models.CharField(max_length=64, blank=True, default="")
    sweep_error = models.TextField(blank=True, default="")
    sweep_retry_at = models.DateTimeField(null=True, blank=True)
    expiry_action = ExactCharField(max_length=16, choices=ExpiryAction.choices, default=ExpiryAction.NONE)
    escalation_target = models.CharField(max_length=300, null=True, blank=True)  # noqa: DJ001 (null: nobody is left)
    escalation_chain = models.JSONField(default=list, blank=True)
    escalation_step = models.PositiveSmallIntegerField(default=0)

    notification_sent = models.BooleanField(default=False)
    reminder_count = models.PositiveIntegerField(default=0)
    reminder_interval_m = models.PositiveIntegerField(null=True, blank=True)
    next_reminder_at = models.DateTimeField(null=True, blank=True)

    resolution = models.JSONField(null=True, blank=True)
    resolved_by = ExactCharField(max_length=300, blank=True, default="")
    resolved_at = models.DateTimeField(null=True, blank=True)
    close_reason = models.TextField(blank=True, default="")
    closed_by = ExactCharField(max_length=300, blank=True, default="")
    closed_at = models.DateTimeField(null=True, blank=True)

    state_s3_key = ExactCharField(max_length=200, null=True, blank=True)
    state_size = models.PositiveBigIntegerField(null=True, blank=True)
    state_sha256 = ExactCharField(max_length=64, blank=True, default="")
    state_encoding = ExactCharField(max_length=16, blank=True, default="")

    picked_up_by = ExactCharField(max_length=200, blank=True, default="")
    pickup_token = ExactCharField(max_length=64, blank=True, default="")
    pickup_expires_at = models.DateTimeField(null=True, blank=True)
    resumed_at = models.DateTimeField(null=True, blank=True)

    supersedes = models.ForeignKey(
        "self", null=True, blank=True, on_delete=models.PROTECT, related_name="superseded_by"
    )
    created_at = models.DateTimeField(default=timezone.now)
    updated_at = models.DateTimeField(default=timezone.now)
    created_by = ExactCharField(max_length=300, blank=True, default="")
    created_by_key = models.UUIDField(null=True, blank=True)

    objects: ClassVar[Any] = CheckpointSet.as_manager()
    # Set where the votes of a whole page were read at once.
    cast_votes: "list[Vote] | None" = None

    class Meta:
        db_table = "mod_scaicore_checkpoints"
        indexes = [
            models.Index(fields=["tenant", "id"], name="checkpoint_newest"),
            models.Index(fields=["tenant", "status", "id"], name="checkpoint_by_status"),
            models.Index(
                fields=["tenant", "status", "assignee_type", "routing", "priority", "id"], name="checkpoint_queue"
            ),
            models.Index(fields=["tenant", "priority", "id"], name="checkpoint_most_urgent"),
            models.Index(fields=["tenant", "status", "priority", "id"], name="checkpoint_urgent"),
            models.Index(
                fields=["tenant", "assignee_type", "assignee_value", "status", "id"], name="checkpoint_by_assignee"
            ),
            models.Index(fields=["tenant", "execution_id", "id"], name="checkpoint_by_execution"),
            models.Index(fields=["core", "id"], name="checkpoint_by_core"),
            models.Index(fields=["status", "expires_at"], name="checkpoint_due"),
            models.Index(fields=["status", "next_reminder_at"], name="checkpoint_reminders"),
            models.Index(fields=["status", "routing", *ALIKE], name="checkpoint_assignments"),
        ]
        constraints = [
            models.CheckConstraint(condition=Q(status__in=Status.values), name="checkpoint_status_known"),
            models.CheckConstraint(condition=Q(routing__in=Routing.values), name="checkpoint_routing_known"),
            models.CheckConstraint(condition=Q(priority__in=Priority.values), name="checkpoint_priority_known"),
            models.CheckConstraint(
                condition=Q(assignee_type__in=AssigneeType.values), name="checkpoint_assignee_type_known"
            ),
            models.CheckConstraint(
                condition=Q(expiry_action__in=ExpiryAction.values), name="checkpoint_expiry_action_known"
            ),
            models.CheckConstraint(
                condition=Q(status=Status.RESOLVED, resolution__isnull=False, resolved_at__isnull=False)
                | (~Q(status=Status.RESOLVED) & Q(resolution__isnull=True, resolved_at__isnull=True)),
                name="checkpoint_resolution_iff_resolved",
            ),
            models.CheckConstraint(
                condition=Q(status__in=[Status.CANCELLED, Status.EXPIRED], closed_at__isnull=False)
                | Q(status__in=[Status.PENDING, Status.RESOLVED], closed_at__isnull=True),
                name="checkpoint_closed_iff_ended",
            ),
            models.CheckConstraint(
                condition=~Q(expiry_action=ExpiryAction.ESCALATE)
                | Q(escalation_step__gt=0)
                | Q(escalation_target__isnull=False),
                name="checkpoint_escalate_needs_target",
            ),
            models.CheckConstraint(
                condition=Q(
                    row_version__gte=1,
                    assignment_version__gte=1,
                    event_count__gte=0,
                    reminder_count__gte=0,
                    escalation_step__gte=0,
                    required_approvals__gte=1,
                    rejections_allowed__gte=0,
                ),
                name="checkpoint_counts_not_negative",
            ),
            models.CheckConstraint(
                condition=Q(block_index__isnull=True) | Q(block_index__gte=0),
                name="checkpoint_block_index_not_negative",
            ),
            models.CheckConstraint(
                condition=Q(reminder_interval_m__isnull=True) | Q(reminder_interval_m__gte=1),
                name="checkpoint_reminder_interval_positive",
            ),
            models.UniqueConstraint(fields=["tenant", "state_s3_key"], name="checkpoint_state_once_per_tenant"),
        ]

    def __str__(self) -> str:
        first_line = self.prompt.strip().partition("\n")[0]
        return first_line[:80] or f"{self.checkpoint_type} {self.pk}"

    @property
    def is_pending(self) -> bool:
        return self.status == Status.PENDING

    @property
    def is_unrouted(self) -> bool:
        return self.assignee_type == AssigneeType.UNROUTED

    @property
    def priority_word(self) -> str:
        return Priority(self.priority).word

    @property
    def unrouted_reason(self) -> str:
        return str(self.assignee_resolved.get("reason") or "")

    def is_overdue(self, *, at: datetime) -> bool:
        return self.is_pending and self.expires_at is not None and self.expires_at <= at

    def claim_ends_at(self) -> datetime | None:
        if not self.claimed_by or self.claimed_at is None:
            return None
        return self.claimed_at + timedelta(minutes=self.tenant.claim_minutes)

    def claimant(self, *, at: datetime) -> str:
        """Who has it now; a claim that lapsed is nobody's."""
        ends = self.claim_ends_at()
        return self.claimed_by if ends is not None and at < ends else ""


class Event(TenantOwned):
    """What happened: audit record, live feed and outbox in one. Chained per subject, never changed, never deleted."""

    # A number, not a UUID: readers of the feed resume after the last one they saw.
    id = models.BigAutoField(primary_key=True)
    subject_type = ExactCharField(max_length=16, default="checkpoint")
    subject_id = models.UUIDField()
    sequence = models.PositiveIntegerField()
    type = ExactCharField(max_length=64)
    at = models.DateTimeField()
    actor = ExactCharField(max_length=300)
    via = ExactCharField(max_length=16)
    address = ExactCharField(max_length=64, blank=True, default="")
    data = models.JSONField(default=dict)
    previous_digest = ExactCharField(max_length=64, blank=True, default="")
    digest = ExactCharField(max_length=64)
    # These two move, all else is fixed. Set once everybody who registered has been handed the event.
    distributed_at = models.DateTimeField(null=True, blank=True)
    # Somebody who registered failed on it: until then the others pass it by.
    distribution_retry_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        db_table = "mod_scaicore_events"
        constraints = [
            models.UniqueConstraint(fields=["subject_id", "sequence"], name="event_once_per_sequence"),
        ]
        indexes = [
            models.Index(fields=["tenant", "id"], name="event_newest"),
            models.Index(fields=["distributed_at", "id"], name="event_outbox"),
        ]

    def __str__(self) -> str:
        return f"{self.type} #{self.sequence}"

    @property
    def name(self) -> str:
        """The type without its subject: ``checkpoint.resolved`` reads ``resolved``."""
        return self.type.partition(".")[2]


class Vote(TenantOwned):
    """One member's word under a quorum; once per assignment."""

    checkpoint = models.ForeignKey(Checkpoint, on_delete=models.CASCADE, related_name="votes", db_index=False)
    assignment_version = models.PositiveIntegerField()
    voter = ExactCharField(max_length=254)
    decision = ExactCharField(max_length=100)
    comment = models.TextField(blank=True, default="")
    response = models.JSONField(null=True, blank=True)
    approves = models.BooleanField()
    at = models.DateTimeField()

    class Meta:
        ordering = ["id"]
        constraints = [
            models.UniqueConstraint(
                fields=["checkpoint", "assignment_version", "voter"], name="vote_once_per_assignment"
            ),
        ]
        indexes = [models.Index(fields=["tenant", "id"], name="vote_newest")]

    def __str__(self) -> str:
        return f"{self.voter}: {self.decision}"


class StoredAnswer(TenantOwned):
    """What a request with an ``Idempotency-Key`` was answered, for whoever sends it again."""

    # Hashes, so that no collation decides which two keys are the same.
    key_hash = ExactCharField(max_length=64, unique=True)
    request_hash = ExactCharField(max_length=64)
    status = models.PositiveSmallIntegerField()
    headers = models.JSONField(default=dict)
    body = models.TextField()
    created_at = models.DateTimeField(default=timezone.now)

    class Meta:
        indexes = [models.Index(fields=["tenant", "created_at"], name="answer_oldest")]

    def __str__(self) -> str:
        return self.key_hash


class JobBeat(models.Model):
    """When a job ran last, and how: what ``/readyz`` and the supervisor go by. Jobs belong to no tenant."""

    name = ExactCharField(max_length=64, primary_key=True)
    started_at = models.DateTimeField(null=True, blank=True)
    finished_at = models.DateTimeField(null=True, blank=True)
    took_ms = models.PositiveIntegerField(default=0)
    done = models.PositiveIntegerField(default=0)
    failed = models.PositiveIntegerField(default=0)
    error = models.TextField(blank=True, default="")
    # The interval that was written into its schedule: another one there is an operator's, and is left alone.
    scheduled_minutes = models.PositiveIntegerField(null=True, blank=True)

    def __str__(self) -> str:
        return self.name
