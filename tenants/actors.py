"""Who is doing something, through which door, from where."""

from dataclasses import dataclass
from typing import Literal

from tenants.models import ApiKey, Tenant, User

Kind = Literal["user", "link", "key", "queue", "timeout", "sweep"]


@dataclass(frozen=True, slots=True)
class Actor:
    tenant: Tenant
    kind: Kind
    name: str
    via: str
    address: str = ""
    user: User | None = None
    key: ApiKey | None = None

    @property
    def label(self) -> str:
        """A word and a name, as history and ``resolved_by`` show it."""
        return f"{self.kind}:{self.name}" if self.name else self.kind


def person(user: User, tenant: Tenant, *, via: str, address: str = "") -> Actor:
    return Actor(tenant=tenant, kind="user", name=user.email, via=via, address=address, user=user)


def program(key: ApiKey, *, address: str = "") -> Actor:
    return Actor(tenant=key.tenant, kind="key", name=key.name, via="api", address=address, key=key)


def clock(tenant: Tenant) -> Actor:
    """The expiry sweep: what it decides was decided by the timeout."""
    return Actor(tenant=tenant, kind="timeout", name="", via="timeout")


def sweeper(tenant: Tenant) -> Actor:
    return Actor(tenant=tenant, kind="sweep", name="", via="sweep")
