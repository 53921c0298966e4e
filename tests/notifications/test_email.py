"""Mails to a real mail server on loopback: one that takes them, refuses, is slow, or is away."""

import email
import email.policy
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from notifications import messages
from notifications.channels import email as channel_module
from notifications.channels.base import ChannelError
from notifications.channels.email import Email
from notifications.models import Channel, Delivery, Kind
from tests.servers import MailServer, closed_port, mail_server, silent_server

SMTP = "django.core.mail.backends.smtp.EmailBackend"


@dataclass
class Said:
    subject: str = "Refund EUR 1,240?"
    text: str = "Größer als sonst: https://holdpoint.example/decide/1\n"
    html: str = '<p>Größer als sonst: <a href="https://holdpoint.example/decide/1">open</a></p>'


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch) -> Said:
    """What a message says is another test's matter."""
    fixed = Said()
    monkeypatch.setattr(messages, "compose", lambda _: fixed)
    return fixed


@pytest.fixture
def delivery(said: Said) -> Delivery:
    return mail_to("approver@acme.example")


def mail_to(recipient: str, reply_to: str = "") -> Delivery:
    channel = Channel(kind=Kind.EMAIL, name="Mail", reply_to=reply_to)
    return Delivery(kind=Kind.EMAIL, lane=channel.lane, channel=channel, recipient=recipient)


@pytest.fixture
def by_smtp(settings: Any) -> Callable[[int], None]:
    def use(port: int) -> None:
        settings.EMAIL_BACKEND = SMTP
        settings.EMAIL_HOST, settings.EMAIL_PORT = "127.0.0.1", port
        settings.EMAIL_TIMEOUT = 5

    return use


@pytest.fixture
def server(by_smtp: Callable[[int], None]) -> Iterator[MailServer]:
    with mail_server() as started:
        by_smtp(started.port)
        yield started


def refusal_of(delivery: Delivery, channel: Email | None = None) -> ChannelError:
    with pytest.raises(ChannelError) as raised, channel or Email() as used:
        used.send(delivery)
    return raised.value


def only_mail(server: MailServer) -> Any:
    (envelope,) = server.taken
    return email.message_from_bytes(envelope.content, policy=email.policy.default)


def test_a_mail_arrives_as_text_and_as_html(server, delivery, settings, said):
    settings.DEFAULT_FROM_EMAIL = "Holdpoint <holdpoint@mail.example>"
    with Email() as channel:
        receipt = channel.send(delivery)
    mail = only_mail(server)
    assert server.taken[0].rcpt_tos == ["approver@acme.example"]
    assert (mail["From"], mail["To"]) == ("Holdpoint <holdpoint@mail.example>", "approver@acme.example")
    assert mail["Subject"] == "Refund EUR 1,240?"
    assert mail.get_body(("plain",)).get_content().replace("\r\n", "\n") == said.text
    assert "<p>Größer" in mail.get_body(("html",)).get_content()
    assert mail["X-Holdpoint-Delivery"] == str(delivery.pk)
    assert mail["Auto-Submitted"] == "auto-generated"
    assert mail["Message-ID"] == receipt.message_id == f"<holdpoint.{delivery.pk}@mail.example>"
    assert "Reply-To" not in mail


def test_answers_go_where_the_tenant_wants_them(server, said):
    with Email() as channel:
        channel.send(mail_to("approver@acme.example", reply_to="desk@acme.example"))
    assert only_mail(server)["Reply-To"] == "desk@acme.example"


def test_a_repetition_carries_the_same_message_id(server, delivery):
    for _ in range(2):
        with Email() as channel:
            channel.send(delivery)
    first, second = (email.message_from_bytes(one.content)["Message-ID"] for one in server.taken)
    assert first == second


def test_no_line_of_a_subject_or_an_address_becomes_a_header(server, said):
    said.subject = "Refund\r\nBcc: all@evil.example\x00\x0b\u2028\u202e!"
    with Email() as channel:
        channel.send(mail_to("approver@acme.example", reply_to="desk@acme.example\r\nBcc: all@evil.example"[:17]))
    mail = only_mail(server)
    assert mail["Bcc"] is None
    assert mail["Subject"] == "Refund Bcc: all@evil.example !"


@pytest.mark.parametrize(
    "recipient",
    [
        "approver@acme.example,all@evil.example",
        "approver@acme.example;all@evil.example",
        "approver@acme.example\r\nBcc: all@evil.example",
        "Anybody <approver@acme.example>",
        "approver",
        "@acme.example",
        "a@b@c.example",
        '"a b"@acme.example',
        "",
    ],
)
def test_whatever_is_not_one_address_is_refused_for_good(server, said, recipient):
    error = refusal_of(mail_to(recipient))
    assert (error.permanent, error.unreachable, error.whole_lane) == (True, True, False)
    assert server.taken == []


def test_several_mails_of_a_lane_share_a_connection(server, delivery):
    with Email() as channel:
        for _ in range(3):
            channel.send(delivery)
    assert len(server.taken) == 3
    assert len(server.sessions) == 1


def test_a_connection_that_has_died_meanwhile_is_opened_again(server, delivery):
    with Email() as channel:
        channel.send(delivery)
        server.end_connections()
        channel.send(delivery)
    assert len(server.taken) == 2
    assert len(server.sessions) == 2


