"""What every channel promises, asked of each against a real server on loopback.

To add a channel: a ``FarSide`` that knows how its other side accepts, refuses and hangs.
"""

import json
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import pytest

from notifications import messages, signing
from notifications.channels import chat, webhook
from notifications.channels.base import MOST_DETAIL, ChannelError, Receipt
from notifications.channels.registry import open_channel
from notifications.models import Channel, Delivery, Kind, Webhook
from tests.servers import HANG, HttpEndpoint, MailServer, Reply, closed_port, http_endpoint, mail_server, silent_server

# Part of every credential and address that a channel is given here.
SECRET = "sesame"
# With one who hangs; everybody else may take as long as a busy machine needs.
PATIENCE = 0.4
PLENTY = 20.0
RECIPIENT = "approver@acme.example"


@dataclass
class Said:
    subject: str = "Refund EUR 1,240?"
    text: str = "Please decide."
    html: str = "<p>Please decide.</p>"
    url: str = "https://holdpoint.example/decide/1"


@dataclass
class FarSide:
    """The other side of one channel, and what it can be told to do."""

    kind: Kind
    delivery: Delivery
    arrived: Callable[[], int]
    accept: Callable[[], None]
    refuse_for_good: Callable[[], None]
    refuse_for_now: Callable[[], None]
    talk_nonsense: Callable[[], None]
    hang: Callable[[], None]
    be_away: Callable[[], None]


def by_http(kind: Kind, endpoint: HttpEndpoint, delivery: Delivery, move: Callable[[str, float], None]) -> FarSide:
    def reply(reply: Any) -> Callable[[], None]:
        def use() -> None:
            move(endpoint.address, PATIENCE if reply == HANG else PLENTY)
            endpoint.replies = [reply]

        return use

    return FarSide(
        kind=kind,
        delivery=delivery,
        arrived=lambda: len(endpoint.requests),
        accept=reply(Reply(200)),
        refuse_for_good=reply(Reply(410, b"channel_is_archived")),
        refuse_for_now=reply(Reply(503, SECRET.encode() * 5000)),
        talk_nonsense=reply(Reply(999, b"\xff\x00" * 100, {"Retry-After": "next week"})),
        hang=reply(HANG),
        be_away=lambda: move(f"http://127.0.0.1:{closed_port()}", PLENTY),
    )


