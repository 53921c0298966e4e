"""Promise 8: webhooks arrive, with real receivers in every kind of trouble and days that pass in seconds."""

import json
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import timedelta
from typing import Any

import pytest
import standardwebhooks
import time_machine
from django.core import mail
from django.utils import timezone

from checkpoints import distribution, lifecycle
from checkpoints.answers import Answer
from checkpoints.models import Checkpoint
from notifications import deliveries, signing
from notifications.channels import webhook as channel
from notifications.models import Delivery, DeliveryStatus, DeliveryTry, Webhook
from tenants.actors import Actor
from tenants.models import Tenant, User
from tests.heavy import figures
from tests.heavy.sizes import SIZES
from tests.servers import HANG, HttpEndpoint, Reply, Request, http_endpoint

pytestmark = [pytest.mark.both_databases, pytest.mark.heavy, pytest.mark.django_db(transaction=True)]

OK = Reply(204, b"")
HOUR = timedelta(hours=1)
# Until the first look is over, nobody is given up; after it, whoever hangs costs this much real time.
PATIENCE, SHORT_PATIENCE = 30.0, 0.2
UP_AFTER, DECIDED_AFTER = 6 * HOUR, HOUR
ASKED_FOR = {429: 3600, 503: 1800}
# Refuse every connection: one until it is up, the other for ever.
NOT_LISTENING = {"down", "dead"}
ARRIVES = ("well", "down", "flapping", "slow", "busy")

Receivers = dict[str, HttpEndpoint]
Hooks = dict[str, Webhook]


@pytest.fixture
def receivers(settings: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Receivers]:
    settings.WEBHOOK_ALLOW_PRIVATE = True
    settings.DELIVERY_LANES_AT_ONCE = 8
    monkeypatch.setattr(channel, "SECONDS", PATIENCE)
    busy = [Reply(status, headers={"Retry-After": str(seconds)}) for status, seconds in ASKED_FOR.items()]
    flapping = [Reply(500), OK, Reply(502), OK, HANG, OK, Reply(307), OK, OK]
    with ExitStack() as stack:
        names = (*ARRIVES, "dead", "gone")
        found = {name: stack.enter_context(http_endpoint(listening=name not in NOT_LISTENING)) for name in names}
        for endpoint in found.values():
            endpoint.replies = [OK]
        found["gone"].replies = [Reply(410)]
        found["busy"].replies = [*busy, OK, OK, *busy, OK]
        found["flapping"].replies = [*flapping * SIZES.webhook_troubles, OK]
        # At the first look each of these two waits for the other: whoever calls them in turn never gets far.
        slow, well, everything = found["slow"], found["well"], SIZES.webhook_questions
        well.replies = [lambda: OK if has(slow, 1) else Reply(500), OK]
        slow.replies = [lambda: Reply(500) if has(well, everything) else OK]
        slow.replies += [*[HANG] * SIZES.webhook_troubles, OK]
        yield found


def has(other: HttpEndpoint, messages: int) -> bool:
    give_up_at = time.monotonic() + PATIENCE / 2
    while len(other.requests) < messages and time.monotonic() < give_up_at:
        time.sleep(0.005)
    return len(other.requests) >= messages


@pytest.fixture
def hooks(acme: Tenant, receivers: Receivers) -> Hooks:
    return {
        name: Webhook.objects.create(tenant=acme, url=f"{endpoint.address}/{name}", secret=signing.new_secret())
        for name, endpoint in receivers.items()
    }


def ids_of(hook: Webhook, **fields: Any) -> set[str]:
    return {str(key) for key in Delivery.objects.filter(webhook=hook, **fields).values_list("pk", flat=True)}


def waiting() -> Any:
    return Delivery.objects.filter(status=DeliveryStatus.WAITING)


