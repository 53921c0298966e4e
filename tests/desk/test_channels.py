"""Mail and rooms of a chat, as tenant admins set them up."""

from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client

from desk.channels import masked
from notifications.distributing import email_channel
from notifications.models import Channel, Delivery, Kind
from tenants import setup
from tenants.models import Tenant, User

LIST = "/admin/notifications/channel/"
SECRET = "https://hooks.chat.example/services/T0/B0/verySecretabcd"


def text(response: Any) -> str:
    return str(response.content.decode())


def page(channel: Channel) -> str:
    return f"{LIST}{channel.pk}/change/"


@pytest.fixture
def room(acme: Tenant) -> Channel:
    made: Channel = Channel.objects.create(tenant=acme, kind=Kind.CHAT, name="Finance", url=SECRET)
    return made


EVERYTHING = [
    *("created", "reassigned", "escalated", "reminder", "decided", "cancelled", "superseded", "expired"),
    *("commented", "unrouted"),
]


def test_mail_is_there_by_itself_and_once(desk: Client, acme: Tenant) -> None:
    for _ in range(2):
        assert "Email" in text(desk.get(LIST))
    assert Channel.objects.for_tenant(acme).filter(kind=Kind.EMAIL).count() == 1


def test_an_auditor_makes_nothing_by_looking(auditor: User, acme: Tenant, signed_in: Callable[[User], Client]) -> None:
    assert signed_in(auditor).get(LIST).status_code == 200
    assert not Channel.objects.for_tenant(acme).exists()


def test_a_room_is_added_and_its_address_is_never_shown_again(desk: Client, acme: Tenant) -> None:
    form = {"name": " Finance ", "url": SECRET, "is_active": "on", "occasions": EVERYTHING}
    assert desk.post(f"{LIST}add/", form).status_code == 302
    room = Channel.objects.for_tenant(acme).get(kind=Kind.CHAT)
    assert (room.name, room.url, room.occasions, room.is_active) == ("Finance", SECRET, [], True)
    for address in (LIST, page(room)):
        shown = text(desk.get(address))
        assert "https://hooks.chat.example/…abcd" in shown
        assert "verySecret" not in shown


@pytest.mark.parametrize(
    "url",
    ["", "x", "ftp://hooks.example/x", "https://127.0.0.1/x", "https://169.254.169.254/", "https://u:p@hooks.example/"],
)
def test_a_room_at_an_address_that_may_not_be_called_is_refused(desk: Client, url: str) -> None:
    response = desk.post(f"{LIST}add/", {"name": "Finance", "url": url, "is_active": "on", "occasions": EVERYTHING})
    assert response.status_code == 200
    assert not Channel.objects.filter(kind=Kind.CHAT).exists()


def test_what_was_typed_as_the_address_does_not_come_back_with_an_error(desk: Client) -> None:
    response = desk.post(f"{LIST}add/", {"name": "", "url": SECRET, "occasions": EVERYTHING})
    assert response.status_code == 200
    assert "verySecret" not in text(response)


def test_an_empty_address_keeps_the_old_one_and_another_replaces_it(desk: Client, room: Channel) -> None:
    form = {"name": "Accounting", "url": "", "is_active": "on", "occasions": ["created", "decided"]}
    assert desk.post(page(room), form).status_code == 302
    room.refresh_from_db()
    assert (room.name, room.url, room.occasions) == ("Accounting", SECRET, ["created", "decided"])
    desk.post(page(room), form | {"url": "https://other.example/1234"})
    room.refresh_from_db()
    assert room.url == "https://other.example/1234"


def test_mail_is_switched_off_and_gets_an_address_for_answers(desk: Client, acme: Tenant) -> None:
    mail = email_channel(acme)
    wrong = desk.post(page(mail), {"reply_to": "nobody", "occasions": EVERYTHING})
    assert "Enter a valid email address." in text(wrong)
    form = {"reply_to": "Desk@Acme.example", "occasions": EVERYTHING, "name": "other", "url": SECRET}
    assert desk.post(page(mail), form).status_code == 302
    mail.refresh_from_db()
    assert (mail.name, mail.is_active, mail.reply_to, mail.url) == ("Email", False, "desk@acme.example", "")
    # Everything but two: what became of former assignees, and of webhooks, is told by mail alone.
    assert set(mail.occasions) == set(EVERYTHING)
    assert "switched off" in text(desk.get(LIST))


