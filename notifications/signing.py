"""Signatures of Standard Webhooks, which receivers check with a library of their language."""

import base64
import hashlib
import hmac
import secrets as random
from collections.abc import Iterable
from datetime import datetime

PREFIX = "whsec_"
SECRET_BYTES = 32


def new_secret() -> str:
    return PREFIX + base64.b64encode(random.token_bytes(SECRET_BYTES)).decode()


def signed_headers(*, message_id: str, body: bytes, secrets: Iterable[str], at: datetime) -> dict[str, str]:
    """One signature per secret: while a secret is being changed, whoever has the old or the new one can check."""
    timestamp = str(int(at.timestamp()))
    return {
        "webhook-id": message_id,
        "webhook-timestamp": timestamp,
        "webhook-signature": " ".join(signature(message_id, timestamp, body, secret) for secret in secrets),
    }


def signature(message_id: str, timestamp: str, body: bytes, secret: str) -> str:
    content = f"{message_id}.{timestamp}.".encode() + body
    found = hmac.new(_key(secret), content, hashlib.sha256).digest()
    return f"v1,{base64.b64encode(found).decode()}"


def _key(secret: str) -> bytes:
    # The padding may be missing; more of it than needed does no harm.
    found = base64.b64decode(secret.removeprefix(PREFIX) + "==")
    if not found:
        raise ValueError("a secret that anybody could guess")
    return found
