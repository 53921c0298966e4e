"""Events as sentences: the history as a person would tell it."""

from collections.abc import Callable
from typing import Any

from checkpoints.assignment import Assignment
from checkpoints.models import AssigneeType, Checkpoint, Event
from tenants.models import Core

KINDS = {
    "user": "{}",
    "link": "the holder of the link sent to {}",
    "key": "the program “{}”",
    "queue": "the queue message {}",
    "timeout": "the deadline",
    "sweep": "Holdpoint",
}


def who(label: str) -> str:
    """``key:refund-agent`` → the program “refund-agent”."""
    kind, _, name = label.partition(":")
    return KINDS.get(kind, label).format(name)


def beginning(label: str) -> str:
    """The same at the start of a sentence: words get a capital letter, an address stays as it is."""
    words = who(label)
    fixed = KINDS.get(label.partition(":")[0], "{}")
    return words if fixed.startswith("{") else f"{words[:1].upper()}{words[1:]}"


def asked(checkpoint: Checkpoint) -> str:
    """Who is asked, in words."""
    return _asked(checkpoint.assignee_type, checkpoint.assignee_value, checkpoint.core)


def named(found: Assignment, core: Core) -> str:
    return _asked(found.type, found.value, core)


def _asked(kind: str, value: str, core: Core) -> str:
    match kind:
        case AssigneeType.USER:
            return value
        case AssigneeType.GROUP:
            return f"group {value}"
        case AssigneeType.ROLE:
            return f"role {value}"
        case AssigneeType.DELEGATED_USER:
            return f"{value} (delegate of {core.slug})"
    return "nobody"


def _named(raw: str) -> str:
    return f"“{raw}”" if raw and raw.strip() else "nobody"


def _led_to(detail: dict[str, Any]) -> str:
    reason = (detail.get("assignee_resolved") or {}).get("reason")
    return f" {reason}" if reason else ""


def _created(detail: dict[str, Any]) -> str:
    return f"asked {_named(detail.get('assignee_raw', ''))}.{_led_to(detail)}"


def _resolved(detail: dict[str, Any]) -> str:
    if detail.get("auto_expired"):
        return f"decided “{detail.get('decision')}”, as the program had asked for."
    how = "overrode the assignment and decided" if detail.get("override") else "decided"
    return f"{how} “{detail.get('decision')}”."


def _moved(verb: str) -> Callable[[dict[str, Any]], str]:
    def story(detail: dict[str, Any]) -> str:
        return f"{verb} from {_named(detail.get('from', ''))} to {_named(detail.get('to', ''))}.{_led_to(detail)}"

    return story


def _rerouted(detail: dict[str, Any]) -> str:
    reason = (detail.get("assignee_resolved") or {}).get("reason")
    if reason:
        return f"put it into the queue. {reason}"
    return f"moved it to {(detail.get('assignee_resolved') or {}).get('value')}, the new delegate."


def _notified(detail: dict[str, Any]) -> str:
    if detail.get("channel") == "chat":
        return f"told the room “{detail.get('to')}” of it."
    return f"told {detail.get('to')} of it by {detail.get('channel')}."


STORIES: dict[str, Callable[[dict[str, Any]], str]] = {
    "created": _created,
    "resolved": _resolved,
    "voted": lambda detail: f"voted “{detail.get('decision')}”; {detail.get('missing')} more to go.",
    "cancelled": lambda detail: f"cancelled it ({detail.get('reason')}).",
    "expired": lambda detail: "passed, and nobody had decided.",
    "reassigned": _moved("reassigned it"),
    "escalated": _moved("escalated it"),
    "rerouted": _rerouted,
    "claimed": lambda detail: f"claimed it for {detail.get('by')}.",
    "released": lambda detail: f"released the claim of {detail.get('was')}.",
    "extended": lambda detail: f"moved the deadline to {str(detail.get('to'))[:16].replace('T', ' ')} UTC.",
    "reminded": lambda detail: f"asked for reminder number {detail.get('count')}.",
    "commented": lambda detail: "wrote:",
    "notification_sent": _notified,
}
# What is told in another way when nobody asked for it.
BY_ITSELF: dict[str, Callable[[dict[str, Any]], str]] = {
    "reminded": lambda detail: f"reminded those who have not answered, reminder number {detail.get('count')}.",
}


def sentence(event: Event) -> str:
    detail = event.data.get("detail") or {}
    tell = (BY_ITSELF.get(event.name) if event.actor == "sweep" else None) or STORIES.get(event.name)
    rest = tell(detail) if tell else f"{event.name}."
    # "claimed it for themselves" needs no name.
    rest = rest.replace(f" for {who(event.actor)}.", ".")
    return f"{beginning(event.actor)} {rest}"


def remark(event: Event) -> str:
    detail = event.data.get("detail") or {}
    return str(detail.get("text") or detail.get("comment") or "")
