"""WHO: tenants, people, roles, groups, cores and their delegation, API keys."""

import re
import zoneinfo
from datetime import datetime
from typing import Any, ClassVar, Self

from django.contrib.auth.base_user import AbstractBaseUser, BaseUserManager
from django.contrib.auth.models import PermissionsMixin
from django.core.exceptions import ValidationError
from django.core.validators import MaxValueValidator, MinValueValidator, RegexValidator
from django.db import models
from django.db.models import Q
from django.utils import timezone

from tenants import scopes
from tenants.fields import ExactCharField, new_id
from tenants.scoping import TenantModel, TenantOwned, TenantQuerySet

TENANT_ADMIN = "tenant_admin"
APPROVER = "approver"
AUDITOR = "auditor"
STANDARD_ROLES = (TENANT_ADMIN, APPROVER, AUDITOR)

slug_validator = RegexValidator(
    r"^[a-z0-9][a-z0-9._-]{0,62}\Z",
    "Use lower-case letters, digits, dots, hyphens and underscores; start with a letter or digit; 63 at most.",
)
CORE_SLUG = re.compile(r"^[A-Za-z0-9][A-Za-z0-9._:/-]{0,99}\Z")
core_slug_validator = RegexValidator(
    CORE_SLUG,
    "Use letters, digits and . _ - : / only; start with a letter or digit; 100 at most.",
)


def normal_email(value: str) -> str:
    """One spelling per address: case and the blanks around it do not make another person."""
    return value.strip().lower()


def validate_time_zone(value: str) -> None:
    if value not in zoneinfo.available_timezones():
        raise ValidationError(f"“{value}” is not a time zone. Use a name such as Europe/Berlin or UTC.")


class TenantSet(models.QuerySet["Tenant"]):
    def on_the_desk_of(self, user: "User") -> Self:
        """The tenants a person administers or audits."""
        if user.is_superuser:
            return self
        return self.filter(
            pk__in=Membership.objects.active()
            .filter(user=user, roles__name__in=[TENANT_ADMIN, AUDITOR])
            .values("tenant")
        )

    def administered_by(self, user: "User") -> Self:
        if user.is_superuser:
            return self
        return self.filter(
            pk__in=Membership.objects.active().filter(user=user, roles__name=TENANT_ADMIN).values("tenant")
        )


class Tenant(models.Model):
    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    slug = ExactCharField(max_length=63, unique=True, validators=[slug_validator])
    name = models.CharField(max_length=200)
    time_zone = models.CharField(max_length=64, default="UTC", validators=[validate_time_zone])
    claim_minutes = models.PositiveIntegerField(
        default=60,
        validators=[MinValueValidator(1), MaxValueValidator(60 * 24 * 30)],
        help_text="A claimed checkpoint is free again after this many minutes.",
    )
    created_at = models.DateTimeField(default=timezone.now, editable=False)

    objects: ClassVar[Any] = TenantSet.as_manager()

    class Meta:
        ordering = ["slug"]

    def __str__(self) -> str:
        return self.name


class UserManager(BaseUserManager["User"]):
    def get_by_natural_key(self, username: str | None) -> "User":
        return self.get(email=normal_email(username or ""))

    def create_user(self, email: str, password: str | None = None, **fields: Any) -> "User":
        user = self.model(email=normal_email(email), **fields)
        user.set_password(password)
        user.full_clean(exclude=["password"])
        user.save(using=self._db)
        return user

    def create_superuser(self, email: str, password: str | None = None, **fields: Any) -> "User":
        return self.create_user(email, password, is_superuser=True, **fields)


class User(AbstractBaseUser, PermissionsMixin):
    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    email = ExactCharField(max_length=254, unique=True)
    name = models.CharField(max_length=200, blank=True)
    is_active = models.BooleanField(default=True, help_text="Off: this person can neither sign in nor decide.")
    created_at = models.DateTimeField(default=timezone.now, editable=False)

    objects: ClassVar[UserManager] = UserManager()

    USERNAME_FIELD = "email"
    EMAIL_FIELD = "email"
    REQUIRED_FIELDS = []

    class Meta:
        ordering = ["email"]

    def __str__(self) -> str:
        return self.email

    def clean(self) -> None:
        from django.core.validators import validate_email

        self.email = normal_email(self.email)
        try:
            validate_email(self.email)
        except ValidationError as error:
            # Directories on a private network use names such as approver@acme.
            local, at, domain = self.email.partition("@")
            plain = at and local and domain and not any(c.isspace() or not c.isprintable() for c in self.email)
            if not plain or "@" in domain:
                raise ValidationError({"email": error.messages}) from error

    @property
    def is_staff(self) -> bool:
        """May open the desk; what they see there is scoped to their tenants."""
        return self.is_active and (self.is_superuser or Tenant.objects.on_the_desk_of(self).exists())

    def get_full_name(self) -> str:
        return self.name or self.email

    def get_short_name(self) -> str:
        return self.name or self.email


class Role(TenantModel):
    name = ExactCharField(max_length=63, validators=[slug_validator])

    class Meta:
        ordering = ["name"]
        constraints = [models.UniqueConstraint(fields=["tenant", "name"], name="role_once_per_tenant")]

    def __str__(self) -> str:
        return self.name


class MembershipSet(TenantQuerySet):
    def active(self) -> Self:
        return self.filter(is_active=True, user__is_active=True)