def test_every_webhook_message_arrives_once_its_receiver_is_up_and_no_receiver_delays_another(
    hooks: Hooks,
    receivers: Receivers,
    ask: Callable[..., Checkpoint],
    program: Actor,
    tenant_admin: User,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    started = time.perf_counter()
    rows = [ask() for _ in range(SIZES.webhook_questions)]
    distribution.distribute_events()
    began = timezone.now()
    with time_machine.travel(began, tick=False) as clock:
        deliveries.send_deliveries()
        check_the_first_look(hooks, receivers)
        monkeypatch.setattr(channel, "SECONDS", SHORT_PATIENCE)
        turns = [(DECIDED_AFTER, lambda: decide_all(rows, program)), (UP_AFTER, receivers["down"].listen)]
        looks = 1
        while waiting().exists():
            # The jobs look once a minute; where nothing is due, the minutes pass unseen.
            next_due = waiting().order_by("next_try_at").values_list("next_try_at", flat=True)[0]
            clock.move_to(max(next_due, timezone.now() + timedelta(minutes=1)))
            while turns and timezone.now() - began >= turns[0][0]:
                turns.pop(0)[1]()
            deliveries.send_deliveries()
            looks += 1
        passed = timezone.now() - began

    messages = 2 * SIZES.webhook_questions
    calls = 0
    for name in ARRIVES:
        assert len(ids_of(hooks[name])) == messages
        assert ids_of(hooks[name], status=DeliveryStatus.SENT) == ids_of(hooks[name]), name
        check_what_came(hooks[name], receivers[name])
        calls += len(receivers[name].requests)
    check_the_busy_one_was_left_in_peace(receivers["busy"].requests)
    check_the_dead_one(hooks["dead"], messages)
    check_the_one_that_is_gone(hooks["gone"], receivers["gone"], tenant_admin)
    figures.report(
        8,
        f"{len(ARRIVES) * messages:,} messages to {len(ARRIVES)} receivers (well, down, flapping, slow, busy): all "
        f"arrived in {calls:,} calls, each under one id, every signature accepted; the one that is well had everything "
        f"at the first look; Retry-After kept; 410 called once and switched off; {looks:,} looks in "
        f"{passed // HOUR} hours of moved time",
        started=started,
    )


def decide_all(rows: list[Checkpoint], program: Actor) -> None:
    for row in rows:
        lifecycle.resolve(row, actor=program, answer=Answer("approve", None, "", None))
    distribution.distribute_events()


def check_the_first_look(hooks: Hooks, receivers: Receivers) -> None:
    """However the others fare, the one that is well has everything; and whoever does not answer is asked once."""
    assert ids_of(hooks["well"], status=DeliveryStatus.SENT) == ids_of(hooks["well"])
    # It kept its own caller waiting until the well one had everything, and failed only then.
    assert ids_of(hooks["slow"], status=DeliveryStatus.SENT) == set()
    assert {len(receivers[name].requests) for name in ("slow", "busy", "flapping", "gone")} == {1}
    for name in NOT_LISTENING:
        assert DeliveryTry.objects.filter(delivery__webhook=hooks[name]).count() == 1


def check_what_came(hook: Webhook, receiver: HttpEndpoint) -> None:
    """The public library accepts each at the moment it came; a repetition has the id and the bytes of the first."""
    bodies: dict[str, bytes] = {}
    for request in receiver.requests:
        with time_machine.travel(request.at, tick=False):
            standardwebhooks.Webhook(hook.secret).verify(request.body, request.headers)
        name = request.headers["webhook-id"]
        assert bodies.setdefault(name, request.body) == request.body
    assert set(bodies) == ids_of(hook)
    events = {(told["data"]["event_id"], told["type"]) for told in map(json.loads, bodies.values())}
    assert len(events) == len(bodies)
    assert {kind for _, kind in events} == {"checkpoint.created", "checkpoint.resolved"}


def check_the_busy_one_was_left_in_peace(requests: list[Request]) -> None:
    """Nothing at all comes to whoever asked for time before that time is over."""
    statuses = [*ASKED_FOR, None, None, *ASKED_FOR]
    for request, status, later in zip(requests, statuses, requests[1:], strict=False):
        if status is not None:
            assert later.at - request.at >= ASKED_FOR[status]


def check_the_dead_one(hook: Webhook, messages: int) -> None:
    """Tried for a day, then given up in words; and its admins see since when."""
    given_up = Delivery.objects.filter(webhook=hook, status=DeliveryStatus.FAILED)
    assert given_up.count() == messages
    assert set(given_up.values_list("tries", "last_error")) == {
        (8, "The connection was refused. Given up after 8 tries.")
    }
    hook.refresh_from_db()
    assert hook.failing_since is not None


def check_the_one_that_is_gone(hook: Webhook, receiver: HttpEndpoint, admin: User) -> None:
    """One 410 is enough: nothing more is sent there, or kept for it, and the admins hear of it."""
    hook.refresh_from_db()
    assert (hook.is_active, len(receiver.requests)) == (False, 1)
    assert Delivery.objects.filter(webhook=hook).count() == SIZES.webhook_questions
    assert ids_of(hook, status=DeliveryStatus.SENT) == set()
    assert [(message.to, "switched off" in message.subject) for message in mail.outbox] == [([admin.email], True)]
