"""Whatever arrives, the answer is a clear 4xx: never a 500, never HTML, never a row that cannot be shown."""

import json
import random
import string
import tracemalloc
from collections.abc import Callable
from io import BytesIO
from typing import Any

import pytest
from django.core.handlers.wsgi import WSGIRequest
from django.test import Client
from rest_framework.exceptions import ParseError, ValidationError

from checkpoints.api import shapes
from checkpoints.api.parsing import TooLarge, discard_rest, loads, read_bounded
from checkpoints.models import Checkpoint, Event
from tenants.models import Tenant, User
from tests.api_client import ApiClient, problem

pytestmark = pytest.mark.django_db

COMMANDS = ["resolve", "cancel", "reassign", "claim", "release", "extend", "remind", "comment"]


def post(api: ApiClient, raw: bytes | str, content_type: str = "application/json") -> Any:
    return api.request("POST", "/checkpoints", raw=raw, content_type=content_type)


def body_with(context: str) -> str:
    return '{"core_id": "a", "prompt": "Refund?", "context": ' + context + "}"


# --- The body as bytes --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "raw",
    [
        *(b"{", b"}", b"nonsense", b"'", b'{"core_id": "a",}', b"{core_id: 1}", b'{"a": 1} {"b": 2}', b"// x\n{}"),
        *(
            b"\xef\xbb\xbf{}",
            b'{"a": "\x01"}',
            b'{"a": "\n"}',
            b'{"a": "\\x"}',
            b'{"a": 01}',
            b'{"a": +1}',
            b'{"a": .5}',
        ),
        *(b" ", b"\x00", b'{"core_id": "a\x00"}', b'{"a": "\\ud8"}'),
    ],
)
def test_malformed_json_is_refused_with_the_place(api: ApiClient, acme: Tenant, raw: bytes) -> None:
    found = problem(post(api, raw), 400, "invalid")

    assert "line" in found["detail"]


@pytest.mark.parametrize("raw", [b"\xff\xfe{}", b'{"prompt": "\xe9"}', b'{"prompt": "\xed\xa0\x80"}', b"\xc0\x80"])
def test_a_body_that_is_not_utf8_is_refused(api: ApiClient, acme: Tenant, raw: bytes) -> None:
    assert "UTF-8" in problem(post(api, raw), 400, "invalid")["detail"]
    assert "UTF-8" in problem(post(api, raw, "application/json; charset=latin-1"), 400, "invalid")["detail"]


@pytest.mark.parametrize("raw", ["[]", "[1]", '"text"', "5", "true", "1.5", "null"])
def test_a_body_that_is_no_object_is_refused(api: ApiClient, refund: Checkpoint, raw: str) -> None:
    problem(post(api, raw), 400, "invalid", "body")
    for command in COMMANDS:
        problem(api.request("POST", f"/checkpoints/{refund.pk}/{command}", raw=raw), 400, "invalid", "body")


def test_an_empty_body_is_an_object_without_fields(api: ApiClient, refund: Checkpoint) -> None:
    problem(post(api, b""), 400, "invalid", "core_id")
    for content_type in ("application/json", "application/x-www-form-urlencoded", "text/plain"):
        path = f"/checkpoints/{refund.pk}/remind"
        assert api.request("POST", path, raw=b"", content_type=content_type).status_code == 200


