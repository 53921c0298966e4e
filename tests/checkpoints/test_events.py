"""The history as a chain: whatever is changed afterwards shows (semantics §12)."""

from datetime import timedelta

import pytest
from django.db import IntegrityError, transaction
from django.utils import timezone

from checkpoints import events, lifecycle, sweeps
from checkpoints.models import Event
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
    lifecycle.claim(row, actor=as_person(approver))
    lifecycle.release(row, actor=as_person(approver))
    lifecycle.comment(row, actor=as_person(colleague), text=AWKWARD["words"])
    lifecycle.remind(row, actor=program)
    lifecycle.extend(row, actor=program, timeout="2h")
    sweeps.expire_checkpoints(now=row.expires_at)
    row = again(row)
    lifecycle.reassign(row, actor=as_person(tenant_admin), assignee="bystander@acme.example", comment="Please.")
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
    "edit",
    [
        {"actor": "user:somebody@else.example"},
        {"at": timezone.now() - timedelta(days=1)},
        {"type": "checkpoint.rejected"},
        {"via": "api"},
        {"address": "192.0.2.1"},
        {"data": {"detail": {"text": "Something else."}}},
        {"sequence": 40},
        {"previous_digest": "0" * 64},
        {"digest": "0" * 64},
    ],
)
def test_an_edited_event_is_found_and_named(long_story, edit):
    Event.objects.filter(subject_id=long_story.pk, sequence=4).update(**edit)
    assert "does not follow from the ones before it" in events.trouble_with(long_story)


def test_the_mark_of_the_outbox_is_no_part_of_the_chain(long_story):
    Event.objects.filter(subject_id=long_story.pk).update(distributed_at=timezone.now())
    assert events.trouble_with(long_story) == ""


@pytest.mark.parametrize("sequence", [1, 4])
def test_a_deleted_event_is_found(long_story, sequence):
    Event.objects.filter(subject_id=long_story.pk, sequence=sequence).delete()
    assert events.trouble_with(long_story).startswith(f"Event {sequence + 1} ")


def test_two_swapped_events_are_found(long_story):
    third, fourth = events_of(long_story)[2:4]
    for event, place in ((third, 99), (fourth, 3), (third, 4)):
        Event.objects.filter(pk=event.pk).update(sequence=place)
    assert events.trouble_with(long_story).startswith("Event 3 ")


def test_a_cut_tail_is_found_by_what_the_row_remembers(long_story):
    Event.objects.filter(subject_id=long_story.pk, sequence__gt=7).delete()
    assert events.first_broken(events_of(long_story)) is None
    assert events.trouble_with(long_story) == "The row counts 9 events, and there are 7."


def test_a_forged_last_event_is_found_by_the_digest_the_row_remembers(long_story):
    event = events_of(long_story)[-1]
    event.actor = "user:somebody@else.example"
    event.digest = events.digest_of(event)
    event.save()
    assert events.first_broken(events_of(long_story)) is None
    assert events.trouble_with(long_story) == (
        "Event 9 (checkpoint.resolved) is not the one the row remembers as its last."
    )


def test_an_event_of_another_checkpoint_does_not_fit_in(long_story, ask):
    other = ask()
    Event.objects.filter(subject_id=long_story.pk, sequence=1).delete()
    Event.objects.filter(subject_id=other.pk).update(subject_id=long_story.pk)
    assert events.trouble_with(long_story).startswith("Event 1 ")


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
