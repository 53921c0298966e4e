"""Questions about a tenant's people. Every answer is of this moment: nothing here is remembered."""

import uuid
from dataclasses import dataclass
from datetime import datetime

from tenants.models import TENANT_ADMIN, Core, Delegation, Group, Membership, MembershipSet, Tenant, User, normal_email
from tenants.statements import ANY_ID, ANY_TEXT, Prepared


def looks_like_email(value: str) -> bool:
    local, at, domain = value.partition("@")
    return bool(at and local and domain) and "@" not in domain and not any(character.isspace() for character in value)


def membership_of(tenant: Tenant, value: str) -> Membership | None:
    """By email or user id; also a switched-off one, so that callers can say why somebody is refused."""
    rows = Membership.objects.for_tenant(tenant).select_related("user")
    if looks_like_email(value):
        return rows.filter(user__email=normal_email(value)).first()
    try:
        return rows.filter(user_id=uuid.UUID(value)).first()
    except ValueError:
        return None


def group_named(tenant: Tenant, slug: str) -> Group | None:
    return Group.objects.for_tenant(tenant).filter(slug=slug.lower()).first()


def members_of_group(tenant: Tenant, slug: str) -> list[User]:
    return [row.user for row in _in_group(tenant, slug).select_related("user").order_by("user__email")]


def holders_of_role(tenant: Tenant, name: str) -> list[User]:
    return [row.user for row in _with_role(tenant, name).select_related("user").order_by("user__email")]


def has_members(tenant: Tenant, slug: str) -> bool:
    return _somebody_in_group.one(tenant.pk, slug.lower(), tenant.pk) is not None


def is_held(tenant: Tenant, name: str) -> bool:
    return _somebody_with_role.one(tenant.pk, name.lower(), tenant.pk) is not None


def _in_group(tenant: Tenant | uuid.UUID, slug: str) -> MembershipSet:
    members = Membership.objects.filter(tenant=tenant).active()
    return members.filter(groups__slug=slug.lower(), groups__tenant=tenant)


def _with_role(tenant: Tenant | uuid.UUID, name: str) -> MembershipSet:
    members = Membership.objects.filter(tenant=tenant).active()
    return members.filter(roles__name=name.lower(), roles__tenant=tenant)


_somebody_in_group: Prepared[Membership] = Prepared(lambda: _in_group(ANY_ID, ANY_TEXT))
_somebody_with_role: Prepared[Membership] = Prepared(lambda: _with_role(ANY_ID, ANY_TEXT))


def admins_of(tenant: Tenant) -> list[User]:
    return holders_of_role(tenant, TENANT_ADMIN)


def latest_delegation(core: Core, *, at: datetime) -> Delegation | None:
    return (
        Delegation.objects.for_tenant(core.tenant)
        .current(at)
        .filter(core=core)
        .select_related("delegate__user")
        .order_by("-starts_at", "-id")
        .first()
    )


def delegate_of(core: Core, *, at: datetime) -> User | None:
    delegation = latest_delegation(core, at=at)
    if delegation is None or not delegation.delegate.is_active or not delegation.delegate.user.is_active:
        return None
    return delegation.delegate.user


@dataclass(frozen=True)
class Standing:
    """What one person is in one tenant right now: the facts that policy decides on."""

    user: User
    is_member: bool
    roles: frozenset[str]
    groups: frozenset[str]

    @property
    def is_admin(self) -> bool:
        return (self.user.is_superuser and self.user.is_active) or TENANT_ADMIN in self.roles


def standing(tenant: Tenant, user: User) -> Standing:
    membership = (
        Membership.objects.for_tenant(tenant).active().filter(user=user).prefetch_related("roles", "groups").first()
    )
    if membership is None or not user.is_active:
        return Standing(user=user, is_member=False, roles=frozenset(), groups=frozenset())
    return Standing(
        user=user,
        is_member=True,
        roles=frozenset(role.name for role in membership.roles.all()),
        groups=frozenset(group.slug for group in membership.groups.all()),
    )