@pytest.fixture
def chat_room(settings: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[FarSide]:
    settings.WEBHOOK_ALLOW_PRIVATE = True
    room = Channel(kind=Kind.CHAT, name="Refunds")

    def move(address: str, seconds: float) -> None:
        monkeypatch.setattr(chat, "SECONDS", seconds)
        room.url = f"{address}/services/{SECRET}"

    with http_endpoint() as endpoint:
        yield by_http(Kind.CHAT, endpoint, Delivery(kind=Kind.CHAT, lane=room.lane, channel=room), move)


@pytest.fixture
def machine(settings: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[FarSide]:
    settings.WEBHOOK_ALLOW_PRIVATE = True
    hook = Webhook(secret=signing.new_secret())
    delivery = Delivery(kind=Kind.WEBHOOK, lane=hook.lane, webhook=hook, facts={"body": {"type": "webhook.test"}})

    def move(address: str, seconds: float) -> None:
        monkeypatch.setattr(webhook, "SECONDS", seconds)
        hook.url = f"{address}/hooks?token={SECRET}"

    with http_endpoint() as endpoint:
        yield by_http(Kind.WEBHOOK, endpoint, delivery, move)


def mail() -> Delivery:
    channel = Channel(kind=Kind.EMAIL, name="Mail")
    return Delivery(kind=Kind.EMAIL, lane=channel.lane, channel=channel, recipient=RECIPIENT)


@pytest.fixture
def mailbox(settings: Any) -> Iterator[FarSide]:
    """By SMTP, with a password."""
    with ExitStack() as stack:
        server = stack.enter_context(mail_server(password=SECRET))
        silent = stack.enter_context(silent_server())
        settings.EMAIL_BACKEND = "django.core.mail.backends.smtp.EmailBackend"
        settings.EMAIL_HOST = "127.0.0.1"
        settings.EMAIL_HOST_USER, settings.EMAIL_HOST_PASSWORD = "holdpoint", SECRET
        yield smtp_side(server, silent, settings)


def smtp_side(server: MailServer, silent: int, settings: Any) -> FarSide:
    def answer(port: int, recipient: str = "", message: str = "250 OK") -> Callable[[], None]:
        def use() -> None:
            # A connection that was kept belongs to the time before.
            server.end_connections()
            settings.EMAIL_PORT, server.at_data = port, message
            settings.EMAIL_TIMEOUT = PATIENCE if port == silent else PLENTY
            server.refuses = {RECIPIENT: recipient} if recipient else {}

        return use

    return FarSide(
        kind=Kind.EMAIL,
        delivery=mail(),
        arrived=lambda: len(server.taken),
        accept=answer(server.port),
        refuse_for_good=answer(server.port, "550 5.1.1 user unknown"),
        refuse_for_now=answer(server.port, "451 4.7.1 greylisted " + "x" * 400),
        talk_nonsense=answer(server.port, message="199 \xff what?"),
        hang=answer(silent),
        be_away=answer(closed_port()),
    )


@pytest.fixture
def provider(settings: Any) -> Iterator[FarSide]:
    """By Anymail."""
    settings.EMAIL_BACKEND = "anymail.backends.postmark.EmailBackend"

    def move(address: str, seconds: float) -> None:
        settings.ANYMAIL = {
            "POSTMARK_SERVER_TOKEN": SECRET,
            "POSTMARK_API_URL": address,
            "REQUESTS_TIMEOUT": seconds,
        }

    def said(status: int, **body: Any) -> Callable[[], None]:
        def use() -> None:
            move(endpoint.address, PLENTY)
            endpoint.replies = [Reply(status, json.dumps(body).encode())]

        return use

    with http_endpoint() as endpoint:
        side = by_http(Kind.EMAIL, endpoint, mail(), move)
        side.accept = said(200, To=RECIPIENT, MessageID="pm-1", ErrorCode=0, Message="OK")
        side.refuse_for_good = said(422, ErrorCode=300, Message=f"Invalid 'To' address: '{RECIPIENT}'.")
        side.refuse_for_now = said(503, ErrorCode=1, Message=f"Down for {SECRET}")
        yield side


@pytest.fixture(params=["mailbox", "provider", "chat_room", "machine"])
def far_side(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> FarSide:
    monkeypatch.setattr(messages, "compose", lambda _: Said())
    side: FarSide = request.getfixturevalue(request.param)
    side.accept()
    return side


pytestmark = pytest.mark.filterwarnings("ignore:Requiring AUTH while not requiring TLS")


def refusal(channel: Any, far_side: FarSide) -> ChannelError:
    """Anything but a ChannelError fails the test; and what people read of it holds no secret."""
    with pytest.raises(ChannelError) as raised:
        channel.send(far_side.delivery)
    error = raised.value
    assert error.detail.strip()
    assert "\n" not in error.detail
    assert len(error.detail) <= MOST_DETAIL
    for shown in (error.detail, str(error), repr(error), f"{error.args}"):
        assert SECRET not in shown
        assert "127.0.0.1" not in shown
    return error


def test_what_is_taken_has_a_receipt(far_side):
    with open_channel(far_side.kind) as channel:
        assert isinstance(channel.send(far_side.delivery), Receipt)
    assert far_side.arrived() == 1


def test_one_channel_sends_several(far_side):
    with open_channel(far_side.kind) as channel:
        for _ in range(3):
            channel.send(far_side.delivery)
    assert far_side.arrived() == 3


def test_a_refusal_for_good_is_permanent(far_side):
    far_side.refuse_for_good()
    with open_channel(far_side.kind) as channel:
        error = refusal(channel, far_side)
    assert error.permanent
    assert not error.whole_lane


def test_a_refusal_for_now_is_not_permanent(far_side):
    far_side.refuse_for_now()
    with open_channel(far_side.kind) as channel:
        error = refusal(channel, far_side)
    assert not error.permanent
    assert not error.unreachable
    assert not error.gone


def test_a_far_side_that_talks_nonsense_is_a_refusal_like_any_other(far_side):
    far_side.talk_nonsense()
    with open_channel(far_side.kind) as channel:
        error = refusal(channel, far_side)
    assert not error.unreachable
    assert not error.gone
    assert error.retry_after is None


def test_a_far_side_that_is_away_holds_up_its_lane_and_is_not_permanent(far_side):
    far_side.be_away()
    with open_channel(far_side.kind) as channel:
        error = refusal(channel, far_side)
    assert error.whole_lane
    assert not error.permanent


def test_a_far_side_that_hangs_is_given_up_in_time(far_side):
    far_side.hang()
    began = time.monotonic()
    with open_channel(far_side.kind) as channel:
        error = refusal(channel, far_side)
    assert error.whole_lane
    assert not error.permanent
    assert time.monotonic() - began < PLENTY / 2


@pytest.mark.parametrize("trouble", ["refuse_for_good", "refuse_for_now", "talk_nonsense", "be_away", "hang"])
def test_after_any_trouble_the_same_channel_sends_again(far_side, trouble):
    with open_channel(far_side.kind) as channel:
        channel.send(far_side.delivery)
        getattr(far_side, trouble)()
        # Mail settings are read when a connection is opened: what was kept is let go.
        channel.close()
        refusal(channel, far_side)
        before = far_side.arrived()
        far_side.accept()
        channel.send(far_side.delivery)
    assert far_side.arrived() == before + 1


def test_closing_twice_is_fine_at_any_time(far_side):
    channel = open_channel(far_side.kind)
    channel.close()
    channel.close()
    channel.send(far_side.delivery)
    channel.close()
    channel.close()
    far_side.hang()
    refusal(channel, far_side)
    channel.close()
    channel.close()


def test_every_kind_has_a_channel():
    for kind in Kind:
        open_channel(kind).close()
