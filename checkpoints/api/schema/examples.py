"""Examples: rows as ``represent`` shows them, and bodies that the server accepts."""

import uuid
from datetime import UTC, datetime, timedelta
from typing import Any

from checkpoints.api import represent
from checkpoints.models import AssigneeType, Checkpoint, Priority, Status
from tenants.models import Core, Tenant

ID = uuid.UUID("01a1ee58-a5bb-75cf-8a85-8c8c5b24af97")
CREATED = datetime(2030, 1, 31, 11, 9, 9, 432641, tzinfo=UTC)
LATER = CREATED + timedelta(minutes=51)
OPTIONS = [{"id": "approve", "label": "Approve", "variant": "primary"}, {"id": "reject", "requires_comment": True}]

CREATE: dict[str, Any] = {
    "question": {
        "core_id": "refund-agent",
        "execution_id": "exec-81f2",
        "flow_name": "refund",
        "block_index": 4,
        "prompt": "Refund **EUR 1,240** to Acme?",
        "options": OPTIONS,
        "assignee": "group:finance",
        "priority": "high",
        "context": {"order": {"id": 991, "total": 1240}},
        "timeout": "24h",
        "expiry_action": "escalate",
        "escalation_target": "role:tenant_admin",
    },
    "short": {"core_id": "refund-agent", "prompt": "Refund?"},
    "breakpoint": {"core_id": "refund-agent", "checkpoint_type": "debug_breakpoint", "routing": "external"},
}
RESOLVE = {
    "decision": {"decision": "approve", "comment": "Fine by me"},
    "other_name": {"resolution": "approve"},
}
CANCEL = {"reason": {"reason": "The customer withdrew"}, "empty": {}}
REASSIGN = {
    "to_a_role": {"assignee": "role:tenant_admin", "comment": "Above our limit"},
    "to_the_queue": {"assignee": None},
}
ON_BEHALF = {"with_a_key": {"for": "ann@acme.example"}}
EXTEND = {"span": {"timeout": "48h"}, "moment": {"expires_at": "2030-01-31T12:00:00Z"}}
COMMENT = {"remark": {"text": "Is the invoice paid?"}}


def new_row(**columns: Any) -> dict[str, Any]:
    given = CREATE["question"]
    tenant = Tenant(slug="acme")
    # Never saved: what the API would show of it is all that is wanted.
    made = Checkpoint(
        **{
            "id": ID,
            "tenant": tenant,
            "core": Core(tenant=tenant, slug=given["core_id"]),
            "execution_id": given["execution_id"],
            "flow_name": given["flow_name"],
            "block_index": given["block_index"],
            "prompt": given["prompt"],
            "options": given["options"],
            "context": given["context"],
            "priority": Priority.HIGH,
            "assignee_raw": "group:finance",
            "assignee_type": AssigneeType.GROUP,
            "assignee_value": "finance",
            "assignee_resolved": {"type": "group", "value": "finance", "reason": None},
            "window_s": 86400,
            "timeout_raw": "24h",
            "expires_at": CREATED + timedelta(days=1),
            "expiry_action": "escalate",
            "escalation_target": "role:tenant_admin",
            "event_count": 1,
            "event_head": "e77a56be2c6d2abdd618265e2678d9f89e16cb2a879e7488a3fc03f2b79e6285",
            "created_by": "key:refund-agent",
            "created_at": CREATED,
            "updated_at": CREATED,
        }
        | columns
    )
    return represent.checkpoint(made)


def row(**columns: Any) -> dict[str, Any]:
    moved: dict[str, Any] = {"row_version": 3, "event_count": 3, "updated_at": LATER}
    return new_row(**moved | columns)


def resolved_row() -> dict[str, Any]:
    resolution = {"decision": "approve", "response": None, "comment": "Fine by me", "via": "api"}
    return row(status=Status.RESOLVED, resolution=resolution, resolved_by="key:refund-agent", resolved_at=LATER)


def cancelled_row() -> dict[str, Any]:
    return row(
        status=Status.CANCELLED, close_reason="The customer withdrew", closed_by="key:refund-agent", closed_at=LATER
    )


def page() -> dict[str, Any]:
    return {"next": None, "previous": None, "results": [new_row()]}


def history() -> list[dict[str, Any]]:
    return [
        {
            "event": "created",
            "at": represent.moment(CREATED),
            "actor": "key:refund-agent",
            "detail": {"core_id": "refund-agent", "assignee_raw": "group:finance", "priority": "high"},
        },
        {
            "event": "resolved",
            "at": represent.moment(LATER),
            "actor": "user:ann@acme.example",
            "detail": {"decision": "approve", "comment": "Fine by me", "override": False},
        },
    ]
