"""A provider on loopback that speaks Postmark's API, and its reports through the door that is open to it alone."""

import base64
import hashlib
import hmac
import json
import secrets
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.core.checks import run_checks
from django.test import Client

from checkpoints.models import Checkpoint
from notifications import deliveries
from notifications.models import Channel, Delivery, DeliveryStatus, DeliveryTry, Kind, Occasion
from tenants.models import Unreachable
from tests.servers import HttpEndpoint, Reply, closed_port, http_endpoint

pytestmark = pytest.mark.django_db

SECRET = "postmark:open-sesame"
RECIPIENT = "approver@acme.example"
DOOR = "/anymail/postmark/tracking/"


def taken(message_id: str = "pm-1", to: str = RECIPIENT) -> Reply:
    said = {"To": to, "MessageID": message_id, "ErrorCode": 0, "Message": "OK"}
    return Reply(200, json.dumps(said).encode(), {"Content-Type": "application/json"})


def refused(status: int, code: int, message: str, **headers: str) -> Reply:
    body = json.dumps({"ErrorCode": code, "Message": message}).encode()
    return Reply(status, body, {"Content-Type": "application/json"} | headers)


@pytest.fixture
def postmark(settings: Any) -> Iterator[HttpEndpoint]:
    with http_endpoint() as endpoint:
        endpoint.replies = [taken()]
        settings.EMAIL_BACKEND = "anymail.backends.postmark.EmailBackend"
        settings.ANYMAIL = {
            "POSTMARK_SERVER_TOKEN": "the-server-token",
            "POSTMARK_API_URL": endpoint.address,
            "WEBHOOK_SECRET": SECRET,
            "REQUESTS_TIMEOUT": 5,
            "IGNORE_UNSUPPORTED_FEATURES": True,
        }
        yield endpoint


@pytest.fixture
def mail(postmark: HttpEndpoint, refund: Checkpoint) -> Delivery:
    """Waits to be sent."""
    return mail_about(refund)


def mail_about(refund: Checkpoint, **fields: Any) -> Delivery:
    channel, _ = Channel.objects.get_or_create(tenant=refund.tenant, kind=Kind.EMAIL, defaults={"name": "Mail"})
    return Delivery.objects.create(
        tenant=refund.tenant,
        dedupe_key=secrets.token_hex(8),
        checkpoint=refund,
        occasion=Occasion.CREATED,
        kind=Kind.EMAIL,
        lane=channel.lane,
        channel=channel,
        recipient=RECIPIENT,
        assignment_version=refund.assignment_version,
        **fields,
    )


@pytest.fixture
def sent(mail: Delivery) -> Delivery:
    deliveries.send_deliveries()
    mail.refresh_from_db()
    assert (mail.status, mail.message_id) == (DeliveryStatus.SENT, "pm-1")
    return mail


def knock(report: Any, secret: str | None = SECRET, door: str = DOOR) -> Any:
    headers = {"Authorization": "Basic " + base64.b64encode(secret.encode()).decode()} if secret else {}
    body = report if isinstance(report, str) else json.dumps(report)
    return Client().post(door, body, content_type="application/json", headers=headers)


def report(record: str, message_id: str = "pm-1", **more: Any) -> None:
    said = {"RecordType": record, "MessageID": message_id, "Recipient": RECIPIENT, "Metadata": {}} | more
    assert knock(said).status_code == 200


def delivered(**more: Any) -> None:
    report("Delivery", DeliveredAt="2030-01-01T00:00:00Z", Details="250 2.0.0 OK", **more)


def bounced(type: str = "HardBounce", details: str = "smtp;550 5.1.1 user unknown", **more: Any) -> None:
    report("Bounce", Type=type, ID=7, Email=RECIPIENT, Details=details, Description="It came back.", **more)


def complained() -> None:
    report("SpamComplaint", Type="SpamComplaint", ID=8, Email=RECIPIENT)


