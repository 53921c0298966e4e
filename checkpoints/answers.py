"""Options as programs give them, and an answer checked against them. The same for page, admin and API."""

from dataclasses import dataclass
from typing import Any

from checkpoints import actions
from checkpoints.errors import FieldErrors, InvalidDecision
from checkpoints.models import Checkpoint

RESERVED = "default"
OPTION_KEYS = {"id", "label", "description", "variant", "requires_comment"}
OPTION_LENGTH = 100
MOST_OPTIONS = 100
TEXT_LENGTH = 20_000
# Inside an event's record it is nested deeper still, and MariaDB reads 32 levels.
DEPTH = 24


@dataclass(frozen=True, slots=True)
class Option:
    id: str
    label: str
    description: str = ""
    variant: str = ""
    requires_comment: bool = False


# What agents know: the options of an action that brings none of its own.
VERBS = (
    Option("approve", "Approve", "Do it as asked."),
    Option("edit", "Edit", "Do it with other arguments."),
    Option("reject", "Reject", "Do not do it; the comment goes to the program."),
    Option("respond", "Respond", "Do not do it; answer in words."),
    Option("ignore", "Ignore", "Do not do it, and say nothing."),
)


@dataclass(frozen=True, slots=True)
class Answer:
    """What somebody said; ``check`` turns it into a resolution or refuses it."""

    decision: str | None = None
    response: str | dict[str, Any] | None = None
    comment: str = ""
    edited_args: Any = None


def options_of(checkpoint: Checkpoint) -> list[Option]:
    """What can be chosen; empty means that any word will do."""
    if checkpoint.options:
        return [read_option(given) for given in checkpoint.options]
    if checkpoint.checkpoint_type == "debug_breakpoint":
        return [Option("continue", "Continue")]
    return list(VERBS) if checkpoint.action else []


def read_option(given: str | dict[str, Any]) -> Option:
    if isinstance(given, str):
        return Option(given, given)
    return Option(
        id=given["id"],
        label=given.get("label") or given["id"],
        description=given.get("description") or "",
        variant=given.get("variant") or "",
        requires_comment=bool(given.get("requires_comment")),
    )


def problems_with_options(options: Any) -> list[str]:
    """Everything wrong with a list of options, each message naming the place."""
    if not isinstance(options, list):
        return ["Give a list of strings, or of objects with an id."]
    if len(options) > MOST_OPTIONS:
        return [f"At most {MOST_OPTIONS} options."]
    found: list[str] = []
    seen: set[str] = set()
    for place, given in enumerate(options):
        if trouble := _trouble_with_option(given):
            found.append(f"Option {place}: {trouble}")
            continue
        identity = given if isinstance(given, str) else given["id"]
        if identity in seen:
            found.append(f"Option {place}: the id “{identity}” is used twice.")
        seen.add(identity)
    return found


def _trouble_with_option(given: Any) -> str:
    if isinstance(given, dict):
        if unknown := sorted(set(given) - OPTION_KEYS):
            return f"unknown key “{unknown[0]}”; known: {', '.join(sorted(OPTION_KEYS))}."
        for name in ("label", "description", "variant"):
            if given.get(name) is not None and not isinstance(given[name], str):
                return f"{name} must be a string."
        if not isinstance(given.get("requires_comment", False), bool):
            return "requires_comment must be true or false."
        given = given.get("id")
    if not isinstance(given, str) or not given.strip():
        return "give a string, or an object whose id is a string that is not blank."
    if len(given) > OPTION_LENGTH:
        return f"the id has more than {OPTION_LENGTH} characters."
    if given == RESERVED:
        return f"“{RESERVED}” is a reserved id."
    return ""


def check(checkpoint: Checkpoint, answer: Answer) -> dict[str, Any]:
    """The resolution this answer makes, without its way; refused with every fault named at once."""
    wrong: FieldErrors = {}
    options = {option.id: option for option in options_of(checkpoint)}
    decision = answer.decision
    freeform = checkpoint.checkpoint_type == "freeform"
    if not decision and freeform and (not options or "answered" in options):
        decision = "answered"
    if trouble := _trouble_with_decision(decision, list(options)):
        wrong["decision"] = [trouble]
    if freeform and (not isinstance(answer.response, str) or not answer.response.strip()):
        wrong["response"] = ["This question needs an answer in words: send response as a string that is not blank."]
    chosen = options.get(decision or "")
    if chosen is not None and chosen.requires_comment and not answer.comment.strip():
        wrong["comment"] = [f"“{chosen.label}” needs a comment."]
    _check_action(checkpoint, answer, decision, wrong)
    for name, given in (("response", answer.response), ("edited_args", answer.edited_args)):
        if is_deeper_than(DEPTH, given):
            wrong[name] = [f"Nested more than {DEPTH} levels deep."]
    if wrong:
        raise InvalidDecision(wrong, checkpoint)
    resolution = {"decision": decision, "response": answer.response, "comment": answer.comment or None}
    if checkpoint.action:
        if answer.edited_args is not None:
            resolution["edited_args"] = answer.edited_args
        resolution["action_digest"] = actions.digest_of(actions.as_decided(checkpoint.action, answer.edited_args))
    return resolution


def _check_action(checkpoint: Checkpoint, answer: Answer, decision: str | None, wrong: FieldErrors) -> None:
    if not checkpoint.action:
        if answer.edited_args is not None:
            wrong["edited_args"] = ["This checkpoint has no action to edit."]
        return
    if decision == "edit":
        if answer.edited_args is None:
            wrong["edited_args"] = ["“edit” needs the arguments as they shall be: send edited_args."]
        elif found := actions.problems_with_args(checkpoint.action, answer.edited_args):
            wrong["edited_args"] = found
    elif answer.edited_args is not None:
        wrong["edited_args"] = ["Only with the decision “edit”."]
    own_verbs = not checkpoint.options
    if own_verbs and decision == "respond" and not (isinstance(answer.response, str) and answer.response.strip()):
        wrong["response"] = ["“respond” needs an answer in words: send response as a string that is not blank."]


def is_deeper_than(levels: int, value: Any) -> bool:
    here = [value]
    while here and levels >= 0:
        if not any(isinstance(inner, dict | list) for inner in here):
            return False
        here = [
            inner
            for outer in here
            if isinstance(outer, dict | list)
            for inner in (outer.values() if isinstance(outer, dict) else outer)
        ]
        levels -= 1
    return levels < 0


def _trouble_with_decision(decision: str | None, known: list[str]) -> str:
    choices = f"Choose one of: {', '.join(known)}." if known else "Say what was decided, such as approve."
    if not decision or not decision.strip():
        return f"No decision was given. {choices}"
    if decision == RESERVED:
        return f"“{RESERVED}” cannot be chosen by anybody: it is what expiry decides. {choices}"
    if len(decision) > OPTION_LENGTH:
        return f"A decision has at most {OPTION_LENGTH} characters. {choices}"
    if known and decision not in known:
        return f"“{decision[:OPTION_LENGTH]}” is not an option. {choices}"
    return ""
