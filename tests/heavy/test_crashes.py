"""Promise 4: whatever is killed, and whenever, nothing is lost and nothing happens twice (``docs/reliability.md``)."""

import email
import http.client
import json
import random
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.db.models import Sum
from django.utils import timezone

from checkpoints import events
from checkpoints.models import Checkpoint, Event
from notifications.models import Delivery, DeliveryTry
from tenants import keys
from tenants.models import Core, Tenant
from tests.heavy import figures
from tests.heavy.server import WebServer, web_server
from tests.heavy.sizes import SIZES
from tests.heavy.stock import store, waits_for
from tests.heavy.sweeper import LEASE_SECONDS
from tests.heavy.workers import Worker, wait_for
from tests.servers import MailServer, mail_server

pytestmark = [pytest.mark.both_databases, pytest.mark.heavy, pytest.mark.django_db(transaction=True)]

PATIENCE_SECONDS = 600
Ask = Callable[..., Checkpoint]


# --- The worker -----------------------------------------------------------------------------------------------------

WORKERS = 2
LEASE = 5
ACTIONS = ["escalate", "none", "cancel", "approve"]
ENDS_AS = {"none": "expired", "cancel": "cancelled", "approve": "resolved"}
OCCASIONS = {"none": "expired", "cancel": "cancelled", "approve": "decided"}


def due_row(number: int) -> dict[str, Any]:
    """Each with people of its own, so that every notice can be told from every other."""
    at = timezone.now() - timedelta(hours=1)
    action = ACTIONS[number % len(ACTIONS)]
    columns = waits_for(f"approver-{number}@acme.example") | {
        "requested_by": f"requester-{number}@acme.example",
        "expiry_action": action,
        "expires_at": at,
        "created_at": at - timedelta(days=1),
        "window_s": 86400,
        "timeout_raw": "24h",
        "notification_sent": False,
    }
    return columns | ({"escalation_target": f"user:boss-{number}@acme.example"} if action == "escalate" else {})


def notices_of(number: int) -> list[tuple[str, str]]:
    """Whoever let it lie and whoever has it now; or whoever asked for it."""
    action = ACTIONS[number % len(ACTIONS)]
    if action == "escalate":
        return [("moved_away", f"approver-{number}@acme.example"), ("escalated", f"boss-{number}@acme.example")]
    return [(OCCASIONS[action], f"requester-{number}@acme.example")]


def nothing_is_left() -> bool:
    return not (
        Checkpoint.objects.due(timezone.now()).exists()
        or Event.objects.filter(distributed_at__isnull=True).exists()
        or Delivery.objects.filter(status="waiting").exists()
    )


@dataclass
class Crew:
    """Workers that are killed, and others that take their place at once."""

    log: Path
    settings: dict[str, str]
    kills: int = 0
    members: list[Worker] = field(default_factory=list)
    chance: random.Random = field(default_factory=lambda: random.Random(4))

    def hire(self) -> None:
        self.members.append(Worker(self.log, command=("-m", "tests.heavy.sweeper"), **self.settings))

    def kill_one(self, *, within: float) -> None:
        victim = self.members.pop(self.chance.randrange(len(self.members)))
        self.hire()
        try:
            victim.wait_until_it_works()
            time.sleep(self.chance.uniform(0, within))
        finally:
            victim.kill()
        self.kills += 1


@contextmanager
def crew(log: Path, **settings: str) -> Iterator[Crew]:
    found = Crew(log, settings)
    try:
        for _ in range(WORKERS):
            found.hire()
        yield found
        for worker in found.members:
            worker.stop()
    finally:
        for worker in found.members:
            if worker.process.poll() is None:
                worker.kill()


