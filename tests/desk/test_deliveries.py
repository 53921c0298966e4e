"""The record of messages: newest first, found by whom they went to, and each with its tries."""

import re
from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from checkpoints.models import Checkpoint
from notifications.distributing import email_channel
from notifications.models import Delivery, DeliveryTry, Kind, Webhook
from tenants import reachability
from tenants.models import Membership, Tenant, Unreachable, User

LIST = "/admin/notifications/delivery/"
GONE = "/admin/tenants/unreachable/"


def text(response: Any) -> str:
    return str(response.content.decode())


def rows(response: Any) -> list[Any]:
    return list(response.context["cl"].result_list)


def page(delivery: Delivery) -> str:
    return f"{LIST}{delivery.pk}/change/"


@pytest.fixture
def write(acme: Tenant) -> Callable[..., Delivery]:
    number = iter(range(10_000))

    def one(recipient: str = "ann@acme.example", **fields: Any) -> Delivery:
        status = fields.setdefault("status", "sent")
        defaults: dict[str, Any] = {"kind": Kind.EMAIL, "lane": "email", "occasion": "created", "tries": 1}
        defaults |= {"tenant": acme} | ({} if status == "waiting" else {"next_try_at": None})
        if "webhook" not in fields:
            defaults["channel"] = email_channel(acme)
        if status == "sent":
            defaults["sent_at"] = timezone.now()
        made: Delivery = Delivery.objects.create(
            recipient=recipient, dedupe_key=f"k{next(number)}", **defaults | fields
        )
        return made

    return one


def test_the_newest_comes_first_with_its_state_in_words(desk: Client, write: Callable[..., Delivery]) -> None:
    old = write("ann@acme.example")
    new = write("bob@acme.example", status="bounced", last_error="No such user.", occasion="reminder")
    response = desk.get(LIST)
    assert rows(response) == [new, old]
    shown = text(response)
    assert "came back" in shown
    assert "No such user." in shown
    assert "reminder" in shown


def test_nothing_was_sent_yet_says_so(desk: Client) -> None:
    assert "No messages yet" in text(desk.get(LIST))


def test_filters_narrow_by_state_and_kind(desk: Client, acme: Tenant, write: Callable[..., Delivery]) -> None:
    webhook = Webhook.objects.create(tenant=acme, url="https://x.example/", secret="whsec_x")
    mail = write(status="failed")
    call = write("", kind=Kind.WEBHOOK, webhook=webhook, facts={"body": {"type": "checkpoint.resolved"}})
    assert rows(desk.get(f"{LIST}?status=failed")) == [mail]
    assert rows(desk.get(f"{LIST}?kind=webhook")) == [call]
    assert rows(desk.get(f"{LIST}?kind=webhook&status=failed")) == []
    assert "checkpoint.resolved" in text(desk.get(f"{LIST}?kind=webhook"))
    assert set(rows(desk.get(f"{LIST}?kind=nonsense&status=nonsense"))) == {mail, call}


def test_search_takes_a_whole_address_or_an_id(
    desk: Client, write: Callable[..., Delivery], refund: Checkpoint
) -> None:
    sent, waiting = write(), write(status="waiting")
    other = write("annabel@acme.example", checkpoint=refund)
    assert set(rows(desk.get(f"{LIST}?q= ANN@acme.example"))) == {sent, waiting}
    assert rows(desk.get(f"{LIST}?q={sent.pk}")) == [sent]
    assert rows(desk.get(f"{LIST}?q={refund.pk}")) == [other]
    assert "Nothing matches" in text(desk.get(f"{LIST}?q=ann"))


@pytest.mark.parametrize("query", ["q=%00", "q=%25", "p=x", "status=%00", "kind=%00", "tenant=x", "recipient=x"])
def test_odd_questions_get_an_answer(desk: Client, write: Callable[..., Delivery], query: str) -> None:
    write()
    assert desk.get(f"{LIST}?{query}", follow=True).status_code in {200, 400}


def test_the_page_of_a_message_shows_every_try(desk: Client, acme: Tenant, write: Callable[..., Delivery]) -> None:
    assert "None: nothing was sent." in text(desk.get(page(write(status="skipped"))))
    sent = write(tries=2, message_id="<m-1@mail.example>")
    now = timezone.now()
    for succeeded, detail, status in ((False, "Connection refused.", None), (True, "250 OK", 250)):
        DeliveryTry.objects.create(
            tenant=acme, delivery=sent, at=now, succeeded=succeeded, detail=detail, response_status=status, took_ms=12
        )
    shown = text(desk.get(page(sent)))
    tries = shown.partition('id="tries"')[2].partition("</section>")[0]
    assert re.findall(r"<strong>(\w+)</strong>", tries) == ["Taken", "Failed"]
    assert "Connection refused." in tries
    assert "answer 250" in tries
    assert "Europe/Berlin" in shown
    assert "Redeliver" not in shown


def test_the_page_of_a_call_shows_what_is_sent_and_no_secret(
    desk: Client, acme: Tenant, write: Callable[..., Delivery]
) -> None:
    webhook = Webhook.objects.create(tenant=acme, url="https://x.example/", description="ledger", secret="whsec_hidden")
    call = write("", kind=Kind.WEBHOOK, webhook=webhook, facts={"body": {"type": "checkpoint.resolved"}})
    shown = text(desk.get(page(call)))
    assert "&quot;type&quot;: &quot;checkpoint.resolved&quot;" in shown
    assert "Redeliver" in shown
    assert "whsec_hidden" not in shown


