"""A room of Slack, or of anything that takes the same messages: Mattermost, Rocket.Chat, Zulip."""

import json
import re
from bisect import bisect_right
from itertools import accumulate
from typing import Any

from django.utils import timezone

from notifications import messages
from notifications.channels.answers import seconds_asked_for
from notifications.channels.base import Channel, ChannelError, Receipt
from notifications.models import Delivery
from tenants import egress

SECONDS = 10.0
# A block of Slack takes 3,000 characters.
LONGEST_BLOCK = 2900
LONGEST_SUBJECT = 300
TOO_MANY = 429
TOO_LATE = {408, 425}
# Everything that Slack reads as a command (mentions, links in disguise) starts with one of these.
ESCAPES = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}
# Slack says in one word what was wrong, such as no_service; other text is not for us to repeat.
WORD = re.compile(r"[a-z_]{3,40}", re.ASCII)


class Chat(Channel):
    def send(self, delivery: Delivery) -> Receipt:
        if delivery.channel is None:
            raise ChannelError("The chat is no longer there.", permanent=True)
        message = messages.compose(delivery)
        try:
            answer = egress.post(
                delivery.channel.url,
                content=payload(message.subject, message.text, message.url),
                headers={"Content-Type": "application/json"},
                timeout=SECONDS,
            )
        except egress.EgressError as error:
            raise ChannelError(error.detail, permanent=error.permanent, whole_lane=True) from error
        if 200 <= answer.status < 300:
            return Receipt(response_status=answer.status)
        raise _refusal(answer)


def payload(subject: str, text: str, url: str) -> bytes:
    """Said twice: Slack shows the blocks and uses the text for its alert, others know the text alone."""
    title = f"*{escaped(' '.join(subject.split()), LONGEST_SUBJECT)}*"
    body, link = escaped(text.strip(), LONGEST_BLOCK), escaped(url, LONGEST_BLOCK)
    blocks = [_block(title), *([_block(body)] if body else []), _block(f"<{link}|Open in Holdpoint>")]
    said = "\n".join(part for part in (title, body, link) if part)
    return json.dumps({"text": said, "blocks": blocks, "unfurl_links": False}).encode()


def _block(text: str) -> dict[str, Any]:
    # As it is written: an address in somebody's words does not become a link.
    return {"type": "section", "text": {"type": "mrkdwn", "text": text, "verbatim": True}}


def escaped(text: str, longest: int) -> str:
    """Cut between two characters as they are escaped, not inside of one."""
    pieces = [ESCAPES.get(char, char) for char in text]
    fits = bisect_right(list(accumulate(map(len, pieces))), longest)
    return "".join(pieces) if fits == len(pieces) else "".join(pieces[:fits]).rstrip() + " …"


def _refusal(answer: egress.Answer) -> ChannelError:
    said = answer.body[:80].decode("ascii", "ignore").strip()
    detail = f"The chat answered {answer.status}{f': {said}' if WORD.fullmatch(said) else ''}."
    if answer.status == TOO_MANY:
        asked = seconds_asked_for(answer.headers.get("retry-after"), at=timezone.now())
        return ChannelError(detail, whole_lane=True, retry_after=asked, response_status=answer.status)
    # A room that is gone, archived or closed to us stays so; a message that is refused would be again.
    permanent = 400 <= answer.status < 500 and answer.status not in TOO_LATE
    return ChannelError(detail, permanent=permanent, whole_lane=not permanent, response_status=answer.status)
