"""Tenancy as machinery: a model that belongs to a tenant cannot forget it."""

from collections.abc import Callable

import pytest
from django.apps import apps
from django.db import models
from django.utils import timezone

from checkpoints.models import Checkpoint, Event, StoredAnswer, Vote
from notifications.models import Channel, Delivery, DeliveryTry, Mute, UnroutedNotice, Webhook
from tenants import directory, keys, setup
from tenants.models import ApiKey, Core, Delegation, Group, Membership, RequestCount, Role, Tenant, Unreachable, User
from tenants.scoping import TenantOwned, TenantQuerySet


def models_with_a_tenant() -> list[type[models.Model]]:
    return [model for model in apps.get_models() if any(field.name == "tenant" for field in model._meta.get_fields())]


def test_the_machinery_knows_the_models_there_are() -> None:
    assert {Role, Membership, Group, Core, Delegation, ApiKey, Checkpoint, Event} <= set(models_with_a_tenant())


@pytest.mark.parametrize("model", models_with_a_tenant(), ids=lambda model: model._meta.label)
def test_a_model_with_a_tenant_is_reached_through_the_scoping_bases(model: type[models.Model]) -> None:
    assert issubclass(model, TenantOwned)
    assert isinstance(model._default_manager.all(), TenantQuerySet)
    assert isinstance(model._base_manager.all(), models.QuerySet)
    tenant = model._meta.get_field("tenant")
    assert tenant.related_model is Tenant
    assert not tenant.null
    assert tenant.remote_field.on_delete is models.PROTECT  # type: ignore[union-attr]


def starts_with_tenant(model: type[models.Model]) -> bool:
    options = model._meta
    names = [tuple(index.fields) for index in options.indexes]
    names += [
        tuple(constraint.fields)
        for constraint in options.constraints
        if isinstance(constraint, models.UniqueConstraint) and constraint.condition is None
    ]
    return any(fields and fields[0].removeprefix("-") == "tenant" for fields in names)


@pytest.mark.parametrize("model", models_with_a_tenant(), ids=lambda model: model._meta.label)
def test_the_rows_of_a_tenant_are_found_by_an_index(model: type[models.Model]) -> None:
    assert starts_with_tenant(model)


@pytest.fixture
def both(acme: Tenant, globex: Tenant) -> dict[type[models.Model], dict[str, models.Model]]:
    """One row of each model in each tenant."""
    rows: dict[type[models.Model], dict[str, models.Model]] = {}
    for tenant in (acme, globex):
        user = setup.add_person(tenant, f"member@{tenant.slug}.example", roles=["helper"], groups=["finance"])
        membership = Membership.objects.get(user=user)
        core = Core.objects.create(tenant=tenant, slug="agent")
        made = [
            membership,
            core,
            Role.objects.get(tenant=tenant, name="helper"),
            Group.objects.get(tenant=tenant),
            Delegation.objects.create(tenant=tenant, core=core, delegate=membership),
            keys.create(tenant, name="ci").row,
            RequestCount.objects.create(tenant=tenant, subject=user.pk, minute=1, count=1),
            checkpoint := Checkpoint.objects.create(tenant=tenant, core=core),
            Vote.objects.create(
                tenant=tenant, checkpoint=checkpoint, assignment_version=1, voter="x", approves=True, at=timezone.now()
            ),
            StoredAnswer.objects.create(tenant=tenant, key_hash=tenant.slug, request_hash="x", status=201, body="x"),
            Event.objects.create(
                tenant=tenant, subject_id=core.pk, sequence=1, type="x", at=timezone.now(), digest="x"
            ),
            Unreachable.objects.create(tenant=tenant, email="gone@example.com"),
            Channel.objects.create(tenant=tenant, kind="chat", name="room"),
            Webhook.objects.create(tenant=tenant, url="https://example.com/", secret="whsec_x"),
            delivery := Delivery.objects.create(tenant=tenant, dedupe_key=tenant.slug, occasion="test", kind="email"),
            DeliveryTry.objects.create(tenant=tenant, delivery=delivery, at=timezone.now(), succeeded=True),
            UnroutedNotice.objects.create(tenant=tenant, checkpoint=checkpoint, assignment_version=1),
            Mute.objects.create(tenant=tenant, checkpoint=checkpoint, email="x@example.com"),
        ]
        for row in made:
            rows.setdefault(type(row), {})[tenant.slug] = row
    return rows


