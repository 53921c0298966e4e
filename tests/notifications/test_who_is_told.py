"""Who is told what, and what is no longer said when its moment has passed."""

from collections.abc import Callable
from datetime import timedelta

import pytest
import time_machine
from django.utils import timezone

from checkpoints import events, lifecycle, sweeps
from checkpoints.answers import Answer
from checkpoints.models import Checkpoint, Event
from notifications import digests, reminders
from notifications.models import Channel, Delivery, DeliveryStatus, Webhook
from tenants.actors import Actor
from tenants.models import Core, Delegation, Group, Membership, Tenant, User
from tests.notifications.conftest import Post

Ask = Callable[..., Checkpoint]
Run = Callable[[], Post]
AsPerson = Callable[[User], Actor]


def again(row: Checkpoint) -> Checkpoint:
    return Checkpoint.objects.select_related("core", "tenant").get(pk=row.pk)


def later(**span: int) -> time_machine.travel:
    return time_machine.travel(timezone.now() + timedelta(**span), tick=False)


def statuses(row: Checkpoint) -> dict[str, str]:
    return {f"{one.occasion} {one.recipient}": str(one.status) for one in Delivery.objects.filter(checkpoint=row)}


def test_each_member_of_the_group_gets_one_message_of_their_own(
    refund: Checkpoint, approver: User, colleague: User, bystander: User, run_post: Run
) -> None:
    assert run_post().of("created") == [approver.email, colleague.email]


def test_somebody_without_an_account_is_told_at_the_address_the_program_gave(ask: Ask, run_post: Run) -> None:
    ask(assignee="user:Somebody@Elsewhere.example")

    assert run_post().of("created") == ["somebody@elsewhere.example"]


def test_running_it_all_again_says_nothing_twice(refund: Checkpoint, run_post: Run) -> None:
    first = len(run_post().sent)
    Event.objects.update(distributed_at=None)

    assert len(run_post().sent) == first == 2


def test_the_first_accepted_message_shows_on_the_row_and_in_its_history(refund: Checkpoint, run_post: Run) -> None:
    assert not refund.notification_sent
    run_post()

    row = again(refund)
    assert row.notification_sent
    assert row.row_version == refund.row_version
    assert [event.name for event in Event.objects.filter(subject_id=row.pk).order_by("sequence")] == [
        "created",
        "notification_sent",
    ]
    assert events.trouble_with(row) == ""


def test_an_external_checkpoint_tells_nobody(ask: Ask, run_post: Run, finance: Group) -> None:
    ask(assignee="group:finance", routing="external")

    assert run_post().sent == []


def test_the_others_and_the_requester_hear_of_the_decision(
    ask: Ask, finance: Group, approver: User, colleague: User, as_person: AsPerson, run_post: Run
) -> None:
    row = ask(assignee="group:finance", requested_by="ines@elsewhere.example")
    run_post()
    lifecycle.resolve(row, actor=as_person(approver), answer=Answer("approve", None, "", None))

    assert run_post().of("decided") == sorted([colleague.email, "ines@elsewhere.example"])


def test_a_question_that_was_answered_before_the_mail_left_is_not_sent(
    refund: Checkpoint, approver: User, colleague: User, as_person: AsPerson, run_post: Run
) -> None:
    lifecycle.resolve(refund, actor=as_person(approver), answer=Answer("approve", None, "", None))

    assert run_post().sent == []
    assert statuses(refund)[f"created {colleague.email}"] == DeliveryStatus.SKIPPED


def test_after_a_reassignment_the_new_one_is_asked_and_the_old_ones_are_told(
    refund: Checkpoint, program: Actor, bystander: User, approver: User, colleague: User, run_post: Run
) -> None:
    run_post()
    lifecycle.reassign(refund, actor=program, assignee=f"user:{bystander.email}")
    post = run_post()

    assert post.of("reassigned") == [bystander.email]
    assert post.of("moved_away") == [approver.email, colleague.email]


def test_escalation_tells_old_and_new(
    ask: Ask, tenant_admin: User, approver: User, colleague: User, finance: Group, run_post: Run
) -> None:
    ask(assignee="group:finance", timeout="1m", expiry_action="escalate", escalation_target="role:tenant_admin")
    with later(minutes=2):
        sweeps.expire_checkpoints()
        post = run_post()

    assert post.of("escalated") == [tenant_admin.email]
    assert post.of("moved_away") == [approver.email, colleague.email]


