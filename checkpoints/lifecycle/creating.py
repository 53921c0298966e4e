"""Create: a program suspends and asks."""

import uuid
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from django.db import models
from django.utils import timezone

from checkpoints import actions, answers, assignment, deadlines, errors, events, nudges, policy, quorum
from checkpoints.lifecycle.change import Along, plain
from checkpoints.lifecycle.deciding import supersede
from checkpoints.models import AssigneeType, Checkpoint, ExpiryAction, Priority, Routing
from tenants.actors import Actor
from tenants.fields import new_id
from tenants.models import CORE_SLUG, Core, core_slug_validator
from tenants.statements import ANY_ID, ANY_TEXT, Prepared, insert
from tenants.transactions import attempt

PROMPT_LENGTH = 100_000
CHAIN_LENGTH = 20
REQUESTER_LENGTH = 254


@dataclass(slots=True)
class Draft:
    """A checkpoint as its program describes it, before anything is known to be right."""

    core_id: str
    prompt: str = ""
    checkpoint_type: str = "approval"
    routing: str = Routing.PEOPLE
    execution_id: str = ""
    flow_name: str = ""
    block_index: int | None = None
    node_id: str = ""
    instance_key: str = ""
    options: list[Any] | None = None
    default_option: str | None = None
    action: dict[str, Any] | None = None
    hitl_message_id: str = ""
    assignee: str | None = None
    requested_by: str = ""
    forbid_requester: bool = False
    required_approvals: int = 1
    rejections_allowed: int = 0
    context: Any = None
    priority: str = "normal"
    expires_at: datetime | None = None
    timeout: str | int | float | None = None
    expiry_action: str = ExpiryAction.NONE
    escalation_target: str | None = None
    escalation_chain: list[str] = field(default_factory=list)
    reminder_interval_m: int | None = None
    supersedes: uuid.UUID | None = None


def create(draft: Draft, *, actor: Actor, along: Along | None = None) -> Checkpoint:
    policy.admit(actor, "create")
    now = timezone.now()
    wrong = _problems(draft, at=now)
    expires_at = _deadline(draft, wrong, at=now)
    requested_by = _requester(draft, wrong)
    older = _superseded(draft, wrong, actor=actor)
    if wrong:
        raise errors.InvalidInput(wrong)

    core = _core(actor, draft.core_id)
    assigned = assignment.resolve(draft.assignee, tenant=actor.tenant, core=core, at=now)
    _check_reach(draft, assigned, requested_by, actor)
    without = requested_by if draft.forbid_requester else ""
    assigned = assignment.four_eyes(assigned, tenant=actor.tenant, without=without)
    target, chain = _escalation(draft)
    row = Checkpoint(
        id=new_id(),
        tenant=actor.tenant,
        core=core,
        execution_id=draft.execution_id,
        flow_name=draft.flow_name,
        block_index=draft.block_index,
        node_id=draft.node_id,
        instance_key=draft.instance_key,
        checkpoint_type=draft.checkpoint_type,
        routing=draft.routing,
        prompt=draft.prompt,
        options=draft.options or None,
        default_option=draft.default_option,
        action=draft.action,
        action_digest=actions.digest_of(draft.action) if draft.action else "",
        hitl_message_id=draft.hitl_message_id,
        requested_by=requested_by,
        forbid_requester=draft.forbid_requester,
        required_approvals=draft.required_approvals,
        rejections_allowed=draft.rejections_allowed,
        context=draft.context,
        priority=Priority.named(draft.priority),
        expires_at=expires_at,
        # At least a second: without a span the next round of an escalation would have no deadline.
        window_s=max(1, round((expires_at - now).total_seconds())) if expires_at else None,
        timeout_raw="" if draft.timeout is None else str(draft.timeout).strip(),
        expiry_action=draft.expiry_action,
        escalation_target=target,
        escalation_chain=chain,
        reminder_interval_m=draft.reminder_interval_m,
        next_reminder_at=now + timedelta(minutes=draft.reminder_interval_m) if draft.reminder_interval_m else None,
        supersedes=older,
        created_at=now,
        updated_at=now,
        created_by=actor.label,
        created_by_key=actor.key.family if actor.key else None,
        **assigned.columns(),
    )
    event = events.build(
        actor=actor,
        subject_id=row.pk,
        sequence=1,
        previous_digest="",
        type="checkpoint.created",
        at=now,
        data=_story(row),
    )
    row.event_count, row.event_head = 1, event.digest

    written: list[models.Model] = [row, event, *([along(row)] if along else [])]

    def work() -> None:
        if older is not None:
            supersede(older, by=row, actor=actor, at=now)
        if core._state.adding:
            row.core_id = _written(core).pk
        for new in written:
            insert(new)

    attempt(work)
    nudges.nudge()
    return row


