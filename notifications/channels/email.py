"""Mail, by Django: a server that speaks SMTP, a provider that Anymail knows, or a folder."""

import contextlib
import logging
import re
import smtplib
import unicodedata
from email.utils import parseaddr
from typing import Any

from anymail.exceptions import AnymailError
from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.core.mail import EmailMultiAlternatives, get_connection
from django.core.mail.backends.filebased import EmailBackend as Folder

from notifications import messages
from notifications.channels import mail_refusals
from notifications.channels.base import Channel, ChannelError, Receipt
from notifications.models import Delivery

logger = logging.getLogger(__name__)

LONGEST_SUBJECT = 200
LONGEST_NAME = 255
# One address and nothing else: whatever separates, groups or comments addresses has no place in it.
ADDRESS = re.compile(r'[^\s@,;:<>()\[\]"\\]+@[^\s@,;:<>()\[\]"\\]+')
# What libraries raise when the connection, and what they raise when the message is at fault.
TRANSPORT = (smtplib.SMTPException, AnymailError, OSError)
MESSAGE = (ValueError, TypeError)


class Email(Channel):
    """Keeps its connection for the next message, and opens another one when that has died meanwhile."""

    def __init__(self) -> None:
        self._connection: Any = None

    def send(self, delivery: Delivery) -> Receipt:
        message = build(delivery)
        kept = self._connection is not None
        try:
            return self._send(message)
        except smtplib.SMTPServerDisconnected as error:
            self._drop()
            if not kept:
                raise mail_refusals.of(error) from error
        except TRANSPORT as error:
            self._drop()
            raise mail_refusals.of(error) from error
        except (ImproperlyConfigured, ImportError) as error:
            logger.exception("Mail is not set up")
            raise ChannelError("Mail is not set up; the operator's log says why.", whole_lane=True) from error
        except MESSAGE as error:
            self._drop()
            raise ChannelError(f"The mail cannot be written: {type(error).__name__}.", permanent=True) from error
        # Servers close what has been idle for a while. That says nothing about the message.
        return self.send(delivery)

    def _send(self, message: EmailMultiAlternatives) -> Receipt:
        connection = self._opened()
        connection.send_messages([message])
        if isinstance(connection, Folder):
            # One file per connection, and people look for one file per mail.
            self.close()
        status = getattr(message, "anymail_status", None)
        if status is None:
            return Receipt(message_id=message.extra_headers["Message-ID"][:LONGEST_NAME])
        words = ", ".join(sorted(str(word) for word in status.status or ()))
        return Receipt(message_id=str(status.message_id or "")[:LONGEST_NAME], detail=words)

    def _opened(self) -> Any:
        if self._connection is None:
            self._connection = get_connection()
            try:
                self._connection.open()
            except smtplib.SMTPException as error:
                self._drop()
                # Before any message was named: whatever the server dislikes, it dislikes in all of them.
                raise ChannelError(mail_refusals.in_words(error), whole_lane=True) from error
        return self._connection

    def _drop(self) -> None:
        """Without a word of goodbye, which a server that hangs would not answer either."""
        connection, self._connection = self._connection, None
        for name in ("connection", "_partial_connection"):
            if (smtp := getattr(connection, name, None)) is not None:
                smtp.close()

    def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with contextlib.suppress(*TRANSPORT):
                connection.close()


def build(delivery: Delivery) -> EmailMultiAlternatives:
    recipient = _clean(delivery.recipient)
    if not ADDRESS.fullmatch(recipient):
        raise ChannelError("This is no address one could write to.", permanent=True, unreachable=True)
    said = messages.compose(delivery)
    answers_to = _clean(delivery.channel.reply_to) if delivery.channel else ""
    message = EmailMultiAlternatives(
        subject=_clean(said.subject)[:LONGEST_SUBJECT],
        body=said.text,
        from_email=settings.DEFAULT_FROM_EMAIL,
        to=[recipient],
        reply_to=[answers_to] if answers_to else None,
        headers=_headers(delivery),
    )
    message.attach_alternative(said.html, "text/html")
    # Read by Anymail alone. A tracked link would be another one than the person was meant to open.
    message.track_opens = False  # type: ignore[attr-defined]
    message.track_clicks = False  # type: ignore[attr-defined]
    message.metadata = {"delivery": str(delivery.pk)}  # type: ignore[attr-defined]
    return message


def _headers(delivery: Delivery) -> dict[str, str]:
    headers = {"X-Holdpoint-Delivery": str(delivery.pk), "Auto-Submitted": "auto-generated"}
    if not settings.EMAIL_BACKEND.startswith("anymail."):
        # The same in every try, so that a mailbox may know a repetition. Providers give names of their own, and
        # some of them refuse a message that comes with one.
        sender = parseaddr(settings.DEFAULT_FROM_EMAIL)[1].rpartition("@")[2] or "holdpoint"
        headers["Message-ID"] = f"<holdpoint.{delivery.pk}@{sender}>"
    return headers


def _clean(text: str) -> str:
    """Without line ends and whatever else could start a header, or turn the reading direction round."""
    kept = (" " if unicodedata.category(char).startswith("C") else char for char in text)
    return " ".join("".join(kept).split())
