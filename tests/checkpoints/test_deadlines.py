"""Spans of time as programs write them (semantics §4)."""

import math
from datetime import UTC, datetime, timedelta

import pytest

from checkpoints.deadlines import LONGEST, UnreadableSpan, next_deadline, parse_span

NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("raw", "span"),
    [
        (90, timedelta(seconds=90)),
        (90.9, timedelta(seconds=90)),
        (1, timedelta(seconds=1)),
        ("90", timedelta(seconds=90)),
        ("90.9", timedelta(seconds=90)),
        (" 90 ", timedelta(seconds=90)),
        ("45s", timedelta(seconds=45)),
        ("15m", timedelta(minutes=15)),
        ("24h", timedelta(hours=24)),
        ("3d", timedelta(days=3)),
        ("3D", timedelta(days=3)),
        ("PT24H", timedelta(hours=24)),
        ("pt24h", timedelta(hours=24)),
        ("P1D", timedelta(days=1)),
        ("P2W", timedelta(weeks=2)),
        ("P1DT2H3M4S", timedelta(days=1, hours=2, minutes=3, seconds=4)),
        ("PT1.5S", timedelta(seconds=1)),
        ("PT90M", timedelta(minutes=90)),
        (LONGEST.total_seconds(), LONGEST),
        ("3660d", LONGEST),
    ],
)
def test_every_form_of_a_span_is_read(raw, span):
    assert parse_span(raw) == span


@pytest.mark.parametrize(
    "raw",
    [
        "",
        " ",
        "soon",
        "15 m",
        "15x",
        "m15",
        "1h30m",
        "1,5h",
        "P",
        "PT",
        "P1DT",
        "P1M",
        "P1Y",
        "PT-1H",
        "-P1D",
        "+5",
        "1e3",
        "0x10",
        "٣d",
        "\uff13\uff10",
        "PT٣H",
        "9" * 400,
        "\x00",
        "\ud800",
        True,
        False,
        math.nan,
    ],
)
def test_anything_else_is_refused_with_the_forms_there_are(raw):
    with pytest.raises(UnreadableSpan, match=r"Use seconds \(90\), 15m, 24h, 3d or ISO 8601 \(PT24H\)\."):
        parse_span(raw)


@pytest.mark.parametrize("raw", [0, -1, 0.9, "0", "-5", "0s", "PT0S", "PT0.5S", -math.inf])
def test_a_span_is_at_least_one_second(raw):
    with pytest.raises(UnreadableSpan, match="at least one second"):
        parse_span(raw)


@pytest.mark.parametrize("raw", ["3661d", "9999999999d", 10**30, 1e300, math.inf, "999999999999", "P999999W"])
def test_a_span_is_at_most_ten_years(raw):
    with pytest.raises(UnreadableSpan, match="at most ten years"):
        parse_span(raw)


def test_a_long_rubbish_span_is_not_repeated_in_full():
    with pytest.raises(UnreadableSpan) as refused:
        parse_span("x" * 10_000)
    assert len(str(refused.value)) < 200


def test_the_next_deadline_is_what_the_program_wrote_or_else_the_first_span():
    assert next_deadline(timeout_raw="2h", window_s=60, at=NOON) == NOON + timedelta(hours=2)
    assert next_deadline(timeout_raw="", window_s=60, at=NOON) == NOON + timedelta(minutes=1)
    assert next_deadline(timeout_raw="", window_s=None, at=NOON) is None


@pytest.mark.parametrize("timeout", [90.5, 3600.0, "90.5", " 2h ", "PT1H"])
def test_a_timeout_that_create_takes_can_be_read_again_when_it_escalates(ask, timeout):
    row = ask(timeout=timeout, expiry_action="escalate", escalation_target="role:tenant_admin")
    row.refresh_from_db()
    again = next_deadline(timeout_raw=row.timeout_raw, window_s=row.window_s, at=row.created_at)
    assert again == row.expires_at


def test_a_deadline_a_moment_away_still_has_a_span_for_the_next_round(ask):
    moment = datetime.now(UTC) + timedelta(milliseconds=400)
    row = ask(expires_at=moment, expiry_action="escalate", escalation_target="role:tenant_admin")
    assert next_deadline(timeout_raw="", window_s=row.window_s, at=NOON) > NOON
