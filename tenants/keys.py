"""Making, rotating and finding API keys."""

import hashlib
import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db import transaction
from django.utils import timezone

from tenants import scopes as known
from tenants.models import ApiKey, Tenant
from tenants.statements import ANY_TEXT, Prepared

PREFIX = "hp"
OVERLAP = timedelta(hours=24)
LAST_USED_STEP = timedelta(minutes=1)


class UnknownScope(ValueError):
    pass


class DeadKey(ValueError):
    pass


@dataclass(frozen=True)
class NewKey:
    row: ApiKey
    secret: str


def create(
    tenant: Tenant,
    *,
    name: str,
    scopes: Iterable[str] = (),
    expires_at: datetime | None = None,
    rate_per_minute: int | None = None,
    secret: str | None = None,
) -> NewKey:
    """All scopes when none is named. ``secret`` is for the demo, whose key must be the same on every start."""
    wanted = list(scopes) or list(known.ALL)
    if wrong := known.unknown(wanted):
        raise UnknownScope(f"Unknown scope: {', '.join(wrong)}. Known: {', '.join([*known.ALL, *known.STANDS_FOR])}.")
    secret = secret or new_secret()
    row = ApiKey(
        tenant=tenant,
        name=name,
        scopes=wanted,
        expires_at=expires_at,
        rate_per_minute=rate_per_minute,
        prefix=secret.rpartition("_")[0],
        secret_hash=hash_of(secret),
    )
    row.save()
    return NewKey(row, secret)


@transaction.atomic
def rotate(key: ApiKey, *, overlap: timedelta = OVERLAP) -> NewKey:
    """A new secret under the same name and family; the old one stays valid for the overlap."""
    now = timezone.now()
    # As it is now, not as a page showed it: somebody may have revoked it since.
    key = ApiKey.objects.select_for_update().get(pk=key.pk)
    if not key.is_live(at=now):
        raise DeadKey("This key has expired or been revoked: make a new one.")
    successor = create(
        key.tenant, name=key.name, scopes=key.scopes, expires_at=key.expires_at, rate_per_minute=key.rate_per_minute
    )
    ApiKey.objects.filter(pk=successor.row.pk).update(family=key.family)
    ends = now + overlap if key.expires_at is None else min(now + overlap, key.expires_at)
    ApiKey.objects.filter(pk=key.pk).update(expires_at=ends)
    # Two are valid during the overlap, not more: what an earlier rotation left ends now.
    others = ApiKey.objects.for_tenant(key.tenant).filter(family=key.family).exclude(pk__in=[key.pk, successor.row.pk])
    others.live(now).update(expires_at=now)
    successor.row.family = key.family
    return successor


def revoke(key: ApiKey) -> None:
    """At once, and for good."""
    ApiKey.objects.filter(pk=key.pk, revoked_at__isnull=True).update(revoked_at=timezone.now())


# Asked by every request of every program.
by_hash: Prepared[ApiKey] = Prepared(lambda: ApiKey.objects.select_related("tenant").filter(secret_hash=ANY_TEXT))


def find(secret: str) -> ApiKey | None:
    return by_hash.one(hash_of(secret))


def note_use(key: ApiKey, *, at: datetime) -> None:
    """At most one write a minute, and no race: the old value guards the update."""
    if key.last_used_at is None or at - key.last_used_at >= LAST_USED_STEP:
        ApiKey.objects.filter(pk=key.pk, last_used_at=key.last_used_at).update(last_used_at=at)


def new_secret() -> str:
    return f"{PREFIX}_{secrets.token_hex(4)}_{secrets.token_hex(32)}"


def hash_of(secret: str) -> str:
    # 256 random bits need no slow hash; a hash of fixed length also takes the collation out of the comparison.
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()
