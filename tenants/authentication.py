"""How a request says who it is: an API key, or a signed-in browser session."""

from typing import Any

from django.utils import timezone
from rest_framework import exceptions
from rest_framework.authentication import BaseAuthentication, SessionAuthentication
from rest_framework.permissions import BasePermission
from rest_framework.request import Request

from tenants import actors, keys, limits
from tenants.addresses import address_of
from tenants.models import Membership, Tenant, User


class ApiKeyAuthentication(BaseAuthentication):
    def authenticate(self, request: Request) -> tuple[Any, actors.Actor] | None:
        scheme, _, secret = request.headers.get("Authorization", "").partition(" ")
        if not scheme:
            return None
        if scheme.lower() != "bearer" or not secret.strip():
            raise exceptions.AuthenticationFailed("Send the key as “Authorization: Bearer <api key>”.")
        key = keys.find(secret.strip())
        now = timezone.now()
        # One sentence for unknown, expired and revoked: a guesser learns nothing.
        if key is None or not key.is_live(at=now):
            limits.count_wrong_key(address_of(request))
            raise exceptions.AuthenticationFailed("This API key is not valid. It may have expired or been revoked.")
        keys.note_use(key, at=now)
        return key, actors.program(key, address=address_of(request))

    def authenticate_header(self, request: Request) -> str:
        return 'Bearer realm="holdpoint"'


class TenantSessionAuthentication(SessionAuthentication):
    """A signed-in person, in one of their tenants: ``X-Tenant`` names it when there are several."""

    def authenticate(self, request: Request) -> tuple[Any, actors.Actor] | None:
        found = super().authenticate(request)
        if found is None:
            return None
        user = found[0]
        tenant = tenant_for(user, request.headers.get("X-Tenant", "").strip())
        return user, actors.person(user, tenant, via="api", address=address_of(request))


def tenant_for(user: User, slug: str) -> Tenant:
    tenants = Tenant.objects.all()
    if not user.is_superuser:
        tenants = tenants.filter(pk__in=Membership.objects.active().filter(user=user).values("tenant"))
    if slug:
        tenant = tenants.filter(slug=slug).first()
        if tenant is None:
            raise exceptions.NotFound("There is no such tenant, or you are not a member of it.")
        return tenant
    own = list(tenants[:2])
    if len(own) == 1:
        return own[0]
    if not own:
        raise exceptions.PermissionDenied("You are not a member of any tenant.")
    raise exceptions.ValidationError({"X-Tenant": ["You belong to several tenants: name one in the X-Tenant header."]})


class HasTenant(BasePermission):
    message = "Send an API key, or sign in."

    def has_permission(self, request: Request, view: Any) -> bool:
        if isinstance(request.auth, actors.Actor):
            return True
        raise exceptions.NotAuthenticated(self.message)
