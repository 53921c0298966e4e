import re
import uuid
from collections.abc import Callable

from django.http import HttpRequest, HttpResponse

ACCEPTABLE = re.compile(r"[A-Za-z0-9._-]{1,64}")


class RequestId:
    """Every answer names its request, so that a user's report finds the log line."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        given = request.headers.get("X-Request-ID", "")
        # A caller's id ends up in logs: anything but a plain word is replaced.
        request_id = given if ACCEPTABLE.fullmatch(given) else uuid.uuid4().hex
        request.request_id = request_id  # type: ignore[attr-defined]
        response = self.get_response(request)
        response["X-Request-ID"] = request_id
        return response


class OnlyUtf8:
    """Addresses and forms are UTF-8, whatever charset the request names: some names are no text encoding at all."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        if request.encoding is not None:
            request.encoding = "utf-8"
        return self.get_response(request)
