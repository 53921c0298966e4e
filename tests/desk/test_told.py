"""Who was told about a checkpoint, and whom no message reaches."""

import re
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from checkpoints import lifecycle
from checkpoints.answers import Answer
from checkpoints.models import Checkpoint
from notifications import reminders
from notifications.distributing import email_channel
from notifications.models import Channel, Delivery, Kind, Mute, Webhook
from tenants import reachability, setup
from tenants.actors import Actor
from tenants.models import Group, Tenant, User

Ask = Callable[..., Checkpoint]
Page = Callable[[Checkpoint], str]
Order = Callable[[Checkpoint, str], str]
Write = Callable[..., Delivery]
LIST = "/admin/checkpoints/checkpoint/"


def text(response: Any) -> str:
    return str(response.content.decode())


def section(response: Any) -> str:
    """The card “Who was told”, as words."""
    card = text(response).partition('id="told"')[2].partition("</section>")[0].partition(">")[2]
    return " ".join(re.sub(r"<[^>]+>", " ", re.sub(r"</?time[^>]*>", "", card)).split())


@pytest.fixture
def write(acme: Tenant) -> Write:
    """One message about a checkpoint: ``write(refund, "ann@…", status="sent")``."""
    number = iter(range(10_000))

    def one(row: Checkpoint, recipient: str = "", **fields: Any) -> Delivery:
        waits = fields.setdefault("status", "sent") == "waiting"
        defaults: dict[str, Any] = {"kind": Kind.EMAIL, "lane": "email", "occasion": "created", "tries": 1}
        if "webhook" not in fields and "channel" not in fields:
            defaults["channel"] = email_channel(acme)
        if not waits:
            defaults["next_try_at"] = None
        if fields["status"] in {"sent", "delivered"}:
            defaults["sent_at"] = timezone.now()
        made: Delivery = Delivery.objects.create(
            tenant=acme, checkpoint=row, recipient=recipient, dedupe_key=f"k{next(number)}", **defaults | fields
        )
        return made

    return one


def test_each_person_who_is_asked_is_there_from_the_start(desk: Client, refund: Checkpoint, page_of: Page) -> None:
    shown = section(desk.get(page_of(refund)))
    assert "approver@acme.example not told yet" in shown
    assert "colleague@acme.example not told yet" in shown


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"status": "sent"}, "sent new checkpoint, by email, just now, 1 try"),
        ({"status": "delivered", "tries": 3}, "delivered new checkpoint, by email, just now, 3 tries"),
        ({"status": "bounced", "last_error": "No such user."}, "came back"),
        ({"status": "rejected", "last_error": "Blocked."}, "refused"),
        ({"status": "failed", "last_error": "Given up after 8 tries."}, "given up"),
        ({"status": "skipped", "last_error": "It was resolved meanwhile."}, "not sent"),
    ],
)
def test_the_state_of_a_message_is_told_in_words(
    desk: Client, refund: Checkpoint, page_of: Page, write: Write, fields: dict[str, Any], words: str
) -> None:
    write(refund, "approver@acme.example", **fields)
    shown = section(desk.get(page_of(refund)))
    assert f"approver@acme.example {words}" in shown
    assert fields.get("last_error", "") in shown


def test_a_message_that_waits_says_when_it_is_tried_again_and_what_went_wrong(
    desk: Client, refund: Checkpoint, page_of: Page, write: Write
) -> None:
    at = timezone.now() + timedelta(minutes=10, seconds=5)
    write(refund, "approver@acme.example", status="waiting", next_try_at=at, tries=2, last_error="Connection refused.")
    response = desk.get(page_of(refund))
    assert "next try in 10 minutes. Connection refused." in section(response)
    assert "Europe/Berlin" in text(response).partition('id="told"')[2].partition("</section>")[0]


