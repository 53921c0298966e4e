"""Making tenants and people; shared by the operators' commands and the demo."""

from collections.abc import Iterable

from django.db import transaction

from tenants.models import STANDARD_ROLES, Group, Membership, Role, Tenant, User, normal_email


@transaction.atomic
def create_tenant(slug: str, *, name: str | None = None, time_zone: str = "UTC") -> Tenant:
    tenant = Tenant(slug=slug, name=name or slug, time_zone=time_zone)
    tenant.full_clean()
    tenant.save()
    add_standard_roles(tenant)
    return tenant


def add_standard_roles(tenant: Tenant) -> None:
    for role in STANDARD_ROLES:
        Role.objects.get_or_create(tenant=tenant, name=role)


@transaction.atomic
def add_person(
    tenant: Tenant, email: str, *, name: str = "", roles: Iterable[str] = (), groups: Iterable[str] = ()
) -> User:
    """An existing person keeps their account and gets the roles and groups on top of what they have."""
    user = User.objects.filter(email=normal_email(email)).first()
    if user is None:
        user = User.objects.create_user(email, name=name)
    membership, _ = Membership.objects.get_or_create(tenant=tenant, user=user)
    membership.is_active = True
    membership.name = name or membership.name
    membership.save(update_fields=["is_active", "name"])
    membership.roles.add(*(_role(tenant, role) for role in roles))
    membership.groups.add(*(_group(tenant, group) for group in groups))
    return user


def _role(tenant: Tenant, name: str) -> Role:
    role = Role.objects.for_tenant(tenant).filter(name=name.strip().lower()).first()
    if role is None:
        role = Role(tenant=tenant, name=name.strip().lower())
        role.full_clean()
        role.save()
    return role


def _group(tenant: Tenant, slug: str) -> Group:
    group = Group.objects.for_tenant(tenant).filter(slug=slug.strip().lower()).first()
    if group is None:
        group = Group(tenant=tenant, slug=slug.strip().lower())
        group.full_clean()
        group.save()
    return group
