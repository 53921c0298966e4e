"""What the other side of an HTTP call asked for."""

from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

LONGEST = 86400.0


def seconds_asked_for(header: str | None, *, at: datetime) -> float | None:
    """Of ``Retry-After``: a number of seconds or a moment. None when there is nothing one could go by."""
    text = (header or "").strip()
    if text.isascii() and text.isdecimal():
        # More digits than a day needs mean for ever.
        return min(float(text[:9]), LONGEST)
    try:
        moment = parsedate_to_datetime(text)
    except ValueError:
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return min(max((moment - at).total_seconds(), 0.0), LONGEST)
