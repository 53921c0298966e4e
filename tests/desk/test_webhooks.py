"""Webhooks on the desk: made, watched, rotated, switched off and on, and their messages sent again."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from checkpoints.models import Checkpoint
from notifications import endpoints, webhooks
from notifications.models import Channel, Delivery, Mute, Webhook
from tenants.actors import Actor
from tenants.models import Tenant, User

LIST = "/admin/notifications/webhook/"
FORM = {"description": "ledger", "url": "https://ledger.example/in", "events": list(webhooks.TYPES)}


def text(response: Any) -> str:
    return str(response.content.decode())


def page(webhook: Webhook) -> str:
    return f"{LIST}{webhook.pk}/change/"


def order(webhook: Webhook, command: str) -> str:
    return f"{LIST}{webhook.pk}/do/{command}/"


def secret_in(response: Any) -> str:
    return text(response).partition('id="secret">')[2].partition("<")[0]


@pytest.fixture
def ledger(program: Actor) -> Webhook:
    return webhooks.create(actor=program, url="https://ledger.example/in", description="ledger")


@pytest.fixture
def failed(ledger: Webhook, program: Actor) -> Delivery:
    sent = webhooks.send_test(ledger, actor=program)
    Delivery.objects.filter(pk=sent.pk).update(
        status="failed", next_try_at=None, tries=8, last_error="It answered 500. Given up after 8 tries."
    )
    return Delivery.objects.get(pk=sent.pk)  # type: ignore[no-any-return]


def test_an_empty_list_says_what_a_webhook_is_for(desk: Client) -> None:
    assert "No webhooks yet" in text(desk.get(LIST))


def test_a_new_webhook_shows_its_secret_once(desk: Client, acme: Tenant) -> None:
    response = desk.post(f"{LIST}add/", FORM)
    assert "no-store" in response["Cache-Control"]
    made = Webhook.objects.for_tenant(acme).get()
    assert secret_in(response) == made.secret
    assert (made.url, made.description, made.events, made.is_active) == (FORM["url"], "ledger", [], True)
    for address in (LIST, page(made)):
        assert made.secret not in text(desk.get(address))
    assert f"whsec_…{made.secret.rstrip('=')[-4:]}" in text(desk.get(page(made)))


@pytest.mark.parametrize(
    "wrong",
    [
        {"url": ""},
        {"url": "http://ledger.example/"},
        {"url": "https://10.0.0.1/"},
        {"events": []},
        {"events": ["nonsense"]},
        {"description": "x" * 201},
    ],
)
def test_a_webhook_that_makes_no_sense_is_refused_with_what_was_typed(desk: Client, wrong: dict[str, Any]) -> None:
    response = desk.post(f"{LIST}add/", FORM | wrong)
    assert response.status_code == 200
    assert "errorlist" in text(response) or "text-red" in text(response)
    assert not Webhook.objects.exists()


def test_one_more_than_a_tenant_may_have_is_refused_in_words(desk: Client, acme: Tenant) -> None:
    Webhook.objects.bulk_create(
        Webhook(tenant=acme, url="https://x.example/", secret="whsec_x") for _ in range(webhooks.MOST_WEBHOOKS)
    )
    response = desk.post(f"{LIST}add/", FORM, follow=True)
    assert "A tenant has at most 20 webhooks." in text(response)
    assert Webhook.objects.count() == webhooks.MOST_WEBHOOKS


def test_address_and_events_are_changed_and_the_secret_stays(desk: Client, ledger: Webhook) -> None:
    form = {"description": "books", "url": "https://books.example/", "events": ["checkpoint.resolved"]}
    assert desk.post(page(ledger), form | {"secret": "whsec_mine", "is_active": ""}).status_code == 302
    before = ledger.secret
    ledger.refresh_from_db()
    assert (ledger.description, ledger.url, ledger.events) == ("books", form["url"], ["checkpoint.resolved"])
    assert (ledger.secret, ledger.is_active) == (before, True)


def test_rotating_shows_the_new_secret_once_and_keeps_the_old_one_for_a_day(desk: Client, ledger: Webhook) -> None:
    old = ledger.secret
    response = desk.post(order(ledger, "rotate"))
    assert "no-store" in response["Cache-Control"]
    ledger.refresh_from_db()
    assert secret_in(response) == ledger.secret != old
    assert ledger.previous_secret == old
    shown = text(desk.get(page(ledger)))
    assert "the one before it signs as well until" in shown
    assert ledger.secret not in shown
    assert old not in shown


def test_the_list_tells_how_each_one_fares(desk: Client, ledger: Webhook, program: Actor) -> None:
    assert ">active<" in text(desk.get(LIST))
    now = timezone.now()
    Webhook.objects.filter(pk=ledger.pk).update(failing_since=now - timedelta(hours=3, minutes=1))
    shown = text(desk.get(LIST))
    assert ">failing<" in shown
    assert "3\N{NO-BREAK SPACE}hours ago" in shown
    endpoints.switch_off(ledger, reason="It answered 410: gone for good.", at=now)
    shown = text(desk.get(LIST))
    assert "switched off" in shown
    assert "It answered 410: gone for good." in shown


def test_switching_it_on_again_forgets_why_it_was_off(desk: Client, ledger: Webhook) -> None:
    endpoints.switch_off(ledger, reason="It answered 410: gone for good.", at=timezone.now())
    assert "Switched on." in text(desk.post(order(ledger, "on"), follow=True))
    ledger.refresh_from_db()
    assert (ledger.is_active, ledger.disabled_reason, ledger.disabled_at) == (True, "", None)
    assert "Switched off." in text(desk.post(order(ledger, "off"), follow=True))
    ledger.refresh_from_db()
    assert not ledger.is_active


def test_a_test_is_queued_and_shown_below(desk: Client, ledger: Webhook) -> None:
    shown = text(desk.post(order(ledger, "test"), follow=True))
    assert "A test is on its way." in shown
    assert "webhook.test" in shown
    assert ">waiting<" in shown
    assert Delivery.objects.get(webhook=ledger).occasion == "test"


def test_a_message_that_was_given_up_is_sent_again_from_the_page(
    desk: Client, ledger: Webhook, failed: Delivery
) -> None:
    shown = text(desk.get(page(ledger)))
    assert "It answered 500. Given up after 8 tries." in shown
    assert "8 tries" in shown
    again = f"/admin/notifications/delivery/{failed.pk}/redeliver/"
    assert f'action="{again}"' in shown
    response = desk.post(again, {"from": "webhook"}, follow=True)
    assert response.redirect_chain[-1][0] == page(ledger)
    assert "as the same message with the same id" in text(response)
    failed.refresh_from_db()
    assert (failed.status, failed.tries) == ("waiting", 0)
    assert "Redeliver" not in text(desk.get(page(ledger)))


def test_a_webhook_is_deleted_with_its_messages(desk: Client, ledger: Webhook, failed: Delivery) -> None:
    assert desk.post(f"{LIST}{ledger.pk}/delete/", {"post": "yes"}).status_code == 403
    response = desk.post(order(ledger, "delete"), follow=True)
    assert response.redirect_chain[-1][0] == LIST
    assert "Deleted: ledger." in text(response)
    assert not Webhook.objects.exists()
    assert not Delivery.objects.exists()


@pytest.mark.parametrize("command", ["test", "rotate", "on", "off", "delete"])
def test_looking_at_a_command_does_nothing(desk: Client, ledger: Webhook, command: str) -> None:
    before = Webhook.objects.values().get()
    assert desk.get(order(ledger, command)).status_code == 302
    assert Webhook.objects.values().get() == before
    assert not Delivery.objects.exists()


@pytest.mark.parametrize("command", ["test", "rotate", "on", "off", "delete"])
def test_an_auditor_looks_and_changes_nothing(
    auditor: User, ledger: Webhook, failed: Delivery, signed_in: Callable[[User], Client], command: str
) -> None:
    browser = signed_in(auditor)
    shown = text(browser.get(page(ledger)))
    assert "It answered 500." in shown
    assert ledger.secret not in shown
    for word in ("Redeliver", "Rotate", "Send test", "Switch off", "Delete"):
        assert word not in shown
    before = Webhook.objects.values().get()
    assert browser.post(order(ledger, command)).status_code == 403
    assert browser.post(f"/admin/notifications/delivery/{failed.pk}/redeliver/").status_code == 403
    assert Webhook.objects.values().get() == before
    assert Delivery.objects.get().status == "failed"


def test_an_unknown_command_is_not_there(desk: Client, ledger: Webhook) -> None:
    assert desk.post(order(ledger, "explode")).status_code == 404


def test_a_form_of_another_site_does_nothing(
    tenant_admin: User, ledger: Webhook, failed: Delivery, refund: Checkpoint
) -> None:
    browser = Client(enforce_csrf_checks=True)
    browser.force_login(tenant_admin, backend="tenants.signin.EmailBackend")
    room = Channel.objects.create(tenant=ledger.tenant, kind="chat", name="Finance", url="https://chat.example/x")
    before = Webhook.objects.values().get()
    for address in (
        *(order(ledger, command) for command in ("test", "rotate", "on", "off", "delete")),
        f"/admin/notifications/delivery/{failed.pk}/redeliver/",
        f"/admin/notifications/channel/{room.pk}/test/",
        f"/admin/checkpoints/checkpoint/{refund.pk}/do/mute/",
    ):
        assert browser.post(address).status_code == 403, address
    assert Webhook.objects.values().get() == before
    assert [row.status for row in Delivery.objects.all()] == ["failed"]
    assert not Mute.objects.exists()