def test_a_worker_that_crashes_loses_nothing_and_repeats_nothing(
    core: Core, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    started = time.perf_counter()
    rows = store(core, map(due_row, range(SIZES.rows_through_crashes)))
    # It speaks of every command of every session.
    caplog.set_level("WARNING", logger="mail.log")
    log = tmp_path / "workers.log"
    settings = {"SWEEP_BATCH": str(SIZES.batch_through_crashes), LEASE_SECONDS: str(LEASE)}
    with mail_server() as post, crew(log, EMAIL_URL=f"smtp://127.0.0.1:{post.port}", **settings) as mortals:
        while mortals.kills < SIZES.kills_of_workers and not nothing_is_left():
            mortals.kill_one(within=SIZES.seconds_between_kills)
        wait_for(nothing_is_left, seconds=PATIENCE_SECONDS, log=log)
    kills = mortals.kills
    assert kills > 0
    # Whoever takes over meets nothing that it would call an error.
    assert log.read_text() == ""

    check_each_happened_once(rows)
    mails, repeated, dead_leases = check_the_notices(rows, post)
    # A worker holds one lease at a time, and loses it when it is killed; whether it had sent by then, nobody knows.
    assert repeated <= dead_leases <= kills
    figures.report(
        4,
        f"{len(rows):,} due rows and {mails:,} notices, {WORKERS} workers, {kills} {figures.TIMES} kill -9: 0 lost, "
        f"0 doubled, {mails:,} notices arrived, {repeated} of them twice ({dead_leases} leases held at a kill)",
        started=started,
    )


def check_each_happened_once(keys: list[uuid.UUID]) -> None:
    rows = Checkpoint.objects.in_bulk(keys)
    happened = Counter(Event.objects.values_list("subject_id", "type"))
    for key in keys:
        row = rows[key]
        escalates = row.expiry_action == "escalate"
        name = "escalated" if escalates else ENDS_AS[row.expiry_action]
        assert row.status == ("pending" if escalates else name), key
        assert (happened[key, f"checkpoint.{name}"], row.row_version) == (1, 2), key
        # That somebody was asked shows on the row, and in its history once.
        asked = happened[key, "checkpoint.notification_sent"]
        assert (row.notification_sent, asked) == (escalates, int(escalates)), key
    assert happened.total() == sum(row.event_count for row in rows.values())
    assert list(events.Verification().findings()) == []


def check_the_notices(keys: list[uuid.UUID], post: MailServer) -> tuple[int, int, int]:
    """One delivery for every notice, and each with the server: how many, how many repetitions, how many dead leases."""
    wanted = Counter((key, *notice) for number, key in enumerate(keys) for notice in notices_of(number))
    assert Counter(Delivery.objects.values_list("checkpoint_id", "occasion", "recipient")) == wanted
    assert set(Delivery.objects.values_list("status", flat=True)) == {"sent"}
    came = Counter((name_of(letter.content), person) for letter in post.taken for person in letter.rcpt_tos)
    assert set(came) == set(Delivery.objects.values_list("message_id", "recipient"))
    assert len(came) == len(wanted)
    claims = Delivery.objects.aggregate(found=Sum("tries"))["found"]
    return len(came), came.total() - len(came), claims - DeliveryTry.objects.count()


def name_of(letter: Any) -> str:
    """By which a mailbox may know a repetition."""
    return str(email.message_from_bytes(letter)["Message-ID"])


# --- The web server -------------------------------------------------------------------------------------------------

CLIENTS = 4


@dataclass
class Program:
    """Sends each command until it is answered, always under the same Idempotency-Key."""

    port: int
    secret: str
    answers: dict[int, tuple[int, bytes]] = field(default_factory=dict)
    cut_off: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)
    given_up: threading.Event = field(default_factory=threading.Event)

    def send(self, place: int, path: str, body: dict[str, Any]) -> tuple[int, bytes]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE_SECONDS)
        headers = {
            "Authorization": f"Bearer {self.secret}",
            "Content-Type": "application/json",
            "Idempotency-Key": f"command-{place}",
        }
        try:
            connection.request("POST", path, json.dumps(body), headers)
            response = connection.getresponse()
            return response.status, response.read()
        finally:
            connection.close()

    def insist(self, commands: list[tuple[int, str, dict[str, Any]]]) -> None:
        for command in commands:
            while command[0] not in self.answers and not self.given_up.is_set():
                try:
                    answer = self.send(*command)
                except ConnectionRefusedError:
                    time.sleep(0.02)
                except (OSError, http.client.HTTPException):
                    with self.lock:
                        self.cut_off += 1
                else:
                    with self.lock:
                        self.answers[command[0]] = answer


