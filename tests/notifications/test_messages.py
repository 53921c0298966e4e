"""What a message says, on every occasion, and what it never says."""

import json
import re
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from html.parser import HTMLParser
from itertools import product
from typing import Any

import pytest
import time_machine
from django.core.mail import EmailMultiAlternatives

from checkpoints.masking import MASK
from checkpoints.models import Checkpoint
from notifications.messages import Message, compose
from notifications.models import ASKING, Delivery, Kind, Occasion
from tenants.models import Tenant, User

FACTS: dict[str, dict[str, Any]] = {
    Occasion.REASSIGNED: {"actor": "user:ann@acme.example", "from": "group:support", "to": "group:finance"},
    Occasion.ESCALATED: {"actor": "timeout", "from": "group:support", "to": "group:finance"},
    Occasion.REMINDER: {"actor": "sweep", "count": 2},
    Occasion.MOVED_AWAY: {"actor": "user:ann@acme.example", "from": "group:finance", "to": "group:managers"},
    Occasion.DECIDED: {"actor": "user:ann@acme.example", "decision": "approve", "comment": "The last time."},
    Occasion.CANCELLED: {"actor": "key:refund-agent", "reason": "The customer withdrew."},
    Occasion.SUPERSEDED: {"actor": "key:refund-agent", "by": "01234567"},
    Occasion.COMMENTED: {"actor": "user:ann@acme.example", "text": "Which chair?"},
    Occasion.UNROUTED: {
        "checkpoints": [
            {"id": "1", "prompt": "Refund **EUR 7**?", "reason": "The group finance is empty.", "priority": "critical"},
            {"id": "2", "prompt": "", "reason": "", "priority": "normal"},
        ],
        "more": 1,
    },
    Occasion.WEBHOOK_DISABLED: {"url": "https://hooks.example/s3cr3t", "reason": "No answer for 5 days."},
}
ABOUT_NO_CHECKPOINT = {Occasion.UNROUTED, Occasion.WEBHOOK_DISABLED, Occasion.TEST}


