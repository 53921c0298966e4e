"""What a mail server or a provider said, and what follows from it."""

import re
import smtplib
import ssl
from typing import Any

from anymail.exceptions import AnymailError, AnymailInvalidAddress, AnymailRecipientsRefused, AnymailUnsupportedFeature
from django.conf import settings
from django.utils import timezone

from notifications.channels.answers import seconds_asked_for
from notifications.channels.base import ChannelError

# The service closes; credentials are asked for or refused: every message would meet the same.
SERVER_ITSELF = {421, 454, 530, 534, 535, 538}
NO_MAILBOX = {550, 551, 553}
TOO_LARGE = 552
ENHANCED = re.compile(r"\b([245])\.(\d{1,3})\.(\d{1,3})\b")
# Of a provider: what says something about our account, and nothing about this message.
ACCOUNT = {401, 402, 403, 408, 429}
LONGEST_QUOTE = 200
SHORTEST_SECRET = 6


def of(error: Exception) -> ChannelError:
    if isinstance(error, AnymailError):
        return _of_provider(error)
    if isinstance(error, smtplib.SMTPRecipientsRefused):
        code, said = next(iter(error.recipients.values()), (0, b""))
        return of_answer(code, said)
    if isinstance(error, smtplib.SMTPSenderRefused):
        # The sender is the same for all, the size is not.
        permanent = error.smtp_code == TOO_LARGE
        return ChannelError(in_words(error), permanent=permanent, whole_lane=not permanent)
    if isinstance(error, smtplib.SMTPAuthenticationError | smtplib.SMTPConnectError | smtplib.SMTPHeloError):
        return ChannelError(in_words(error), whole_lane=True)
    if isinstance(error, smtplib.SMTPResponseException):
        return of_answer(error.smtp_code, error.smtp_error)
    if isinstance(error, smtplib.SMTPNotSupportedError):
        return ChannelError("The mail server cannot carry this address.", permanent=True)
    return ChannelError(in_words(error), whole_lane=True)


def of_answer(code: int, said: bytes | str) -> ChannelError:
    """About one recipient or one message."""
    text = _text(said)
    detail = f"The mail server answered {code} {text}".strip()
    if code in SERVER_ITSELF:
        return ChannelError(detail, whole_lane=True, response_status=code)
    permanent = 500 <= code < 600
    return ChannelError(
        detail,
        permanent=permanent,
        unreachable=permanent and names_no_mailbox(code, text),
        response_status=code or None,
    )


def names_no_mailbox(code: int, text: str) -> bool:
    """The longer code says it better: 550 is also what servers answer to a sender they do not like."""
    if found := ENHANCED.search(text):
        return found[1] == "5" and (found[2] == "1" or (found[2], found[3]) == ("2", "1"))
    return code in NO_MAILBOX


def in_words(error: Exception) -> str:
    if isinstance(error, smtplib.SMTPAuthenticationError):
        return f"The mail server refused our credentials ({error.smtp_code})."
    if isinstance(error, smtplib.SMTPResponseException):
        return f"The mail server answered {error.smtp_code} {_text(error.smtp_error)}".strip()
    # The library makes both of a silence and of a goodbye the same error.
    if isinstance(error, TimeoutError) or "timed out" in str(error):
        return "The mail server did not answer in time."
    if isinstance(error, smtplib.SMTPServerDisconnected):
        return "The mail server closed the connection."
    if isinstance(error, ConnectionRefusedError):
        return "The mail server refused the connection."
    if isinstance(error, ssl.SSLError):
        return "The encrypted connection to the mail server could not be set up."
    return "The mail server could not be reached."


def _of_provider(error: AnymailError) -> ChannelError:
    if isinstance(error, AnymailRecipientsRefused):
        detail = f"{_name(error)} refused the recipient. {_quote(error.response)}"
        return ChannelError(detail, permanent=True, unreachable=True, response_status=_status(error))
    if isinstance(error, AnymailInvalidAddress | AnymailUnsupportedFeature | TypeError):
        return ChannelError("The mail provider cannot carry this message.", permanent=True)
    status = _status(error)
    if status is None:
        return ChannelError(f"{_name(error)} could not be reached.", whole_lane=True)
    detail = f"{_name(error)} answered {status}. {_quote(error.response)}"
    asked = seconds_asked_for(getattr(error.response, "headers", {}).get("Retry-After"), at=timezone.now())
    if status in ACCOUNT or status >= 500:
        return ChannelError(detail, whole_lane=True, retry_after=asked, response_status=status)
    # Below 400 it was taken, but the answer made no sense: it may or may not have been sent.
    return ChannelError(detail, permanent=status >= 400, response_status=status)


def _name(error: AnymailError) -> str:
    return str(error.esp_name or "The mail provider")


def _status(error: AnymailError) -> int | None:
    status = error.status_code or getattr(error.response, "status_code", None)
    return int(status) if status else None


def _quote(response: Any) -> str:
    """The provider's own words, without anything that is secret here."""
    try:
        said = response.json()
        text = str(said.get("Message") or said.get("message") or said.get("error") or "")
    except (AttributeError, ValueError):
        return ""
    for secret in settings.ANYMAIL.values():
        if isinstance(secret, str) and len(secret) >= SHORTEST_SECRET:
            text = text.replace(secret, "…")
    return text[:LONGEST_QUOTE]


def _text(said: bytes | str) -> str:
    text = said.decode("utf-8", "replace") if isinstance(said, bytes) else str(said)
    return " ".join(text.split())[:LONGEST_QUOTE]