@pytest.mark.parametrize(
    "content_type",
    [
        *("text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "application/xml", ""),
        *("application/problem+json", "application/jsonx", "*/*", "nonsense"),
    ],
)
def test_anything_but_json_is_an_unsupported_type(api: ApiClient, refund: Checkpoint, content_type: str) -> None:
    found = problem(post(api, b'{"core_id": "a"}', content_type), 415, "unsupported_media_type")
    assert "application/json" in found["detail"]

    path = f"/checkpoints/{refund.pk}/cancel"
    problem(api.request("POST", path, raw=b"{}", content_type=content_type), 415, "unsupported_media_type")
    refund.refresh_from_db()
    assert refund.is_pending


@pytest.mark.parametrize(
    "content_type", ["application/json; charset=utf-8", "Application/JSON", "application/json;x=y"]
)
def test_json_may_be_spelt_with_parameters(api: ApiClient, acme: Tenant, content_type: str) -> None:
    assert post(api, body_with("1"), content_type).status_code == 201


@pytest.mark.parametrize("charset", ["unicode_escape", "raw_unicode_escape", "utf-7", "utf-16", "latin-1", "nonsense"])
def test_the_charset_of_a_request_does_not_change_how_its_address_is_read(
    api: ApiClient, acme: Tenant, charset: str
) -> None:
    content_type = f"application/json; charset={charset}"
    response = api.request("GET", "/checkpoints?status=pending&flow_name=%C3%A9", content_type=content_type)
    assert response.status_code == 200

    problem(api.request("GET", "/checkpoints?\\ud800=1", content_type=content_type), 400, "invalid", "\\ud800")


def test_a_body_in_chunks_is_refused(api: ApiClient, acme: Tenant) -> None:
    found = problem(
        api.request("POST", "/checkpoints", {"core_id": "a"}, Transfer_Encoding="gzip, Chunked"), 411, "invalid"
    )

    assert "Content-Length" in found["detail"]


def test_a_body_that_ends_too_early_is_refused() -> None:
    with pytest.raises(ParseError, match="ended before its announced length"):
        read_bounded(BytesIO(b"{}"), announced=500)


def test_a_body_longer_than_announced_is_still_bounded(settings: Any) -> None:
    settings.API_BODY_BYTES = 1000
    with pytest.raises(TooLarge, match="1,000"):
        read_bounded(BytesIO(b"x" * 1001), announced=0)


# --- Size and depth -----------------------------------------------------------------------------------------------


def test_a_prompt_of_five_megabytes_is_too_large_and_the_limit_is_named(api: ApiClient, acme: Tenant) -> None:
    found = problem(api.create(prompt="x" * 5_000_000), 413, "too_large")

    assert "2,097,152" in found["detail"]
    assert not Checkpoint.objects.exists()


def test_a_body_just_over_the_limit_is_too_large_and_one_at_the_limit_is_read(
    api: ApiClient, acme: Tenant, settings: Any
) -> None:
    settings.API_BODY_BYTES = 2000
    body = body_with('"' + "x" * 1000 + '"')

    assert post(api, body.ljust(2000)).status_code == 201
    problem(post(api, body.ljust(2001)), 413, "too_large")


def test_a_prompt_longer_than_anybody_reads_is_refused_by_name(api: ApiClient, acme: Tenant) -> None:
    assert "100,000" in problem(api.create(prompt="x" * 150_000), 400, "invalid", "prompt")["errors"]["prompt"][0]
    problem(api.create(prompt="😀" * 100_001), 400, "invalid", "prompt")
    assert api.create(prompt="😀" * 100_000).status_code == 201


def test_what_a_refusal_left_unread_is_read_before_we_hang_up(settings: Any) -> None:
    settings.API_BODY_BYTES = 1000
    environ = {"REQUEST_METHOD": "POST", "wsgi.input": BytesIO(b"x" * 5000), "CONTENT_LENGTH": "5000"}

    discard_rest(WSGIRequest(environ))

    assert environ["wsgi.input"].read() == b""  # type: ignore[attr-defined]


def test_a_refused_body_is_read_to_its_end_for_those_we_know_and_not_for_strangers(
    api: ApiClient, with_scopes: Callable[..., ApiClient]
) -> None:
    too_large, forbidden, stranger = (
        client.create(prompt="x" * 3_000_000) for client in (api, with_scopes("checkpoints:read"), ApiClient())
    )

    assert [response.status_code for response in (too_large, forbidden, stranger)] == [413, 403, 401]
    assert too_large.wsgi_request.read(1) == forbidden.wsgi_request.read(1) == b""  # type: ignore[attr-defined]
    assert stranger.wsgi_request.read(1) == b"{"  # type: ignore[attr-defined]


def test_somebody_who_never_stops_sending_is_not_read_for_ever(settings: Any) -> None:
    settings.API_BODY_BYTES = 100_000
    endless = BytesIO(b"x" * 5_000_000)
    environ = {"REQUEST_METHOD": "POST", "wsgi.input": endless, "CONTENT_LENGTH": "5000000"}

    discard_rest(WSGIRequest(environ))

    assert 1_600_000 <= endless.tell() < 2_000_000


@pytest.mark.parametrize("opening", ["[", '{"a":'])
@pytest.mark.parametrize("levels", [32, 40, 200, 10_000, 100_000])
def test_json_that_is_nested_too_deeply_is_too_large(api: ApiClient, acme: Tenant, opening: str, levels: int) -> None:
    closing = "]" if opening == "[" else "}"

    found = problem(post(api, body_with(opening * levels + "1" + closing * levels)), 413, "too_large")
    assert "32 levels" in found["detail"]


def test_json_that_is_never_closed_is_refused_at_any_depth(api: ApiClient, acme: Tenant) -> None:
    assert post(api, body_with("[" * 100)).status_code == 400
    assert post(api, "[" * 1_000_000).status_code in {400, 413}


def test_json_of_31_levels_in_a_field_is_kept(api: ApiClient, acme: Tenant) -> None:
    for deep in ("[" * 31 + "]" * 31, '{"a":' * 31 + "1" + "}" * 31):
        row = post(api, body_with(deep)).json()
        assert api.get(row["id"]).json()["context"] == json.loads(deep)


def test_many_brackets_side_by_side_are_not_deep(api: ApiClient, acme: Tenant) -> None:
    assert api.create(context=[[], {}] * 1000 + ["[[[[{{{{" * 100]).status_code == 201


def test_a_long_name_above_many_values_does_not_fill_the_memory() -> None:
    body = '{"' + "k" * 100_000 + '": [' + "[]," * 3000 + "1e400]}"
    tracemalloc.start()
    try:
        with pytest.raises(ValidationError) as refused:
            loads(body.encode())
        assert tracemalloc.get_traced_memory()[1] < 20_000_000
    finally:
        tracemalloc.stop()

    (place,) = refused.value.detail
    assert len(place) == 200


# --- Numbers ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", ["1e400", "-1e400", "1e999999"])
def test_a_number_beyond_any_float_is_refused_where_it_stands(api: ApiClient, acme: Tenant, number: str) -> None:
    problem(post(api, body_with('{"total": [1, ' + number + "]}")), 400, "invalid", "context.total[1]")


@pytest.mark.parametrize("constant", ["NaN", "Infinity", "-Infinity"])
def test_what_python_calls_a_number_and_json_does_not_is_refused(api: ApiClient, acme: Tenant, constant: str) -> None:
    assert constant in problem(post(api, body_with(constant)), 400, "invalid")["detail"]


def test_an_integer_of_thousands_of_digits_is_refused(api: ApiClient, acme: Tenant) -> None:
    assert "digits" in problem(post(api, body_with("9" * 5000)), 400, "invalid")["detail"]


@pytest.mark.parametrize("number", [str(2**63), str(-(2**64)), "9" * 300, "1e308", "5e-324", "-0.0", "0.1"])
def test_large_and_small_numbers_come_back_as_they_were(api: ApiClient, acme: Tenant, number: str) -> None:
    row = post(api, body_with(number)).json()

    assert api.get(row["id"]).json()["context"] == json.loads(number)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *(("reminder_interval_m", value) for value in (0, -5, 1.5, 10**9, "60", True)),
        *(("block_index", value) for value in (-1, 2**31, 1000.5, "4", False)),
    ],
)
def test_a_count_outside_its_range_is_refused(api: ApiClient, acme: Tenant, field: str, value: Any) -> None:
    problem(api.create(**{field: value}), 400, "invalid", field)


