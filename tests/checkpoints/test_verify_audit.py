"""``manage.py verify_audit``: whatever was tampered with is found and named, and nothing else is (promise 14)."""

import random
import time
import uuid
from datetime import timedelta
from io import StringIO

import pytest
from django.core.management import CommandError, call_command
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from checkpoints import events, lifecycle, sweeps
from checkpoints.models import Checkpoint, Event
from tests import tampering
from tests.checkpoints.stories import again, events_of
from tests.heavy import figures
from tests.heavy.sizes import SIZES

pytestmark = [pytest.mark.both_databases, pytest.mark.django_db]


def verify(**options):
    """What the command says, line by line, and how it ends."""
    out, code = StringIO(), 0
    try:
        call_command("verify_audit", stdout=out, **options)
    except SystemExit as ending:
        code = ending.code
    return out.getvalue().splitlines(), code


@pytest.fixture
def stories(ask, finance, tenant_admin, program, as_person, approver, decide):
    """A dozen checkpoints with two to six events each, some of them written by the sweep in one batch."""
    rows = []
    for number in range(12):
        row = ask(
            assignee="group:finance",
            timeout="1h",
            expiry_action="escalate",
            escalation_target="role:tenant_admin",
            context={"number": number},
        )
        for remark in range(number % 4):
            row = lifecycle.comment(row, actor=program, text=f"Remark {remark}")
        rows.append(row)
    sweeps.expire_checkpoints(now=timezone.now() + timedelta(hours=1))
    for row in rows[::3]:
        decide(again(row), tenant_admin, "approve")
    return [again(row) for row in rows]


# --- A clean record -----------------------------------------------------------------------------------------------


def test_an_empty_database_verifies():
    assert verify() == (["0 checkpoints with 0 events verified: every chain is whole."], 0)


def test_a_clean_record_verifies_and_is_counted(stories):
    number = sum(row.event_count for row in stories)
    assert verify() == ([f"12 checkpoints with {number} events verified: every chain is whole."], 0)


def test_what_is_only_marked_as_distributed_verifies(stories):
    Event.objects.update(distributed_at=timezone.now())
    assert verify()[1] == 0


def test_many_checkpoints_are_read_in_pieces(stories, monkeypatch):
    monkeypatch.setattr(events, "PIECE", 5)
    with CaptureQueriesContext(connection) as queries:
        verification = events.Verification()
        assert list(verification.findings()) == []
    assert verification.checkpoints == 12
    # Three pieces of rows and one empty one, the events of each piece, and one look for events without a row.
    assert len(queries) == 4 + 3 + 1


# --- Tampering ----------------------------------------------------------------------------------------------------

EDITS = {
    "actor": "user:somebody@else.example",
    "at": timezone.now() - timedelta(days=3),
    "type": "checkpoint.denied",
    "via": "letter",
    "address": "192.0.2.77",
    "data": {"detail": {}, "before": {}, "after": {"status": "resolved"}},
    "previous_digest": "f" * 64,
    "digest": "f" * 64,
    "subject_type": "run",
}


def place(event, sequence):
    Event.objects.filter(pk=event.pk).update(sequence=sequence)


def edit(chance, story):
    event, column = chance.choice(story), chance.choice(list(EDITS))
    Event.objects.filter(pk=event.pk).update(**{column: EDITS[column]})
    return event.sequence


def delete(chance, story):
    event = chance.choice(story[:-1])
    Event.objects.filter(pk=event.pk).delete()
    return event.sequence


def delete_and_close_the_gap(chance, story):
    gone = delete(chance, story)
    for event in story[gone:]:
        place(event, event.sequence - 1)
    return gone


def swap(chance, story):
    one, other = sorted(chance.sample(story, 2), key=lambda event: event.sequence)
    for event, sequence in ((one, 99), (other, one.sequence), (one, other.sequence)):
        place(event, sequence)
    return one.sequence


def cut_the_tail(chance, story):
    left = chance.randrange(len(story))
    Event.objects.filter(subject_id=story[0].subject_id, sequence__gt=left).delete()
    return left + 1


def forge(chance, story):
    """An edit by somebody who knows how digests are made."""
    event = chance.choice(story)
    event.actor = EDITS["actor"]
    event.digest = events.digest_of(event)
    event.save()
    # The one behind it no longer fits; behind the last one, the row no longer does.
    return min(event.sequence + 1, len(story))


@pytest.mark.heavy
def test_every_random_tampering_is_found_and_named(intruder, stories):
    started = time.perf_counter()
    chance = random.Random(14)
    found = 0
    for number in range(SIZES.tamperings):
        tamper = [edit, delete, delete_and_close_the_gap, swap, cut_the_tail, forge][number % 6]
        row = chance.choice(stories)
        story = events_of(row)
        sequence = tamper(chance, events_of(row))
        [finding] = events.Verification().findings()
        assert finding.checkpoint_id == row.pk, tamper
        named = finding.sentence.startswith((f"Event {sequence} ", "All events are missing"))
        assert named, (tamper, sequence, finding.sentence)
        found += 1
        Event.objects.filter(subject_id=row.pk).delete()
        Event.objects.bulk_create(story)
    assert found == SIZES.tamperings
    assert list(events.Verification().findings()) == []
    figures.report(14, f"{found:,} random tamperings: {found:,} found and named, 0 missed", started=started)


