"""Reading a request: JSON only, bounded, and nothing in it that a database would choke on."""

import json
import math
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, NoReturn

from django.conf import settings
from django.http import HttpRequest, UnreadablePostError
from rest_framework.exceptions import APIException, ParseError, ValidationError
from rest_framework.negotiation import BaseContentNegotiation
from rest_framework.parsers import BaseParser

CHUNK = 64 * 1024
# So many times the largest body are read and thrown away before we hang up on somebody.
DISCARDED = 16
LONGEST_PLACE = 200


class TooLarge(APIException):
    status_code = 413
    default_code = "too_large"


class LengthRequired(APIException):
    status_code = 411
    default_code = "invalid"
    default_detail = "Send a Content-Length: bodies in chunks are not read."


class AlwaysJSON(BaseContentNegotiation):
    """There is one format; an Accept header for another one is no reason to refuse."""

    def select_parser(self, request: Any, parsers: Any) -> Any:
        media_type = (request.content_type or "").partition(";")[0].strip().lower()
        return parsers[0] if media_type == "application/json" else None

    def select_renderer(self, request: Any, renderers: Any, format_suffix: Any = None) -> Any:
        return renderers[0], renderers[0].media_type


class StrictJSONParser(BaseParser):
    media_type = "application/json"

    def parse(self, stream: Any, media_type: Any = None, parser_context: Any = None) -> Any:
        announced = parser_context["request"].META.get("CONTENT_LENGTH") if parser_context else None
        return loads(read_bounded(stream, int(announced or 0)))


def read_bounded(stream: Any, announced: int) -> bytes:
    limit = settings.API_BODY_BYTES
    if announced > limit:
        raise TooLarge(f"The body has {announced:,} bytes; at most {limit:,} are read.")
    parts: list[bytes] = []
    size = 0
    while chunk := stream.read(CHUNK):
        size += len(chunk)
        if size > limit:
            raise TooLarge(f"The body has more than {limit:,} bytes.")
        parts.append(chunk)
    if size < announced:
        raise ParseError("The body ended before its announced length.")
    return b"".join(parts)


def discard_rest(request: HttpRequest) -> None:
    """Read what a refusal left unread: a server that hangs up in the middle of a body takes its own answer with it."""
    left = DISCARDED * settings.API_BODY_BYTES
    with suppress(UnreadablePostError):
        while left > 0 and (chunk := request.read(CHUNK)):
            left -= len(chunk)


def loads(body: bytes) -> Any:
    overflow = False

    def finite(text: str) -> float:
        nonlocal overflow
        value = float(text)
        overflow = overflow or math.isinf(value)
        return value

    def refuse(constant: str) -> NoReturn:
        raise ParseError(f"{constant} is not JSON.")

    try:
        text = body.decode("utf-8")
        value = json.loads(text, parse_float=finite, parse_constant=refuse, object_pairs_hook=once)
    except UnicodeDecodeError as error:
        raise ParseError(f"The body is not UTF-8 (byte {error.start}).") from error
    except RecursionError as error:
        raise too_deep() from error
    except json.JSONDecodeError as error:
        raise ParseError(f"Malformed JSON: {error.msg} at line {error.lineno}, column {error.colno}.") from error
    except ValueError as error:
        raise ParseError("A number in the body has too many digits.") from error
    # The walk names the place of a fault; a body without any sign of one is spared it.
    escapes = body.lower()
    nested = body.count(b"[") + body.count(b"{") > settings.API_JSON_DEPTH
    if overflow or nested or b"\\u0000" in escapes or b"\\ud" in escapes:
        refuse_poison(value)
    return value


def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Two values under one name: whichever we took, somebody along the way could have read the other one."""
    found = dict(pairs)
    if len(found) < len(pairs):
        twice = Counter(name for name, _ in pairs).most_common(1)[0][0]
        spoken = f"“{twice[:LONGEST_PLACE]}”" if not trouble_with(twice) else "A name"
        raise ParseError(f"{spoken} is given twice in one object.")
    return found


def too_deep() -> TooLarge:
    return TooLarge(f"The JSON is nested more than {settings.API_JSON_DEPTH} levels deep.")


def refuse_poison(value: Any) -> None:
    for place, found, depth in walk(value):
        if depth > settings.API_JSON_DEPTH:
            raise too_deep()
        trouble = trouble_with(found)
        if trouble:
            raise ValidationError({place or "body": [trouble]})


def trouble_with(value: Any) -> str:
    if isinstance(value, float) and math.isinf(value):
        return "The number is too large."
    if isinstance(value, str):
        if "\x00" in value:
            return "NUL characters are not allowed."
        if any("\ud800" <= character <= "\udfff" for character in value):
            return "Half of a surrogate pair is not a character."
    return ""


def walk(root: Any) -> Iterator[tuple[str, Any, int]]:
    """Every value (and every key) with its place and depth, without recursion."""
    open_ones = [iter([("", root, 0)])]
    while open_ones:
        for place, value, depth in open_ones[-1]:
            inner = isinstance(value, dict | list)
            yield place, value, depth + inner
            if isinstance(value, dict):
                # A poisoned key is reported at its parent: naming it would repeat the poison.
                yield from ((place or "body", name, depth) for name in value)
            if inner:
                open_ones.append(children(place, value, depth + 1))
                break
        else:
            open_ones.pop()


def children(place: str, value: Any, depth: int) -> Iterator[tuple[str, Any, int]]:
    """One at a time, and with places of bounded length: a long name above many values would fill the memory."""
    if isinstance(value, list):
        for index, inner in enumerate(value):
            yield f"{place}[{index}]"[:LONGEST_PLACE], inner, depth
        return
    for name, inner in value.items():
        safe = "…" if trouble_with(name) else name[:LONGEST_PLACE]
        yield (f"{place}.{safe}" if place else safe)[:LONGEST_PLACE], inner, depth
