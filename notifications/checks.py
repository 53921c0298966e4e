"""Misconfiguration shows up as system checks, each with an id and a hint."""

from typing import Any

from django.core.checks import CheckMessage, Error, register
from django.core.exceptions import ImproperlyConfigured
from django.core.mail import get_connection

from notifications import tracking


@register
def reports_are_believed_from_the_provider_alone(**_: Any) -> list[CheckMessage]:
    if not tracking.stands_open():
        return []
    hint = "Set ANYMAIL_WEBHOOK_SECRET=user:password, or the key by which the provider signs its reports."
    return [Error("Anybody could report what became of a mail.", hint=hint, id="holdpoint.E010")]


@register
def the_mail_provider_has_its_key(**_: Any) -> list[CheckMessage]:
    if not tracking.provider_in_use():
        return []
    try:
        get_connection()
    except ImproperlyConfigured as error:
        hint = f"Anymail says: {error}. Each ANYMAIL_… is a setting of the environment here."
        return [Error("The mail provider of EMAIL_URL is not set up.", hint=hint, id="holdpoint.E011")]
    return []
