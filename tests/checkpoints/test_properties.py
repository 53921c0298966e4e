"""The pure parts under many made-up inputs (promise 12): each obeys its law, and raises nothing it does not promise."""

import json
import time
import uuid
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from checkpoints import actions, answers, assignment, deadlines, errors, machine, quorum
from checkpoints.models import Checkpoint, Status, Vote
from tests.checkpoints import contract
from tests.heavy import figures
from tests.heavy.sizes import IS_FULL, SIZES

pytestmark = pytest.mark.heavy

many = settings(
    max_examples=SIZES.pure_examples,
    derandomize=not IS_FULL,
    database=None,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
JSON: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
PREFIXES = ["user", "USER", "group", "Group", "role", "delegated_user", "Delegated_User", "team", "", " user "]
RAWS = st.text() | st.builds(
    lambda prefix, colon, value: f"{prefix}{colon}{value}",
    st.sampled_from(PREFIXES),
    st.sampled_from(["", ":", " : ", "::"]),
    st.text(max_size=20) | st.sampled_from(["ann@acme.example", "Finance", " board ", str(uuid.UUID(int=7)).upper()]),
)
UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


@pytest.fixture(scope="module", autouse=True)
def _the_figure() -> Iterator[None]:
    started = time.perf_counter()
    yield
    figures.report(
        12, f"the pure parts: {SIZES.pure_examples:,} made-up inputs at most for each of 7 laws", started=started
    )


@many
@given(RAWS)
def test_the_parser_is_total_and_as_the_contract_says(raw):
    found = assignment.parse(raw)
    kind, value = contract.parse(raw)
    assert found.raw == raw
    if len(found.value or value) > assignment.RAW_LENGTH:
        kind, value = "unrouted", ""
    assert found.type == kind
    assert found.value == (assignment.normal_person(value) if kind == "user" else value)
    assert bool(found.reason) == (kind == "unrouted")


@many
@given(st.integers(0, 10**6), st.sampled_from(sorted(UNITS)))
def test_every_way_to_write_a_span_means_the_same(count, unit):
    seconds = count * UNITS[unit]
    ways = [seconds, f" {seconds} ", f"{count}{unit}", f"{count}{unit.upper()}"]
    ways.append(f"P{count}D" if unit == "d" else f"PT{count}{unit.upper()}")
    if not 1 <= seconds <= deadlines.LONGEST.total_seconds():
        for way in ways:
            with pytest.raises(deadlines.UnreadableSpan):
                deadlines.parse_span(way)
    else:
        assert {deadlines.parse_span(way) for way in ways} == {timedelta(seconds=seconds)}


@many
@given(st.text() | st.integers() | st.floats())
def test_a_span_is_read_or_refused_and_nothing_else(raw):
    try:
        span = deadlines.parse_span(raw)
    except deadlines.UnreadableSpan:
        return
    assert timedelta(seconds=1) <= span <= deadlines.LONGEST


OPTIONS = st.sampled_from([[], ["approve", "reject"], ["yes", {"id": "no", "requires_comment": True}], ["answered"]])
ACTION = {"name": "refund", "args": {"amount": 7}, "args_schema": {"properties": {"amount": {"type": "integer"}}}}
WORDS = st.sampled_from(
    [None, "", "approve", "reject", "yes", "no", "edit", "respond", "continue", "default", "answered"]
)


@many
@given(
    options=OPTIONS,
    kind=st.sampled_from(["approval", "freeform", "debug_breakpoint"]),
    with_action=st.booleans(),
    decision=WORDS,
    response=st.sampled_from([None, "", " ", "In words."]),
    comment=st.sampled_from(["", " ", "Because."]),
    edited=st.sampled_from([None, {"amount": 5}]),
)
def test_an_answer_counts_exactly_when_the_contract_says_so(
    options, kind, with_action, decision, response, comment, edited
):
    action = ACTION if with_action else None
    row = Checkpoint(checkpoint_type=kind, options=options or None, action=action)
    said = contract.Said(decision, response, comment, edited)
    model = contract.Row(
        checkpoint_type=kind,
        options=[option if isinstance(option, str) else option["id"] for option in options],
        comment_needed="no" if any(isinstance(option, dict) for option in options) else "",
        action=action,
    )
    # An edit that the schema refuses is a matter of the state machine's own test.
    try:
        expected = contract.Contract(contract.Directory({}, set())).checked(model, said)
    except contract.Refused:
        with pytest.raises(errors.InvalidDecision) as refusal:
            answers.check(row, answers.Answer(decision, response, comment, edited))
        assert refusal.value.errors
    else:
        found = answers.check(row, answers.Answer(decision, response, comment, edited))
        assert found["decision"] == expected.decision
        assert ("action_digest" in found) == with_action


@many
@given(st.dictionaries(st.text(max_size=8), JSON, max_size=5), st.randoms())
def test_the_digest_of_an_action_depends_on_what_it_says_and_on_nothing_else(args, chance):
    action = {"name": "refund", "args": args}
    shuffled = list(args.items())
    chance.shuffle(shuffled)
    again = json.loads(json.dumps({"args": dict(shuffled), "name": "refund"}))
    assert actions.digest_of(again) == actions.digest_of(action)
    other = actions.as_decided(action, {**args, "one more": 1})
    assume("one more" not in args)
    assert actions.digest_of(other) != actions.digest_of(action)
    assert actions.digest_of(actions.as_decided(action, None)) == actions.digest_of(action)


@many
@given(st.lists(st.booleans(), max_size=12), st.integers(2, 6), st.integers(0, 4))
def test_a_tally_is_decided_once_and_by_the_vote_that_counts(ballots, required, allowed):
    counted = quorum.Tally(required, allowed)
    for place, approves in enumerate(ballots):
        if counted.is_reached or counted.is_refused:
            break
        assert counted.missing > 0
        counted.votes.append(Vote(voter=f"voter{place}", decision="approve" if approves else "no", approves=approves))
        # No vote can do both: it is an approval or it is not.
        assert not (counted.is_reached and counted.is_refused)
        assert counted.is_reached == (counted.approvals == required)
        assert counted.is_refused == (counted.rejections == allowed + 1)
    assert counted.approvals + counted.rejections == len(counted.votes) <= required + allowed
    assert {vote.voter for vote in counted.votes} == {f"voter{place}" for place in range(len(counted.votes))}


@many
@given(st.sampled_from(sorted(machine.TABLE)), st.sampled_from(Status.values), st.sampled_from(Status.values))
def test_nothing_leaves_a_final_state(command, before, after):
    if before != "pending":
        assert not machine.leads_to(command, before, after)
        with pytest.raises(errors.Refusal) as refusal:
            machine.check(Checkpoint(status=before), command)
        assert refusal.value.code == contract.ENDED[before]
    else:
        machine.check(Checkpoint(status=before), command)
