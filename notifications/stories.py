"""What is told on each occasion: a title, what happened, and what somebody wrote with it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from checkpoints import prose
from checkpoints.models import Checkpoint
from notifications import wording
from notifications.models import Delivery, Kind, Occasion

MOST_OF_A_SUBJECT = 150
MOST_NAMED = 20
NOTHING_TO_DO = "There is nothing left for you to do."


@dataclass(frozen=True, slots=True)
class Story:
    title: str
    # Sentences of our own, with names in them that have been made harmless.
    news: str
    # In the words of whoever did it, possibly Markdown.
    remark: str = ""
    # Where it is not the title and the question.
    subject: str = ""
    button: str = "Open the checkpoint"


def story_of(delivery: Delivery) -> Story:
    return STORIES[Occasion(delivery.occasion)](delivery)


def subject_of(delivery: Delivery, story: Story) -> str:
    asked = question_line(delivery.checkpoint)
    return wording.line(story.subject or (f"{story.title}: {asked}" if asked else story.title), MOST_OF_A_SUBJECT)


def question_line(checkpoint: Checkpoint | None) -> str:
    """What is asked, in one line; of a checkpoint without a question what there is."""
    if checkpoint is None:
        return ""
    if asked := prose.to_line(checkpoint.prompt, most=MOST_OF_A_SUBJECT):
        return asked
    if isinstance(checkpoint.action, dict) and checkpoint.action.get("name"):
        return f"May {wording.program(checkpoint)} run {wording.line(checkpoint.action['name'])}?"
    return f"{wording.program(checkpoint)} waits for {wording.line(checkpoint.checkpoint_type).replace('_', ' ')}"


def fact(delivery: Delivery, *names: str) -> Any:
    """The first of these that is known: facts were written when it happened, perhaps by an older version."""
    facts = delivery.facts if isinstance(delivery.facts, dict) else {}
    return next((facts[name] for name in names if facts.get(name) not in (None, "")), None)


def written(delivery: Delivery, *names: str) -> str:
    given = fact(delivery, *names)
    return given if isinstance(given, str) else wording.line(given)


def _is_mail(delivery: Delivery) -> bool:
    return delivery.kind == Kind.EMAIL


def _asks_for_words(checkpoint: Checkpoint | None) -> bool:
    return checkpoint is not None and checkpoint.checkpoint_type == "freeform"


def _button(delivery: Delivery) -> str:
    return "Read and answer" if _asks_for_words(delivery.checkpoint) else "Read and decide"


def _by(delivery: Delivery, otherwise: str = "") -> str:
    """Who did it, to start a sentence with."""
    return wording.starting(fact(delivery, "actor") or otherwise) or "Somebody"


def _at(delivery: Delivery, name: str) -> str:
    moment = getattr(delivery.checkpoint, name, None)
    return f" on {wording.moment(moment, delivery.tenant)}" if moment else ""


# --- They ask -----------------------------------------------------------------------------------------------------


def _created(delivery: Delivery) -> Story:
    checkpoint = delivery.checkpoint
    wanted = "answer" if _asks_for_words(checkpoint) else "decision"
    who = f"The program {wording.program(checkpoint)}" if checkpoint else "A program"
    news = f"{who} waits for {'your' if _is_mail(delivery) else 'a'} {wanted}."
    if checkpoint and checkpoint.required_approvals > 1:
        news += f" {checkpoint.required_approvals} approvals are needed."
    return Story(f"{wanted.capitalize()} needed", news, button=_button(delivery))


def _reassigned(delivery: Delivery) -> Story:
    whose, before = wording.whose(delivery), fact(delivery, "from")
    if wording.line(fact(delivery, "actor")) == "sweep":
        news = f"Who decides this has changed. It is now with {whose}."
    else:
        news = f"{_by(delivery)} passed this to {whose}."
    if before and wording.line(before) != wording.line(fact(delivery, "to")):
        news += f" Before, it was with {wording.assigned(before, delivery.checkpoint)}."
    title = "Passed to you" if _is_mail(delivery) else "Reassigned"
    return Story(title, news, written(delivery, "comment", "reason"), button=_button(delivery))


def _escalated(delivery: Delivery) -> Story:
    before = fact(delivery, "from")
    late = wording.assigned(before, delivery.checkpoint) if before else "nobody"
    news = f"{'There was no decision in time' if not before else f'{wording.capital(late)} did not decide in time'}"
    news += f", so this is now with {wording.whose(delivery)}."
    title = "Escalated to you" if _is_mail(delivery) else "Escalated"
    return Story(title, news, button=_button(delivery))


def _reminder(delivery: Delivery) -> Story:
    count = fact(delivery, "count")
    title = f"Reminder {wording.line(count, 10)}" if isinstance(count, int) and count > 0 else "Reminder"
    since = delivery.checkpoint.created_at if delivery.checkpoint else None
    waiting = f", since {wording.moment(since, delivery.tenant)}" if since else ""
    news = f"This still waits for {'your' if _is_mail(delivery) else 'a'} decision{waiting}."
    return Story(title, news, button=_button(delivery))


# --- They tell ----------------------------------------------------------------------------------------------------


def _moved_away(delivery: Delivery) -> Story:
    target = wording.assigned(fact(delivery, "to"), delivery.checkpoint)
    if fact(delivery, "escalated") or wording.line(fact(delivery, "actor")) == "timeout":
        news = f"There was no decision in time, so it went to {target}."
    elif wording.line(fact(delivery, "actor")) == "sweep":
        news = "Who decides this has changed."
    else:
        news = f"{_by(delivery)} passed it to {target}."
    return Story("No longer yours", f"{news} {NOTHING_TO_DO}", written(delivery, "comment", "reason"))


def _decided(delivery: Delivery) -> Story:
    checkpoint = delivery.checkpoint
    resolution = (checkpoint.resolution if checkpoint else None) or {}
    decision = fact(delivery, "decision") or resolution.get("decision")
    # What expiry decides is called default; which option that means stands beside it.
    label = wording.choice(checkpoint, resolution.get("option") or decision) if decision else ""
    actor = fact(delivery, "actor") or (checkpoint.resolved_by if checkpoint else "")
    if wording.line(actor) == "timeout":
        taken = f"“{label}” was taken" if label else "the default was taken"
        news = f"The deadline passed, and {taken}, as the program had asked for."
    else:
        news = f"{_by(delivery, actor)} decided{f' “{label}”' if label else ''}{_at(delivery, 'resolved_at')}."
    asked = question_line(checkpoint)
    subject = f"Decided: {label} — {asked}" if label and asked else ""
    return Story("Decided", news, written(delivery, "comment"), subject)


def _cancelled(delivery: Delivery) -> Story:
    reason = written(delivery, "reason", "comment")
    nobody = "Nobody needs to decide it any more."
    if reason == "expired":
        return Story("Cancelled", f"The deadline passed, and nobody had decided, so it was cancelled. {nobody}")
    by = _by(delivery, delivery.checkpoint.closed_by if delivery.checkpoint else "")
    return Story("Cancelled", f"{by} cancelled it{_at(delivery, 'closed_at')}. {nobody}", reason)


def _superseded(delivery: Delivery) -> Story:
    newer = wording.line(fact(delivery, "by", "superseded_by"), 60)
    named = f" ({newer})" if newer else ""
    news = f"The program asks anew: a newer checkpoint{named} has taken the place of this one."
    return Story("Replaced", f"{news} Nobody needs to decide this one any more.")


def _expired(delivery: Delivery) -> Story:
    return Story("Expired", f"The deadline passed{_at(delivery, 'expires_at')}, and nobody had decided.")


def _commented(delivery: Delivery) -> Story:
    return Story("New comment", f"{_by(delivery)} wrote:", written(delivery, "text", "comment"))


def _event(delivery: Delivery) -> Story:
    return Story("News", "Something happened to this checkpoint.")


# --- About no single checkpoint -----------------------------------------------------------------------------------


def waiting_in_queue(delivery: Delivery) -> tuple[list[dict[str, str]], int]:
    """The checkpoints that are named, and how many wait beside them."""
    given = fact(delivery, "checkpoints")
    rows = [row for row in given if isinstance(row, dict)] if isinstance(given, list) else []
    more = fact(delivery, "more")
    named = [
        {
            "question": prose.to_line(str(row.get("prompt") or ""), most=120) or "A checkpoint without a question",
            "reason": wording.line(row.get("reason"), 300),
            "priority": word if (word := wording.line(row.get("priority"), 20)) in {"high", "critical"} else "",
        }
        for row in rows[:MOST_NAMED]
    ]
    return named, len(rows) - len(named) + (more if isinstance(more, int) and more > 0 else 0)


def _unrouted(delivery: Delivery) -> Story:
    named, more = waiting_in_queue(delivery)
    count, tenant = len(named) + more, wording.line(delivery.tenant)
    what = "1 checkpoint waits" if count == 1 else f"{count or 'Some'} checkpoints wait"
    them = "it" if count == 1 else "them"
    news = f"Nobody is asked about {them} yet. Claim {them} or reassign {them}, so that the program can go on."
    return Story("In the queue", news, subject=f"{what} in the queue of {tenant}", button="Open the queue")


def _webhook_disabled(delivery: Delivery) -> Story:
    # The rest of the address may be a secret.
    host = _host(written(delivery, "url"))
    news = f"Holdpoint no longer sends to the webhook{f' at {host}' if host else ''}."
    news += " When the other side answers again, switch it on; what it missed can be sent again from there."
    return Story(
        "Webhooks",
        news,
        written(delivery, "reason"),
        subject=f"Webhook switched off: {host}" if host else f"Webhook of {wording.line(delivery.tenant)} switched off",
        button="Open the webhooks",
    )


def _host(url: str) -> str:
    try:
        return wording.line(urlsplit(url).hostname)
    except ValueError:
        return ""


def _test(delivery: Delivery) -> Story:
    tenant = wording.line(delivery.tenant)
    where = "you" if _is_mail(delivery) else "this room"
    news = f"You can read this: messages of {tenant} reach {where}."
    return Story("Test", news, subject=f"Test message of {tenant}", button="Open Holdpoint")


STORIES: dict[Occasion, Callable[[Delivery], Story]] = {
    Occasion.CREATED: _created,
    Occasion.REASSIGNED: _reassigned,
    Occasion.ESCALATED: _escalated,
    Occasion.REMINDER: _reminder,
    Occasion.MOVED_AWAY: _moved_away,
    Occasion.DECIDED: _decided,
    Occasion.CANCELLED: _cancelled,
    Occasion.SUPERSEDED: _superseded,
    Occasion.EXPIRED: _expired,
    Occasion.COMMENTED: _commented,
    Occasion.UNROUTED: _unrouted,
    Occasion.WEBHOOK_DISABLED: _webhook_disabled,
    Occasion.EVENT: _event,
    Occasion.TEST: _test,
}
