"""Expire and escalate: time, without anybody's word."""

import uuid
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from django.db import connection

from checkpoints import assignment, deadlines, errors, policy
from checkpoints.lifecycle.change import Change, change, swap_many
from checkpoints.lifecycle.deciding import closing
from checkpoints.lifecycle.routing import moved_to
from checkpoints.models import Checkpoint, ExpiryAction, Status
from tenants import actors
from tenants.models import Core
from tenants.statements import bare
from tenants.transactions import attempt

RETRY_AFTER = timedelta(hours=1)
# What a plan may look at, and what it writes. The rest stays unread: it would take longer than everything else.
READ = (
    "id", "tenant_id", "core_id", "status", "row_version", "event_count", "event_head",
    "assignee_raw", "assignee_type", "assignee_value", "assignee_resolved", "assignment_version",
    "claimed_by", "claimed_at", "requested_by", "forbid_requester", "required_approvals",
    "default_option", "action", "action_digest", "expires_at", "window_s", "timeout_raw",
    "sweep_error", "sweep_retry_at", "expiry_action", "escalation_target", "escalation_chain", "escalation_step",
    "reminder_interval_m", "next_reminder_at", "resolution", "resolved_by", "resolved_at",
    "close_reason", "closed_by", "closed_at",
)  # fmt: skip


@dataclass(slots=True)
class LookUps:
    """A batch asks the directory once per target, not once per row."""

    at: datetime
    found: dict[tuple[Any, ...], assignment.Assignment] = field(default_factory=dict)

    def resolve(self, row: Checkpoint, raw: str) -> assignment.Assignment:
        without = assignment.excluded(row)
        key = (row.tenant_id, row.core_id, raw, without)
        if key not in self.found:
            found = assignment.resolve(raw, tenant=row.tenant, core=row.core, at=self.at)
            self.found[key] = assignment.four_eyes(found, tenant=row.tenant, without=without)
        return self.found[key]


def expire_batch(*, at: datetime, size: int) -> list[Checkpoint]:
    """Ends (or escalates) up to ``size`` due rows in one transaction; what another sweeper holds is skipped."""

    def work() -> list[Checkpoint]:
        rows = _lock_due(at=at, size=size)
        look_ups = LookUps(at)
        planned = [(row, plan_expiry(row, look_ups), actors.clock(row.tenant)) for row in rows]
        for command in ("expire", "escalate"):
            chosen = [entry for entry in planned if _command(entry[1]) == command]
            if chosen:
                swap_many(chosen, command=command, at=at)
        return rows

    return attempt(work)


def _lock_due(*, at: datetime, size: int) -> list[Checkpoint]:
    due = bare(Checkpoint.objects.due(at).order_by("expires_at"), READ)
    if connection.features.has_select_for_update_skip_locked:
        due = due.select_for_update(skip_locked=True)
    rows = list(due[:size])
    # Not joined: MariaDB would lock the tenants' rows too, and a second sweeper would find nothing.
    cores = Core.objects.select_related("tenant").in_bulk({row.core_id for row in rows})
    for row in rows:
        row.core = cores[row.core_id]
        row.tenant = row.core.tenant
    return rows


def expire_one(checkpoint: Checkpoint, *, at: datetime) -> Checkpoint:
    """The same for one row, when its batch failed."""
    look_ups = LookUps(at)
    command = _command(plan_expiry(checkpoint, look_ups))

    def plan(row: Checkpoint, verdict: policy.Verdict) -> Change | None:
        planned = plan_expiry(row, look_ups) if row.is_overdue(at=at) else None
        # Changed in the meantime so that another command is due: left for the next look.
        return planned if planned is not None and _command(planned) == command else None

    return change(checkpoint, command=command, actor=actors.clock(checkpoint.tenant), at=at, plan=plan)


def set_aside(key: uuid.UUID, *, error: str, at: datetime) -> None:
    """One bad row must not stop the others: its error is shown, and it is tried again later."""
    # Whatever a bad row put into its error, the database must be able to hold it.
    text = error[:2000].encode("utf-8", "backslashreplace").decode().replace("\x00", "")
    Checkpoint.objects.filter(pk=key, status=Status.PENDING).update(sweep_error=text, sweep_retry_at=at + RETRY_AFTER)


def _command(planned: Change) -> str:
    return "escalate" if planned.event == "escalated" else "expire"


def plan_expiry(row: Checkpoint, look_ups: LookUps) -> Change:
    planned = PLANS[ExpiryAction(row.expiry_action)](row, look_ups)
    if row.sweep_retry_at is not None:
        # This time it went through: what was wrong before is wrong no more.
        return replace(planned, sets=planned.sets | {"sweep_error": "", "sweep_retry_at": None})
    return planned


def _cancel(row: Checkpoint, look_ups: LookUps) -> Change:
    sets = closing(Status.CANCELLED, "expired", actors.clock(row.tenant), look_ups.at)
    return Change("cancelled", sets, {"reason": "expired"})


def _expire(row: Checkpoint, look_ups: LookUps) -> Change:
    sets = closing(Status.EXPIRED, "expired", actors.clock(row.tenant), look_ups.at)
    return Change("expired", sets, {"reason": "expired"})


def _default_option(row: Checkpoint, look_ups: LookUps) -> Change:
    resolution = {"decision": "default", "auto_expired": True, "option": row.default_option}
    return _resolved(resolution, look_ups.at)


def _approve(row: Checkpoint, look_ups: LookUps) -> Change:
    resolution: dict[str, Any] = {"decision": "approve", "response": None, "comment": None}
    resolution |= {"auto_expired": True, "via": "timeout"}
    if row.action:
        resolution["action_digest"] = row.action_digest
    return _resolved(resolution, look_ups.at)


def _resolved(resolution: dict[str, Any], at: datetime) -> Change:
    sets = {
        "status": Status.RESOLVED,
        "resolution": resolution,
        "resolved_by": "timeout",
        "resolved_at": at,
        "claimed_by": "",
        "claimed_at": None,
        "next_reminder_at": None,
    }
    return Change("resolved", sets, {"decision": resolution["decision"], "auto_expired": True})


def _escalate(row: Checkpoint, look_ups: LookUps) -> Change:
    target = row.escalation_target
    if not target:
        return _expire(row, look_ups)
    if not isinstance(row.escalation_chain, list):
        raise errors.InvalidInput({"escalation_chain": ["Not a list."]}, row)
    found = look_ups.resolve(row, target)
    remaining = row.escalation_chain[row.escalation_step : row.escalation_step + 1]
    sets = moved_to(row, found) | {
        "escalation_target": remaining[0] if remaining else None,
        "escalation_step": row.escalation_step + 1,
        "expires_at": deadlines.next_deadline(timeout_raw=row.timeout_raw, window_s=row.window_s, at=look_ups.at),
    }
    if row.reminder_interval_m:
        sets["next_reminder_at"] = look_ups.at + timedelta(minutes=row.reminder_interval_m)
    story = {
        "from": row.assignee_raw,
        "to": target,
        "assignee_resolved": found.resolved,
        "step": row.escalation_step + 1,
    }
    return Change("escalated", sets, story)


PLANS: dict[ExpiryAction, Callable[[Checkpoint, LookUps], Change]] = {
    ExpiryAction.NONE: _expire,
    ExpiryAction.REJECT: _expire,
    ExpiryAction.CANCEL: _cancel,
    ExpiryAction.DEFAULT_OPTION: _default_option,
    ExpiryAction.APPROVE: _approve,
    ExpiryAction.ESCALATE: _escalate,
}
