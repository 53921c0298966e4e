"""Secrets that programs attach without thinking: hidden by the name of their key, wherever people read the JSON."""

import itertools
import re
from typing import Any

MASK = "••••••"

# fmt: off
WORDS = frozenset({
    "authorization", "cookie", "credential", "passcode", "passphrase", "passwd", "password", "pwd", "secret", "token",
    "cvc", "cvv", "jwt", "otp", "pin", "totp",
})
# fmt: on
# Only as a whole name: a boarding_pass and an auth_method are no secrets.
NAMES = frozenset({"auth", "bearer", "pass", "pw", "session_id"})
# A key by itself is a name; one of these is a secret.
KEYS = frozenset({"access", "api", "encryption", "master", "private", "secret", "shared", "signing"})
# Written without a gap: accesstoken, mypassword.
ENDINGS = tuple(sorted(WORDS - {"cvc", "cvv", "jwt", "otp", "pin", "pwd"})) + tuple(
    f"{word}key" for word in sorted(KEYS)
)
LONGEST_NAME = 200

_gaps = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])|[^A-Za-z0-9]+")


def masked(value: Any) -> Any:
    """A copy in which what looks secret is dots. Any depth: it does not call itself."""
    top: list[Any] = [value]
    waiting: list[tuple[Any, Any]] = [(top, 0)]
    while waiting:
        holder, place = waiting.pop()
        inner = holder[place]
        if isinstance(inner, dict):
            copy: Any = {key: MASK if _is_hidden(inner, key) else held for key, held in inner.items()}
            holder[place] = copy
            waiting.extend((copy, key) for key in copy)
        elif isinstance(inner, list | tuple):
            copy = list(inner)
            holder[place] = copy
            waiting.extend((copy, index) for index in range(len(copy)))
    return top[0]


def looks_secret(name: str) -> bool:
    words = [word.lower() for word in _gaps.split(name[:LONGEST_NAME]) if word]
    singular = [one if (one := word.removesuffix("s")) in WORDS | {"key"} else word for word in words]
    if "_".join(words) in NAMES or not WORDS.isdisjoint(singular):
        return True
    if any(one in KEYS and other == "key" for one, other in itertools.pairwise(singular)):
        return True
    return any(word.endswith(ENDINGS) for word in singular)


def _is_hidden(pair: dict[Any, Any], key: Any) -> bool:
    held = pair[key]
    # Yes, no and nothing give no secret away.
    if held is None or isinstance(held, bool) or held in ("", [], {}):
        return False
    name = str(key)
    if name.lower() == "value":
        # Headers often come as {"name": "Authorization", "value": …}.
        called = next((pair[other] for other in ("name", "key", "header") if isinstance(pair.get(other), str)), "")
        return looks_secret(called)
    # How many tokens a model has used is a number; a token is not.
    counted = isinstance(held, int | float) and "token" in name.lower()
    return looks_secret(name) and not counted