REPORTS: dict[str, Callable[[], None]] = {
    "delivered": delivered,
    "bounced": bounced,
    "rejected": lambda: bounced("BadEmailAddress", ""),
    "complained": complained,
}


def status_of(delivery: Delivery) -> str:
    return str(Delivery.objects.get(pk=delivery.pk).status)


def marks() -> list[tuple[str, str, str]]:
    return list(Unreachable.objects.values_list("tenant__slug", "email", "reason"))


def test_a_mail_goes_out_by_the_provider_without_trackers(postmark, sent):
    (request,) = postmark.requests
    said = json.loads(request.body)
    assert request.headers["x-postmark-server-token"] == "the-server-token"
    assert said["To"] == RECIPIENT
    assert said["TrackOpens"] is False
    assert said["TrackLinks"] == "None"
    assert said["Metadata"] == {"delivery": str(sent.pk)}
    headers = {header["Name"]: header["Value"] for header in said["Headers"]}
    assert headers["X-Holdpoint-Delivery"] == str(sent.pk)
    assert headers["Auto-Submitted"] == "auto-generated"
    assert "Message-ID" not in headers


@pytest.mark.parametrize("status", REPORTS)
def test_a_report_moves_the_delivery_and_is_on_record(sent, status):
    REPORTS[status]()
    assert status_of(sent) == status
    first, second = DeliveryTry.objects.filter(delivery=sent)
    assert first.succeeded
    assert second.succeeded == (status == "delivered")
    assert second.detail.startswith(f"Postmark reports: {status}")


@pytest.mark.parametrize("status", REPORTS)
def test_the_same_report_again_changes_nothing(sent, status):
    REPORTS[status]()
    Unreachable.objects.all().delete()
    REPORTS[status]()
    assert DeliveryTry.objects.filter(delivery=sent).count() == 2
    assert marks() == []


@pytest.mark.parametrize("later", ["bounced", "complained", "rejected"])
def test_what_comes_after_delivered_is_kept_and_delivered_does_not_undo_it(sent, later):
    delivered()
    REPORTS[later]()
    assert status_of(sent) == later
    delivered()
    assert status_of(sent) == later
    assert DeliveryTry.objects.filter(delivery=sent).count() == 3


@pytest.mark.parametrize("record", ["Open", "Click", "SubscriptionChange", "Nonsense"])
def test_other_reports_move_nothing(sent, record):
    report(record)
    bounced("Transient")
    assert status_of(sent) == DeliveryStatus.SENT
    assert DeliveryTry.objects.filter(delivery=sent).count() == 1


def test_reports_about_mails_of_others_are_passed_over(sent):
    delivered(message_id="somebody-elses")
    bounced(message_id="somebody-elses", Metadata={"delivery": "not an id"})
    bounced(message_id="", Metadata={"delivery": "01981f2e-0000-7000-8000-000000000000"})
    assert status_of(sent) == DeliveryStatus.SENT
    assert marks() == []


def test_a_mail_sent_twice_is_found_by_what_was_written_on_it(sent):
    delivered(message_id="pm-0", Metadata={"delivery": str(sent.pk)})
    assert status_of(sent) == DeliveryStatus.DELIVERED


def test_a_mail_that_arrived_though_we_never_heard_so_is_not_sent_again(mail, refund):
    delivered(message_id="pm-0", Metadata={"delivery": str(mail.pk)})
    deliveries.send_deliveries()
    assert status_of(mail) == DeliveryStatus.DELIVERED
    refund.refresh_from_db()
    assert refund.notification_sent


def test_a_mail_that_was_skipped_stays_so(sent):
    Delivery.objects.filter(pk=sent.pk).update(status=DeliveryStatus.SKIPPED)
    bounced()
    assert status_of(sent) == DeliveryStatus.SKIPPED
    assert marks() == []