def test_a_channel_for_nothing_is_refused(desk: Client, room: Channel) -> None:
    response = desk.post(page(room), {"name": "Finance", "is_active": "on"})
    assert "Choose at least one, or switch the channel off." in text(response)
    response = desk.post(page(room), {"name": "Finance", "is_active": "on", "occasions": ["nonsense"]})
    assert "Select a valid choice." in text(response)


def test_two_rooms_of_one_name_are_refused(desk: Client, room: Channel) -> None:
    form = {"name": "Finance", "url": SECRET, "is_active": "on", "occasions": EVERYTHING}
    response = desk.post(f"{LIST}add/", form)
    assert response.status_code == 200
    assert "already exists" in text(response)
    assert Channel.objects.filter(kind=Kind.CHAT).count() == 1


def test_nobody_deletes_a_channel(desk: Client, room: Channel) -> None:
    assert desk.post(f"{LIST}{room.pk}/delete/", {"post": "yes"}).status_code == 403
    assert Channel.objects.filter(pk=room.pk).exists()


def test_a_test_by_mail_goes_to_whoever_asked_for_it(desk: Client, acme: Tenant, tenant_admin: User) -> None:
    mail = email_channel(acme)
    assert 'formaction="' in text(desk.get(LIST))
    shown = text(desk.post(f"{LIST}{mail.pk}/test/", follow=True))
    assert "A test to admin@acme.example is on its way." in shown
    sent = Delivery.objects.for_tenant(acme).get()
    assert (sent.occasion, sent.kind, sent.recipient, sent.status) == ("test", "email", tenant_admin.email, "waiting")
    assert (sent.channel, sent.lane, sent.checkpoint) == (mail, "email", None)


def test_a_test_goes_into_the_room_and_a_second_one_as_well(desk: Client, acme: Tenant, room: Channel) -> None:
    for _ in range(2):
        desk.post(f"{LIST}{room.pk}/test/")
    sent = Delivery.objects.for_tenant(acme)
    assert [(one.kind, one.recipient, one.lane) for one in sent] == [("chat", "", f"chat:{room.pk}")] * 2


def test_looking_at_the_address_of_a_test_sends_nothing(desk: Client, room: Channel) -> None:
    assert desk.get(f"{LIST}{room.pk}/test/").status_code == 302
    assert not Delivery.objects.exists()


def test_a_channel_that_is_off_sends_no_test_and_says_so(desk: Client, room: Channel) -> None:
    Channel.objects.filter(pk=room.pk).update(is_active=False)
    assert "Send test" not in text(desk.get(page(room)))
    assert "It is switched off" in text(desk.post(f"{LIST}{room.pk}/test/", follow=True))
    assert not Delivery.objects.exists()


def test_an_auditor_looks_at_a_room_and_can_do_nothing(
    auditor: User, room: Channel, signed_in: Callable[[User], Client]
) -> None:
    browser = signed_in(auditor)
    for address in (LIST, page(room)):
        shown = text(browser.get(address))
        assert "…abcd" in shown
        assert "verySecret" not in shown
        assert "Send test" not in shown
    assert browser.post(f"{LIST}{room.pk}/test/").status_code == 403
    assert browser.post(page(room), {"name": "Mine", "occasions": ["created"]}).status_code == 403
    assert not Delivery.objects.exists()


def test_an_admin_of_two_tenants_chooses_whose_room_it_is(
    desk: Client, acme: Tenant, globex: Tenant, tenant_admin: User
) -> None:
    setup.add_person(globex, tenant_admin.email, roles=["tenant_admin"])
    form = {"tenant": str(globex.pk), "name": "Room", "url": SECRET, "is_active": "on", "occasions": EVERYTHING}
    assert desk.post(f"{LIST}add/", form).status_code == 302
    assert Channel.objects.get(kind=Kind.CHAT).tenant == globex
    desk.get(LIST)
    assert {channel.tenant for channel in Channel.objects.filter(kind=Kind.EMAIL)} == {acme, globex}


def test_a_mask_shows_where_it_goes_and_not_how() -> None:
    assert masked(SECRET) == "https://hooks.chat.example/…abcd"
    assert masked("https://hooks.chat.example:8443/x/y?token=12345678") == "https://hooks.chat.example/…5678"