def test_only_the_latest_message_of_each_person_room_and_webhook_counts(
    desk: Client, acme: Tenant, refund: Checkpoint, page_of: Page, write: Write
) -> None:
    room = Channel.objects.create(tenant=acme, kind=Kind.CHAT, name="Finance", url="https://hooks.example/s3cr3t")
    webhook = Webhook.objects.create(tenant=acme, url="https://hooks.example/", description="ledger", secret="whsec_x")
    write(refund, "approver@acme.example", status="bounced")
    write(refund, "approver@acme.example", status="delivered", occasion="reminder")
    write(refund, kind=Kind.CHAT, channel=room, occasion="created")
    write(refund, kind=Kind.WEBHOOK, webhook=webhook, occasion="event", status="failed", last_error="500")
    response = desk.get(page_of(refund))
    shown = section(response)
    assert shown.count("approver@acme.example") == 1
    assert "delivered reminder, by email" in shown
    assert "came back" not in shown
    assert "room “Finance” sent new checkpoint, by chat" in shown
    assert "webhook ledger given up event, by webhook" in shown
    assert "s3cr3t" not in text(response)
    # Trouble comes first.
    assert shown.index("ledger") < shown.index("Finance")


def test_whoever_cannot_be_reached_is_named_before_everything_else(
    desk: Client, acme: Tenant, refund: Checkpoint, page_of: Page
) -> None:
    assert "annot be reached" not in text(desk.get(page_of(refund))).partition("<main")[2].partition('id="told"')[0]
    reachability.mark_unreachable(acme, "approver@acme.example", reason="550 no such user", at=timezone.now())
    shown = text(desk.get(page_of(refund)))
    notice = shown.partition('id="unreachable"')[2].partition("</div>")[0]
    assert "Cannot be reached" in notice
    assert "approver@acme.example: 550 no such user" in notice
    assert "colleague@acme.example" not in notice
    assert shown.index('id="unreachable"') < shown.index('id="decide"')
    assert "⚠ cannot be reached" in section(desk.get(page_of(refund)))


def test_once_it_has_ended_nobody_has_to_be_reached(
    desk: Client, acme: Tenant, refund: Checkpoint, page_of: Page, approver: User, as_person: Callable[[User], Actor]
) -> None:
    reachability.mark_unreachable(acme, "approver@acme.example", reason="gone", at=timezone.now())
    lifecycle.resolve(refund, actor=as_person(approver), answer=Answer(decision="approve"))
    assert 'id="unreachable"' not in text(desk.get(page_of(refund)))


@pytest.mark.parametrize("tab", ["waiting", "all"])
def test_the_lists_show_who_cannot_be_reached(desk: Client, acme: Tenant, ask: Ask, finance: Group, tab: str) -> None:
    ask(assignee="user:approver@acme.example", prompt="One")
    ask(assignee="user:ann@elsewhere.example", prompt="Two")
    ask(assignee="group:finance", prompt="Three")
    ask(assignee="role:approver", prompt="Four")
    ask(assignee="role:auditor", prompt="Five")
    for email in ("approver@acme.example", "ann@elsewhere.example"):
        reachability.mark_unreachable(acme, email, reason="gone", at=timezone.now())
    shown = text(desk.get(f"{LIST}?show={tab}"))
    assert shown.count("⚠ cannot be reached") == 2
    assert shown.count("⚠ 1 cannot be reached") == 2


def test_a_mark_of_another_tenant_says_nothing_here(
    desk: Client, globex: Tenant, ask: Ask, finance: Group, page_of: Page
) -> None:
    reachability.mark_unreachable(globex, "approver@acme.example", reason="gone", at=timezone.now())
    row = ask(assignee="user:approver@acme.example")
    ask(assignee="group:finance")
    assert "⚠" not in text(desk.get(f"{LIST}?show=waiting"))
    assert "⚠" not in text(desk.get(page_of(row)))


def test_a_person_named_by_id_is_found_unreachable_as_well(
    desk: Client, acme: Tenant, ask: Ask, approver: User
) -> None:
    ask(assignee=f"user:{approver.pk}")
    reachability.mark_unreachable(acme, approver.email, reason="gone", at=timezone.now())
    assert "⚠ cannot be reached" in text(desk.get(f"{LIST}?show=waiting"))


def queries_of(desk: Client, address: str) -> int:
    with CaptureQueriesContext(connection) as queries:
        assert desk.get(address).status_code == 200
    return len(queries)


def test_the_page_costs_the_same_however_many_were_told(
    desk: Client, acme: Tenant, refund: Checkpoint, page_of: Page, write: Write
) -> None:
    write(refund, "approver@acme.example")
    reachability.mark_unreachable(acme, "approver@acme.example", reason="gone", at=timezone.now())
    few = queries_of(desk, page_of(refund))
    for number in range(60):
        write(refund, f"p{number}@acme.example", status="bounced")
        reachability.mark_unreachable(acme, f"p{number}@acme.example", reason="gone", at=timezone.now())
    assert queries_of(desk, page_of(refund)) == few
    assert "more: all messages" in section(desk.get(page_of(refund)))