def test_a_hard_bounce_marks_the_person_and_a_later_arrival_clears_it(sent, refund):
    bounced()
    assert marks() == [("acme", RECIPIENT, f"The mail to {RECIPIENT} came back: mailbox does not exist (550 5.1.1).")]

    mail_about(refund, status=DeliveryStatus.SENT, next_try_at=None, message_id="pm-2")
    delivered(message_id="pm-2")
    assert marks() == []


@pytest.mark.parametrize(
    ("type", "details", "reason"),
    [
        ("HardBounce", "", "It came back"),
        ("HardBounce", "550 no such user", "mailbox does not exist (550)"),
        ("HardBounce", "smtp;5.1.10 RESOLVER.ADR.RecipientNotFound", "mailbox does not exist (5.1.10)"),
        ("BadEmailAddress", "", "It came back"),
    ],
)
def test_who_has_no_mailbox_is_unreachable(sent, type, details, reason):
    bounced(type, details)
    assert [mark[2] for mark in marks()] == [f"The mail to {RECIPIENT} came back: {reason}."]


@pytest.mark.parametrize(
    ("type", "details"),
    [
        ("SoftBounce", "smtp;452 4.2.2 mailbox full"),
        ("SoftBounce", ""),
        ("HardBounce", "smtp;550 5.7.1 message refused by policy"),
        ("HardBounce", "smtp;552 5.2.2 over quota"),
        ("VirusNotification", ""),
        ("Blocked", ""),
    ],
)
def test_who_could_not_be_reached_this_time_is_not_unreachable(sent, type, details):
    bounced(type, details)
    assert status_of(sent) in {DeliveryStatus.BOUNCED, DeliveryStatus.REJECTED}
    assert marks() == []


def test_a_complaint_does_not_make_a_person_unreachable(sent):
    complained()
    assert marks() == []


# --- The door -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("secret", [None, "", "postmark:guessed", "open-sesame", SECRET + " "])
def test_nobody_else_is_believed(sent, secret):
    answer = knock({"RecordType": "Bounce", "Type": "HardBounce", "MessageID": "pm-1"}, secret)
    assert answer.status_code == 400
    assert status_of(sent) == DeliveryStatus.SENT


@pytest.mark.parametrize(
    "door", ["/anymail/mailjet/tracking/", "/anymail/postmark/inbound/", "/anymail/nobody/tracking/"]
)
def test_only_the_provider_in_use_has_a_door(sent, door):
    assert knock({"RecordType": "Delivery", "MessageID": "pm-1"}, door=door).status_code == 404


def test_without_a_provider_there_is_no_door(settings):
    assert knock({"RecordType": "Delivery", "MessageID": "pm-1"}).status_code == 404


@pytest.mark.parametrize("body", ["", "{", "[]", "null", "7", '"x"', "[[1]]"])
def test_a_report_that_cannot_be_read_is_refused_and_no_fault_of_ours(sent, body):
    assert knock(body).status_code == 400


def findings() -> list[str]:
    return [str(found.id) for found in run_checks() if str(found.id).startswith("holdpoint.E01")]


@pytest.mark.filterwarnings("ignore:Your Anymail webhooks are insecure")
def test_without_a_secret_the_door_stays_shut_and_a_check_says_so(sent, settings):
    assert findings() == []
    settings.ANYMAIL = {name: value for name, value in settings.ANYMAIL.items() if name != "WEBHOOK_SECRET"}
    assert findings() == ["holdpoint.E010"]
    assert knock({"RecordType": "Bounce", "Type": "HardBounce", "MessageID": "pm-1"}).status_code == 404
    assert status_of(sent) == DeliveryStatus.SENT


def test_a_provider_that_reports_nothing_needs_no_secret(settings):
    settings.EMAIL_BACKEND = "anymail.backends.scaleway.EmailBackend"
    settings.ANYMAIL = {"SCALEWAY_SECRET_KEY": "key", "SCALEWAY_PROJECT_ID": "project"}
    assert findings() == []