def test_counts_at_the_edge_of_their_range_are_kept(api: ApiClient, acme: Tenant) -> None:
    row = api.create(block_index=2**31 - 1, reminder_interval_m=5_256_000).json()

    assert (row["block_index"], row["reminder_interval_m"]) == (2**31 - 1, 5_256_000)


# --- Characters ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("poison", ["\\u0000", "\\ud800", "\\uDFFF", "a\\udc00b", "\\ud83d\\ud83d\\ude00"])
def test_what_is_no_character_is_refused_wherever_it_stands(api: ApiClient, refund: Checkpoint, poison: str) -> None:
    for context, place in (
        (f'"{poison}"', "context"),
        (f'{{"a": [0, "{poison}"]}}', "context.a[1]"),
        (f'{{"{poison}": 1}}', "context"),
        (f'[[{{"x": {{"{poison}": {{}}}}}}]]', "context[0][0].x"),
    ):
        problem(post(api, body_with(context)), 400, "invalid", place)
    for field in ("core_id", "prompt", "assignee", "flow_name", "requested_by", "checkpoint_type", "timeout"):
        problem(post(api, f'{{"{field}": "{poison}"}}'), 400, "invalid", field)
    problem(post(api, f'{{"{poison}": 1}}'), 400, "invalid", "body")
    problem(post(api, f'{{"{poison}": 1, "{poison}": 1}}'), 400, "invalid")
    for body in (f'{{"decision": "{poison}"}}', f'{{"comment": "{poison}"}}', f'{{"text": "{poison}"}}'):
        for command in ("resolve", "comment"):
            problem(api.request("POST", f"/checkpoints/{refund.pk}/{command}", raw=body), 400, "invalid")
    assert Event.objects.count() == 1


