"""Messages to a room, in the words that Slack and its kin understand."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from notifications.channels import chat
from notifications.channels.base import ChannelError
from notifications.channels.chat import Chat
from notifications.models import Channel, Delivery, Kind, Occasion
from tests.servers import HANG, HttpEndpoint, Reply, http_endpoint

LINK = "https://holdpoint.example/decide/1?a=1&b=2"


@pytest.fixture
def slack(settings: Any) -> Iterator[HttpEndpoint]:
    settings.WEBHOOK_ALLOW_PRIVATE = True
    with http_endpoint() as endpoint:
        yield endpoint


@pytest.fixture
def delivery(slack: HttpEndpoint, refund: Any, acme: Any) -> Delivery:
    room = Channel(tenant=acme, kind=Kind.CHAT, name="Refunds", url=f"{slack.address}/services/T0/B0/sesame")
    return Delivery(
        tenant=acme, checkpoint=refund, occasion=Occasion.CREATED, kind=Kind.CHAT, lane=room.lane, channel=room
    )


def refusal_of(delivery: Delivery) -> ChannelError:
    with pytest.raises(ChannelError) as raised, Chat() as channel:
        channel.send(delivery)
    assert "sesame" not in str(raised.value)
    return raised.value


def test_a_room_gets_the_question_with_one_link(slack, delivery, refund):
    with Chat() as channel:
        assert channel.send(delivery).response_status == 200
    (request,) = slack.requests
    assert request.headers["content-type"] == "application/json"
    said = json.loads(request.body)
    assert "Refund EUR 1,240 to Acme?" in said["text"]
    assert said["text"].count("http") == 1
    assert json.dumps(said["blocks"]).count("http") == 1
    assert str(refund.pk) in json.dumps(said["blocks"])
    assert said["text"].count("http") == 1


def test_nothing_in_a_message_commands_the_chat():
    said = json.loads(chat.payload("<!channel> look\n\nhere", "Tom & <https://evil.example|the bank>", LINK))
    shown = [block["text"]["text"] for block in said["blocks"]]
    assert shown == [
        "*&lt;!channel&gt; look here*",
        "Tom &amp; &lt;https://evil.example|the bank&gt;",
        "<https://holdpoint.example/decide/1?a=1&amp;b=2|Open in Holdpoint>",
    ]
    assert all(block["text"]["verbatim"] for block in said["blocks"])
    assert "<" not in said["text"]
    assert said["text"].endswith("https://holdpoint.example/decide/1?a=1&amp;b=2")


@pytest.mark.parametrize("text", ["long " * 2000, "&" * 5000, "x" * 2899 + "&" * 9])
def test_a_long_message_is_cut_where_a_block_ends_and_keeps_its_link(text):
    said = json.loads(chat.payload("Subject", text, LINK))
    assert all(len(block["text"]["text"]) <= 3000 for block in said["blocks"])
    body = said["blocks"][1]["text"]["text"]
    assert body.endswith(" …")
    assert set(body.replace("&amp;", "")) <= set("long x…")
    assert said["text"].endswith("b=2")


def test_a_message_without_more_to_say_has_no_empty_block():
    said = json.loads(chat.payload("Subject", "  ", LINK))
    assert len(said["blocks"]) == 2


@pytest.mark.parametrize(
    ("status", "body", "detail"),
    [
        (404, b"no_service", "The chat answered 404: no_service."),
        (410, b"channel_is_archived", "The chat answered 410: channel_is_archived."),
        (403, b"action_prohibited", "The chat answered 403: action_prohibited."),
        (400, b"invalid_payload", "The chat answered 400: invalid_payload."),
        (404, b"<html>the sesame was here</html>", "The chat answered 404."),
    ],
)
def test_a_room_that_is_gone_stays_gone(slack, delivery, status, body, detail):
    slack.replies = [Reply(status, body)]
    error = refusal_of(delivery)
    assert (error.permanent, error.whole_lane, error.gone) == (True, False, False)
    assert (error.detail, error.response_status) == (detail, status)


def test_a_room_that_gets_too_much_says_for_how_long(slack, delivery):
    slack.replies = [Reply(429, b"rate_limited", {"Retry-After": "30"})]
    error = refusal_of(delivery)
    assert (error.permanent, error.whole_lane, error.retry_after) == (False, True, 30)


@pytest.mark.parametrize("status", [302, 408, 500, 503])
def test_trouble_on_the_other_side_is_tried_again(slack, delivery, status):
    slack.replies = [Reply(status)]
    error = refusal_of(delivery)
    assert (error.permanent, error.whole_lane) == (False, True)


def test_a_chat_that_hangs_is_given_up_in_time(slack, delivery, monkeypatch):
    monkeypatch.setattr(chat, "SECONDS", 0.3)
    slack.replies = [HANG]
    assert refusal_of(delivery).whole_lane


def test_a_room_in_a_private_network_is_not_called(slack, delivery, settings):
    settings.WEBHOOK_ALLOW_PRIVATE = False
    assert refusal_of(delivery).permanent
    assert slack.requests == []
