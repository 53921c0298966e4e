"""The same request sent twice has one effect and one answer.

The answer is stored in the transaction of the effect, under a unique key: two copies that arrive together meet there,
the second one's work is rolled back, and it gets the first one's answer. What was refused stores nothing.
"""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db import IntegrityError
from django.utils import timezone

from checkpoints import errors, events
from checkpoints.models import StoredAnswer
from tenants.actors import Actor
from tenants.models import Tenant
from tenants.statements import ANY_TEXT, Prepared

KEPT = timedelta(hours=24)
KEY_LENGTH = 255


@dataclass(frozen=True, slots=True)
class Answered:
    status: int
    headers: dict[str, str]
    body: bytes


@dataclass(frozen=True, slots=True)
class Claim:
    """One request under its key: who sent what, where."""

    tenant: Tenant
    key_hash: str
    request_hash: str


def claim_for(actor: Actor, *, route: str, key: str, body: Any) -> Claim:
    if not key or len(key) > KEY_LENGTH or not key.isascii() or not key.isprintable():
        message = f"Give 1 to {KEY_LENGTH} printable ASCII characters."
        raise errors.InvalidInput({"Idempotency-Key": [message]})
    # A rotated key is the same credential: its owner may repeat what the old one began.
    credential = str(actor.key.family) if actor.key else f"user:{actor.name}"
    return Claim(
        tenant=actor.tenant,
        key_hash=_hash([str(actor.tenant.pk), credential, route, key]),
        request_hash=_hash(body),
    )


def _hash(value: Any) -> str:
    return hashlib.sha256(events.canonical(value)).hexdigest()


def once(claim: Claim, work: Callable[[], Answered]) -> Answered:
    """The work, which stores its answer with its effect; or what a twin stored in the meantime."""
    try:
        return work()
    except (IntegrityError, errors.Refusal):
        # The twin took the key, or moved the row so that this copy was refused.
        if answered := stored(claim):
            return answered
        raise


def to_store(claim: Claim, answered: Answered) -> StoredAnswer:
    """Written by the command, in its own transaction."""
    return StoredAnswer(
        tenant=claim.tenant,
        key_hash=claim.key_hash,
        request_hash=claim.request_hash,
        status=answered.status,
        headers=answered.headers,
        body=answered.body.decode(),
    )


# The hash covers the tenant, and every POST with a key asks.
by_key: Prepared[StoredAnswer] = Prepared(lambda: StoredAnswer.objects.filter(key_hash=ANY_TEXT))


def stored(claim: Claim) -> Answered | None:
    kept = by_key.one(claim.key_hash)
    if kept is None:
        return None
    if kept.created_at <= timezone.now() - KEPT:
        # Its day is over: the key is free again, whether or not the sweep has been here.
        kept.delete()
        return None
    if kept.request_hash != claim.request_hash:
        raise errors.IdempotencyMismatch
    return Answered(kept.status, kept.headers, kept.body.encode())


def forget(*, now: datetime | None = None, batch: int = 1000) -> int:
    """Removes answers whose day is over, some at a time, so that no lock is held for long."""
    before = (now or timezone.now()) - KEPT
    removed = 0
    for tenant in Tenant.objects.all():
        old = StoredAnswer.objects.for_tenant(tenant).filter(created_at__lte=before).order_by("created_at")
        while keys := list(old.values_list("pk", flat=True)[:batch]):
            removed += StoredAnswer.objects.filter(pk__in=keys).delete()[0]
    return removed