@pytest.mark.parametrize("query", ["flow_name=%00", "flow_name=a%00b", "core_id=%00", "assignee=user:%00"])
def test_a_nul_in_a_filter_is_refused(api: ApiClient, acme: Tenant, query: str) -> None:
    problem(api.request("GET", f"/checkpoints?{query}"), 400, "invalid", query.partition("=")[0])


@pytest.mark.parametrize(
    "text",
    [
        *("😀", "👩\u200d👩\u200d👧", "\U0001d518", "\u00e9", "e\u0301", "日本語", "\u202eabc", "a\u2028b", "\uffff"),
        *("\ufdfd" * 10, "\x7f\x1b"),
    ],
)
def test_every_character_comes_back_as_it_was(api: ApiClient, acme: Tenant, text: str) -> None:
    row = api.create(
        prompt=text,
        flow_name=text,
        execution_id=text,
        node_id=text,
        instance_key=text,
        checkpoint_type=text,
        context={text: [text]},
        options=[{"id": text, "label": text}],
        default_option=text,
        assignee=f"{text}@acme.example",
    ).json()

    stored = api.get(row["id"]).json()
    for field in ("prompt", "flow_name", "execution_id", "node_id", "instance_key", "checkpoint_type"):
        assert stored[field] == text, field
    assert stored["context"] == {text: [text]}
    assert stored["options"] == [{"id": text, "label": text}]
    assert stored["default_option"] == text
    assert stored["assignee_raw"] == f"{text}@acme.example"
    assert [found["id"] for found in api.list(flow_name=text).json()["results"]] == [row["id"]]

    decided = api.command(row["id"], "resolve", {"decision": text, "comment": text, "response": {text: text}})
    assert decided.json()["resolution"]["comment"] == text
    assert api.get(row["id"], "history").json()[-1]["detail"]["comment"] == text


def test_an_escaped_emoji_is_an_emoji(api: ApiClient, acme: Tenant) -> None:
    assert post(api, body_with('"\\ud83d\\ude00"')).json()["context"] == "😀"


def test_a_core_is_not_called_after_an_emoji(api: ApiClient, acme: Tenant) -> None:
    assert "letters, digits" in problem(api.create(core_id="😀"), 400, "invalid", "core_id")["detail"]


