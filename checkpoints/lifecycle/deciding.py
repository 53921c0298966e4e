"""Resolve, cancel, comment: what people and programs say about a checkpoint."""

from datetime import datetime
from typing import Any

from django.utils import timezone

from checkpoints import answers, errors, events, machine, policy
from checkpoints.lifecycle.change import Change, Lost, change, swap
from checkpoints.models import Checkpoint, Status
from tenants.actors import Actor

COMMENT_LENGTH = answers.TEXT_LENGTH


def resolve(
    checkpoint: Checkpoint, *, actor: Actor, answer: answers.Answer, if_version: int | None = None
) -> Checkpoint:
    """Decide. While it is pending a decision counts, also after the deadline: the sweep, not the clock, ends it."""
    now = timezone.now()

    def plan(row: Checkpoint, verdict: policy.Verdict) -> Change:
        resolution = answers.check(row, answer) | {"via": actor.via}
        if verdict.override:
            resolution["override"] = True
        return Change(
            "resolved",
            {
                "status": Status.RESOLVED,
                "resolution": resolution,
                "resolved_by": actor.label,
                "resolved_at": now,
                "next_reminder_at": None,
            },
            {"decision": resolution["decision"], "comment": resolution["comment"], "override": verdict.override},
        )

    def replay(row: Checkpoint) -> bool:
        return row.status == Status.RESOLVED and row.resolved_by == actor.label and _says(row, answer)

    return change(checkpoint, command="resolve", actor=actor, at=now, plan=plan, replay=replay, if_version=if_version)


def _says(row: Checkpoint, answer: answers.Answer) -> bool:
    """Is the stored resolution what this answer would have made? Then it is the same decision, delivered twice."""
    try:
        again = answers.check(row, answer)
    except errors.InvalidDecision:
        return False
    stored = row.resolution or {}
    return events.canonical({name: stored.get(name) for name in again}) == events.canonical(again)


def cancel(checkpoint: Checkpoint, *, actor: Actor, reason: str = "", if_version: int | None = None) -> Checkpoint:
    now = timezone.now()
    reason = reason.strip() or "cancelled"
    return change(
        checkpoint,
        command="cancel",
        actor=actor,
        at=now,
        plan=lambda row, verdict: Change(
            "cancelled", closing(Status.CANCELLED, reason, actor, now), {"reason": reason}
        ),
        if_version=if_version,
    )


def supersede(older: Checkpoint, *, by: Checkpoint, actor: Actor, at: datetime) -> None:
    """Inside the transaction that creates the newer one: either both happen or neither."""
    for _ in range(3):
        machine.check(older, "supersede")
        policy.verdict(actor, "cancel", older, at=at).enforce(older)
        planned = Change(
            "cancelled",
            closing(Status.CANCELLED, "superseded", actor, at),
            {"reason": "superseded", "superseded_by": by.pk},
        )
        try:
            swap(older, planned, command="supersede", actor=actor, at=at)
        except Lost:
            older = Checkpoint.objects.select_related("core", "tenant").get(pk=older.pk)
        else:
            return
    raise errors.Busy(older)


def comment(checkpoint: Checkpoint, *, actor: Actor, text: str, if_version: int | None = None) -> Checkpoint:
    if not text.strip():
        raise errors.InvalidInput({"text": ["Write something."]})
    return change(
        checkpoint,
        command="comment",
        actor=actor,
        at=timezone.now(),
        plan=lambda row, verdict: Change("commented", {}, {"text": text}),
        if_version=if_version,
    )


def closing(status: Status, reason: str, actor: Actor, at: datetime) -> dict[str, Any]:
    return {
        "status": status,
        "close_reason": reason,
        "closed_by": actor.label,
        "closed_at": at,
        "claimed_by": "",
        "claimed_at": None,
        "next_reminder_at": None,
    }
