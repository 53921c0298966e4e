"""What a message says: ``compose(delivery)`` for every occasion, as mail or for a room of a chat.

Exactly one link is in it. Addresses that programs or people wrote stay words, secrets by their name are masked, and
whatever is long is cut: the rest is behind the link.
"""

import re
import textwrap
from dataclasses import dataclass
from typing import Any

from django.template.loader import render_to_string

from checkpoints import answers, prose
from checkpoints.models import Checkpoint
from notifications import stories, wording
from notifications.details import Details, details_of
from notifications.links import decide_link
from notifications.models import Delivery, Kind, Occasion
from notifications.stories import Story

WIDTH = 74
MOST_OF_A_QUESTION = 4000
# Where nothing is left to decide, it only says what this is about.
MOST_OF_A_SETTLED_QUESTION = 800
MOST_OF_A_QUESTION_IN_CHAT = 1200
MOST_OF_A_REMARK = 2000
MOST_CHOICES = 20
THE_REST = "The rest is behind the link."

# Works on light and dark alike, so that no reader of mail has to understand a stylesheet.
STYLES = {
    "p": "margin:0 0 12px",
    "h3": "margin:16px 0 8px;font-size:18px;line-height:1.3",
    "h4": "margin:16px 0 8px;font-size:17px;line-height:1.3",
    "h5": "margin:16px 0 8px;font-size:16px;line-height:1.3",
    "h6": "margin:16px 0 8px;font-size:16px;line-height:1.3",
    "ul": "margin:0 0 12px;padding:0 0 0 22px",
    "ol": "margin:0 0 12px;padding:0 0 0 26px",
    "blockquote": "margin:0 0 12px;padding:0 0 0 12px;border-left:3px solid #8b95a5",
    "pre": "margin:0 0 12px;padding:10px 12px;border:1px solid #8b95a5;border-radius:6px;font:13px/1.5 monospace;"
    "white-space:pre-wrap",
    "code": "font-family:monospace;font-size:.92em",
    "hr": "margin:16px 0;border:0;border-top:1px solid #8b95a5",
    "table": "margin:0 0 12px;border-collapse:collapse;font-size:15px",
    "th": "padding:4px 10px;border:1px solid #8b95a5",
    "td": "padding:4px 10px;border:1px solid #8b95a5;vertical-align:top",
}


@dataclass(frozen=True, slots=True)
class Message:
    """``text`` of a mail holds the link. For a chat it is plain words that neither hold the link nor repeat the
    subject; whoever sends it escapes it for that chat and adds ``url``. ``html`` is for mails alone.
    """

    subject: str
    text: str
    html: str
    url: str


def compose(delivery: Delivery) -> Message:
    story = stories.story_of(delivery)
    subject, url = stories.subject_of(delivery, story), decide_link(delivery)
    if delivery.kind != Kind.EMAIL:
        return Message(subject, _for_chat(delivery, story), "", url)
    said = _said(delivery, story) | {"subject": subject, "url": url}
    text = render_to_string("notifications/message.txt", said | _as_text(delivery, story, said))
    html = render_to_string("notifications/message.html", said | _as_html(delivery, story))
    return Message(subject, re.sub(r"\n{3,}", "\n\n", text).strip() + "\n", html, url)


def _said(delivery: Delivery, story: Story) -> dict[str, Any]:
    """What both halves of a mail say."""
    checkpoint, asks = delivery.checkpoint, delivery.asks
    named, more = stories.waiting_in_queue(delivery) if delivery.occasion == Occasion.UNROUTED else ([], 0)
    action = checkpoint.action if checkpoint and asks and isinstance(checkpoint.action, dict) else {}
    return {
        "tenant": wording.line(delivery.tenant),
        "title": story.title,
        "headline": "" if checkpoint else stories.subject_of(delivery, story),
        "news": story.news,
        "urgency": wording.urgency(checkpoint) if asks else "",
        "button": story.button,
        "asks": asks,
        "cut": _is_cut(checkpoint, _most(delivery)),
        "the_rest": THE_REST,
        "choices": _choices(checkpoint) if checkpoint and asks else [],
        "facts": _facts(checkpoint, delivery) if checkpoint else [],
        "action": wording.line(action.get("name")),
        "arguments": details_of(action.get("args") or {}),
        "context": details_of(checkpoint.context) if checkpoint and asks and checkpoint.context else Details(),
        "named": named,
        "more_named": more,
        "why": wording.why_asked(delivery) if asks else wording.why_told(delivery),
        "sender": _sender(delivery),
    }


def _as_html(delivery: Delivery, story: Story) -> dict[str, Any]:
    question = _question(delivery.checkpoint, _most(delivery))
    remark = prose.shorten(story.remark, MOST_OF_A_REMARK)
    return {
        "question": prose.to_html(question, links=False, styles=STYLES) if question else "",
        "remark": prose.to_html(remark, links=False, styles=STYLES) if remark.strip() else "",
    }


