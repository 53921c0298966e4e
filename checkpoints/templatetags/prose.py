"""Descriptions as the OpenAPI document has them, for a page."""

import re

from django import template
from django.utils.html import escape
from django.utils.safestring import SafeString, mark_safe

register = template.Library()
CODE = re.compile(r"`([^`]+)`")


@register.filter
def prose(text: str) -> SafeString:
    """Escaped, with `words of the API` set apart."""
    return mark_safe(CODE.sub(r"<code>\1</code>", escape(text)))  # noqa: S308 (escaped just now)