@pytest.mark.django_db
@pytest.mark.parametrize("model", models_with_a_tenant(), ids=lambda model: model._meta.label)
def test_for_tenant_leaves_out_every_other_tenant(
    both: dict[type[models.Model], dict[str, models.Model]], acme: Tenant, globex: Tenant, model: type[models.Model]
) -> None:
    rows = model._default_manager.for_tenant(acme)  # type: ignore[attr-defined]

    assert both[model]["acme"] in rows
    assert {row.tenant_id for row in rows} == {acme.pk}


@pytest.mark.django_db
@pytest.mark.parametrize("model", models_with_a_tenant(), ids=lambda model: model._meta.label)
def test_the_desk_of_somebody_shows_their_tenants_alone(
    both: dict[type[models.Model], dict[str, models.Model]],
    acme: Tenant,
    globex: Tenant,
    tenant_admin: User,
    auditor: User,
    approver: User,
    outsider: User,
    model: type[models.Model],
) -> None:
    def seen(user: User) -> set[str]:
        rows = model._default_manager.on_the_desk_of(user)  # type: ignore[attr-defined]
        return {row.tenant.slug for row in rows}

    assert seen(tenant_admin) == seen(auditor) == {"acme"}
    assert seen(outsider) == {"globex"}
    assert seen(approver) == set()
    assert seen(User.objects.create_superuser("operator@example.com")) == {"acme", "globex"}


@pytest.mark.django_db
def test_an_admin_administers_and_an_auditor_only_looks(acme: Tenant, tenant_admin: User, auditor: User) -> None:
    assert list(Tenant.objects.administered_by(tenant_admin)) == [acme]
    assert list(Tenant.objects.administered_by(auditor)) == []
    assert list(Tenant.objects.on_the_desk_of(auditor)) == [acme]
    assert tenant_admin.is_staff
    assert auditor.is_staff


@pytest.mark.django_db
def test_an_admin_of_one_tenant_who_is_a_plain_member_of_another_sees_the_first_alone(
    tenant_admin: User, globex: Tenant
) -> None:
    setup.add_person(globex, tenant_admin.email, roles=["approver"])

    assert [tenant.slug for tenant in Tenant.objects.on_the_desk_of(tenant_admin)] == ["acme"]


@pytest.mark.django_db
def test_a_role_called_like_an_admins_in_another_tenant_gives_nothing_here(acme: Tenant, outsider: User) -> None:
    setup.add_person(acme, outsider.email, roles=["approver"])

    assert [tenant.slug for tenant in Tenant.objects.administered_by(outsider)] == ["globex"]


@pytest.mark.django_db
@pytest.mark.parametrize("switched_off", ["membership", "account"])
def test_somebody_removed_is_nobody_any_more(
    acme: Tenant, tenant_admin: User, refund: Checkpoint, switched_off: str
) -> None:
    if switched_off == "membership":
        Membership.objects.filter(user=tenant_admin).update(is_active=False)
    else:
        User.objects.filter(pk=tenant_admin.pk).update(is_active=False)
    tenant_admin.refresh_from_db()

    assert not tenant_admin.is_staff
    assert not Checkpoint.objects.on_the_desk_of(tenant_admin).exists()
    assert tenant_admin not in directory.admins_of(acme)
    standing = directory.standing(acme, tenant_admin)
    assert (standing.is_member, standing.is_admin, standing.roles) == (False, False, frozenset())
    # Still known, so that whoever is refused can be told why.
    assert directory.membership_of(acme, tenant_admin.email) is not None


@pytest.mark.django_db
def test_a_tenant_with_rows_cannot_be_deleted_by_accident(acme: Tenant, ask: Callable[..., Checkpoint]) -> None:
    ask()

    with pytest.raises(models.ProtectedError):
        acme.delete()