def _as_text(delivery: Delivery, story: Story, said: dict[str, Any]) -> dict[str, Any]:
    """The same with lines that end where a narrow window does."""
    choices = [
        (_and(f"- {label}", "needs a comment" if comment else ""), text) for label, text, comment in said["choices"]
    ]
    named = [(_and(f"- {row['question']}", row["priority"]), row["reason"]) for row in said["named"]]
    return {
        "news": _wrapped(story.news),
        "question": prose.to_text(_question(delivery.checkpoint, _most(delivery)), width=WIDTH),
        "remark": _quoted(story.remark, width=WIDTH),
        "choices": _listed(choices),
        "named": _listed(named),
        "facts": _listed(said["facts"]),
        "arguments": _listed(said["arguments"].entries),
        "context": _listed(said["context"].entries),
        "more_context": said["context"].more or said["arguments"].more,
        "why": _wrapped(said["why"]),
        "sender": _wrapped(said["sender"]),
    }


def _for_chat(delivery: Delivery, story: Story) -> str:
    parts = [story.news, _quoted(story.remark)]
    checkpoint = delivery.checkpoint
    if checkpoint and delivery.asks:
        question = prose.to_text(_question(checkpoint, MOST_OF_A_QUESTION_IN_CHAT))
        # The subject says it already where it is one line.
        parts.append(question if question != stories.question_line(checkpoint) else "")
        parts.append(THE_REST if _is_cut(checkpoint, MOST_OF_A_QUESTION_IN_CHAT) else "")
        choices = [label for label, _, _ in _choices(checkpoint)]
        parts += [f"Choices: {', '.join(choices)}" if choices else "", *_lines(checkpoint, delivery)]
    if delivery.occasion == Occasion.UNROUTED:
        named, more = stories.waiting_in_queue(delivery)
        parts.append("\n".join(f"- {row['question']}" for row in named))
        parts.append(f"And {more} more." if more else "")
    return "\n\n".join(part for part in parts if part)


def _lines(checkpoint: Checkpoint, delivery: Delivery) -> list[str]:
    urgency = wording.urgency(checkpoint)
    facts = [("Priority", urgency)] if urgency else []
    facts += _facts(checkpoint, delivery)
    return ["\n".join([*(f"{name}: {value}" for name, value in facts), wording.why_asked(delivery)]).strip()]


def _question(checkpoint: Checkpoint | None, most: int) -> str:
    """As it was written, or its beginning."""
    if checkpoint is None:
        return ""
    return prose.shorten(checkpoint.prompt.strip(), most) or stories.question_line(checkpoint)


def _most(delivery: Delivery) -> int:
    return MOST_OF_A_QUESTION if delivery.asks else MOST_OF_A_SETTLED_QUESTION


def _is_cut(checkpoint: Checkpoint | None, most: int) -> bool:
    return checkpoint is not None and len(checkpoint.prompt.strip()) > most


def _quoted(remark: str, width: int | None = None) -> str:
    shown = prose.to_text(prose.shorten(remark, MOST_OF_A_REMARK), width=width and width - 2)
    return "\n".join(f"> {line}".rstrip() for line in shown.split("\n")) if shown else ""


def _wrapped(sentence: str, indent: str = "") -> str:
    return textwrap.fill(sentence, WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)


def _and(words: str, beside: str) -> str:
    return f"{words} ({beside})" if beside else words


def _listed(pairs: list[tuple[str, str]]) -> str:
    return "\n".join(_wrapped(f"{name}: {value}" if value else name, "  ") for name, value in pairs)


def _choices(checkpoint: Checkpoint) -> list[tuple[str, str, bool]]:
    """Label, description, and whether it needs a comment."""
    options = answers.options_of(checkpoint)
    shown = [
        (wording.line(option.label, 100), wording.line(option.description, 200), option.requires_comment)
        for option in options[:MOST_CHOICES]
    ]
    left = len(options) - len(shown)
    return [*shown, (f"and {left} more", "", False)] if left else shown


def _facts(checkpoint: Checkpoint, delivery: Delivery) -> list[tuple[str, str]]:
    facts: list[tuple[str, str]] = []
    if delivery.asks:
        facts.append(("Deadline", wording.deadline(checkpoint, delivery.tenant)))
    flow = wording.line(checkpoint.flow_name)
    facts.append(("Asked by", wording.program(checkpoint) + (f", {flow}" if flow else "")))
    if checkpoint.requested_by:
        kept_out = " (may not decide)" if checkpoint.forbid_requester else ""
        facts.append(("On behalf of", wording.person(checkpoint.requested_by, delivery.tenant) + kept_out))
    return facts


def _sender(delivery: Delivery) -> str:
    tenant = wording.line(delivery.tenant)
    if delivery.checkpoint is None:
        return f"Sent by Holdpoint for {tenant}."
    return f"Sent by Holdpoint for {tenant}, because the program {wording.program(delivery.checkpoint)} asked."
