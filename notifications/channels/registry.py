"""Which channel carries which kind."""

from notifications.channels.base import Channel
from notifications.models import Kind


def open_channel(kind: Kind) -> Channel:
    # Imported when needed: mail and HTTP libraries are no business of a web process that only decides.
    match kind:
        case Kind.EMAIL:
            from notifications.channels.email import Email

            return Email()
        case Kind.CHAT:
            from notifications.channels.chat import Chat

            return Chat()
        case Kind.WEBHOOK:
            from notifications.channels.webhook import WebhookCall

            return WebhookCall()