@pytest.mark.parametrize(("action", "occasion"), [("cancel", "cancelled"), ("none", "expired")])
def test_those_who_were_asked_hear_that_time_has_run_out(
    ask: Ask, approver: User, colleague: User, finance: Group, run_post: Run, action: str, occasion: str
) -> None:
    ask(assignee="group:finance", timeout="1m", expiry_action=action)
    run_post()
    with later(minutes=2):
        sweeps.expire_checkpoints()

        assert run_post().of(occasion) == [approver.email, colleague.email]


def test_a_question_that_was_replaced_says_so(
    ask: Ask, refund: Checkpoint, approver: User, colleague: User, run_post: Run
) -> None:
    run_post()
    ask(assignee="group:finance", supersedes=refund.pk)

    assert run_post().of("superseded") == [approver.email, colleague.email]


def test_a_comment_goes_to_the_requester_alone(
    ask: Ask, finance: Group, approver: User, as_person: AsPerson, run_post: Run
) -> None:
    row = ask(assignee="group:finance", requested_by="ines@elsewhere.example")
    lifecycle.comment(row, actor=as_person(approver), text="Which order?")

    assert run_post().of("commented") == ["ines@elsewhere.example"]


def test_under_four_eyes_the_requester_is_not_asked(
    ask: Ask, finance: Group, approver: User, colleague: User, run_post: Run
) -> None:
    ask(assignee="group:finance", requested_by=approver.email, forbid_requester=True)

    assert run_post().of("created") == [colleague.email]


def test_somebody_who_left_the_group_before_the_mail_left_is_not_asked(
    refund: Checkpoint, finance: Group, approver: User, colleague: User, run_post: Run
) -> None:
    from checkpoints import distribution

    distribution.distribute_events()
    finance.members.remove(Membership.objects.get(user=approver))

    assert run_post().of("created") == [colleague.email]


def test_a_delegation_that_moved_tells_the_new_delegate(
    ask: Ask, acme: Tenant, core: Core, approver: User, colleague: User, run_post: Run
) -> None:
    old = Delegation.objects.create(tenant=acme, core=core, delegate=Membership.objects.get(user=approver))
    ask(assignee="delegated_user")
    assert run_post().of("created") == [approver.email]
    old.delete()
    Delegation.objects.create(tenant=acme, core=core, delegate=Membership.objects.get(user=colleague))
    sweeps.reroute()
    post = run_post()

    assert post.of("reassigned") == [colleague.email]
    assert post.of("moved_away") == [approver.email]


# --- The queue ------------------------------------------------------------------------------------------------------


def test_admins_hear_of_new_unrouted_ones_in_one_digest(
    ask: Ask, tenant_admin: User, second_admin: User, run_post: Run
) -> None:
    for number in range(3):
        ask(assignee="team:blue", prompt=f"Question {number}?")
    run_post()
    digests.tell_of_unrouted()
    post = run_post()

    assert post.of("unrouted") == [tenant_admin.email, second_admin.email]
    assert len(post.sent[0].facts["checkpoints"]) == 3
    assert digests.tell_of_unrouted().done == 0
    assert len(run_post().sent) == 2


def test_what_was_claimed_before_the_digest_is_not_in_it(
    unrouted: Checkpoint, tenant_admin: User, as_person: AsPerson, run_post: Run
) -> None:
    run_post()
    lifecycle.claim(unrouted, actor=as_person(tenant_admin))

    assert digests.tell_of_unrouted().done == 0
    assert run_post().sent == []


# --- Reminders ------------------------------------------------------------------------------------------------------


def test_a_reminder_comes_at_its_interval_and_counts(
    ask: Ask, finance: Group, approver: User, colleague: User, run_post: Run
) -> None:
    row = ask(assignee="group:finance", reminder_interval_m=60)
    run_post()
    with later(minutes=61):
        assert reminders.send_checkpoint_reminders().done == 1
        assert reminders.send_checkpoint_reminders().done == 0
        post = run_post()

    assert post.of("reminder") == [approver.email, colleague.email]
    assert again(row).reminder_count == 1
    assert again(row).row_version == row.row_version
    assert events.trouble_with(again(row)) == ""


