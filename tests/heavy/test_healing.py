"""Promise 5: after days without a worker, several of them do what is due, and no more (``docs/reliability.md``)."""

import time
import uuid
from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone
from django.utils.html import escape

from checkpoints import events, sweeps
from checkpoints.models import Checkpoint, Event, JobBeat
from notifications import reminders
from notifications.models import Delivery, UnroutedNotice
from tenants.models import Core, User
from tests.heavy import figures
from tests.heavy.sizes import SIZES
from tests.heavy.stock import store, waits_for
from tests.heavy.workers import wait_for, workers

pytestmark = [pytest.mark.both_databases, pytest.mark.heavy, pytest.mark.django_db(transaction=True)]

DOWN = timedelta(hours=72)
REMINDER_MINUTES = 15
WORKERS = 3
PATIENCE_SECONDS = 800
ENDS_AS = {
    "none": "expired",
    "reject": "expired",
    "cancel": "cancelled",
    "default_option": "resolved",
    "approve": "resolved",
}
# Of twenty rows: what their deadline does.
ACTIONS = ["none"] * 6 + ["cancel"] * 4 + ["default_option"] * 3 + ["approve"] * 2 + ["reject"] * 3 + ["escalate"] * 2
# Past every check that the product makes, as a restored dump or an older version might have left them.
POISON = [
    {"timeout_raw": "whenever"},
    {"timeout_raw": "P"},
    {"timeout_raw": "99999999d"},
    {"escalation_chain": {"not": "a list"}},
]


def due_rows(core: Core) -> list[uuid.UUID]:
    now, count = timezone.now(), SIZES.due_after_downtime
    return store(core, (due_row(number, now - DOWN * (1 - number / count)) for number in range(count)))


def due_row(number: int, expires_at: Any) -> dict[str, Any]:
    """Each its own kind, spread over the whole downtime; half of them would also have been reminded of all the time."""
    columns = waits_for(f"approver-{number}@acme.example") | {
        "expiry_action": ACTIONS[number % len(ACTIONS)],
        "expires_at": expires_at,
        "created_at": expires_at - timedelta(days=1),
        "window_s": 86400,
        "timeout_raw": "24h",
    }
    if columns["expiry_action"] == "escalate":
        # Every other one leads to nobody, and so to the queue.
        columns["escalation_target"] = "group:nowhere" if number % 2 else f"user:boss-{number}@acme.example"
    return columns | (reminded_of(expires_at - timedelta(hours=12)) if number % 4 < 2 else {})


def reminded_of(first: Any) -> dict[str, Any]:
    return {"reminder_interval_m": REMINDER_MINUTES, "next_reminder_at": first}


def waiting_rows(core: Core) -> list[uuid.UUID]:
    """Without a deadline, and reminders due for three days."""
    now = timezone.now()
    wanted = (
        waits_for(f"reminded-{number}@acme.example") | reminded_of(now - DOWN + timedelta(seconds=number))
        for number in range(SIZES.reminders_after_downtime)
    )
    return store(core, wanted)


def poisoned(keys: list[uuid.UUID]) -> list[uuid.UUID]:
    chosen = keys[:: len(keys) // SIZES.poison_rows][: SIZES.poison_rows]
    for place, key in enumerate(chosen):
        bad = {"expiry_action": "escalate", "escalation_target": "role:approver"} | POISON[place % len(POISON)]
        Checkpoint.objects.filter(pk=key).update(**bad)
    return chosen


def nothing_is_left() -> bool:
    now = timezone.now()
    return not (
        Checkpoint.objects.due(now).exists()
        or Checkpoint.objects.pending().filter(next_reminder_at__lte=now).exists()
        or Event.objects.filter(distributed_at__isnull=True).exists()
        or UnroutedNotice.objects.filter(told_at__isnull=True).exists()
        or Delivery.objects.filter(status="waiting").exists()
    )


def test_after_downtime_sweeps_heal_and_nobody_hears_twice(
    core: Core, tenant_admin: User, signed_in: Callable[[User], Client], tmp_path: Path
) -> None:
    due, waiting = due_rows(core), waiting_rows(core)
    bad = poisoned(due)
    began = timezone.now()
    started = time.perf_counter()
    log = tmp_path / "workers.log"
    with workers(WORKERS, log, SWEEP_BATCH=str(SIZES.batch_after_downtime)):
        wait_for(nothing_is_left, seconds=PATIENCE_SECONDS, log=log)
    took = time.perf_counter() - started

    rows = Checkpoint.objects.in_bulk(due)
    happened = Counter(Event.objects.values_list("subject_id", "type"))
    outcomes: Counter[str] = Counter()
    for key in set(due) - set(bad):
        row = rows[key]
        escalates = row.expiry_action == "escalate"
        name = "escalated" if escalates else ENDS_AS[row.expiry_action]
        assert row.status == ("pending" if escalates else name), key
        assert (row.escalation_step, row.sweep_error) == (int(escalates), ""), key
        # Once, and the deadline of an escalated one is a new one.
        assert (happened[key, f"checkpoint.{name}"], row.row_version) == (1, 2), key
        assert not escalates or row.expires_at > began, key
        outcomes[name] += 1
    check_the_set_aside([rows[key] for key in bad], signed_in(tenant_admin))
    assert set(Checkpoint.objects.exclude(sweep_error="").values_list("pk", flat=True)) == set(bad)
    reminded = check_the_reminders(waiting, happened)
    assert list(events.Verification().findings()) == []
    assert not Delivery.objects.exclude(status__in=["sent", "skipped"]).exists()
    assert not JobBeat.objects.exclude(error="").exists()
    again = sweeps.expire_checkpoints(), reminders.send_checkpoint_reminders()
    assert [(outcome.done, outcome.failed) for outcome in again] == [(0, 0), (0, 0)]
    figures.report(
        5,
        f"{len(due):,} due after {DOWN.days * 24} h, {WORKERS} workers: {outcomes.total():,} done once each "
        f"({', '.join(f'{name} {count:,}' for name, count in sorted(outcomes.items()))}), {len(bad)} poison rows set "
        f"aside with their error shown; {len(waiting):,} with {DOWN // timedelta(minutes=REMINDER_MINUTES)} reminders "
        f"missed: {reminded:,} reminded once, 0 more often; {took:.0f} s of sweeping",
        started=started,
    )


def check_the_set_aside(bad: list[Checkpoint], admin: Client) -> None:
    """As they were, with the error on the row, and on its page for whoever looks."""
    assert len(bad) == SIZES.poison_rows
    for row in bad:
        assert (row.status, row.row_version, row.escalation_step) == ("pending", 1, 0)
        assert row.sweep_error
        assert row.sweep_retry_at > timezone.now()
        page = admin.get(reverse("admin:checkpoints_checkpoint_change", args=[row.pk])).content.decode()
        assert escape(row.sweep_error) in page


def check_the_reminders(waiting: list[uuid.UUID], happened: Counter[tuple[uuid.UUID, str]]) -> int:
    """One for all that were missed; rows that ended, or were escalated, need none any more."""
    assert {count for (_, name), count in happened.items() if name == "checkpoint.reminded"} == {1}
    rows = Checkpoint.objects.in_bulk(waiting)
    for key, row in rows.items():
        assert (row.reminder_count, happened[key, "checkpoint.reminded"]) == (1, 1), key
        assert row.next_reminder_at > timezone.now(), key
    mails = Counter(Delivery.objects.filter(occasion="reminder").values_list("checkpoint_id", "recipient"))
    assert set(mails.values()) == {1}
    assert {key for key, _ in mails} >= set(waiting)
    return len(rows)
