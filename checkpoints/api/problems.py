"""Every error leaves as RFC 9457 problem+json, from this file."""

import logging
from http import HTTPStatus
from typing import Any

from django.core.exceptions import PermissionDenied
from django.db import InterfaceError, OperationalError
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import render
from rest_framework import exceptions
from rest_framework.response import Response

from checkpoints import errors
from checkpoints.api import represent

logger = logging.getLogger(__name__)

CONTENT_TYPE = "application/problem+json"
STATUS: dict[str, int] = {
    "invalid": 400,
    "invalid_decision": 400,
    "forbidden": 403,
    "not_found": 404,
    "already_resolved": 409,
    "already_cancelled": 409,
    "already_expired": 409,
    "already_voted": 409,
    "claimed_by_other": 409,
    "not_claimable": 409,
    "nobody_to_remind": 409,
    "stale": 412,
    "idempotency_mismatch": 422,
    "unavailable": 503,
}
CODES = {400: "invalid", 401: "unauthenticated", 403: "forbidden", 404: "not_found", 405: "method_not_allowed"}
CODES |= {411: "invalid", 413: "too_large", 415: "unsupported_media_type", 429: "throttled", 503: "unavailable"}
# Answers about the row's state carry the row, so that the caller need not ask again.
WITH_ROW = {409, 412}
RETRY_AFTER_S = 2
API_PREFIXES = ("/v1/", "/api/")


def body(
    status: int, code: str, detail: str, *, request: Any, errors: Any = None, checkpoint: Any = None
) -> dict[str, Any]:
    problem: dict[str, Any] = {
        "type": f"urn:holdpoint:problem:{code}",
        "title": HTTPStatus(status).phrase,
        "status": status,
        "detail": detail,
        "code": code,
        "errors": errors or {},
        "request_id": getattr(request, "request_id", ""),
    }
    if checkpoint is not None:
        problem["checkpoint"] = represent.checkpoint(checkpoint)
    return problem


def handle(error: Exception, context: dict[str, Any]) -> Response | None:
    """DRF's exception handler."""
    request = context["request"]
    http = getattr(request, "_request", request)
    if isinstance(error, errors.Refusal):
        return _refused(error, http)
    if isinstance(error, OperationalError | InterfaceError):
        logger.exception("The database did not answer")
        return _unavailable(http)
    if isinstance(error, Http404):
        error = exceptions.NotFound()
    elif isinstance(error, PermissionDenied):
        error = exceptions.PermissionDenied(str(error) or None)
    if not isinstance(error, exceptions.APIException):
        return None
    return _from_framework(error, http)


def _refused(error: errors.Refusal, request: Any) -> Response:
    status = STATUS[error.code]
    # Where the refusal says that the row does not exist, its content must not say otherwise.
    row = error.checkpoint if status in WITH_ROW else None
    content = body(status, error.code, error.detail, request=request, errors=error.errors, checkpoint=row)
    headers = {"Retry-After": str(RETRY_AFTER_S)} if status == 503 else {}
    if row is not None:
        headers["ETag"] = represent.etag(row)
    return Response(content, status=status, headers=headers, content_type=CONTENT_TYPE)


def _unavailable(request: Any) -> Response:
    content = body(503, "unavailable", "The database is out of reach. Nothing was written; try again.", request=request)
    return Response(content, status=503, headers={"Retry-After": str(RETRY_AFTER_S)}, content_type=CONTENT_TYPE)


def _from_framework(error: exceptions.APIException, request: Any) -> Response:
    status = error.status_code
    headers = {}
    if header := getattr(error, "auth_header", None):
        headers["WWW-Authenticate"] = header
    if wait := getattr(error, "wait", None):
        headers["Retry-After"] = str(int(wait))
    detail, fields = _sentences(error)
    if status == 404 and isinstance(error, exceptions.NotFound) and detail == "Not found.":
        detail = errors.NotFound.sentence
    if isinstance(error, exceptions.UnsupportedMediaType):
        detail = "Send JSON, with the header Content-Type: application/json."
    content = body(status, CODES.get(status, "invalid"), detail, request=request, errors=fields)
    return Response(content, status=status, headers=headers, content_type=CONTENT_TYPE)


def _sentences(error: exceptions.APIException) -> tuple[str, errors.FieldErrors]:
    if not isinstance(error.detail, dict):
        text = error.detail if isinstance(error.detail, str) else " ".join(map(str, error.detail))
        return str(text), {}
    fields = {str(name): flat(messages) for name, messages in error.detail.items()}
    return " ".join(f"{name}: {' '.join(messages)}" for name, messages in fields.items()), fields


def flat(messages: Any) -> list[str]:
    if isinstance(messages, dict):
        return [f"{place}: {text}" for place, inner in messages.items() for text in flat(inner)]
    if isinstance(messages, list | tuple):
        return [text for inner in messages for text in flat(inner)]
    return [str(messages)]


def page(request: HttpRequest, status: int, detail: str) -> HttpResponse:
    """What Django itself refuses: a problem for programs, a page for people."""
    if f"{request.path}/".startswith(API_PREFIXES):
        content = body(status, CODES.get(status, "internal"), detail, request=request)
        return JsonResponse(content, status=status, content_type=CONTENT_TYPE)
    context = {"status": status, "title": HTTPStatus(status).phrase, "detail": detail}
    context["request_id"] = getattr(request, "request_id", "")
    return render(request, "problem.html", context, status=status)


def bad_request(request: HttpRequest, exception: Exception) -> HttpResponse:
    return page(request, 400, "The request could not be understood.")


def forbidden(request: HttpRequest, exception: Exception) -> HttpResponse:
    return page(request, 403, str(exception) or "You are not allowed to do this.")


def not_found(request: HttpRequest, exception: Exception | None = None, **_: str) -> HttpResponse:
    return page(request, 404, "There is nothing at this address.")


def server_error(request: HttpRequest) -> HttpResponse:
    return page(request, 500, "Something went wrong on our side. The request id helps us to find it.")
