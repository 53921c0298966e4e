"""What the decision is about (semantics §3, actions)."""

import hashlib
import json
from collections.abc import Callable
from typing import Any

import pytest

from checkpoints import actions, errors, lifecycle, sweeps
from checkpoints.answers import Answer
from checkpoints.models import Checkpoint
from tenants.actors import Actor

pytestmark = pytest.mark.django_db
Ask = Callable[..., Checkpoint]
SCHEMA = {
    "type": "object",
    "properties": {"amount": {"type": "number", "maximum": 2000}, "to": {"type": "string"}},
    "required": ["amount"],
    "additionalProperties": False,
}
REFUND = {"name": "refund", "args": {"amount": 1240, "to": "Acme"}, "args_schema": SCHEMA}


def digest(action: Any) -> str:
    text = json.dumps(action, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()


def decide(row: Checkpoint, actor: Actor, decision: str, **more: Any) -> dict[str, Any]:
    resolution: dict[str, Any] = lifecycle.resolve(row, actor=actor, answer=Answer(decision, **more)).resolution
    return resolution


def test_the_digest_of_what_was_asked_is_on_the_row(ask: Ask) -> None:
    assert ask(action=REFUND).action_digest == digest(REFUND)


@pytest.mark.parametrize("decision", ["approve", "reject", "ignore"])
def test_the_verbs_need_no_options_and_bind_the_action(ask: Ask, program: Actor, decision: str) -> None:
    row = ask(action=REFUND)
    resolution = decide(row, program, decision)
    assert resolution["action_digest"] == digest(REFUND)
    assert "edited_args" not in resolution


def test_another_word_is_refused_with_the_verbs(ask: Ask, program: Actor) -> None:
    with pytest.raises(errors.InvalidDecision, match="approve, edit, reject, respond, ignore"):
        decide(ask(action=REFUND), program, "perhaps")


def test_an_edit_is_checked_stored_and_bound(ask: Ask, program: Actor) -> None:
    row = ask(action=REFUND)
    edited = {"amount": 100, "to": "Acme 😀"}
    resolution = decide(row, program, "edit", edited_args=edited)
    assert resolution["edited_args"] == edited
    assert resolution["action_digest"] == digest(REFUND | {"args": edited})
    row.refresh_from_db()
    assert row.action_digest == resolution["action_digest"]
    assert row.action == REFUND


@pytest.mark.parametrize(
    ("edited", "sentence"),
    [
        (None, "needs the arguments"),
        ({"amount": 5000}, "amount: 5000 is greater than the maximum"),
        ({"amount": "much"}, "amount: 'much' is not of type 'number'"),
        ({"to": "x"}, "'amount' is a required property"),
        ({"amount": 1, "extra": 1}, "Additional properties"),
        ([1], "give an object"),
        ("x", "give an object"),
    ],
)
def test_arguments_that_do_not_fit_the_schema_are_refused_in_words(
    ask: Ask, program: Actor, edited: Any, sentence: str
) -> None:
    with pytest.raises(errors.InvalidDecision) as refused:
        decide(ask(action=REFUND), program, "edit", edited_args=edited)
    assert sentence in " ".join(refused.value.errors["edited_args"])


def test_only_an_edit_edits(ask: Ask, program: Actor) -> None:
    with pytest.raises(errors.InvalidDecision, match="Only with the decision “edit”"):
        decide(ask(action=REFUND), program, "approve", edited_args={"amount": 1})
    with pytest.raises(errors.InvalidDecision, match="no action to edit"):
        decide(ask(), program, "approve", edited_args={"amount": 1})


def test_respond_needs_words(ask: Ask, program: Actor) -> None:
    row = ask(action=REFUND)
    with pytest.raises(errors.InvalidDecision, match="needs an answer in words"):
        decide(row, program, "respond")
    assert decide(row, program, "respond", response="Ask them first.")["response"] == "Ask them first."


def test_an_action_may_bring_options_of_its_own(ask: Ask, program: Actor) -> None:
    row = ask(action=REFUND, options=["pay", "refuse"])
    with pytest.raises(errors.InvalidDecision):
        decide(row, program, "approve")
    assert decide(row, program, "pay")["action_digest"] == digest(REFUND)


def test_the_same_edit_twice_is_one_and_another_is_a_conflict(ask: Ask, program: Actor) -> None:
    row = ask(action=REFUND)
    first = decide(row, program, "edit", edited_args={"amount": 1})
    row.refresh_from_db()
    assert decide(row, program, "edit", edited_args={"amount": 1}) == first
    with pytest.raises(errors.AlreadyResolved):
        decide(row, program, "edit", edited_args={"amount": 2})


@pytest.mark.parametrize(
    "action",
    [
        {},
        {"name": " "},
        {"name": 1},
        {"name": "x" * 201},
        {"name": "x", "args": [1]},
        {"name": "x", "more": 1},
        {"name": "x", "args_schema": True},
        {"name": "x", "args_schema": {"type": "nonsense"}},
        {"name": "x", "args": {"a": 1}, "args_schema": {"properties": {"a": {"type": "string"}}}},
        {"name": "x", "args_schema": {"$ref": "http://127.0.0.1:9/schema.json"}},
        {"name": "x", "args_schema": {"$ref": "file:///etc/passwd"}},
        {"name": "x", "args_schema": {"$ref": "#/nowhere"}},
        {"name": "x", "args_schema": {"$ref": "#"}},
        {"name": "x", "args_schema": {"$schema": 5}},
        {"name": "x", "args_schema": {"$schema": ["x"]}},
        {"name": "x", "args": {"a": 10**400}, "args_schema": {"properties": {"a": {"multipleOf": 0.1}}}},
        {"name": "x", "args_schema": {"required": ["a"], "$ref": "#/required/0"}},
        {"name": "x", "args_schema": {"minProperties": 0, "$ref": "#/minProperties"}},
        {"name": "x", "args_schema": {"properties": {"a": {"pattern": "^(a+)+$"}}}},
        {"name": "x", "args_schema": {"anyOf": [{"patternProperties": {"a": {}}}]}},
        {"name": "x", "args_schema": {"$defs": {"a": {"$dynamicRef": "#"}}}},
        "refund",
    ],
)
def test_an_action_that_makes_no_sense_is_refused_by_name(ask: Ask, action: Any) -> None:
    with pytest.raises(errors.InvalidInput) as refused:
        ask(action=action)
    assert list(refused.value.errors) == ["action"]


def test_a_schema_may_refer_to_itself(ask: Ask, program: Actor) -> None:
    schema = {"$defs": {"money": {"type": "number"}}, "properties": {"amount": {"$ref": "#/$defs/money"}}}
    row = ask(action={"name": "pay", "args": {"amount": 1}, "args_schema": schema})
    with pytest.raises(errors.InvalidDecision):
        decide(row, program, "edit", edited_args={"amount": "x"})
    assert actions.problems_with_args({"name": "pay"}, {"anything": 1}) == []


def test_a_property_may_be_called_pattern(ask: Ask) -> None:
    assert ask(action={"name": "search", "args_schema": {"properties": {"pattern": {"type": "string"}}}}).action


def test_a_schema_that_doubles_with_every_step_is_given_up(ask: Ask) -> None:
    steps = {f"s{n}": {"allOf": [{"$ref": f"#/$defs/s{n + 1}"}] * 2} for n in range(20)} | {"s20": {}}
    with pytest.raises(errors.InvalidInput, match="takes too long"):
        ask(action={"name": "x", "args_schema": {"$ref": "#/$defs/s0", "$defs": steps}})


def test_time_that_approves_binds_the_action_too(ask: Ask, later: Callable[..., None]) -> None:
    row = ask(action=REFUND, timeout="1h", expiry_action="approve")
    later(hours=2)
    sweeps.expire_checkpoints()
    row.refresh_from_db()
    assert row.resolution["action_digest"] == digest(REFUND)


def test_time_cannot_edit(ask: Ask) -> None:
    with pytest.raises(errors.InvalidInput, match="Time cannot edit"):
        ask(action=REFUND, timeout="1h", expiry_action="default_option", default_option="edit")


@pytest.mark.parametrize("name", ["response", "edited_args"])
def test_what_a_database_could_not_hold_is_refused_at_every_door(ask: Ask, program: Actor, name: str) -> None:
    deep: Any = {}
    for _ in range(30):
        deep = {"a": deep}
    with pytest.raises(errors.InvalidDecision) as refused:
        decide(ask(action={"name": "x"}), program, "edit", **{"edited_args": {}} | {name: deep})
    assert name in refused.value.errors
    with pytest.raises(errors.InvalidDecision, match="at most 100 characters"):
        decide(ask(), program, "x" * 101)
