"""Extend and remind: time, on a person's word."""

from datetime import datetime, timedelta

from django.utils import timezone

from checkpoints import deadlines, errors, policy
from checkpoints.lifecycle.change import Along, Change, change
from checkpoints.lifecycle.creating import trouble_with_deadline
from checkpoints.models import Checkpoint, Routing
from tenants.actors import Actor


def extend(
    checkpoint: Checkpoint,
    *,
    actor: Actor,
    expires_at: datetime | None = None,
    timeout: str | int | float | None = None,
    if_version: int | None = None,
    along: Along | None = None,
) -> Checkpoint:
    """A later deadline; ``timeout`` counts from now."""
    now = timezone.now()
    if (expires_at is None) == (timeout is None):
        raise errors.InvalidInput({"expires_at": ["Give expires_at or timeout, one of them."]})
    name = "expires_at" if timeout is None else "timeout"
    deadline = expires_at if timeout is None else now + _span(timeout)
    assert deadline is not None  # noqa: S101 (one of the two was given)
    if trouble := trouble_with_deadline(deadline, at=now):
        raise errors.InvalidInput({name: [trouble]})

    def plan(row: Checkpoint, verdict: policy.Verdict) -> Change:
        if row.expires_at is None:
            raise errors.InvalidInput({name: ["This checkpoint has no deadline to extend."]}, row)
        if deadline <= row.expires_at:
            late = f"{row.expires_at:%Y-%m-%dT%H:%M:%SZ}"
            raise errors.InvalidInput({name: [f"The new deadline must be later than the present one, {late}."]}, row)
        sets = {"expires_at": deadline, "sweep_error": "", "sweep_retry_at": None}
        return Change("extended", sets, {"from": row.expires_at, "to": deadline})

    return change(checkpoint, command="extend", actor=actor, at=now, plan=plan, if_version=if_version, along=along)


def _span(timeout: str | int | float) -> timedelta:
    try:
        return deadlines.parse_span(timeout)
    except deadlines.UnreadableSpan as error:
        raise errors.InvalidInput({"timeout": [str(error)]}) from error


def remind(
    checkpoint: Checkpoint, *, actor: Actor, if_version: int | None = None, along: Along | None = None
) -> Checkpoint:
    def plan(row: Checkpoint, verdict: policy.Verdict) -> Change:
        if row.routing == Routing.EXTERNAL or row.is_unrouted:
            raise errors.NobodyToRemind(row)
        return Change("reminded", {"reminder_count": row.reminder_count + 1}, {"count": row.reminder_count + 1})

    return change(
        checkpoint, command="remind", actor=actor, at=timezone.now(), plan=plan, if_version=if_version, along=along
    )