def test_a_provider_without_its_key_is_found_before_the_first_mail(postmark, settings):
    settings.ANYMAIL = {"WEBHOOK_SECRET": SECRET}
    (found,) = [found for found in run_checks() if str(found.id) == "holdpoint.E011"]
    assert "ANYMAIL_POSTMARK_SERVER_TOKEN" in str(found.hint)


def signed(key: str, message_id: str) -> dict[str, Any]:
    stamp = str(int(time.time()))
    return {
        "signature": {
            "timestamp": stamp,
            "token": "t" * 50,
            "signature": hmac.new(key.encode(), f"{stamp}{'t' * 50}".encode(), hashlib.sha256).hexdigest(),
        },
        "event-data": {
            "event": "delivered",
            "id": "e1",
            "timestamp": time.time(),
            "recipient": RECIPIENT,
            "message": {"headers": {"message-id": message_id}},
            "user-variables": {},
        },
    }


def test_a_provider_that_signs_its_reports_needs_no_password(sent, settings):
    settings.EMAIL_BACKEND = "anymail.backends.mailgun.EmailBackend"
    settings.ANYMAIL = {"MAILGUN_API_KEY": "api", "MAILGUN_WEBHOOK_SIGNING_KEY": "the-signing-key"}
    Delivery.objects.filter(pk=sent.pk).update(message_id="<mg-1@acme.example>")
    door = "/anymail/mailgun/tracking/"
    assert findings() == []
    assert knock(signed("another-key", "mg-1@acme.example"), None, door).status_code == 400
    assert status_of(sent) == DeliveryStatus.SENT
    assert knock(signed("the-signing-key", "mg-1@acme.example"), None, door).status_code == 200
    assert status_of(sent) == DeliveryStatus.DELIVERED


@pytest.mark.parametrize("provider", ["mailgun", "postal"])
def test_a_signing_provider_without_its_key_is_shut_as_well(settings, provider):
    settings.EMAIL_BACKEND = f"anymail.backends.{provider}.EmailBackend"
    settings.ANYMAIL = {}
    assert "holdpoint.E010" in findings()
    assert knock({}, None, f"/anymail/{provider}/tracking/").status_code == 404


# --- What the provider answers when a mail is handed over ---------------------------------------------------------


@pytest.mark.parametrize(
    ("reply", "status", "error"),
    [
        (refused(422, 300, f"Invalid 'To' address: '{RECIPIENT}'."), "failed", "refused the recipient"),
        (refused(422, 300, "Invalid 'From' address."), "failed", "Postmark answered 422. Invalid 'From' address."),
        (refused(500, 0, "Down"), "waiting", "Postmark answered 500. Down"),
        (refused(401, 10, "Bad token the-server-token"), "waiting", "Postmark answered 401. Bad token …"),
        (refused(429, 0, "Slow down", **{"Retry-After": "3600"}), "waiting", "Postmark answered 429."),
        (Reply(200, b"<html>"), "waiting", "Postmark answered 200."),
    ],
)
def test_a_refusal_says_why_and_whether_it_is_tried_again(postmark, mail, reply, status, error):
    postmark.replies = [reply]
    deliveries.send_deliveries()
    mail.refresh_from_db()
    assert mail.status == status
    assert error in mail.last_error
    assert "the-server-token" not in mail.last_error


def test_an_address_the_provider_knows_to_bounce_is_unreachable(postmark, mail):
    inactive = f"Found inactive addresses: {RECIPIENT}. Inactive recipients are ones that have generated a hard bounce"
    postmark.replies = [refused(422, 406, inactive)]
    deliveries.send_deliveries()
    assert status_of(mail) == DeliveryStatus.FAILED
    assert [mark[1] for mark in marks()] == [RECIPIENT]


def test_a_provider_that_is_away_is_tried_again(postmark, mail, settings):
    settings.ANYMAIL = settings.ANYMAIL | {"POSTMARK_API_URL": f"http://127.0.0.1:{closed_port()}"}
    deliveries.send_deliveries()
    mail.refresh_from_db()
    assert (mail.status, mail.last_error) == ("waiting", "The mail provider could not be reached.")
