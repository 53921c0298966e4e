"""Signed messages to a receiver on loopback, which checks them with the library that receivers use."""

import json
import tomllib
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import standardwebhooks
from django.conf import settings as configured

from notifications import signing
from notifications.channels import answers, webhook
from notifications.channels.base import ChannelError, Receipt
from notifications.channels.webhook import WebhookCall
from notifications.models import Delivery, Kind, Webhook
from tests.servers import HANG, HttpEndpoint, Reply, closed_port, http_endpoint

BODY = {"type": "checkpoint.resolved", "timestamp": "2030-01-01T00:00:00Z", "data": {"word": "größer", "a": 1}}


@pytest.fixture
def receiver(settings: Any) -> Iterator[HttpEndpoint]:
    settings.WEBHOOK_ALLOW_PRIVATE = True
    with http_endpoint() as endpoint:
        yield endpoint


@pytest.fixture
def delivery(receiver: HttpEndpoint) -> Delivery:
    secret = signing.new_secret()
    hook = Webhook(url=f"{receiver.address}/hooks/sesame?token=sesame", secret=secret)
    return Delivery(kind=Kind.WEBHOOK, lane=hook.lane, webhook=hook, facts={"body": BODY})


def send(delivery: Delivery) -> Receipt:
    with WebhookCall() as channel:
        return channel.send(delivery)


def refusal_of(delivery: Delivery) -> ChannelError:
    with pytest.raises(ChannelError) as raised:
        send(delivery)
    assert "sesame" not in str(raised.value)
    return raised.value


def test_a_message_is_signed_and_says_who_sent_it(receiver, delivery):
    receipt = send(delivery)
    assert (receipt.response_status, receipt.message_id) == (200, str(delivery.pk))
    (request,) = receiver.requests
    assert request.path == "/hooks/sesame?token=sesame"
    assert standardwebhooks.Webhook(delivery.webhook.secret).verify(request.body, request.headers) == BODY
    assert request.headers["content-type"] == "application/json"
    assert request.headers["user-agent"] == f"Holdpoint/{configured.VERSION}"


def test_the_version_is_the_one_of_the_package():
    package = tomllib.loads((configured.BASE_DIR / "pyproject.toml").read_text())
    assert package["project"]["version"] == configured.VERSION


def test_a_repetition_has_the_same_id_and_the_same_bytes(receiver, delivery):
    receiver.replies = [Reply(500), Reply(204, b"")]
    refusal_of(delivery)
    send(delivery)
    first, second = receiver.requests
    assert first.headers["webhook-id"] == second.headers["webhook-id"] == str(delivery.pk)
    assert first.body == second.body


def test_after_a_rotation_both_secrets_verify_until_the_old_one_ends(receiver, delivery):
    hook, old = delivery.webhook, delivery.webhook.secret
    hook.secret, hook.previous_secret = signing.new_secret(), old
    hook.previous_secret_ends_at = datetime.now(UTC) + timedelta(hours=1)
    send(delivery)
    hook.previous_secret_ends_at = datetime.now(UTC) - timedelta(seconds=1)
    send(delivery)
    during, after = receiver.requests
    for secret in (hook.secret, old):
        assert standardwebhooks.Webhook(secret).verify(during.body, during.headers)
    assert standardwebhooks.Webhook(hook.secret).verify(after.body, after.headers)
    with pytest.raises(standardwebhooks.webhooks.WebhookVerificationError):
        standardwebhooks.Webhook(old).verify(after.body, after.headers)


@pytest.mark.parametrize("status", [400, 401, 404, 408, 422, 500, 502])
def test_any_other_answer_is_tried_again_and_holds_up_this_endpoint_alone(receiver, delivery, status):
    receiver.replies = [Reply(status, b"the sesame is closed")]
    error = refusal_of(delivery)
    assert (error.permanent, error.whole_lane, error.gone) == (False, True, False)
    assert (error.response_status, error.detail) == (status, f"It answered {status}.")


def test_an_endpoint_that_is_gone_wants_nothing_ever_again(receiver, delivery):
    receiver.replies = [Reply(410)]
    error = refusal_of(delivery)
    assert (error.permanent, error.gone, error.response_status) == (True, True, 410)


def test_a_redirect_is_not_followed(receiver, delivery):
    receiver.replies = [Reply(307, headers={"Location": f"{receiver.address}/elsewhere"})]
    error = refusal_of(delivery)
    assert not error.permanent
    assert "not followed" in error.detail
    assert len(receiver.requests) == 1


@pytest.mark.parametrize("status", [429, 503])
def test_an_endpoint_may_say_when_it_wants_to_be_asked_again(receiver, delivery, status):
    receiver.replies = [Reply(status, headers={"Retry-After": "120"})]
    error = refusal_of(delivery)
    assert (error.retry_after, error.permanent, error.whole_lane) == (120, False, True)


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        ("0", 0),
        (" 7 ", 7),
        ("999999999999", 86400),
        ("Tue, 01 Jan 2030 00:01:30 GMT", 90),
        ("Tue, 01 Jan 2030 00:01:30 -0000", 90),
        ("Mon, 31 Dec 2029 23:00:00 GMT", 0),
        ("Tue, 01 Jan 2036 00:00:00 GMT", 86400),
        ("", None),
        (None, None),
        ("soon", None),
        ("-5", None),
        ("1.5", None),
        ("٣", None),
        ("Tue, 99 Jan 2030 00:00:00 GMT", None),
    ],
)
def test_retry_after_is_a_number_or_a_moment_and_never_more_than_a_day(header, seconds):
    assert answers.seconds_asked_for(header, at=datetime(2030, 1, 1, tzinfo=UTC)) == seconds


def test_an_endpoint_that_hangs_is_given_up_in_time(receiver, delivery, monkeypatch):
    monkeypatch.setattr(webhook, "SECONDS", 0.3)
    receiver.replies = [HANG]
    error = refusal_of(delivery)
    assert (error.permanent, error.whole_lane) == (False, True)
    assert "within 0.3 seconds" in error.detail


def test_an_endpoint_that_is_down_is_tried_again(receiver, delivery):
    delivery.webhook.url = f"http://127.0.0.1:{closed_port()}/sesame"
    error = refusal_of(delivery)
    assert (error.permanent, error.whole_lane) == (False, True)


def test_a_private_address_is_refused_for_good_unless_the_operator_allows_it(receiver, delivery, settings):
    settings.WEBHOOK_ALLOW_PRIVATE = False
    assert refusal_of(delivery).permanent
    assert receiver.requests == []


@pytest.mark.parametrize("secret", ["whsec_sesam", "whsec_", ""])
def test_a_secret_that_cannot_be_read_is_said_and_not_shown(receiver, delivery, secret):
    delivery.webhook.secret = secret
    error = refusal_of(delivery)
    assert error.permanent
    assert "rotate" in error.detail


def test_the_body_is_the_same_json_as_was_frozen(receiver, delivery):
    send(delivery)
    assert (
        receiver.requests[0].body
        == json.dumps(BODY, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()
    )