def test_nobody_writes_changes_or_deletes_a_message(desk: Client, write: Callable[..., Delivery]) -> None:
    sent = write()
    assert desk.post(f"{LIST}add/", {"recipient": "x"}).status_code == 403
    assert desk.post(page(sent), {"status": "waiting"}).status_code == 403
    assert desk.post(f"{LIST}{sent.pk}/delete/", {"post": "yes"}).status_code == 403
    # Only what machines hear can be sent again: a person would hear it twice.
    assert desk.post(f"{LIST}{sent.pk}/redeliver/").status_code == 403
    desk.post(LIST, {"action": "delete_selected", "_selected_action": [str(sent.pk)], "post": "yes"})
    sent.refresh_from_db()
    assert sent.status == "sent"


def test_the_list_costs_the_same_however_long_it_is_and_counts_nothing(
    desk: Client, write: Callable[..., Delivery]
) -> None:
    def cost() -> int:
        with CaptureQueriesContext(connection) as queries:
            assert desk.get(LIST).status_code == 200
        statements = [query["sql"] for query in queries if "notifications_delivery" in query["sql"]]
        assert not [statement for statement in statements if "COUNT(" in statement.upper()]
        # The body of a message is not read for a list.
        whole = r"(?<!\()[`\"]notifications_delivery[`\"]\.[`\"]facts[`\"]"
        assert not [one for one in statements if re.search(whole, one)]
        return len(queries)

    write()
    few = cost()
    for number in range(60):
        write(f"p{number}@acme.example", status="failed")
    assert cost() == few
    assert 'rel="next"' in text(desk.get(LIST))


def test_the_sidebar_leads_to_everything_about_messages(desk: Client) -> None:
    shown = text(desk.get("/admin/checkpoints/checkpoint/"))
    for address in (LIST, GONE, "/admin/notifications/channel/", "/admin/notifications/webhook/"):
        assert f'href="{address}"' in shown


# --- Cannot be reached ------------------------------------------------------------------------------------------------


@pytest.fixture
def gone(acme: Tenant, approver: User) -> Unreachable:
    reachability.mark_unreachable(acme, approver.email, reason="550 no such user", at=timezone.now())
    return Unreachable.objects.for_tenant(acme).get()  # type: ignore[no-any-return]


def test_whoever_cannot_be_reached_is_listed_with_the_reason(desk: Client, gone: Unreachable) -> None:
    response = desk.get(GONE)
    assert "Cannot be reached" in text(response)
    assert "550 no such user" in text(response)
    assert rows(desk.get(f"{GONE}?q= APPROVER@acme.example")) == [gone]
    assert rows(desk.get(f"{GONE}?q=approver")) == []


def test_when_everybody_can_be_reached_the_list_says_so(desk: Client) -> None:
    assert "Everybody can be reached" in text(desk.get(GONE))


def test_an_admin_says_that_somebody_can_be_reached_again(desk: Client, gone: Unreachable) -> None:
    chosen = {"action": "reachable_again", "_selected_action": [str(gone.pk)]}
    assert "1 address will be written to again" in text(desk.post(GONE, chosen, follow=True))
    assert not Unreachable.objects.exists()


def test_one_click_in_the_list_does_the_same(desk: Client, gone: Unreachable) -> None:
    assert f'formaction="{gone.pk}/clear/"' in text(desk.get(GONE))
    assert desk.get(f"{GONE}{gone.pk}/clear/").status_code == 302
    assert Unreachable.objects.exists()
    assert "1 address will be written to again" in text(desk.post(f"{GONE}{gone.pk}/clear/", follow=True))
    assert not Unreachable.objects.exists()


def test_an_auditor_leaves_the_mark_where_it_is(
    auditor: User, gone: Unreachable, signed_in: Callable[[User], Client]
) -> None:
    browser = signed_in(auditor)
    response = browser.get(GONE)
    assert rows(response) == [gone]
    assert "Reachable again" not in text(response)
    assert browser.post(f"{GONE}{gone.pk}/clear/").status_code == 403
    browser.post(GONE, {"action": "reachable_again", "_selected_action": [str(gone.pk)]})
    assert Unreachable.objects.exists()


def test_nobody_marks_an_address_by_hand(desk: Client, gone: Unreachable) -> None:
    assert desk.get(f"{GONE}add/").status_code == 403
    assert desk.get(f"{GONE}{gone.pk}/change/").status_code == 200
    assert desk.post(f"{GONE}{gone.pk}/change/", {"email": "x@y.example"}).status_code == 403


def test_people_and_the_page_of_a_person_say_that_mail_does_not_arrive(
    desk: Client, acme: Tenant, approver: User, colleague: User, gone: Unreachable
) -> None:
    assert text(desk.get("/admin/tenants/membership/")).count("⚠ cannot be reached") == 1
    member = Membership.objects.for_tenant(acme).get(user=approver)
    shown = text(desk.get(f"/admin/tenants/membership/{member.pk}/change/"))
    assert "⚠ cannot be reached" in shown
    assert "550 no such user" in shown
    other = Membership.objects.for_tenant(acme).get(user=colleague)
    assert "nothing has come back" in text(desk.get(f"/admin/tenants/membership/{other.pk}/change/"))
