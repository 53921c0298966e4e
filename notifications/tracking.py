"""The door by which the mail provider reports back: at Anymail's usual address, for the one provider that is in use.

Anymail has a view for every provider it knows, most of them open to anybody unless a secret is set. So only one is
served, and only when the provider has to prove who it is.
"""

import logging
from typing import Any

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBadRequest
from django.http.response import HttpResponseBase
from django.urls import Resolver404, resolve
from django.views.decorators.csrf import csrf_exempt

logger = logging.getLogger(__name__)

BACKEND = "anymail.backends."


def provider_in_use() -> str:
    """Empty when mail goes another way."""
    if not settings.EMAIL_BACKEND.startswith(BACKEND):
        return ""
    return str(settings.EMAIL_BACKEND).removeprefix(BACKEND).partition(".")[0]


@csrf_exempt
def tracking(request: HttpRequest, provider: str) -> HttpResponseBase:
    view = _view_of(provider) if provider == provider_in_use() else None
    if view is None or not is_guarded(view):
        raise Http404
    try:
        answer: HttpResponse = view(request)
    except (ValueError, LookupError, TypeError, AttributeError):
        # Whoever sent it has proved who it is, but not that it speaks as documented.
        logger.exception("A report of %s cannot be read", provider)
        return HttpResponseBadRequest("This report cannot be read.\n", content_type="text/plain")
    return answer


def stands_open() -> bool:
    """Would anybody be believed? Then nobody is, and a system check says so."""
    view = _view_of(provider_in_use())
    return view is not None and not is_guarded(view)


def _view_of(provider: str) -> Any:
    try:
        return resolve(f"/{provider}/tracking/", "anymail.urls").func
    except Resolver404:
        return None


def is_guarded(view: Any) -> bool:
    """By a signature, without whose key the view cannot even be made, or else by a password."""
    try:
        made = view.view_class(**view.view_initkwargs)
    except ImproperlyConfigured:
        return False
    return bool(made.basic_auth) or not made.warn_if_no_basic_auth
