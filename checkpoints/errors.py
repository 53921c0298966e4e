"""Errors name the situation, carry a stable code, and are turned into HTTP in one place (``api/problems.py``)."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from checkpoints.models import Checkpoint

FieldErrors = dict[str, list[str]]


class Refusal(Exception):
    """A command was refused and nothing was written."""

    code = "invalid"
    sentence = "The request was refused."

    def __init__(
        self, checkpoint: "Checkpoint | None" = None, detail: str = "", *, errors: FieldErrors | None = None
    ) -> None:
        self.checkpoint = checkpoint
        self.detail = detail or self.describe()
        self.errors = errors or {}
        super().__init__(self.detail)

    def describe(self) -> str:
        return self.sentence


class InvalidInput(Refusal):
    code = "invalid"

    def __init__(self, errors: FieldErrors, checkpoint: "Checkpoint | None" = None) -> None:
        detail = " ".join(f"{field}: {' '.join(messages)}" for field, messages in errors.items())
        super().__init__(checkpoint, detail, errors=errors)


class InvalidDecision(InvalidInput):
    code = "invalid_decision"


class NotFound(Refusal):
    code = "not_found"
    sentence = "There is no such checkpoint."


class NotAllowed(Refusal):
    code = "forbidden"


class AlreadyResolved(Refusal):
    code = "already_resolved"

    def describe(self) -> str:
        row = self.checkpoint
        if row is None or row.resolved_at is None:
            return "This checkpoint has been decided."
        decision = (row.resolution or {}).get("decision")
        return f"Already decided: {row.resolved_by} chose “{decision}” at {row.resolved_at:%Y-%m-%d %H:%M:%S} UTC."


class AlreadyCancelled(Refusal):
    code = "already_cancelled"

    def describe(self) -> str:
        row = self.checkpoint
        if row is None or row.closed_at is None:
            return "This checkpoint has been cancelled."
        return f"Cancelled by {row.closed_by} at {row.closed_at:%Y-%m-%d %H:%M:%S} UTC ({row.close_reason})."


class AlreadyExpired(Refusal):
    code = "already_expired"

    def describe(self) -> str:
        row = self.checkpoint
        if row is None or row.closed_at is None:
            return "This checkpoint has expired."
        return f"Expired at {row.closed_at:%Y-%m-%d %H:%M:%S} UTC."


class AlreadyVoted(Refusal):
    code = "already_voted"
    sentence = "This person has voted, and a vote cannot be changed."


class ClaimedByOther(Refusal):
    code = "claimed_by_other"

    def describe(self) -> str:
        return f"{self.checkpoint.claimed_by} is working on this." if self.checkpoint else "Somebody has claimed this."


class NotClaimable(Refusal):
    code = "not_claimable"


class NobodyToRemind(Refusal):
    code = "nobody_to_remind"
    sentence = "Nobody is asked at the moment, so there is nobody to remind."


class Stale(Refusal):
    code = "stale"

    def describe(self) -> str:
        version = self.checkpoint.row_version if self.checkpoint else "?"
        return f"The checkpoint has changed since you read it: it is at version {version} now. Read it again."


class IdempotencyMismatch(Refusal):
    code = "idempotency_mismatch"
    sentence = "This Idempotency-Key was used with another body. Use a new key for a new request."


class Busy(Refusal):
    code = "unavailable"
    sentence = "Too many changes to this checkpoint at once. Nothing was written; try again."
