"""The history as a chain: whatever is changed afterwards shows (semantics §12)."""

from datetime import timedelta

import pytest
from django.db import DatabaseError, IntegrityError, connection, transaction
from django.utils import timezone

from checkpoints import events, lifecycle, sweeps
from checkpoints.models import Event
from tests import tampering
from tests.checkpoints.stories import again, events_of, story

pytestmark = [pytest.mark.both_databases, pytest.mark.django_db]

AWKWARD = {
    "half": 0.1,
    "whole": 1.0,
    "tiny": 5e-324,
    "huge": 1.7976931348623157e308,
    "minus": -0.0,
    "large": 2**80,
    "words": "é ü 漢字 \U0001f600 \\ \" ' / \u2028 %s {0}",
    "nothing": None,
    "deep": [[[{"b": 1, "a": [True, False]}]]],
    "": "an empty name",
}


EDITED = "Event 4 (checkpoint.commented) was edited: its content does not fit its digest."


@pytest.fixture
def long_story(ask, finance, approver, colleague, tenant_admin, bystander, as_person, program, decide):
    """One of everything that can happen to a checkpoint before it is decided."""
    row = ask(
        assignee="group:finance",
        timeout="1h",
        expiry_action="escalate",
        escalation_target="role:tenant_admin",
        context=AWKWARD,
    )
    row = lifecycle.claim(row, actor=as_person(approver))
    row = lifecycle.release(row, actor=as_person(approver))
    row = lifecycle.comment(row, actor=as_person(colleague), text=AWKWARD["words"])
    row = lifecycle.remind(row, actor=program)
    row = lifecycle.extend(row, actor=program, timeout="2h")
    sweeps.expire_checkpoints(now=row.expires_at)
    row = again(row)
    row = lifecycle.reassign(row, actor=as_person(tenant_admin), assignee="bystander@acme.example", comment="Please.")
    decide(row, bystander, "approve", response=AWKWARD, comment="é")
    return again(row)


def test_a_long_story_verifies_after_it_was_read_back(long_story):
    assert story(long_story) == [
        "created",
        "claimed",
        "released",
        "commented",
        "reminded",
        "extended",
        "escalated",
        "reassigned",
        "resolved",
    ]
    assert events.trouble_with(long_story) == ""
    assert long_story.event_count == 9
    assert long_story.resolution["response"] == AWKWARD


def test_moments_keep_their_microseconds(long_story):
    last = events_of(long_story)[-1]
    assert last.at == long_story.resolved_at
    assert last.data["after"]["resolved_at"] == events.moment(long_story.resolved_at)


@pytest.mark.parametrize(
    ("edit", "sentence"),
    [
        ({"actor": "user:somebody@else.example"}, EDITED),
        ({"at": timezone.now() - timedelta(days=1)}, EDITED),
        (
            {"type": "checkpoint.remarked"},
            "Event 4 (checkpoint.remarked) was edited: its content does not fit its digest.",
        ),
        ({"via": "api"}, EDITED),
        ({"address": "192.0.2.1"}, EDITED),
        ({"data": {"detail": {"text": "Something else."}}}, EDITED),
        ({"subject_type": "run"}, EDITED),
        ({"previous_digest": "0" * 64}, EDITED),
        ({"digest": "0" * 64}, EDITED),
        ({"sequence": 40}, "Event 4 is missing: the next one is event 5 (checkpoint.reminded)."),
    ],
)
def test_an_edited_event_is_found_and_named(intruder, long_story, edit, sentence):
    Event.objects.filter(subject_id=long_story.pk, sequence=4).update(**edit)
    assert events.trouble_with(long_story) == sentence


@pytest.mark.parametrize("column", ["at", "tenant_id", "sequence", "data"])
def test_what_cannot_even_be_read_is_trouble_and_no_crash(intruder, long_story, column):
    if connection.vendor == "sqlite":
        # Only SQLite keeps any text in any column; somebody with every right can switch its checks off too.
        run("PRAGMA ignore_check_constraints = ON")
        run("PRAGMA foreign_keys = OFF")
        run(f"UPDATE mod_scaicore_events SET {column} = 'nonsense' WHERE sequence = 4")  # noqa: S608 (a column of ours)
        run("PRAGMA ignore_check_constraints = OFF")
        run("PRAGMA foreign_keys = ON")
        assert events.trouble_with(long_story) != ""
        assert [finding.checkpoint_id for finding in events.Verification().findings()] == [long_story.pk]
    else:
        with pytest.raises(DatabaseError):
            run(f"UPDATE mod_scaicore_events SET {column} = 'nonsense' WHERE sequence = 4")  # noqa: S608


