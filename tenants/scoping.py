"""Tenancy as machinery: every row that belongs to a tenant is reached through these two bases.

``tests/tenants/test_scoping.py`` fails when a model with a tenant does not use them.
"""

from typing import TYPE_CHECKING, Any, ClassVar, Self

from django.db import models

from tenants.fields import new_id

if TYPE_CHECKING:
    from tenants.models import Tenant, User


class TenantQuerySet(models.QuerySet[Any]):
    def for_tenant(self, tenant: "Tenant") -> Self:
        return self.filter(tenant=tenant)

    def on_the_desk_of(self, user: "User") -> Self:
        """The rows of the tenants this person administers (or audits); an operator sees all of them."""
        from tenants.models import Tenant

        # Ids, not a subquery: with one tenant it becomes an equality, and the rows come sorted off the index.
        return self.filter(tenant__in=list(Tenant.objects.on_the_desk_of(user).values_list("pk", flat=True)))


class TenantOwned(models.Model):
    # No index of its own: each of these tables has one that starts with the tenant.
    tenant = models.ForeignKey("tenants.Tenant", on_delete=models.PROTECT, related_name="+", db_index=False)

    objects: ClassVar[Any] = TenantQuerySet.as_manager()

    class Meta:
        abstract = True


class TenantModel(TenantOwned):
    id = models.UUIDField(primary_key=True, default=new_id, editable=False)

    class Meta:
        abstract = True