def test_the_lists_cost_the_same_however_many_cannot_be_reached(desk: Client, acme: Tenant, ask: Ask) -> None:
    def grow(number: int) -> None:
        email = f"p{number}@acme.example"
        user = setup.add_person(acme, email, roles=[f"r{number}"], groups=[f"g{number}"])
        reachability.mark_unreachable(acme, email, reason="gone", at=timezone.now())
        for assignee in (f"user:{email}", f"user:{user.pk}", f"group:g{number}", f"role:r{number}"):
            ask(assignee=assignee)

    grow(0)
    few = queries_of(desk, f"{LIST}?show=waiting")
    for number in range(1, 6):
        grow(number)
    assert queries_of(desk, f"{LIST}?show=waiting") == few


def test_somebody_who_is_asked_mutes_reminders_for_themselves_alone(
    desk: Client, ask: Ask, tenant_admin: User, page_of: Page, order: Order
) -> None:
    row = ask(assignee="role:tenant_admin", reminder_interval_m=60)
    assert "Mute reminders for me" in text(desk.get(page_of(row)))
    shown = text(desk.post(order(row, "mute"), follow=True))
    assert "You get no more reminders of this one." in shown
    assert "Unmute" in shown
    assert "Mute reminders for me" not in shown
    assert [mute.email for mute in Mute.objects.filter(checkpoint=row)] == [tenant_admin.email]
    assert "Mute reminders for me" in text(desk.post(order(row, "unmute"), follow=True))
    assert not Mute.objects.exists()


def test_an_auditor_mutes_only_what_they_are_asked(
    auditor: User, ask: Ask, refund: Checkpoint, signed_in: Callable[[User], Client], page_of: Page, order: Order
) -> None:
    browser = signed_in(auditor)
    assert "Mute reminders" not in text(browser.get(page_of(refund)))
    assert browser.post(order(refund, "mute")).status_code == 403
    assert not Mute.objects.exists()
    own = ask(assignee="user:auditor@acme.example")
    assert "Mute reminders for me" in text(browser.get(page_of(own)))
    assert browser.post(order(own, "mute")).status_code == 302
    assert Mute.objects.get().checkpoint == own


def test_in_the_queue_there_is_nothing_to_mute(desk: Client, unrouted: Checkpoint, page_of: Page, order: Order) -> None:
    assert "Mute reminders" not in text(desk.get(page_of(unrouted)))
    assert desk.post(order(unrouted, "mute")).status_code == 403
    assert not Mute.objects.exists()


def test_what_has_ended_cannot_be_muted(
    desk: Client, refund: Checkpoint, approver: User, as_person: Callable[[User], Actor], page_of: Page, order: Order
) -> None:
    lifecycle.resolve(refund, actor=as_person(approver), answer=Answer(decision="approve"))
    assert "Mute reminders" not in text(desk.get(page_of(refund)))
    assert desk.post(order(refund, "mute")).status_code == 409
    assert not Mute.objects.exists()


def test_an_outsider_mutes_nothing(
    outsider: User, refund: Checkpoint, signed_in: Callable[[User], Client], order: Order
) -> None:
    assert signed_in(outsider).post(order(refund, "mute")).status_code == 404
    assert not Mute.objects.exists()


def test_the_history_tells_of_the_first_message_and_of_reminders(
    desk: Client, ask: Ask, finance: Group, page_of: Page
) -> None:
    row = ask(assignee="group:finance", reminder_interval_m=60)
    now = timezone.now()
    lifecycle.notified(row.pk, to="approver@acme.example", channel="email", at=now)
    reminders.send_checkpoint_reminders(now=now + timedelta(minutes=61))
    shown = text(desk.get(page_of(row)))
    assert "Holdpoint told approver@acme.example of it by email." in shown
    assert "Holdpoint reminded those who have not answered, reminder number 1." in shown


def test_the_history_names_a_room_that_was_told_first(desk: Client, refund: Checkpoint, page_of: Page) -> None:
    lifecycle.notified(refund.pk, to="Finance", channel="chat", at=timezone.now())
    assert "Holdpoint told the room “Finance” of it." in text(desk.get(page_of(refund)))
