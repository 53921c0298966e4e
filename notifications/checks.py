"""Misconfiguration shows up as system checks, each with an id and a hint."""

from typing import Any

from django.core.checks import CheckMessage, Error, register

from notifications import tracking


@register
def reports_are_believed_from_the_provider_alone(**_: Any) -> list[CheckMessage]:
    if not tracking.stands_open():
        return []
    hint = "Set ANYMAIL_WEBHOOK_SECRET=user:password, or the key by which the provider signs its reports."
    return [Error("Anybody could report what became of a mail.", hint=hint, id="holdpoint.E010")]
