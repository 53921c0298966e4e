"""The outbox: every event reaches those who registered, and one that nobody can digest holds up no other."""

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta

import pytest
import time_machine
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from checkpoints import distribution
from checkpoints.models import Checkpoint, Event
from tests.racing import Race

Ask = Callable[..., Checkpoint]
pytestmark = [pytest.mark.both_databases, pytest.mark.django_db]


class Listener:
    def __init__(self) -> None:
        self.heard: list[int] = []
        self.chokes_on: set[int] = set()

    def __call__(self, events: Sequence[Event], at: datetime) -> None:
        for event in events:
            if event.pk in self.chokes_on:
                raise RuntimeError(f"Cannot digest {event.pk}")
        self.heard += [event.pk for event in events]


@pytest.fixture
def listener(monkeypatch: pytest.MonkeyPatch) -> Listener:
    listener = Listener()
    monkeypatch.setattr(distribution, "_consumers", [listener])
    return listener


def test_each_event_is_handed_over_in_order_and_marked(ask: Ask, listener: Listener) -> None:
    for _ in range(5):
        ask()

    assert distribution.distribute_events(batch=2).done == 5
    assert listener.heard == list(Event.objects.order_by("id").values_list("pk", flat=True))
    assert not Event.objects.filter(distributed_at__isnull=True).exists()
    assert distribution.distribute_events().done == 0


def test_one_that_nobody_can_digest_is_passed_by_and_tried_again_later(ask: Ask, listener: Listener) -> None:
    for _ in range(4):
        ask()
    bad = Event.objects.order_by("id")[1].pk
    listener.chokes_on = {bad}
    outcome = distribution.distribute_events()

    assert (outcome.done, outcome.failed) == (3, 1)
    assert list(Event.objects.filter(distributed_at__isnull=True).values_list("pk", flat=True)) == [bad]
    assert distribution.distribute_events().failed == 0
    listener.chokes_on = set()
    with time_machine.travel(timezone.now() + timedelta(minutes=6), tick=False):
        assert distribution.distribute_events().done == 1
    assert bad in listener.heard


def test_nothing_is_marked_when_handing_over_fails(ask: Ask, listener: Listener) -> None:
    ask()
    listener.chokes_on = set(Event.objects.values_list("pk", flat=True))
    distribution.distribute_events()

    assert Event.objects.filter(distributed_at__isnull=True).count() == 1


def test_a_look_with_nothing_to_hand_over_is_a_handful_of_queries(ask: Ask, listener: Listener) -> None:
    ask()
    distribution.distribute_events()
    with CaptureQueriesContext(connection) as queries:
        distribution.distribute_events()

    assert len(queries) <= 3


@pytest.mark.django_db(transaction=True)
def test_several_workers_write_each_message_once(ask: Ask) -> None:
    for number in range(30):
        ask(assignee=f"person{number}@acme.example")
    with Race() as race:
        for _ in range(3):
            race.enter("distribute", batch=4)
        done = race.results()

    from notifications.models import Delivery

    assert sum(done) == 30
    assert Delivery.objects.count() == 30
    assert not Event.objects.filter(distributed_at__isnull=True).exists()