def test_an_event_of_another_tenant_is_found(intruder, long_story, globex):
    Event.objects.filter(subject_id=long_story.pk, sequence=2).update(tenant=globex)
    assert events.trouble_with(long_story) == (
        "Event 2 (checkpoint.claimed) belongs to another tenant than the checkpoint."
    )


def test_the_mark_of_the_outbox_is_no_part_of_the_chain(long_story):
    Event.objects.filter(subject_id=long_story.pk).update(distributed_at=timezone.now())
    assert events.trouble_with(long_story) == ""


@pytest.mark.parametrize("sequence", [1, 4])
def test_a_deleted_event_is_found(intruder, long_story, sequence):
    Event.objects.filter(subject_id=long_story.pk, sequence=sequence).delete()
    assert events.trouble_with(long_story).startswith(
        f"Event {sequence} is missing: the next one is event {sequence + 1} "
    )


def test_two_swapped_events_are_found(intruder, long_story):
    third, fourth = events_of(long_story)[2:4]
    for event, place in ((third, 99), (fourth, 3), (third, 4)):
        Event.objects.filter(pk=event.pk).update(sequence=place)
    assert events.trouble_with(long_story) == "Event 3 (checkpoint.commented) was moved: it was written as event 4."


def test_a_cut_tail_is_found_by_what_the_row_remembers(intruder, long_story):
    Event.objects.filter(subject_id=long_story.pk, sequence__gt=7).delete()
    assert events.first_broken(events_of(long_story)) is None
    assert events.trouble_with(long_story) == ("Event 8 is missing, the end was cut off: the row counts 9.")


def test_a_forged_last_event_is_found_by_the_digest_the_row_remembers(intruder, long_story):
    event = events_of(long_story)[-1]
    event.actor = "user:somebody@else.example"
    event.digest = events.digest_of(event)
    event.save()
    assert events.first_broken(events_of(long_story)) is None
    assert events.trouble_with(long_story) == ("Event 9 was replaced: it is not the one the row remembers as its last.")


def test_an_event_forged_in_the_middle_is_found_by_the_one_behind_it(intruder, long_story):
    event = events_of(long_story)[3]
    event.actor = "user:somebody@else.example"
    event.digest = events.digest_of(event)
    event.save()
    assert events.trouble_with(long_story) == (
        "Event 5 (checkpoint.reminded) does not follow from event 4: one of them was replaced."
    )


def test_an_event_too_many_is_found(intruder, long_story):
    event = events_of(long_story)[-1]
    event.pk, event.sequence, event.previous_digest = None, 10, event.digest
    event.digest = events.digest_of(event)
    event.save(force_insert=True)
    assert events.trouble_with(long_story) == "Event 10 is one too many: the row counts 9."


def test_a_story_that_goes_on_while_it_is_verified_is_no_trouble(refund, decide, approver):
    """The row in hand is older than its events."""
    before = again(refund)
    decide(refund, approver, "approve")
    assert events.trouble_with(before) == ""


def test_an_event_of_another_checkpoint_does_not_fit_in(intruder, long_story, ask):
    other = ask()
    Event.objects.filter(subject_id=long_story.pk, sequence=1).delete()
    Event.objects.filter(subject_id=other.pk).update(subject_id=long_story.pk)
    assert events.trouble_with(long_story).startswith("Event 1 (checkpoint.created) was edited")


def test_the_events_of_one_batch_chain_too(ask, tenant_admin):
    rows = [
        ask(timeout="1h", expiry_action="escalate", escalation_target="role:tenant_admin", context=AWKWARD)
        for _ in range(5)
    ] + [ask(timeout="1h") for _ in range(5)]
    for hours in (1, 2):
        sweeps.expire_checkpoints(now=timezone.now() + timedelta(hours=hours))
    for row in map(again, rows):
        assert events.trouble_with(row) == ""
    assert {tuple(story(row)) for row in rows} == {("created", "escalated", "expired"), ("created", "expired")}