class Membership(TenantModel):
    """A person in a tenant. Switched off rather than deleted, so that a removed person stays refused."""

    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="memberships")
    # This tenant's word for them: what another tenant calls the same account is not its business.
    name = models.CharField(max_length=200, blank=True, default="")
    roles = models.ManyToManyField(Role, blank=True, related_name="memberships")
    is_active = models.BooleanField(default=True, help_text="Off: removed from this tenant; their links stop working.")
    created_at = models.DateTimeField(default=timezone.now, editable=False)

    objects: ClassVar[Any] = MembershipSet.as_manager()

    class Meta:
        verbose_name = "person"
        verbose_name_plural = "people"
        constraints = [models.UniqueConstraint(fields=["tenant", "user"], name="member_once_per_tenant")]

    def __str__(self) -> str:
        return self.user.email


class Group(TenantModel):
    slug = ExactCharField(max_length=63, validators=[slug_validator])
    name = models.CharField(max_length=200, blank=True)
    members = models.ManyToManyField(Membership, blank=True, related_name="groups")

    class Meta:
        ordering = ["slug"]
        constraints = [models.UniqueConstraint(fields=["tenant", "slug"], name="group_once_per_tenant")]

    def __str__(self) -> str:
        return self.name or self.slug


class Core(TenantModel):
    """A program that belongs to a tenant; created on first use."""

    slug = ExactCharField(max_length=100, validators=[core_slug_validator])
    name = models.CharField(max_length=200, blank=True)
    created_at = models.DateTimeField(default=timezone.now, editable=False)

    class Meta:
        ordering = ["slug"]
        constraints = [models.UniqueConstraint(fields=["tenant", "slug"], name="core_once_per_tenant")]

    def __str__(self) -> str:
        return self.name or self.slug


class DelegationSet(TenantQuerySet):
    def current(self, at: datetime) -> Self:
        return self.filter(Q(ends_at__isnull=True) | Q(ends_at__gt=at), starts_at__lte=at)


class Delegation(TenantModel):
    """From start to end this person decides for the core; the latest start wins where two overlap."""

    core = models.ForeignKey(Core, on_delete=models.CASCADE, related_name="delegations")
    delegate = models.ForeignKey(Membership, on_delete=models.CASCADE, related_name="delegations")
    starts_at = models.DateTimeField(default=timezone.now)
    ends_at = models.DateTimeField(null=True, blank=True)

    objects: ClassVar[Any] = DelegationSet.as_manager()

    class Meta:
        ordering = ["-starts_at"]
        indexes = [models.Index(fields=["tenant", "core", "starts_at"], name="delegation_by_core")]
        constraints = [
            models.CheckConstraint(
                condition=Q(ends_at__isnull=True) | Q(ends_at__gt=models.F("starts_at")),
                name="delegation_ends_after_it_starts",
            )
        ]

    def __str__(self) -> str:
        return f"{self.core} → {self.delegate}"


class Unreachable(TenantModel):
    """Mail to this address came back for good. It stays so until a message arrives again, or an admin says so."""

    email = ExactCharField(max_length=254)
    reason = models.TextField(blank=True, default="")
    since = models.DateTimeField(default=timezone.now)

    class Meta:
        verbose_name = "unreachable address"
        verbose_name_plural = "addresses that cannot be reached"
        ordering = ["email"]
        constraints = [models.UniqueConstraint(fields=["tenant", "email"], name="unreachable_once_per_tenant")]

    def __str__(self) -> str:
        return self.email


class ApiKeySet(TenantQuerySet):
    def live(self, at: datetime) -> Self:
        return self.filter(Q(expires_at__isnull=True) | Q(expires_at__gt=at), revoked_at__isnull=True)


class ApiKey(TenantModel):
    """A credential of a program. The secret is shown once and stored as a hash."""

    name = models.CharField(max_length=100)
    # A rotated key carries its predecessor's family: what the old one created stays the new one's own.
    family = models.UUIDField(default=new_id, editable=False)
    prefix = ExactCharField(max_length=16, editable=False)
    secret_hash = ExactCharField(max_length=64, unique=True, editable=False)
    scopes = models.JSONField(default=list)
    rate_per_minute = models.PositiveIntegerField(
        null=True,
        blank=True,
        validators=[MinValueValidator(1)],
        verbose_name="Requests a minute",
        help_text="Empty: as many as this server allows any key.",
    )
    created_at = models.DateTimeField(default=timezone.now, editable=False)
    expires_at = models.DateTimeField(null=True, blank=True)
    revoked_at = models.DateTimeField(null=True, blank=True)
    last_used_at = models.DateTimeField(null=True, blank=True, editable=False)

    objects: ClassVar[Any] = ApiKeySet.as_manager()

    class Meta:
        ordering = ["name", "-created_at"]
        verbose_name = "API key"
        indexes = [models.Index(fields=["tenant", "name"], name="api_key_by_name")]

    def __str__(self) -> str:
        return self.name

    def is_live(self, *, at: datetime) -> bool:
        return self.revoked_at is None and (self.expires_at is None or self.expires_at > at)

    def has_scope(self, scope: str) -> bool:
        return scope in scopes.expand(self.scopes)


class RequestCount(TenantOwned):
    """What one key family or person has sent in one minute, over all processes; ``tenants/limits.py`` writes it."""

    id = models.BigAutoField(primary_key=True)
    subject = models.UUIDField()
    minute = models.PositiveBigIntegerField()
    count = models.PositiveIntegerField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["tenant", "subject", "minute"], name="requests_once_per_minute")]


class RefusedKeyCount(models.Model):
    """Wrong keys from one address in one minute. They belong to no tenant."""

    id = models.BigAutoField(primary_key=True)
    address = ExactCharField(max_length=45)
    minute = models.PositiveBigIntegerField()
    count = models.PositiveIntegerField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["address", "minute"], name="refused_keys_once_per_minute")]
