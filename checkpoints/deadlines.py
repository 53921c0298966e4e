"""Time: spans as programs write them, and the deadline of the next round."""

import math
import re
from datetime import datetime, timedelta

UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
SECONDS = re.compile(r"(?P<whole>-?\d{1,12})(?:\.\d+)?", re.ASCII)
SHORT = re.compile(r"(?P<count>\d{1,10})(?P<unit>[smhd])", re.ASCII)
ISO = re.compile(
    r"P(?:(?P<weeks>\d{1,6})W)?(?:(?P<days>\d{1,6})D)?"
    r"(?:T(?:(?P<hours>\d{1,8})H)?(?:(?P<minutes>\d{1,8})M)?(?:(?P<seconds>\d{1,10})(?:\.\d+)?S)?)?",
    re.ASCII,
)
LONGEST = timedelta(days=3660)
FORMS = "Use seconds (90), 15m, 24h, 3d or ISO 8601 (PT24H)."


class UnreadableSpan(ValueError):
    """The message says what was wrong and which forms there are."""


def parse_span(raw: str | int | float) -> timedelta:
    seconds = _seconds(raw)
    if seconds is None:
        raise UnreadableSpan(f"“{str(raw)[:60]}” is not a span of time. {FORMS}")
    if seconds < 1:
        raise UnreadableSpan(f"The span must be at least one second. {FORMS}")
    if seconds > LONGEST.total_seconds():
        raise UnreadableSpan("The span must be at most ten years.")
    return timedelta(seconds=seconds)


def _seconds(raw: str | int | float) -> int | None:
    if isinstance(raw, bool) or (isinstance(raw, float) and math.isnan(raw)):
        return None
    if isinstance(raw, int | float):
        # A number beyond any calendar must not become an overflow.
        return int(max(min(raw, 10**12), -(10**12)))
    text = raw.strip()
    if plain := SECONDS.fullmatch(text):
        return int(plain["whole"])
    if short := SHORT.fullmatch(text.lower()):
        return int(short["count"]) * UNITS[short["unit"]]
    iso = ISO.fullmatch(text.upper())
    if iso and any(iso.groupdict().values()) and not text.upper().endswith("T"):
        found = {name: int(value or 0) for name, value in iso.groupdict().items()}
        return int(timedelta(**found).total_seconds())
    return None


def next_deadline(*, timeout_raw: str, window_s: int | None, at: datetime) -> datetime | None:
    """The deadline of the next round, from what the program wrote, or else from the first round's span."""
    if timeout_raw:
        return at + parse_span(timeout_raw)
    return at + timedelta(seconds=window_s) if window_s else None