def test_the_command_says_one_line_per_broken_chain_and_ends_with_one(transactional_db, stories):
    one, other = sorted(stories[:2], key=lambda row: row.pk)
    with tampering.unguarded():
        Event.objects.filter(subject_id=one.pk, sequence=2).update(actor="user:x")
        Event.objects.filter(subject_id=other.pk, sequence=1).update(type="checkpoint.\ncreated")
    lines, code = verify()
    assert len(lines) == 3
    assert code == 1
    assert lines[0].startswith(f"{one.pk}: Event 2 (")
    assert lines[1] == f"{other.pk}: Event 1 (checkpoint.?created) was edited: its content does not fit its digest."
    assert lines[-1].endswith("verified: 2 chains broken.")


def test_events_swapped_between_checkpoints_break_both(intruder, stories):
    one, other = (events_of(row)[0] for row in stories[:2])
    nowhere = uuid.uuid4()
    for event, subject in ((one, nowhere), (other, one.subject_id), (one, other.subject_id)):
        Event.objects.filter(pk=event.pk).update(subject_id=subject)
    assert {finding.checkpoint_id for finding in events.Verification().findings()} == {row.pk for row in stories[:2]}


def test_when_all_events_have_gone_every_row_says_so(intruder, stories):
    with connection.cursor() as cursor:
        # No trigger hears of a TRUNCATE, which SQLite does not know.
        cursor.execute(
            "TRUNCATE mod_scaicore_events" if connection.vendor == "mysql" else "DELETE FROM mod_scaicore_events"
        )
    sentences = [finding.sentence for finding in events.Verification().findings()]
    assert len(sentences) == 12
    assert all(sentence.startswith("All events are missing; the row counts ") for sentence in sentences)


def test_a_row_that_was_made_to_forget_its_events_is_found(intruder, stories):
    row = stories[0]
    Event.objects.filter(subject_id=row.pk).delete()
    Checkpoint.objects.filter(pk=row.pk).update(event_count=0, event_head="")
    [finding] = events.Verification().findings()
    assert (finding.checkpoint_id, finding.sentence) == (row.pk, "All events are missing; the row counts 0.")


@pytest.mark.parametrize("options", [{}, {"tenant": "acme"}])
def test_events_whose_row_has_gone_are_found(stories, options):
    row = stories[1]
    Checkpoint.objects.filter(pk=row.pk).delete()
    lines, code = verify(**options)
    assert code == 1
    assert lines[0].startswith(f"{row.pk}: There is no such checkpoint")
    assert lines[0].endswith(f"but it has {row.event_count} events.")
    assert verify(checkpoint=str(row.pk))[1] == 1


def test_a_row_moved_to_another_tenant_is_missed_there_and_found_here(stories, globex, foreign_program, ask):
    home = ask(actor=foreign_program).core
    row = stories[2]
    Checkpoint.objects.filter(pk=row.pk).update(tenant=globex, core=home)
    for options in ({}, {"tenant": "globex"}):
        lines, code = verify(**options)
        assert code == 1
        assert lines[0] == f"{row.pk}: Event 1 (checkpoint.created) belongs to another tenant than the checkpoint."
        assert lines[-1].endswith("1 chain broken.")
    lines, code = verify(tenant="acme")
    assert code == 1
    assert lines[0].startswith(f"{row.pk}: There is no such checkpoint in acme any more")


def test_missing_triggers_are_reported(intruder, stories):
    lines, code = verify()
    assert code == 1
    assert "The trigger event_never_changed is missing: nothing stops somebody from changing events." in lines
    assert "The trigger event_never_deleted is missing: nothing stops somebody from changing events." in lines
    assert len(lines) == len(tampering.MIGRATION.GUARDS[connection.vendor]) + 1


# --- One tenant, one checkpoint -----------------------------------------------------------------------------------


def test_a_tenant_or_a_checkpoint_can_be_verified_alone(stories, ask, foreign_program):
    foreign = ask(actor=foreign_program)
    one = "1 checkpoint with 1 event verified: every chain is whole."
    assert verify(tenant="globex") == ([one], 0)
    assert verify(checkpoint=str(foreign.pk)) == ([one], 0)
    Checkpoint.objects.filter(pk=foreign.pk).update(event_count=2)
    assert verify(tenant="acme")[1] == 0
    assert verify(checkpoint=str(stories[0].pk))[1] == 0
    assert verify(tenant="globex")[1] == verify(checkpoint=str(foreign.pk))[1] == verify()[1] == 1


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"tenant": "nobody"}, "There is no tenant 'nobody'."),
        ({"checkpoint": "42"}, "'42' is not the id of a checkpoint."),
        ({"checkpoint": str(uuid.UUID(int=7))}, "There is no checkpoint .*, and no event of one."),
    ],
)
def test_what_is_not_there_is_an_error_and_not_all_right(options, sentence):
    with pytest.raises(CommandError, match=sentence) as error:
        verify(**options)
    assert error.value.returncode == 2