def test_three_days_of_downtime_make_one_reminder(ask: Ask, finance: Group, run_post: Run) -> None:
    row = ask(assignee="group:finance", reminder_interval_m=15)
    with later(hours=72, minutes=5):
        assert reminders.send_checkpoint_reminders().done == 1
        assert reminders.send_checkpoint_reminders().done == 0
        assert timezone.now() < again(row).next_reminder_at <= timezone.now() + timedelta(minutes=15)
        assert len(run_post().of("reminder")) == 2


def test_who_muted_it_is_reminded_no_more_but_hears_the_outcome(
    ask: Ask, finance: Group, approver: User, colleague: User, program: Actor, run_post: Run
) -> None:
    row = ask(assignee="group:finance", reminder_interval_m=60)
    run_post()
    reminders.mute(row, email=approver.email)
    with later(minutes=61):
        reminders.send_checkpoint_reminders()
        assert run_post().of("reminder") == [colleague.email]
    lifecycle.resolve(again(row), actor=program, answer=Answer("approve", None, "", None))

    assert run_post().of("decided") == [approver.email, colleague.email]


def test_only_the_claimant_is_reminded(
    ask: Ask, finance: Group, approver: User, as_person: AsPerson, program: Actor, run_post: Run
) -> None:
    row = ask(assignee="group:finance")
    lifecycle.claim(row, actor=as_person(approver))
    lifecycle.remind(again(row), actor=program)

    assert run_post().of("reminder") == [approver.email]


def test_under_a_quorum_those_who_voted_are_not_reminded(
    ask: Ask, finance: Group, approver: User, colleague: User, as_person: AsPerson, program: Actor, run_post: Run
) -> None:
    row = ask(assignee="group:finance", required_approvals=2)
    lifecycle.resolve(row, actor=as_person(approver), answer=Answer("approve", None, "", None))
    lifecycle.remind(again(row), actor=program)

    assert run_post().of("reminder") == [colleague.email]


def test_a_checkpoint_in_the_queue_reminds_nobody_until_somebody_has_it(
    ask: Ask, tenant_admin: User, as_person: AsPerson, run_post: Run
) -> None:
    row = ask(assignee="team:blue", reminder_interval_m=60)
    with later(minutes=61):
        assert reminders.send_checkpoint_reminders().done == 0
        assert again(row).reminder_count == 0
        lifecycle.claim(again(row), actor=as_person(tenant_admin))
        with later(minutes=61):
            assert reminders.send_checkpoint_reminders().done == 1
            assert run_post().of("reminder") == [tenant_admin.email]


# --- Rooms and machines ---------------------------------------------------------------------------------------------


def test_a_room_hears_each_occasion_once(acme: Tenant, refund: Checkpoint, run_post: Run) -> None:
    room = Channel.objects.create(tenant=acme, kind="chat", name="finance", url="https://chat.example/hook")
    quiet = Channel.objects.create(
        tenant=acme, kind="chat", name="ends", url="https://chat.example/2", occasions=["decided"]
    )

    told = run_post().told("created")
    assert told.count(("created", room.lane)) == 1
    assert ("created", quiet.lane) not in told


def test_a_webhook_gets_the_events_it_asked_for_thin(
    acme: Tenant, globex: Tenant, ask: Ask, program: Actor, run_post: Run
) -> None:
    every = Webhook.objects.create(tenant=acme, url="https://hooks.example/1", secret="whsec_x")
    decided = Webhook.objects.create(
        tenant=acme, url="https://hooks.example/2", secret="whsec_x", events=["checkpoint.resolved"]
    )
    Webhook.objects.create(tenant=globex, url="https://hooks.example/3", secret="whsec_x")
    row = ask(assignee="ann@acme.example", context={"big": "x" * 10_000}, routing="external")
    lifecycle.resolve(row, actor=program, answer=Answer("approve", "y" * 50_000, "", None))
    post = run_post()

    types = {webhook.lane: [] for webhook in (every, decided)}
    for one in post.sent:
        types[one.lane].append(one.facts["body"]["type"])
    assert types == {every.lane: ["checkpoint.created", "checkpoint.resolved"], decided.lane: ["checkpoint.resolved"]}
    body = next(one.facts["body"] for one in post.sent if one.lane == decided.lane)
    assert body["data"]["status"] == "resolved"
    assert body["data"]["resolution"]["decision"] == "approve"
    assert len(str(body)) < 20_000