@pytest.mark.parametrize(
    ("answer", "unreachable"),
    [
        ("550 5.1.1 <nobody@acme.example>: user unknown", True),
        ("550 no such user here", True),
        ("551 user not local", True),
        ("553 5.1.3 bad address", True),
        ("550 5.2.1 mailbox disabled", True),
        ("550 5.7.1 blocked by policy", False),
        ("552 5.2.2 mailbox full", False),
        ("554 5.7.1 relay access denied", False),
    ],
)
def test_a_mailbox_that_does_not_exist_is_known_by_what_the_server_says(server, said, answer, unreachable):
    server.refuses["nobody@acme.example"] = answer
    with Email() as channel:
        with pytest.raises(ChannelError) as raised:
            channel.send(mail_to("nobody@acme.example"))
        # One recipient's trouble is not the next one's.
        channel.send(mail_to("approver@acme.example"))
    error = raised.value
    assert (error.permanent, error.unreachable, error.whole_lane) == (True, unreachable, False)
    assert answer in error.detail
    assert [one.rcpt_tos for one in server.taken] == [["approver@acme.example"]]


@pytest.mark.parametrize("answer", ["451 4.7.1 greylisted, try again", "450 4.2.1 busy", "452 4.2.2 mailbox full"])
def test_one_recipient_who_has_to_wait_holds_up_nobody_else(server, said, answer):
    server.refuses["approver@acme.example"] = answer
    error = refusal_of(mail_to("approver@acme.example"))
    assert (error.permanent, error.unreachable, error.whole_lane) == (False, False, False)
    assert error.response_status == int(answer[:3])


@pytest.mark.parametrize(
    ("answer", "permanent", "whole_lane"),
    [
        ("451 4.3.0 try again", False, False),
        ("421 4.3.2 going down", False, True),
        ("554 5.6.0 looks like spam", True, False),
    ],
)
def test_a_message_refused_at_its_end_is_told_from_a_server_that_goes_down(
    server, delivery, answer, permanent, whole_lane
):
    server.at_data = answer
    error = refusal_of(delivery)
    assert (error.permanent, error.whole_lane, error.unreachable) == (permanent, whole_lane, False)


def test_a_server_that_closes_for_everybody_holds_up_the_lane(server, delivery):
    server.refuses["approver@acme.example"] = "421 4.3.2 too many connections"
    error = refusal_of(delivery)
    assert (error.permanent, error.whole_lane) == (False, True)


def test_a_server_that_is_away_holds_up_the_lane(by_smtp, delivery):
    by_smtp(closed_port())
    error = refusal_of(delivery)
    assert (error.permanent, error.whole_lane) == (False, True)
    assert error.detail == "The mail server refused the connection."


def test_a_server_that_says_nothing_is_given_up_in_time(by_smtp, delivery, settings):
    with silent_server() as port:
        by_smtp(port)
        settings.EMAIL_TIMEOUT = 0.3
        began = time.monotonic()
        error = refusal_of(delivery)
    assert (error.permanent, error.whole_lane) == (False, True)
    assert error.detail == "The mail server did not answer in time."
    assert time.monotonic() - began < 5


@pytest.mark.filterwarnings("ignore:Requiring AUTH while not requiring TLS")
def test_wrong_credentials_are_the_operators_matter_and_not_the_mails(by_smtp, delivery, settings):
    with mail_server(password="right") as server:
        by_smtp(server.port)
        settings.EMAIL_HOST_USER, settings.EMAIL_HOST_PASSWORD = "holdpoint", "sesame"
        error = refusal_of(delivery)
        assert (error.permanent, error.whole_lane, error.unreachable) == (False, True, False)
        assert "credentials" in error.detail
        assert "sesame" not in error.detail

        # None at all is the same trouble, met later.
        settings.EMAIL_HOST_USER = ""
        error = refusal_of(delivery)
        assert (error.permanent, error.whole_lane) == (False, True)

        settings.EMAIL_HOST_USER, settings.EMAIL_HOST_PASSWORD = "holdpoint", "right"
        with Email() as channel:
            channel.send(delivery)
        assert len(server.taken) == 1


def test_a_mail_that_cannot_be_written_is_refused_without_its_words(server, delivery, said):
    said.text = "a lone half \ud800 of a character, and a secret"
    error = refusal_of(delivery)
    assert (error.permanent, error.whole_lane) == (True, False)
    assert "secret" not in error.detail


def test_a_folder_gets_one_file_per_mail(settings, delivery, tmp_path: Path, monkeypatch):
    settings.EMAIL_BACKEND = "django.core.mail.backends.filebased.EmailBackend"
    settings.EMAIL_FILE_PATH = str(tmp_path)
    opened = []
    connect = channel_module.get_connection
    # Files are named by second and object: with each of them kept, no two have the same name.
    monkeypatch.setattr(channel_module, "get_connection", lambda: opened.append(connect()) or opened[-1])
    with Email() as channel:
        channel.send(delivery)
        channel.send(delivery)
    files = list(tmp_path.iterdir())
    assert len(files) == 2
    assert all(file.read_text().count("Message-ID:") == 1 for file in files)


def test_a_provider_that_is_not_set_up_holds_up_the_lane(settings, delivery):
    settings.EMAIL_BACKEND = "anymail.backends.postmark.EmailBackend"
    settings.ANYMAIL = {}
    error = refusal_of(delivery)
    assert (error.permanent, error.whole_lane) == (False, True)
