"""The row as the API shows it. Names are the model's; tenant and core are slugs."""

from datetime import datetime
from operator import attrgetter
from typing import Any

from checkpoints import events, links, quorum
from checkpoints.models import Checkpoint, Event

SAME = (
    "execution_id",
    "flow_name",
    "block_index",
    "node_id",
    "instance_key",
    "checkpoint_type",
    "routing",
    "prompt",
    "options",
    "default_option",
    "hitl_spec",
    "action",
    "action_digest",
    "hitl_target",
    "hitl_message_id",
    "assignee_raw",
    "assignee_type",
    "assignee_value",
    "assignee_resolved",
    "assignment_version",
    "row_version",
    "event_count",
    "event_head",
    "claimed_by",
    "requested_by",
    "forbid_requester",
    "required_approvals",
    "rejections_allowed",
    "context",
    "status",
    "window_s",
    "timeout_raw",
    "sweep_error",
    "expiry_action",
    "escalation_target",
    "escalation_chain",
    "escalation_step",
    "notification_sent",
    "reminder_count",
    "reminder_interval_m",
    "resolution",
    "resolved_by",
    "close_reason",
    "closed_by",
    "state_size",
    "state_sha256",
    "state_encoding",
    "picked_up_by",
    "created_by",
)
MOMENTS = (
    "claimed_at",
    "expires_at",
    "sweep_retry_at",
    "next_reminder_at",
    "resolved_at",
    "closed_at",
    "pickup_expires_at",
    "resumed_at",
    "created_at",
    "updated_at",
)
# Columns hold "" for "none was given"; JSON has a word for that.
BLANK_IS_NULL = {
    "execution_id", "flow_name", "node_id", "instance_key", "action_digest", "hitl_message_id", "claimed_by",
    "requested_by", "timeout_raw", "sweep_error", "resolved_by", "close_reason", "closed_by", "state_sha256",
    "state_encoding", "picked_up_by",
}  # fmt: skip
_same, _moments = attrgetter(*SAME), attrgetter(*MOMENTS)
# Every column that is shown.
READ = ("id", "core_id", *SAME, *MOMENTS, "priority", "supersedes_id")


def checkpoint(row: Checkpoint) -> dict[str, Any]:
    answer: dict[str, Any] = {"id": str(row.pk), "tenant_id": row.tenant.slug, "core_id": row.core.slug}
    answer.update(zip(SAME, _same(row), strict=True))
    for name in BLANK_IS_NULL:
        if answer[name] == "":
            answer[name] = None
    answer.update(zip(MOMENTS, map(moment, _moments(row)), strict=True))
    answer["priority"] = row.priority_word
    answer["supersedes"] = str(row.supersedes_id) if row.supersedes_id else None
    answer["quorum"] = votes(row)
    answer["links"] = {"decide": links.decide_url(row)}
    return answer


def votes(row: Checkpoint) -> dict[str, Any] | None:
    """Who voted what, and what is missing; null without a quorum."""
    picture = quorum.picture(row)
    if picture is None:
        return None
    cast = [
        {"voter": vote.voter, "decision": vote.decision, "comment": vote.comment or None, "at": moment(vote.at)}
        for vote in picture["votes"]
    ]
    return picture | {"votes": cast}


def moment(at: datetime | None) -> str | None:
    return events.moment(at) if at else None


def etag(row: Checkpoint) -> str:
    return f'"{row.row_version}"'


def history(event: Event) -> dict[str, Any]:
    return {
        "event": event.name,
        "at": moment(event.at),
        "actor": event.actor,
        "detail": event.data.get("detail", {}) if isinstance(event.data, dict) else {},
    }
