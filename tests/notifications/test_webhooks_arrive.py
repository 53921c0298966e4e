"""Promise 8, with real receivers: one is well, the others are down, flapping, slow, busy, or gone for good."""

import json
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest
import standardwebhooks
from django.utils import timezone

from checkpoints import distribution
from checkpoints.models import Checkpoint
from notifications import deliveries, signing
from notifications.channels import webhook as channel
from notifications.models import Delivery, DeliveryStatus, Kind, Webhook
from tenants.models import Tenant
from tests.heavy import figures
from tests.servers import HANG, HttpEndpoint, Reply, http_endpoint

pytestmark = [pytest.mark.both_databases, pytest.mark.heavy]

MESSAGES = 5
PATIENCE = 2.0
OK = Reply(204, b"")
TROUBLES: dict[str, list[Any]] = {
    "well": [OK],
    # Refuses every connection until it is started.
    "down": [OK],
    "flapping": [Reply(500), OK, Reply(502), OK, HANG, OK, Reply(307), OK],
    "slow": [HANG, HANG, OK],
    "busy": [Reply(429, headers={"Retry-After": "3600"}), Reply(503, headers={"Retry-After": "3600"}), OK],
    "gone": [Reply(410)],
}


@pytest.fixture
def receivers(settings: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, HttpEndpoint]]:
    settings.WEBHOOK_ALLOW_PRIVATE = True
    settings.DELIVERY_LANES_AT_ONCE = 8
    monkeypatch.setattr(channel, "SECONDS", PATIENCE)
    with ExitStack() as stack:
        found = {name: stack.enter_context(http_endpoint(listening=name != "down")) for name in TROUBLES}
        for name, endpoint in found.items():
            endpoint.replies = list(TROUBLES[name])
        yield found


@pytest.fixture
def hooks(transactional_db: None, acme: Tenant, receivers: dict[str, HttpEndpoint]) -> dict[str, Webhook]:
    return {
        name: Webhook.objects.create(
            tenant=acme, url=f"{endpoint.address}/{name}", secret=signing.new_secret(), events=["checkpoint.created"]
        )
        for name, endpoint in receivers.items()
    }


def mails_aside() -> None:
    Delivery.objects.exclude(kind=Kind.WEBHOOK).update(status=DeliveryStatus.SKIPPED, next_try_at=None)


def let_time_pass() -> None:
    Delivery.objects.filter(status=DeliveryStatus.WAITING).update(next_try_at=timezone.now())


def ids_of(hook: Webhook, **fields: Any) -> set[str]:
    return {str(key) for key in Delivery.objects.filter(webhook=hook, **fields).values_list("pk", flat=True)}


def test_every_message_arrives_once_its_receiver_is_up_and_no_receiver_delays_another(
    hooks: dict[str, Webhook],
    receivers: dict[str, HttpEndpoint],
    ask: Callable[..., Checkpoint],
) -> None:
    started = time.perf_counter()
    for _ in range(MESSAGES):
        ask(assignee="approver@acme.example", options=["approve", "reject"])
    distribution.distribute_events()
    mails_aside()
    expected = {name: ids_of(hook) for name, hook in hooks.items()}
    assert {len(ids) for ids in expected.values()} == {MESSAGES}

    deliveries.send_deliveries()
    # However the others fare, the one that is well has everything after the first look.
    assert ids_of(hooks["well"], status=DeliveryStatus.SENT) == expected["well"]
    assert ids_of(hooks["down"], status=DeliveryStatus.WAITING) == expected["down"]
    # The one who asked for an hour gets it.
    (asked,) = Delivery.objects.filter(webhook=hooks["busy"], tries=1)
    assert (asked.next_try_at - timezone.now()).total_seconds() > 3500

    receivers["down"].listen()
    looks = 1
    while Delivery.objects.filter(status=DeliveryStatus.WAITING).exists() and looks < 20:
        let_time_pass()
        deliveries.send_deliveries()
        looks += 1

    calls = 0
    for name, hook in hooks.items():
        requests = receivers[name].requests
        calls += len(requests)
        for request in requests:
            standardwebhooks.Webhook(hook.secret).verify(request.body, request.headers)
        by_id = {request.headers["webhook-id"]: request.body for request in requests}
        # Every repetition has the id and the bytes of the first.
        assert all(by_id[request.headers["webhook-id"]] == request.body for request in requests)
        if name == "gone":
            assert len(requests) == 1
            assert ids_of(hook, status=DeliveryStatus.SENT) == set()
            assert not Webhook.objects.get(pk=hook.pk).is_active
            continue
        assert set(by_id) == expected[name]
        assert ids_of(hook, status=DeliveryStatus.SENT) == expected[name]
        assert all(json.loads(body)["type"] == "checkpoint.created" for body in by_id.values())
    well = len(TROUBLES) - 1
    figures.report(
        8,
        f"{well * MESSAGES} messages to {well} receivers (well, down, flapping, slow, busy) in {calls} calls: all "
        "arrived, each under one id, every signature accepted; a receiver that is gone was called once",
        started=started,
    )