_known_core: Prepared[Core] = Prepared(lambda: Core.objects.filter(tenant=ANY_ID).filter(slug=ANY_TEXT))


def _core(actor: Actor, slug: str) -> Core:
    """A core seen for the first time is not written yet: a create that is refused leaves nothing behind."""
    core = _known_core.one(actor.tenant.pk, slug) or Core(slug=slug)
    core.tenant = actor.tenant
    return core


def _written(core: Core) -> Core:
    """Somebody else may have made it at the same moment."""
    return Core.objects.get_or_create(tenant=core.tenant, slug=core.slug, defaults={"id": core.pk})[0]


def _story(row: Checkpoint) -> dict[str, Any]:
    detail = {
        "core_id": row.core.slug,
        "checkpoint_type": row.checkpoint_type,
        "prompt": row.prompt,
        "assignee_raw": row.assignee_raw,
        "assignee_resolved": row.assignee_resolved,
        "priority": row.priority_word,
        "expires_at": row.expires_at,
    }
    if row.supersedes_id:
        detail["supersedes"] = row.supersedes_id
    return {"detail": plain(detail), "before": None, "after": {"status": str(row.status)}}


def _problems(draft: Draft, *, at: datetime) -> errors.FieldErrors:
    """What can be said about the draft by itself; every fault at once."""
    wrong: errors.FieldErrors = {}
    if not CORE_SLUG.match(draft.core_id):
        wrong["core_id"] = [str(core_slug_validator.message)]
    if not draft.prompt.strip() and draft.checkpoint_type != "debug_breakpoint":
        wrong["prompt"] = ["Write the question that a person shall answer."]
    if len(draft.prompt) > PROMPT_LENGTH:
        wrong["prompt"] = [f"The prompt has more than {PROMPT_LENGTH:,} characters. Put the bulk into context."]
    if draft.options is not None and (found := answers.problems_with_options(draft.options)):
        wrong["options"] = found
    if draft.action is not None and (found := actions.problems_with(draft.action)):
        wrong["action"] = found
    if "options" not in wrong:
        _check_option_names(draft, wrong)
    _check_escalation(draft, wrong)
    _check_quorum(draft, wrong)
    for name in ("assignee", "escalation_target"):
        if len(getattr(draft, name) or "") > assignment.RAW_LENGTH:
            wrong[name] = [assignment.TOO_LONG]
    if draft.reminder_interval_m is not None and draft.reminder_interval_m < 1:
        wrong["reminder_interval_m"] = ["Give whole minutes, at least 1."]
    if draft.forbid_requester and not draft.requested_by.strip():
        wrong["requested_by"] = ["forbid_requester needs to know who asked: give requested_by."]
    return wrong


def _option_ids(draft: Draft) -> list[str]:
    if draft.options:
        return [answers.read_option(given).id for given in draft.options]
    return [verb.id for verb in answers.VERBS] if draft.action else []


def _check_quorum(draft: Draft, wrong: errors.FieldErrors) -> None:
    if draft.required_approvals < 1 or draft.rejections_allowed < 0:
        wrong["required_approvals"] = ["Give a whole number, at least 1."]
    if draft.required_approvals <= 1:
        if draft.rejections_allowed:
            wrong["rejections_allowed"] = ["Only with required_approvals above 1."]
        return
    asked = [("assignee", draft.assignee), ("escalation_target", draft.escalation_target)]
    asked += [("escalation_chain", target) for target in draft.escalation_chain]
    for name, raw in asked:
        if raw and assignment.parse(raw).type not in {*quorum.TYPES, AssigneeType.UNROUTED}:
            wrong[name] = ["With required_approvals above 1 only a group or a role can be asked."]
    if draft.routing == Routing.EXTERNAL:
        wrong["required_approvals"] = ["Nobody is asked when somebody outside resumes it."]
    if "options" in wrong:
        return
    ids = _option_ids(draft)
    if draft.checkpoint_type in {"freeform", "debug_breakpoint"} or (ids and quorum.APPROVE not in ids):
        wrong["required_approvals"] = [f"A quorum counts “{quorum.APPROVE}”, which cannot be chosen here."]


