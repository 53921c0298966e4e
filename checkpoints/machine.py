"""The state machine, on one screen: which command may leave which state, and where it leads."""

from checkpoints.errors import AlreadyCancelled, AlreadyExpired, AlreadyResolved, Refusal
from checkpoints.models import Checkpoint, Status

P, R, E, C = Status.PENDING, Status.RESOLVED, Status.EXPIRED, Status.CANCELLED

#  command        from    to (a vote that does not decide leaves it pending)
TABLE: dict[str, dict[Status, frozenset[Status]]] = {
    "resolve":   {P: frozenset({P, R})},
    "cancel":    {P: frozenset({C})},
    "supersede": {P: frozenset({C})},
    "reassign":  {P: frozenset({P})},
    "claim":     {P: frozenset({P})},
    "release":   {P: frozenset({P})},
    "extend":    {P: frozenset({P})},
    "remind":    {P: frozenset({P})},
    "comment":   {P: frozenset({P})},
    "expire":    {P: frozenset({R, E, C})},
    "escalate":  {P: frozenset({P})},
    "reroute":   {P: frozenset({P})},
}  # fmt: skip

# What messages leave on the row. Nobody's commands: they move no state. A mail may be accepted after the decision.
BOOKKEEPING: dict[str, dict[Status, frozenset[Status]]] = {
    "remind_due": {P: frozenset({P})},
    "notify":     {P: frozenset({P}), R: frozenset({R}), E: frozenset({E}), C: frozenset({C})},
}  # fmt: skip

ENDED: dict[str, type[Refusal]] = {R: AlreadyResolved, E: AlreadyExpired, C: AlreadyCancelled}


def check(checkpoint: Checkpoint, command: str) -> None:
    """Refuses, by the state it is in, a command that cannot leave it."""
    if checkpoint.status not in TABLE[command]:
        raise ENDED[checkpoint.status](checkpoint)


def leads_to(command: str, before: str, after: str) -> bool:
    leaving = TABLE.get(command) or BOOKKEEPING[command]
    return after in leaving.get(Status(before), frozenset())
