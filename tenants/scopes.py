"""What a key may be allowed to do. Names of the contract; two older names stand for several."""

from collections.abc import Iterable
from functools import cache

ALL = (
    "checkpoints:create",
    "checkpoints:read",
    "checkpoints:resolve",
    "checkpoints:manage",
    "checkpoints:resume",
    "runs:write",
    "runs:read",
    "flows:manage",
    "queues:work",
    "skills:manage",
    "webhooks:manage",
    "audit:read",
)
STANDS_FOR = {
    "scaicore:checkpoint_resolve": ("checkpoints:read", "checkpoints:resolve"),
    "scaicore:manage": tuple(scope for scope in ALL if scope.startswith("checkpoints:")),
}


def expand(names: Iterable[str]) -> frozenset[str]:
    return _expand(tuple(names))


@cache
def _expand(names: tuple[str, ...]) -> frozenset[str]:
    return frozenset(scope for name in names for scope in STANDS_FOR.get(name, (name,)))


def unknown(names: Iterable[str]) -> list[str]:
    return [name for name in names if name not in ALL and name not in STANDS_FOR]
