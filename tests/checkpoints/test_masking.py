"""What looks secret by the name of its key is not shown to people."""

import copy

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from checkpoints.masking import MASK, looks_secret, masked

SECRET = [
    "password",
    "Passwd",
    "db_password",
    "userPassword",
    "dbpassword",
    "PASSWORD_HASH",
    "secret",
    "client_secret",
    "clientSecret",
    "secrets",
    "token",
    "accessToken",
    "access-token",
    "accesstoken",
    "refresh_tokens",
    "api_key",
    "apikey",
    "apiKey",
    "APIKey",
    "X-Api-Key",
    "x-apikey",
    "api_keys",
    "Authorization",
    "proxy-authorization",
    "cookie",
    "Set-Cookie",
    "private_key",
    "privateKey",
    "ssh-private-key",
    "access_key",
    "AWS_SECRET_ACCESS_KEY",
    "credential",
    "credentials",
    "pin",
    "card_pin",
    "cvv",
    "card.cvv",
    "passphrase",
    "signingKey",
    "sessionId",
    "auth",
    "pass",
    "JWT",
]
PLAIN = [
    "amount",
    "shipping",
    "opinion",
    "pinned",
    "spin",
    "secretary",
    "key",
    "keyboard",
    "primary_key",
    "monkey",
    "tokenizer",
    "boarding_pass",
    "passenger",
    "compass",
    "auth_method",
    "author",
    "authorized_by",
    "customer",
    "",
]


@pytest.mark.parametrize("name", SECRET)
def test_a_name_that_looks_secret_is_masked(name):
    assert masked({name: "hunter2"}) == {name: MASK}


@pytest.mark.parametrize("name", PLAIN)
def test_an_ordinary_name_is_shown(name):
    assert masked({name: "hunter2"}) == {name: "hunter2"}


def test_everything_under_a_secret_name_is_hidden_as_a_whole():
    context = {"order": {"credentials": {"user": "ann", "extra": [1, 2]}}, "items": [{"token": "abc"}, {"price": 3}]}
    assert masked(context) == {"order": {"credentials": MASK}, "items": [{"token": MASK}, {"price": 3}]}


def test_a_number_can_be_a_secret_too():
    assert masked({"pin": 1234, "cvv": 0}) == {"pin": MASK, "cvv": MASK}


def test_how_many_tokens_a_model_used_is_no_secret():
    assert masked({"max_tokens": 4096, "token_count": 12.5}) == {"max_tokens": 4096, "token_count": 12.5}


def test_yes_no_and_nothing_give_no_secret_away():
    context = {"password": None, "token": True, "secret": "", "cookies": [], "credentials": {}}
    assert masked(context) == context


def test_headers_written_as_pairs_are_masked_by_their_name():
    headers = [{"name": "Authorization", "value": "Bearer abc"}, {"name": "Accept", "value": "text/html"}]
    assert masked(headers) == [{"name": "Authorization", "value": MASK}, {"name": "Accept", "value": "text/html"}]


def test_the_original_stays_as_it_was():
    context = {"a": [{"password": "hunter2"}], "b": {"token": "t"}}
    before = copy.deepcopy(context)
    shown = masked(context)
    shown["a"].append("more")
    assert context == before


@pytest.mark.parametrize("value", [None, True, 0, 1.5, "text", [], {}, [None]])
def test_what_is_no_object_comes_back_as_it_is(value):
    assert masked(value) == value


def test_any_depth_is_fine():
    deep: object = {"password": "hunter2"}
    for _ in range(50_000):
        deep = [deep]
    shown = masked(deep)
    for _ in range(50_000):
        shown = shown[0]
    assert shown == {"password": MASK}


def test_a_very_long_name_is_looked_at_in_no_time():
    assert not looks_secret("aB" * 1_000_000)


@settings(max_examples=100, derandomize=True, database=None, deadline=None)
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda inner: (
            st.lists(inner) | st.dictionaries(st.sampled_from(["a", "b", "value", "name"]) | st.text(), inner)
        ),
        max_leaves=20,
    )
)
def test_the_shape_stays_the_same(value):
    shown = masked(value)
    assert masked(shown) == shown
    if isinstance(value, dict):
        assert list(shown) == list(value)