def commands_about(rows: list[Checkpoint]) -> list[tuple[int, str, dict[str, Any]]]:
    """Every other one a decision; a comment and a new checkpoint would show twice if they happened twice."""
    found = []
    for place, row in enumerate(rows):
        decide = (f"/v1/checkpoints/{row.pk}/resolve", {"decision": f"choice-{place}"})
        comment = (f"/v1/checkpoints/{row.pk}/comment", {"text": f"Remark {place}"})
        create = ("/v1/checkpoints", {"core_id": "refund-agent", "prompt": "Refund?", "execution_id": f"new-{place}"})
        found.append((place, *[decide, comment, decide, create][place % 4]))
    return found


def test_a_web_server_that_crashes_loses_no_decision_and_makes_none_twice(acme: Tenant, ask: Ask) -> None:
    started = time.perf_counter()
    commands = commands_about([ask() for _ in range(SIZES.commands_through_crashes)])
    with web_server() as server:
        program = Program(server.port, keys.create(acme, name="insistent").secret)
        kills = kill_while_it_insists(server, program, commands)
        server.wait_until_it_answers()
        again = {command[0]: program.send(*command) for command in commands}

    # In peace, the same request gets the same bytes: what was answered is there, and what was not happened once.
    assert again == program.answers
    assert {status for status, _ in again.values()} <= {200, 201}
    assert kills > 0
    for place, path, body in commands:
        check_it_happened_once(place, path, body)
    assert list(events.Verification().findings()) == []
    decisions = sum(path.endswith("/resolve") for _, path, _ in commands)
    figures.report(
        4,
        f"{len(commands):,} commands ({decisions:,} decisions) by {CLIENTS} clients, {kills} {figures.TIMES} kill -9 "
        f"of the web server: {len(again):,} answered, 0 lost, 0 doubled, {program.cut_off} cut off and sent again",
        started=started,
    )


def kill_while_it_insists(server: WebServer, program: Program, commands: list[tuple[int, str, dict[str, Any]]]) -> int:
    chance = random.Random(4)
    clients = [threading.Thread(target=program.insist, args=(commands[place::CLIENTS],)) for place in range(CLIENTS)]
    for client in clients:
        client.start()
    kills = 0
    try:
        while True:
            enough = min(len(program.answers) + chance.randint(1, SIZES.commands_between_kills), len(commands))
            while len(program.answers) < enough:
                time.sleep(0.001)
            if len(program.answers) == len(commands):
                return kills
            # Now the others wait for their answers.
            time.sleep(chance.uniform(0, 0.01))
            server.kill()
            kills += 1
            server.start()
            server.wait_until_it_answers()
    finally:
        program.given_up.set()
        for client in clients:
            client.join(PATIENCE_SECONDS)


def check_it_happened_once(place: int, path: str, body: dict[str, Any]) -> None:
    if "execution_id" in body:
        assert Checkpoint.objects.filter(execution_id=body["execution_id"]).count() == 1, place
        return
    *_, key, verb = path.split("/")
    row = Checkpoint.objects.get(pk=key)
    done = list(Event.objects.filter(subject_id=key).exclude(type="checkpoint.created").values_list("type", flat=True))
    if verb == "resolve":
        assert (done, row.status) == (["checkpoint.resolved"], "resolved"), place
        assert row.resolution["decision"] == body["decision"], place
    else:
        assert done == ["checkpoint.commented"], place