@pytest.mark.parametrize(
    "raw",
    [
        '{"core_id": "a", "prompt": "x", "prompt": "y"}',
        '{"core_id": "a", "prompt": "x", "core_id": "a"}',
        body_with('{"a": 1, "a": 2}'),
        body_with('[{"b": {"a": 1, "a": 1}}]'),
    ],
)
def test_a_name_given_twice_is_refused(api: ApiClient, acme: Tenant, raw: str) -> None:
    assert "twice" in problem(post(api, raw), 400, "invalid")["detail"]


# --- Every field --------------------------------------------------------------------------------------------------

VALUES: list[Any] = [None, 0, -1, 1.5, 2**70, "", "text", [], [1], ["a"], {}, {"id": "a"}, True, False, [[]], [None]]
FIELDS = sorted(set(shapes.Create().fields) | set(shapes.Create.later) | {"nonsense"})


@pytest.mark.parametrize("field", FIELDS)
@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_any_value_in_any_field_is_taken_or_refused_by_name(
    api: ApiClient, acme: Tenant, field: str, value: Any
) -> None:
    # Who asked is given: of a fault between two fields the other one may be the one that is named.
    response = api.create(**{"requested_by": "somebody@acme.example", field: value})

    if response.status_code == 201:
        assert api.get(response.json()["id"]).status_code == 200
    else:
        problem(response, 400, "invalid", field)
        assert not Checkpoint.objects.exists()


SHAPES: dict[str, type[shapes.Shape]] = {
    "resolve": shapes.Resolve,
    "cancel": shapes.Cancel,
    "reassign": shapes.Reassign,
    "claim": shapes.OnBehalf,
    "release": shapes.OnBehalf,
    "extend": shapes.Extend,
    "remind": shapes.Remind,
    "comment": shapes.Comment,
}


@pytest.mark.parametrize(("command", "field"), [(name, field) for name in SHAPES for field in SHAPES[name]().fields])
def test_any_value_in_any_field_of_a_command_is_taken_or_refused(
    api: ApiClient, ask: Callable[..., Checkpoint], command: str, field: str
) -> None:
    for value in VALUES:
        row = ask(timeout="1d")
        response = api.command(row, command, {field: value})
        assert response.status_code in {200, 400, 409}, (value, response.content)


@pytest.mark.parametrize("command", SHAPES)
def test_a_command_names_a_field_it_does_not_know(api: ApiClient, refund: Checkpoint, command: str) -> None:
    for field in ("status", "tenant_id", "resolved_by", "nonsense", ""):
        problem(api.command(refund, command, {field: "x"}), 400, "invalid", field)
    assert Event.objects.count() == 1


LIMITS = {
    "checkpoint_type": 64,
    "execution_id": 200,
    "flow_name": 200,
    "node_id": 200,
    "instance_key": 200,
    "hitl_message_id": 200,
    "assignee": 300,
    "assignee_raw": 300,
    "requested_by": 254,
    "core_id": 100,
}


@pytest.mark.parametrize(("field", "limit"), LIMITS.items())
def test_a_string_fits_up_to_its_limit_and_not_beyond(api: ApiClient, acme: Tenant, field: str, limit: int) -> None:
    letter = "a" if field == "core_id" else "😀"

    assert api.create(**{field: letter * limit}).status_code == 201
    problem(api.create(**{field: letter * (limit + 1)}), 400, "invalid", field)


