"""Promises 1, 2 and 3 over real HTTP, with real processes that collide (``docs/reliability.md``)."""

import json
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlencode

import pytest
from django.test import Client

from checkpoints import events
from checkpoints.models import Checkpoint, Event
from tenants import keys, setup
from tenants.models import Tenant, User
from tests.heavy import figures
from tests.heavy.figures import TIMES
from tests.heavy.server import served
from tests.heavy.sizes import IS_FULL, SIZES
from tests.racing import Race

pytestmark = [pytest.mark.both_databases, pytest.mark.heavy, pytest.mark.django_db(transaction=True)]

ENDINGS = ["checkpoint.resolved", "checkpoint.cancelled", "checkpoint.expired"]
WON = {200, 302}
Ask = Callable[..., Checkpoint]


@pytest.fixture
def port(db: None) -> Iterator[int]:
    with served() as found:
        yield found


def in_laps(things: list[Any], size: int) -> list[list[Any]]:
    return [things[start : start + size] for start in range(0, len(things), size)]


def check_one_outcome_each(rows: list[Checkpoint]) -> dict[str, Checkpoint]:
    """One terminal event each, the row in that state, every history whole; the rows as they are now."""
    after = {str(key): row for key, row in Checkpoint.objects.in_bulk([row.pk for row in rows]).items()}
    endings = list(Event.objects.filter(type__in=ENDINGS).values_list("subject_id", "type"))
    assert len(endings) == len(rows)
    assert {str(subject): kind for subject, kind in endings} == {
        key: f"checkpoint.{row.status}" for key, row in after.items()
    }
    assert list(events.Verification().findings()) == []
    return after


# --- 1: one decision wins -------------------------------------------------------------------------------------------


class Door:
    """A way to decide: who it says decided, and how a request looks there."""

    def __init__(self, label: str, headers: dict[str, str], ask: Callable[[str], dict[str, Any]]) -> None:
        self.label, self.headers, self.ask = label, headers, ask


def by_key(acme: Tenant, name: str) -> Door:
    headers = {"Authorization": f"Bearer {keys.create(acme, name=name).secret}", "Content-Type": "application/json"}
    body = json.dumps({"decision": f"as {name} says"})
    return Door(f"key:{name}", headers, lambda key: {"path": f"/v1/checkpoints/{key}/resolve", "body": body})


def on_the_desk(user: User, signed_in: Callable[[User], Client]) -> Door:
    token = "c" * 32
    session = signed_in(user).cookies["sessionid"].value
    headers = {
        "Cookie": f"sessionid={session}; csrftoken={token}",
        "Content-Type": "application/x-www-form-urlencoded",
    }
    body = urlencode({"csrfmiddlewaretoken": token, "decision": f"as {user.email} says"})
    path = "/admin/checkpoints/checkpoint/{}/do/resolve/"
    return Door(f"user:{user.email}", headers, lambda key: {"path": path.format(key), "body": body})


@pytest.fixture
def doors(acme: Tenant, signed_in: Callable[[User], Client]) -> list[Door]:
    """Seven; the eighth racer is time. The first two are one program that asks twice."""
    programs = [by_key(acme, name) for name in ("one", "two", "three")]
    admins = [setup.add_person(acme, f"admin{place}@acme.example", roles=["tenant_admin"]) for place in range(3)]
    return [programs[0], *programs, *(on_the_desk(user, signed_in) for user in admins)]


def test_however_many_doors_are_used_at_once_one_decision_wins(ask: Ask, doors: list[Door], port: int) -> None:
    started = time.perf_counter()
    # An hour more for each lap: the sweep of a lap finds that lap's rows due, and nothing of the next.
    laps = in_laps([ask(timeout=f"{1 + place // 4}h") for place in range(SIZES.raced_checkpoints)], 4)
    rows = [row for lap in laps for row in lap]
    with Race() as race:
        orders = [shuffled(laps, seed) for seed in range(len(doors))]
        for door, order in zip(doors, orders, strict=True):
            race.enter("post", port=port, headers=door.headers, laps=[[door.ask(key) for key in lap] for lap in order])
        sweeper = race.enter("sweep", laps=[lap[-1].expires_at for lap in laps], batch=1)
        race.start(laps=len(laps))
        told = [racer.result() for racer in race.racers[:-1]]
        swept = sweeper.result()

    after = check_one_outcome_each(rows)
    statuses: Counter[str] = Counter()
    for door, order, answers in zip(doors, orders, told, strict=True):
        for key, (status, _, code) in zip((key for lap in order for key in lap), answers, strict=True):
            row = after[key]
            statuses[outcome_of(status)] += 1
            assert status in WON | {409}, (door.label, status, code)
            # Success is told to whoever decided, and to nobody else; the program that asks twice hears it twice.
            assert (status in WON) == (row.resolved_by == door.label), (door.label, status, row.resolved_by)
            assert code == ("" if status in WON or door.label.startswith("user:") else f"already_{row.status}")
    by_time = sum(row.status == "expired" for row in after.values())
    assert swept == {"done": by_time, "failed": 0}
    by_hand = Counter(row.resolved_by.partition(":")[0] for row in after.values() if row.status == "resolved")
    winners, replays = by_time + by_hand.total(), statuses["won"] - by_hand.total()
    assert winners == len(rows)
    if IS_FULL:
        assert min(by_hand["key"], by_hand["user"], by_time) > 0, "One kind never won: that was no race."
    losers = statuses["lost"] + replays + len(rows) - by_time
    assert winners + losers == 8 * len(rows)
    figures.report(
        1,
        f"{len(rows):,} checkpoints {TIMES} 8 racers: {winners:,} winners (API {by_hand['key']:,}, "
        f"desk {by_hand['user']:,}, expiry {by_time:,}), {losers:,} losers (409: {statuses['lost']:,}, "
        f"replay: {replays:,}, expiry came late: {len(rows) - by_time:,}), 0 others",
        started=started,
    )