def _check_reach(draft: Draft, assigned: assignment.Assignment, requested_by: str, actor: Actor) -> None:
    if draft.required_approvals <= 1 or assigned.type not in quorum.TYPES:
        return
    excluded = requested_by if draft.forbid_requester else ""
    found = len(quorum.voters(assigned, tenant=actor.tenant, without=excluded))
    if found < draft.required_approvals:
        message = f"{draft.required_approvals} approvals are out of reach: {found} in {assigned.raw.strip()} can vote."
        raise errors.InvalidInput({"required_approvals": [message]})


def _check_option_names(draft: Draft, wrong: errors.FieldErrors) -> None:
    ids = _option_ids(draft)
    listed = f"Options: {', '.join(ids)}." if ids else "There are no options."
    if draft.default_option is not None and draft.default_option not in ids:
        wrong["default_option"] = [f"“{draft.default_option}” is not an option. {listed}"]
    elif draft.action and draft.default_option == "edit":
        wrong["default_option"] = ["Time cannot edit arguments: choose another option."]
    if draft.expiry_action == ExpiryAction.APPROVE and ids and "approve" not in ids:
        wrong["expiry_action"] = [f"“approve” is not an option, so time cannot choose it. {listed}"]


def _check_escalation(draft: Draft, wrong: errors.FieldErrors) -> None:
    targets = [draft.escalation_target, *draft.escalation_chain]
    if draft.expiry_action == ExpiryAction.ESCALATE:
        if not any(target and target.strip() for target in targets):
            wrong["escalation_target"] = ["expiry_action “escalate” needs somebody to escalate to."]
    elif draft.escalation_target or draft.escalation_chain:
        name = "escalation_target" if draft.escalation_target else "escalation_chain"
        wrong[name] = ["Only with expiry_action “escalate”."]
    if len(draft.escalation_chain) > CHAIN_LENGTH:
        wrong["escalation_chain"] = [f"At most {CHAIN_LENGTH} targets."]
    elif any(not target.strip() or len(target) > assignment.RAW_LENGTH for target in draft.escalation_chain):
        wrong["escalation_chain"] = ["Each target is an assignee such as group:finance, not blank."]


def _deadline(draft: Draft, wrong: errors.FieldErrors, *, at: datetime) -> datetime | None:
    if draft.expires_at is not None and draft.timeout is not None:
        wrong["timeout"] = ["Give expires_at or timeout, not both."]
        return None
    if draft.timeout is not None:
        try:
            return at + deadlines.parse_span(draft.timeout)
        except deadlines.UnreadableSpan as error:
            wrong["timeout"] = [str(error)]
            return None
    if draft.expires_at is not None:
        if trouble := trouble_with_deadline(draft.expires_at, at=at):
            wrong["expires_at"] = [trouble]
    elif draft.expiry_action != ExpiryAction.NONE:
        wrong.setdefault("expiry_action", []).append("Needs a deadline: give timeout or expires_at.")
    return draft.expires_at


def trouble_with_deadline(deadline: datetime, *, at: datetime) -> str:
    if deadline <= at:
        return f"The deadline has passed: it is {at:%Y-%m-%dT%H:%M:%SZ} now."
    if deadline - at > deadlines.LONGEST:
        return "The deadline is more than ten years away."
    return ""


def _requester(draft: Draft, wrong: errors.FieldErrors) -> str:
    if not draft.requested_by.strip():
        return ""
    parsed = assignment.parse(draft.requested_by)
    if parsed.type != AssigneeType.USER:
        wrong["requested_by"] = ["Name one person: an email address or a user id."]
    elif len(parsed.value) > REQUESTER_LENGTH:
        wrong["requested_by"] = [f"At most {REQUESTER_LENGTH} characters."]
    return parsed.value


def _superseded(draft: Draft, wrong: errors.FieldErrors, *, actor: Actor) -> Checkpoint | None:
    if draft.supersedes is None:
        return None
    rows = Checkpoint.objects.for_tenant(actor.tenant).select_related("core", "tenant")
    older: Checkpoint | None = rows.filter(pk=draft.supersedes).first()
    if older is None:
        wrong["supersedes"] = ["There is no such checkpoint."]
    return older


def _escalation(draft: Draft) -> tuple[str | None, list[str]]:
    """A chain alone starts with its first link."""
    if draft.escalation_target and draft.escalation_target.strip():
        return draft.escalation_target, list(draft.escalation_chain)
    chain = list(draft.escalation_chain)
    return (chain[0], chain[1:]) if chain else (None, [])