# --- What the database refuses ------------------------------------------------------------------------------------

OTHER = {
    "id": 10**9,
    "tenant_id": "00000000000000000000000000000000",
    "subject_type": "run",
    "subject_id": "00000000000000000000000000000000",
    "sequence": 99,
    "type": "checkpoint.rejected",
    "at": "2001-01-01 00:00:00",
    "actor": "user:somebody@else.example",
    "via": "api ",
    "address": "192.0.2.1",
    "data": "{}",
    "previous_digest": "0" * 64,
    "digest": "0" * 64,
}


def run(statement, *parameters):
    with connection.cursor() as cursor:
        cursor.execute(statement, parameters)


def refused(match, statement, *parameters):
    """The statement fails with these words, and every event is as it was."""
    before = list(Event.objects.order_by("pk").values())
    with pytest.raises(IntegrityError, match=match), transaction.atomic():
        run(statement, *parameters)
    assert list(Event.objects.order_by("pk").values()) == before


def test_every_column_but_the_marks_of_the_outbox_is_guarded():
    marks = {"distributed_at", "distribution_retry_at"}
    assert set(OTHER) == {field.column for field in Event._meta.concrete_fields} - marks


@pytest.mark.parametrize("column", OTHER)
def test_the_database_refuses_to_change_an_event(column, refund):
    refused(
        "Events are written once: only distributed_at may change",
        f"UPDATE mod_scaicore_events SET {column} = %s",  # noqa: S608 (a column of ours)
        OTHER[column],
    )


def test_the_database_refuses_a_change_that_a_collation_calls_equal(refund):
    """To JSON on MariaDB, a blank at the end is nothing."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT data FROM mod_scaicore_events")
        [text] = cursor.fetchone()
    refused("only distributed_at may change", "UPDATE mod_scaicore_events SET data = %s", f"{text} ")


def test_the_database_refuses_a_change_in_the_shadow_of_an_allowed_one(refund):
    refused("only distributed_at may change", "UPDATE mod_scaicore_events SET distributed_at = at, actor = 'user:x'")


def test_the_database_refuses_to_delete_events(refund):
    refused("Events are written once: they are never deleted", "DELETE FROM mod_scaicore_events")


@pytest.mark.parametrize("in_the_way_by", ["id", "place"])
def test_the_database_refuses_to_replace_an_event(refund, in_the_way_by):
    values = {field.column: field.column for field in Event._meta.concrete_fields}
    values["actor"] = "'user:somebody@else.example'"
    values |= {"id": "id + 1000"} if in_the_way_by == "place" else {"sequence": "sequence + 1000"}
    refused(
        "Events are written once",
        f"REPLACE INTO mod_scaicore_events ({', '.join(values)}) "  # noqa: S608 (columns of ours)
        f"SELECT {', '.join(values.values())} FROM mod_scaicore_events",
    )


def test_an_event_can_be_marked_as_distributed_and_unmarked(refund):
    [event] = events_of(refund)
    for at in (timezone.now(), None, timezone.now()):
        event.distributed_at = at
        event.save()
        assert events_of(refund)[0].distributed_at == at
    assert Event.objects.filter(pk=event.pk).update(distributed_at=None) == 1


def test_the_triggers_can_be_made_again_and_taken_back(transactional_db, refund):
    migration = tampering.MIGRATION
    for step in (migration.guard, migration.guard, migration.unguard, migration.unguard):
        with connection.schema_editor() as editor:
            step(None, editor)
    run("UPDATE mod_scaicore_events SET actor = 'user:somebody@else.example'")
    with connection.schema_editor() as editor:
        migration.guard(None, editor)
    refused("only distributed_at may change", "UPDATE mod_scaicore_events SET actor = 'user:x'")


def test_no_two_events_share_a_place(long_story):
    event = events_of(long_story)[3]
    event.pk = None
    with pytest.raises(IntegrityError), transaction.atomic():
        event.save(force_insert=True)


def test_equal_json_has_one_spelling():
    assert events.canonical({"b": [1, 2.5], "a": "é"}) == '{"a":"é","b":[1,2.5]}'.encode()
    assert events.canonical({"a": 1, "b": 2}) == events.canonical({"b": 2, "a": 1})
    with pytest.raises(ValueError, match="not JSON compliant"):
        events.canonical(float("nan"))