@pytest.mark.parametrize("field", ["assignee", "assignee_raw", "requested_by", "escalation_target"])
def test_a_name_that_grows_in_lower_case_still_fits_or_is_refused(api: ApiClient, acme: Tenant, field: str) -> None:
    limit = 254 if field == "requested_by" else 300
    more = {"expiry_action": "escalate", "timeout": "1h"} if field == "escalation_target" else {}

    problem(api.create(**{field: "İ" * (limit - 2) + "@b"}, **more), 400, "invalid", field)
    assert api.create(**{field: "İ" * (limit // 2 - 2) + "@b"}, **more).status_code == 201


def test_the_strings_of_commands_have_limits_too(api: ApiClient, refund: Checkpoint) -> None:
    problem(api.resolve(refund, "x" * 101), 400, "invalid", "decision")
    problem(api.resolve(refund, comment="x" * 20_001), 400, "invalid", "comment")
    problem(api.command(refund, "cancel", {"reason": "x" * 20_001}), 400, "invalid", "reason")
    problem(api.command(refund, "comment", {"text": "x" * 20_001}), 400, "invalid", "text")
    problem(api.command(refund, "reassign", {"assignee": "x" * 301}), 400, "invalid", "assignee")
    problem(api.command(refund, "reassign", {"assignee": "İ" * 298 + "@b"}), 400, "invalid", "assignee")
    problem(api.command(refund, "claim", {"for": "x" * 255}), 400, "invalid", "for")

    assert api.command(refund, "comment", {"text": "😀" * 20_000}).status_code == 200
    assert api.command(refund, "cancel", {"reason": "😀" * 20_000}).status_code == 200


@pytest.mark.parametrize(
    "chain", [["a"] * 21, [1] * 100_000, ["x" * 301], ["İ" * 300], [" "], "group:finance", [None], [["a"]]]
)
def test_an_escalation_chain_is_a_short_list_of_assignees(api: ApiClient, acme: Tenant, chain: Any) -> None:
    response = api.create(
        escalation_chain=chain, escalation_target="role:tenant_admin", expiry_action="escalate", timeout="1h"
    )

    problem(response, 400, "invalid", "escalation_chain")
    assert len(response.content) < 10_000


@pytest.mark.parametrize(
    "moment",
    [
        *("2030-02-30T00:00:00Z", "99999-01-01T00:00:00Z", "2030-13-01T00:00:00Z", "2030-01-01T25:00:00Z", "tomorrow"),
        *("0000-00-00T00:00:00Z", "0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00", "", " ", "1893456000"),
        *("2001-01-01T00:00:00Z", "9999-12-31T23:59:59Z", "2030-01-01T00:00:00+99:99"),
    ],
)
def test_a_deadline_that_is_no_future_moment_is_refused(
    api: ApiClient, ask: Callable[..., Checkpoint], moment: str
) -> None:
    problem(api.create(expires_at=moment), 400, "invalid", "expires_at")
    problem(api.command(ask(timeout="1d"), "extend", {"expires_at": moment}), 400, "invalid", "expires_at")


# --- Addresses ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "identity",
    ["1", "not-an-id", "%00", "%ED%A0%80", "0" * 36, "01990000000070008000000000000000", "{x}", "..", "%F0%9F%98%80"],
)
@pytest.mark.parametrize("part", ["", "/history", "/resolve"])
def test_an_id_that_cannot_be_one_is_not_found(api: ApiClient, acme: Tenant, identity: str, part: str) -> None:
    method = "POST" if part == "/resolve" else "GET"

    problem(api.request(method, f"/checkpoints/{identity}{part}"), 404, "not_found")


@pytest.mark.parametrize("path", ["/checkpoints/", "/checkpoint", "/", "/checkpoints//", "/checkpoints.json"])
def test_an_address_that_leads_nowhere_is_a_problem_and_not_a_page(api: ApiClient, acme: Tenant, path: str) -> None:
    problem(api.request("GET", path), 404, "not_found")
    problem(api.request("POST", path, {}), 404, "not_found")


def test_a_trailing_slash_is_another_address(api: ApiClient, refund: Checkpoint) -> None:
    problem(api.request("GET", f"/checkpoints/{refund.pk}/"), 404, "not_found")
    problem(api.request("POST", f"/checkpoints/{refund.pk}/cancel/", {}), 404, "not_found")


@pytest.mark.parametrize("method", ["PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "PROPFIND"])
def test_a_method_that_is_not_offered_is_refused(api: ApiClient, refund: Checkpoint, method: str) -> None:
    for path in ("/checkpoints", f"/checkpoints/{refund.pk}", f"/checkpoints/{refund.pk}/resolve"):
        response = api.request(method, path, {})
        problem(response, 405, "method_not_allowed")
        assert response["Allow"]
        assert method not in response["Allow"]


def test_reading_routes_are_not_posted_to_and_commands_are_not_read(api: ApiClient, refund: Checkpoint) -> None:
    problem(api.request("POST", f"/checkpoints/{refund.pk}", {}), 405, "method_not_allowed")
    problem(api.request("POST", f"/checkpoints/{refund.pk}/history", {}), 405, "method_not_allowed")
    for command in COMMANDS:
        problem(api.request("GET", f"/checkpoints/{refund.pk}/{command}"), 405, "method_not_allowed")


def test_an_unknown_host_gets_a_problem(api: ApiClient, acme: Tenant) -> None:
    problem(api.request("GET", "/checkpoints", Host="evil.example"), 400, "invalid")


def test_people_get_a_page_and_programs_a_problem_for_the_same_mistake(acme: Tenant) -> None:
    assert Client().get("/nowhere")["Content-Type"].startswith("text/html")
    problem(Client().get("/v1/nowhere"), 404, "not_found")


# --- Anything at all ----------------------------------------------------------------------------------------------

ALPHABET = string.ascii_letters + "0123456789:@ /._-\x00\x01\ud800\udfff\u00e4\u0130\u202e😀\"\\'{}[]"


def something(dice: random.Random, depth: int = 0) -> Any:
    kind = dice.randrange(10 if depth < 5 else 7)
    match kind:
        case 0:
            return None
        case 1:
            return dice.random() < 0.5
        case 2:
            return dice.choice([0, -1, 1, 2**31, 2**63, -(2**64), 10**25])
        case 3:
            return dice.choice([0.5, -1e308, 1e-300, float("inf"), float("nan")])
        case 4 | 5:
            return "".join(dice.choices(ALPHABET, k=dice.randrange(12)))
        case 6:
            return dice.choice(["approve", "group:finance", "24h", "PT1H", "2030-01-01T00:00:00Z", "high", "external"])
        case 7 | 8:
            return [something(dice, depth + 1) for _ in range(dice.randrange(4))]
        case _:
            return {
                dice.choice([*FIELDS, "id", "label", str(something(dice, 9))]): something(dice, depth + 1)
                for _ in range(dice.randrange(4))
            }


@pytest.mark.parametrize("seed", range(12))
def test_no_body_whatsoever_breaks_create_or_a_command(api: ApiClient, approver: User, seed: int) -> None:
    dice = random.Random(seed)
    target = api.create(assignee="group:finance", timeout="1d").json()["id"]
    command_fields = {name: [*shape().fields, "nonsense"] for name, shape in SHAPES.items()}
    taken = 0
    for _ in range(30):
        base = {"core_id": "a", "prompt": "x"} if dice.random() < 0.8 else {}
        chosen = dice.sample(FIELDS, k=dice.randrange(4))
        response = api.request("POST", "/checkpoints", base | {field: something(dice) for field in chosen})
        assert response.status_code in {201, 400, 413}, response.content
        if response.status_code == 201:
            taken += 1
            assert api.get(response.json()["id"]).json() == response.json()

        command = dice.choice(COMMANDS)
        body = {field: something(dice) for field in command_fields[command] if dice.random() < 0.7}
        response = api.command(target, command, body)
        assert response.status_code in {200, 400, 403, 409, 413}, response.content
    assert taken


@pytest.mark.parametrize("seed", range(5))
def test_no_mangled_bytes_break_the_parser(api: ApiClient, acme: Tenant, seed: int) -> None:
    dice = random.Random(seed)
    whole = json.dumps({"core_id": "a", "prompt": "Refund 😀?", "options": ["a"], "context": {"x": [1, 2.5]}}).encode()
    for _ in range(60):
        mangled = bytearray(whole)
        for _ in range(dice.randrange(1, 4)):
            place = dice.randrange(len(mangled))
            mangled[place : place + dice.randrange(3)] = dice.randbytes(dice.randrange(3))
        response = post(api, bytes(mangled))
        assert response.status_code in {201, 400, 413}, (mangled, response.content)