def shuffled(laps: list[list[Checkpoint]], seed: int) -> list[list[str]]:
    """Each racer in an order of its own, so that nobody is first everywhere."""
    chance = random.Random(seed)
    return [chance.sample([str(row.pk) for row in lap], len(lap)) for lap in laps]


def outcome_of(status: int) -> str:
    return "won" if status in WON else "lost" if status == 409 else "broken"


# --- 2: safe retry --------------------------------------------------------------------------------------------------

COPIES = 5


def test_a_request_that_arrives_five_times_at_once_happens_once(acme: Tenant, ask: Ask, port: int) -> None:
    started = time.perf_counter()
    headers = {
        "Authorization": f"Bearer {keys.create(acme, name='eager').secret}",
        "Content-Type": "application/json",
    }
    targets = [ask(timeout="1h") for _ in range(SIZES.idempotency_keys)]
    asked = [request(place, row, "first") for place, row in enumerate(targets)]
    with Race() as race:
        for _ in range(COPIES):
            race.enter("post", port=port, headers=headers, laps=[[one] for one in asked])
        race.start(laps=len(asked))
        told = [racer.result() for racer in race.racers]
    answers = Counter(len({(status, content) for status, content, _ in same}) for same in zip(*told, strict=True))
    assert answers == {1: len(asked)}
    assert {status for one in told for status, _, _ in one} <= {200, 201}
    for place, row in enumerate(targets):
        effects = Checkpoint.objects.filter(execution_id=f"key-{place}").count()
        effects += Event.objects.filter(subject_id=row.pk).exclude(type="checkpoint.created").count()
        assert effects == 1, place

    before = Event.objects.count()
    with Race() as race:
        changed = [request(place, row, "second") for place, row in enumerate(targets)]
        racer = race.enter("post", port=port, headers=headers, laps=[changed])
        race.start()
        misused = Counter((status, code) for status, _, code in racer.result())
    assert misused == {(422, "idempotency_mismatch"): len(asked)}
    assert Event.objects.count() == before
    figures.report(
        2,
        f"{len(asked):,} idempotency keys {TIMES} {COPIES} copies at once: {len(asked):,} effects, the same bytes "
        f"for all copies of {answers[1]:,} keys; another body with the same key: {misused.total():,} {TIMES} 422, "
        "0 effects",
        started=started,
    )


def request(place: int, row: Checkpoint, text: str) -> dict[str, Any]:
    """In turns a create, a comment and an extension: each would show twice if it happened twice."""
    bodies = [
        ("/v1/checkpoints", {"core_id": "refund-agent", "prompt": text, "execution_id": f"key-{place}"}),
        (f"/v1/checkpoints/{row.pk}/comment", {"text": text}),
        (f"/v1/checkpoints/{row.pk}/extend", {"timeout": "2h" if text == "first" else "3h"}),
    ]
    path, body = bodies[place % 3]
    return {"path": path, "body": json.dumps(body), "headers": {"Idempotency-Key": f"key-{place}"}}


# --- 3: deadline and decision ---------------------------------------------------------------------------------------

APART, AROUND = 0.04, 0.05
DECIDERS = 4


def test_at_the_deadline_there_is_one_outcome_never_both_and_never_neither(acme: Tenant, ask: Ask, port: int) -> None:
    started = time.perf_counter()
    chance = random.Random(3)
    rows = [ask(timeout="1h") for _ in range(SIZES.decisions_at_the_deadline)]
    # Time for the racers to get ready, and for these updates.
    first = time.time() + 6 + len(rows) * 0.005
    deadlines = [first + place * APART for place in range(len(rows))]
    for row, deadline in zip(rows, deadlines, strict=True):
        Checkpoint.objects.filter(pk=row.pk).update(expires_at=datetime.fromtimestamp(deadline, UTC))
    moments = [deadline + chance.uniform(-AROUND, AROUND) for deadline in deadlines]
    door = by_key(acme, "punctual")
    asked = [door.ask(str(row.pk)) | {"at": moment} for row, moment in zip(rows, moments, strict=True)]
    with Race() as race:
        for place in range(DECIDERS):
            race.enter("post", port=port, headers=door.headers, laps=[asked[place::DECIDERS]])
        sweeper = race.enter("sweep_until", end=deadlines[-1] + 1, batch=50)
        race.start()
        told = [racer.result() for racer in race.racers[:-1]]
        swept = sweeper.result()

    after = check_one_outcome_each(rows)
    decided = expired = 0
    for place, row in enumerate(rows):
        status, _, code = told[place % DECIDERS][place // DECIDERS]
        if after[str(row.pk)].status == "resolved":
            assert (status, after[str(row.pk)].resolved_by) == (200, door.label)
            decided += 1
        else:
            assert (status, code) == (409, "already_expired")
            expired += 1
    assert swept == {"done": expired, "failed": 0}
    if IS_FULL:
        assert min(decided, expired) > 0, "One side always won: that was no race."
    figures.report(
        3,
        f"{len(rows):,} decisions within 50 ms of the deadline while the sweep runs: {decided:,} decided, "
        f"{expired:,} expired, 0 both, 0 neither",
        started=started,
    )
