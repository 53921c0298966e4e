"""Resolve, cancel, comment: what people and programs say about a checkpoint."""

from dataclasses import replace
from datetime import datetime
from typing import Any

from django.utils import timezone

from checkpoints import answers, errors, events, machine, policy, quorum
from checkpoints.lifecycle.change import Along, Change, Lost, change, swap
from checkpoints.models import Checkpoint, Status, Vote
from tenants.actors import Actor

COMMENT_LENGTH = answers.TEXT_LENGTH


def resolve(
    checkpoint: Checkpoint,
    *,
    actor: Actor,
    answer: answers.Answer,
    if_version: int | None = None,
    along: Along | None = None,
) -> Checkpoint:
    """Decide. While it is pending a decision counts, also after the deadline: the sweep, not the clock, ends it."""
    now = timezone.now()

    def plan(row: Checkpoint, verdict: policy.Verdict) -> Change:
        resolution = answers.check(row, answer) | {"via": actor.via}
        if not quorum.applies_to(row):
            return _resolved(resolution, actor, now, override=verdict.override)
        # Keys and admins who are not asked never vote: they override.
        if actor.user is None or verdict.override:
            return _resolved(resolution, actor, now, override=True)
        return _voted(row, resolution, actor, now)

    def replay(row: Checkpoint) -> bool:
        if row.status == Status.RESOLVED and row.resolved_by == actor.label and _says(row.resolution, row, answer):
            return True
        vote = quorum.tally(row).vote_of(actor.name) if quorum.applies_to(row) and actor.user else None
        return vote is not None and _says(_as_resolution(vote), row, answer)

    return change(
        checkpoint, command="resolve", actor=actor, at=now, plan=plan, replay=replay, if_version=if_version, along=along
    )


def _resolved(resolution: dict[str, Any], actor: Actor, at: datetime, *, override: bool, **more: Any) -> Change:
    if override:
        resolution = resolution | {"override": True}
    sets: dict[str, Any] = {
        "status": Status.RESOLVED,
        "resolution": resolution,
        "resolved_by": actor.label,
        "resolved_at": at,
        "next_reminder_at": None,
    }
    if "action_digest" in resolution:
        sets["action_digest"] = resolution["action_digest"]
    told = {"decision": resolution["decision"], "comment": resolution["comment"], "override": override}
    return Change("resolved", sets, told | more)


def _voted(row: Checkpoint, resolution: dict[str, Any], actor: Actor, at: datetime) -> Change:
    """One more vote; the one that reaches the number, or goes past the rejections allowed, decides."""
    counted = quorum.tally(row)
    if counted.vote_of(actor.name):
        raise errors.AlreadyVoted(row)
    vote = Vote(
        tenant=row.tenant,
        checkpoint=row,
        assignment_version=row.assignment_version,
        voter=actor.name,
        decision=resolution["decision"],
        comment=resolution["comment"] or "",
        response=resolution["response"],
        approves=resolution["decision"] == quorum.APPROVE,
        at=at,
    )
    counted.votes.append(vote)
    told = {"approvals": counted.approvals, "rejections": counted.rejections}
    if counted.is_reached or counted.is_refused:
        decided = _resolved(resolution | told, actor, at, override=False, **told)
        return replace(decided, along=(vote,), knows={"cast_votes": counted.votes})
    detail = {"decision": vote.decision, "comment": vote.comment or None, "missing": counted.missing}
    return Change("voted", {}, detail | told, along=(vote,), knows={"cast_votes": counted.votes})


def _as_resolution(vote: Vote) -> dict[str, Any]:
    return {"decision": vote.decision, "comment": vote.comment or None, "response": vote.response}


def _says(stored: dict[str, Any] | None, row: Checkpoint, answer: answers.Answer) -> bool:
    """Is this what the answer would have made? Then it is the same decision, delivered twice."""
    try:
        again = answers.check(row, answer)
    except errors.InvalidDecision:
        return False
    names = set(again) & set(stored or {}) | {"decision", "response", "comment"}
    known = {name: (stored or {}).get(name) for name in names}
    return events.canonical(known) == events.canonical({name: again.get(name) for name in names})


def cancel(
    checkpoint: Checkpoint, *, actor: Actor, reason: str = "", if_version: int | None = None, along: Along | None = None
) -> Checkpoint:
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
        along=along,
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


def comment(
    checkpoint: Checkpoint, *, actor: Actor, text: str, if_version: int | None = None, along: Along | None = None
) -> Checkpoint:
    if not text.strip():
        raise errors.InvalidInput({"text": ["Write something."]})
    return change(
        checkpoint,
        command="comment",
        actor=actor,
        at=timezone.now(),
        plan=lambda row, verdict: Change("commented", {}, {"text": text}),
        if_version=if_version,
        along=along,
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