class Page(HTMLParser):
    """What a reader of mail would make of it."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words = ""
        self.feed(html)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data):
        self.words += data

    @property
    def links(self) -> list[str | None]:
        return [attributes["href"] for _, attributes in self.tags if "href" in attributes]


@pytest.fixture
def tell(acme: Tenant) -> Callable[..., Message]:
    """Composes a message to the approver about a checkpoint, or about none."""

    def told(
        occasion: str, checkpoint: Checkpoint | None = None, kind: str = Kind.EMAIL, recipient: str = "", **facts: Any
    ) -> Message:
        delivery = Delivery(
            tenant=acme,
            checkpoint=checkpoint,
            occasion=occasion,
            kind=kind,
            recipient=recipient or ("approver@acme.example" if kind == Kind.EMAIL else ""),
            facts=facts,
        )
        return compose(delivery)

    return told


def assert_harmless(message: Message) -> Page:
    page = Page(message.html)
    allowed = {"html", "head", "meta", "title", "style", "body", "div", "span", "h1", "h2"} | {"a", "strong", "em", "s"}
    allowed |= {"p", "br", "hr", "ul", "ol", "li", "pre", "code", "blockquote", "h3", "h4", "h5", "h6"}
    allowed |= {"table", "thead", "tbody", "tr", "th", "td"}
    assert {tag for tag, _ in page.tags} <= allowed
    for _, attributes in page.tags:
        assert not {name for name in attributes if name.startswith(("on", "x-", "@", ":", "src"))}
    assert page.links == [message.url]
    assert "url(" not in message.html
    assert "@import" not in message.html
    assert not re.search("[\u202a-\u202e\u2066-\u2069\x00-\x08]", message.html + message.text + message.subject)
    assert not re.search(r"[\x00-\x1f\x7f]", message.subject)
    return page


# --- Every occasion -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("occasion", Occasion.values)
@pytest.mark.parametrize("kind", [Kind.EMAIL, Kind.CHAT])
def test_there_is_a_message_for_every_occasion(tell, refund, occasion, kind):
    for checkpoint, facts in product([refund, None], [FACTS.get(occasion, {}), {}]):
        message = tell(occasion, checkpoint, kind, **facts)
        assert message.subject
        assert len(message.subject) <= 150
        assert message.text.strip()
        assert message.url.startswith("http://testserver/")
        assert "None" not in message.subject + message.text
        if kind == Kind.EMAIL:
            assert_harmless(message)


@pytest.mark.parametrize("occasion", Occasion.values)
def test_a_mail_carries_exactly_one_link(tell, ask, occasion):
    checkpoint = ask(
        prompt="See [the case](https://evil.example/case), <https://evil.example> and ![x](https://evil.example/x.png)",
        context={"page": "https://evil.example"},
        options=[{"id": "approve", "label": "https://evil.example", "description": "[x](https://evil.example)"}],
    )
    facts = FACTS.get(occasion, {}) | {"comment": "[x](https://evil.example)", "text": "<https://evil.example>"}
    message = tell(occasion, checkpoint, **facts)
    assert Page(message.html).links == [message.url]
    assert message.html.count("href") == 1
    assert message.text.count(message.url) == 1


@pytest.mark.parametrize("occasion", [name for name in Occasion.values if name not in ABOUT_NO_CHECKPOINT])
def test_the_link_leads_to_the_checkpoint_also_where_nothing_is_left_to_decide(tell, refund, occasion):
    assert tell(occasion, refund).url == f"http://testserver/decide/{refund.pk}"


def test_the_digest_leads_to_the_queue(tell):
    assert tell(Occasion.UNROUTED).url == "http://testserver/admin/checkpoints/checkpoint/"


@pytest.mark.parametrize(
    ("occasion", "subject"),
    [
        (Occasion.CREATED, "Decision needed: Refund EUR 1,240 to Acme?"),
        (Occasion.REASSIGNED, "Passed to you: Refund EUR 1,240 to Acme?"),
        (Occasion.ESCALATED, "Escalated to you: Refund EUR 1,240 to Acme?"),
        (Occasion.REMINDER, "Reminder 2: Refund EUR 1,240 to Acme?"),
        (Occasion.MOVED_AWAY, "No longer yours: Refund EUR 1,240 to Acme?"),
        (Occasion.DECIDED, "Decided: approve — Refund EUR 1,240 to Acme?"),
        (Occasion.CANCELLED, "Cancelled: Refund EUR 1,240 to Acme?"),
        (Occasion.SUPERSEDED, "Replaced: Refund EUR 1,240 to Acme?"),
        (Occasion.EXPIRED, "Expired: Refund EUR 1,240 to Acme?"),
        (Occasion.COMMENTED, "New comment: Refund EUR 1,240 to Acme?"),
    ],
)
def test_the_subject_says_what_is_asked(tell, refund, occasion, subject):
    assert tell(occasion, refund, **FACTS.get(occasion, {})).subject == subject


def test_the_subject_of_other_messages_says_what_they_are_about(tell):
    assert tell(Occasion.UNROUTED, **FACTS[Occasion.UNROUTED]).subject == "3 checkpoints wait in the queue of Acme"
    one = {"checkpoints": [{"id": "1", "prompt": "Refund?"}]}
    assert tell(Occasion.UNROUTED, **one).subject == "1 checkpoint waits in the queue of Acme"
    facts = FACTS[Occasion.WEBHOOK_DISABLED]
    assert tell(Occasion.WEBHOOK_DISABLED, **facts).subject == "Webhook switched off: hooks.example"
    assert tell(Occasion.TEST).subject == "Test message of Acme"


def test_a_long_question_is_cut_in_the_subject_at_a_word(tell, ask):
    subject = tell(Occasion.CREATED, ask(prompt="Refund the customer " * 50)).subject
    assert len(subject) <= 150
    assert subject.endswith(("Refund…", "the…", "customer…"))


def test_a_checkpoint_without_a_question_says_what_there_is(tell, ask):
    checkpoint = ask(action={"name": "payments.refund", "args": {"amount": 1240}})
    checkpoint.prompt = "\u200b \n"
    assert tell(Occasion.CREATED, checkpoint).subject == "Decision needed: May refund-agent run payments.refund?"
    checkpoint.action = None
    assert tell(Occasion.CREATED, checkpoint).subject == "Decision needed: refund-agent waits for approval"


# --- What an approver needs ---------------------------------------------------------------------------------------


def test_a_mail_holds_question_choices_action_and_context(tell, ask):
    checkpoint = ask(
        prompt="Refund **EUR 1,240**?",
        options=[{"id": "yes", "label": "Pay it", "description": "Today."}, {"id": "no", "requires_comment": True}],
        action={"name": "payments.refund", "args": {"amount": 1240}},
        context={"customer": {"name": "Globex", "vip": True}, "orders": [{"id": 7}], "tags": ["late", "damaged"]},
        requested_by="ann@acme.example",
        priority="critical",
    )
    message = tell(Occasion.CREATED, checkpoint)
    assert "<strong>EUR 1,240</strong>" in message.html
    for said in ("Pay it", "Today.", "needs a comment", "payments.refund", "Globex", "ann@acme.example"):
        assert said in message.text
        assert said in message.html
    assert "customer.name: Globex\ncustomer.vip: yes\norders.0.id: 7\ntags: late, damaged" in message.text
    assert "critical priority" in message.text
    assert "critical priority" in message.html


def test_only_what_is_urgent_says_how_urgent_it_is(tell, ask):
    assert "priority" not in tell(Occasion.CREATED, ask(priority="normal")).text


@pytest.mark.parametrize(
    ("assignee", "said"),
    [
        ("group:finance", "You are asked because you are in the group finance."),
        ("role:approver", "You are asked because you hold the role approver."),
        ("user:approver@acme.example", "You are asked because it is assigned to you by name."),
    ],
)
def test_people_read_as_whom_they_are_asked(tell, ask, finance, assignee, said):
    message = tell(Occasion.CREATED, ask(assignee=assignee))
    assert said in message.text
    assert said in message.html


@pytest.mark.parametrize("kind", [Kind.EMAIL, Kind.CHAT])
@pytest.mark.parametrize(
    ("fields", "then"),
    [
        ({}, "After that it expires undecided."),
        ({"expiry_action": "cancel"}, "After that it is cancelled."),
        ({"expiry_action": "approve"}, "After that it counts as approved."),
        (
            {"expiry_action": "escalate", "escalation_target": "group:managers"},
            "After that it goes to the group managers.",
        ),
        (
            {"expiry_action": "default_option", "default_option": "no", "options": [{"id": "no", "label": "Leave it"}]},
            "After that “Leave it” is taken as the default.",
        ),
    ],
)
@time_machine.travel(datetime(2026, 11, 17, 15, 5, tzinfo=UTC), tick=False)
def test_the_deadline_is_said_in_the_tenants_zone_with_what_happens_then(tell, ask, kind, fields, then):
    message = tell(Occasion.CREATED, ask(timeout="24h", **fields), kind)
    text = " ".join(message.text.split())
    assert f"Deadline: 18 Nov 2026, 16:05 Europe/Berlin. {then}" in text


def test_without_a_deadline_it_says_so(tell, refund):
    assert "Deadline: There is none. It waits until somebody decides." in tell(Occasion.CREATED, refund).text


def test_after_the_deadline_a_decision_still_counts_until_it_is_handled(tell, ask):
    checkpoint = ask(timeout="1h")
    checkpoint.expires_at -= timedelta(hours=2)
    assert "a decision still counts until it expires" in " ".join(tell(Occasion.CREATED, checkpoint).text.split())


def test_a_tenant_with_a_zone_that_is_gone_reads_utc(tell, acme, ask):
    acme.time_zone = "Middle/Earth"
    assert "UTC" in tell(Occasion.CREATED, ask(timeout="1h")).text


def test_the_last_line_says_who_sent_it(tell, refund):
    assert tell(Occasion.CREATED, refund).text.strip().endswith("for Acme, because the program refund-agent asked.")


def test_who_decided_what_when_and_why_is_told(tell, ask):
    checkpoint = ask(options=[{"id": "approve", "label": "Pay it"}])
    checkpoint.resolved_at = datetime(2026, 11, 18, 15, 5, tzinfo=UTC)
    message = tell(Occasion.DECIDED, checkpoint, **FACTS[Occasion.DECIDED])
    assert message.subject.startswith("Decided: Pay it — ")
    text = " ".join(message.text.split())
    assert "ann@acme.example decided “Pay it” on 18 Nov 2026, 16:05 Europe/Berlin. > The last time." in text


def test_a_default_taken_by_the_deadline_is_no_persons_decision(tell, ask):
    checkpoint = ask(options=[{"id": "no", "label": "Leave it"}])
    checkpoint.resolution = {"decision": "default", "auto_expired": True, "option": "no"}
    message = tell(Occasion.DECIDED, checkpoint, actor="timeout", decision="default", auto_expired=True)
    assert "The deadline passed, and “Leave it” was taken" in message.text


def test_the_requester_reads_that_it_was_on_their_behalf(tell, ask, approver: User):
    checkpoint = ask(requested_by=str(approver.pk))
    message = tell(Occasion.CANCELLED, checkpoint, **FACTS[Occasion.CANCELLED])
    assert "You are told because this was asked for on your behalf." in message.text
    assert "On behalf of: approver@acme.example" in message.text
    assert "The program “refund-agent” cancelled it" in message.text


def test_whoever_had_it_reads_where_it_went(tell, refund):
    moved = tell(Occasion.MOVED_AWAY, refund, **FACTS[Occasion.MOVED_AWAY])
    assert "ann@acme.example passed it to the group managers." in moved.text
    late = tell(Occasion.MOVED_AWAY, refund, actor="timeout", to="group:managers", escalated=True)
    assert "There was no decision in time, so it went to the group managers." in late.text


def test_the_digest_names_what_waits_and_why(tell):
    message = tell(Occasion.UNROUTED, **FACTS[Occasion.UNROUTED])
    assert "- Refund EUR 7? (critical): The group finance is empty." in message.text
    assert "And 1 more." in message.text
    page = assert_harmless(message)
    assert "Refund EUR 7?" in page.words
    assert "The group finance is empty." in page.words


def test_the_address_of_a_webhook_is_not_told_in_full(tell):
    message = tell(Occasion.WEBHOOK_DISABLED, **FACTS[Occasion.WEBHOOK_DISABLED])
    assert "hooks.example" in message.text
    assert "s3cr3t" not in message.text + message.html + message.subject
    assert "No answer for 5 days." in message.text


def test_a_room_reads_it_short_and_impersonal(tell, refund):
    message = tell(Occasion.CREATED, refund, Kind.CHAT)
    assert message.html == ""
    assert message.url not in message.text
    assert "The program refund-agent waits for a decision." in message.text
    assert "Choices: approve, reject" in message.text
    assert "Asked: the group finance." in message.text
    assert not re.search(r"\byour?\b", message.text, re.IGNORECASE)


@pytest.mark.parametrize("occasion", Occasion.values)
def test_the_lines_of_the_text_fit_a_narrow_window(tell, ask, occasion):
    checkpoint = ask(
        prompt="Refund EUR 1,240 to Acme, as they asked for? " * 5 + "\n\n- " + "word " * 40,
        context={"note": "word " * 50},
        options=[{"id": "approve", "description": "word " * 30}],
        timeout="1h",
    )
    text = tell(occasion, checkpoint, **FACTS.get(occasion, {})).text
    assert max(len(line) for line in text.split("\n") if "http" not in line) <= 76
    assert "\n\n\n" not in text


# --- What it never says -------------------------------------------------------------------------------------------

HOSTILE = (
    '<script>alert(1)</script><img src=x onerror=alert(1)>"><a href="https://evil.example">x</a>'
    '<div x-data="alert(1)" @click="x" :class="y">[x](javascript:alert(1)) {{ settings.SECRET_KEY }} {% debug %}'
    "\u202etxet\u202c \u2066x \x00\x1b[31m\r\nBcc: victim@evil.example\r\n\r\nbody \u2028 &lt;script&gt;"
)


@pytest.mark.parametrize("occasion", Occasion.values)
@pytest.mark.parametrize("kind", [Kind.EMAIL, Kind.CHAT])
def test_hostile_words_stay_words(tell, acme, ask, occasion, kind):
    checkpoint = ask()
    # Past the doors, which refuse some of it: old rows and other ways in may hold anything.
    checkpoint.prompt = HOSTILE
    checkpoint.context = {HOSTILE: HOSTILE, "list": [HOSTILE, {HOSTILE: [HOSTILE]}]}
    checkpoint.options = [{"id": HOSTILE, "label": HOSTILE, "description": HOSTILE}]
    checkpoint.action = {"name": HOSTILE, "args": {HOSTILE: HOSTILE}}
    checkpoint.core.name = checkpoint.flow_name = checkpoint.requested_by = acme.name = HOSTILE
    checkpoint.assignee_type, checkpoint.assignee_value = "group", HOSTILE
    names = ("actor", "decision", "comment", "from", "to", "reason", "count", "text", "by", "url", "more")
    facts = dict.fromkeys(names, HOSTILE) | {"checkpoints": [dict.fromkeys(("id", "prompt", "reason"), HOSTILE)]}
    message = tell(occasion, checkpoint, kind, **facts)
    if kind == Kind.EMAIL:
        assert_harmless(message)
    assert "only-for-tests" not in message.html + message.text
    assert len(message.subject.splitlines()) == 1
    assert "\x1b" not in message.text
    assert "\u202e" not in message.text


@pytest.mark.parametrize("occasion", Occasion.values)
def test_no_question_can_add_a_header(tell, ask, occasion):
    checkpoint = ask()
    checkpoint.prompt = "Refund?\r\nBcc: victim@evil.example\nX-Evil: 1"
    checkpoint.core.name = "agent\r\nBcc: victim@evil.example"
    said = tell(occasion, checkpoint, **FACTS.get(occasion, {}) | {"decision": "yes\r\nBcc: victim@evil.example"})
    mail = EmailMultiAlternatives(said.subject, said.text, "holdpoint@acme.example", ["approver@acme.example"])
    mail.attach_alternative(said.html, "text/html")
    sent = mail.message()
    assert sent["Bcc"] is None
    assert sent["X-Evil"] is None
    assert "\n" not in sent["Subject"]
    assert [part.get_content_type() for part in sent.walk()] == ["multipart/alternative", "text/plain", "text/html"]


@pytest.mark.parametrize("occasion", Occasion.values)
def test_facts_of_another_shape_do_no_harm(tell, refund, occasion):
    names = ("actor", "decision", "comment", "from", "to", "reason", "count", "text", "by", "url")
    lists = ({"checkpoints": 7, "more": "x"}, {"checkpoints": [1, {"prompt": None}], "more": -3})
    for value, facts in product((7, None, ["x"], {"x": 1}, True, ""), lists):
        assert tell(occasion, refund, **dict.fromkeys(names, value) | facts).subject


def test_secrets_are_masked_by_the_name_of_their_key(tell, ask):
    checkpoint = ask(
        context={"api_key": "hunter2", "customer": {"accessToken": "hunter2", "headers": [{"Cookie": "hunter2"}]}},
        action={"name": "pay", "args": {"client_secret": "hunter2", "amount": 3}},
    )
    for kind in (Kind.EMAIL, Kind.CHAT):
        message = tell(Occasion.CREATED, checkpoint, kind)
        assert "hunter2" not in message.text + message.html
    text = tell(Occasion.CREATED, checkpoint).text
    assert f"customer.accessToken: {MASK}" in text
    assert f"client_secret: {MASK}" in text


@pytest.mark.parametrize("piece", ["Refund the customer? ", "[", "> ", "*a ", "`x` ", "&", "\n", "a"])
def test_a_hundred_thousand_characters_are_cut_with_a_word_about_the_rest(tell, ask, piece):
    checkpoint = ask()
    checkpoint.prompt = "Refund?" + piece * (100_000 // len(piece)) + "THE END"
    started = time.process_time()
    message = tell(Occasion.CREATED, checkpoint)
    assert time.process_time() - started < 3
    assert "The rest is behind the link." in message.text
    assert "The rest is behind the link." in message.html
    assert "THE END" not in message.text + message.html
    # Beyond this, some readers of mail cut it themselves.
    assert len(message.html.encode()) < 100_000
    assert_harmless(message)


def test_much_and_deep_context_is_cut(tell, ask):
    checkpoint = ask()
    deep: Any = "bottom"
    for _ in range(2000):
        deep = {"inner": deep}
    checkpoint.context = {"deep": deep, "long": "v" * 10_000} | {f"key {n}": n for n in range(1000)}
    message = tell(Occasion.CREATED, checkpoint)
    assert "key 30: 30" in message.text
    assert "key 100: " not in message.text
    assert "v" * 301 not in message.text
    assert "The rest is behind the link." in message.html
    assert len(message.html) < 60_000


def test_a_hundred_options_are_not_all_listed(tell, ask):
    message = tell(Occasion.CREATED, ask(options=[f"option {n}" for n in range(100)]))
    assert "- option 19\n- and 80 more" in message.text


def test_long_comments_are_cut(tell, refund):
    message = tell(Occasion.COMMENTED, refund, actor="user:ann@acme.example", text="word " * 50_000)
    assert len(message.text) < 4000


def test_a_room_is_not_told_the_context(tell, ask):
    assert "DE02" not in tell(Occasion.CREATED, ask(context={"iban": "DE02"}), Kind.CHAT).text


def test_what_was_settled_is_told_without_its_context(tell, ask):
    message = tell(Occasion.DECIDED, ask(context={"iban": "DE02"}), **FACTS[Occasion.DECIDED])
    assert "DE02" not in message.text + message.html


def test_asking_is_what_the_button_says(tell, ask):
    for occasion in ASKING:
        assert "Read and decide" in tell(occasion, ask()).html
    assert "Read and answer" in tell(Occasion.CREATED, ask(checkpoint_type="freeform")).html
    assert tell(Occasion.CREATED, ask(checkpoint_type="freeform")).subject.startswith("Answer needed: ")


def test_a_message_can_be_kept_as_json(tell, refund):
    """No lazy or marked strings leave here: transports encode what they get."""
    message = tell(Occasion.CREATED, refund)
    assert json.loads(json.dumps([message.subject, message.text, message.html]))[2] == message.html
