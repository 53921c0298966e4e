"""The queue of messages: leases, another try, lanes that do not wait for each other, caps, and what is given up."""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest
import time_machine
from django.utils import timezone

from checkpoints import distribution, lifecycle, sweeps
from checkpoints.models import Checkpoint
from notifications import deliveries
from notifications.channels.base import ChannelError
from notifications.models import Delivery, DeliveryStatus, Webhook
from tenants import reachability
from tenants.actors import Actor
from tenants.models import Group, Tenant, Unreachable, User
from tests.notifications.conftest import Post
from tests.racing import Race

Ask = Callable[..., Checkpoint]
Run = Callable[[], Post]


def at(moment: datetime) -> time_machine.travel:
    return time_machine.travel(moment, tick=False)


def one(row: Checkpoint, email: str) -> Delivery:
    return Delivery.objects.get(checkpoint=row, recipient=email)


@pytest.fixture
def question(ask: Ask) -> Checkpoint:
    return ask(assignee="ann@acme.example")


def test_a_refusal_for_good_is_shown_and_not_tried_again(question: Checkpoint, post: Post, run_post: Run) -> None:
    post.trouble["ann@acme.example"] = ChannelError("550 5.1.1 No such mailbox", permanent=True, unreachable=True)
    run_post()

    failed = one(question, "ann@acme.example")
    assert (failed.status, failed.last_error) == (DeliveryStatus.FAILED, "550 5.1.1 No such mailbox")
    assert not failed.recorded_tries.get().succeeded
    assert Unreachable.objects.get().email == "ann@acme.example"
    with at(timezone.now() + timedelta(days=2)):
        assert deliveries.send_deliveries().failed == 0


def test_a_passing_trouble_is_tried_eight_times_over_about_a_day_and_each_try_is_on_record(
    question: Checkpoint, post: Post, run_post: Run
) -> None:
    post.everywhere = ChannelError("The server is away", whole_lane=True)
    run_post()
    began = timezone.now()
    for _ in range(20):
        waiting = one(question, "ann@acme.example")
        if waiting.status != DeliveryStatus.WAITING:
            break
        assert waiting.next_try_at is not None
        with at(waiting.next_try_at):
            deliveries.send_deliveries()

    given_up = one(question, "ann@acme.example")
    assert given_up.status == DeliveryStatus.FAILED
    assert "Given up after 8 tries" in given_up.last_error
    tries = list(given_up.recorded_tries.order_by("id"))
    assert len(tries) == 8
    assert timedelta(hours=16) < tries[-1].at - began < timedelta(hours=30)


def test_a_message_that_failed_first_arrives_later(question: Checkpoint, post: Post, run_post: Run) -> None:
    post.everywhere = ChannelError("451 Try again later")
    run_post()
    post.everywhere = None
    with at(timezone.now() + timedelta(minutes=2)):
        run_post()

    assert one(question, "ann@acme.example").status == DeliveryStatus.SENT
    assert [row.succeeded for row in one(question, "ann@acme.example").recorded_tries.order_by("id")] == [False, True]


def test_the_other_side_is_not_asked_sooner_than_it_wants(question: Checkpoint, post: Post, run_post: Run) -> None:
    post.everywhere = ChannelError("429", retry_after=3600)
    with at(datetime(2030, 1, 1, tzinfo=timezone.get_default_timezone())):
        distribution.distribute_events()
        deliveries.send_deliveries()
        assert one(question, "ann@acme.example").next_try_at == timezone.now() + timedelta(hours=1)


def test_a_transport_that_is_away_costs_one_try_per_look_not_one_per_message(
    ask: Ask, post: Post, run_post: Run
) -> None:
    for number in range(10):
        ask(assignee=f"person{number}@acme.example")
    post.everywhere = ChannelError("Connection refused", whole_lane=True)
    run_post()

    assert sorted(Delivery.objects.values_list("tries", flat=True)) == [0] * 9 + [1]


def test_one_refused_recipient_does_not_hold_up_the_others(
    refund: Checkpoint, approver: User, colleague: User, post: Post, run_post: Run
) -> None:
    post.trouble[approver.email] = ChannelError("550", permanent=True)

    assert run_post().of("created") == [colleague.email]


def test_a_dead_webhook_delays_neither_mail_nor_another_webhook(
    acme: Tenant, refund: Checkpoint, post: Post, run_post: Run
) -> None:
    dead, alive = (
        Webhook.objects.create(tenant=acme, url=f"https://hooks.example/{name}", secret="whsec_x")
        for name in ("dead", "alive")
    )
    post.trouble[dead.lane] = ChannelError("timed out", whole_lane=True)
    run_post()

    assert ("event", alive.lane) in post.told()
    assert len(post.of("created")) == 2
    dead.refresh_from_db()
    assert dead.failing_since is not None


def test_a_sender_that_died_leaves_a_lease_that_runs_out(question: Checkpoint, post: Post) -> None:
    distribution.distribute_events()
    waiting = one(question, "ann@acme.example")
    assert waiting.next_try_at is not None
    assert deliveries.claim(waiting.pk, waiting.next_try_at) is not None

    deliveries.send_deliveries()
    assert post.sent == []
    with at(timezone.now() + deliveries.LEASE + timedelta(seconds=1)):
        deliveries.send_deliveries()
    assert post.of("created") == ["ann@acme.example"]


@pytest.mark.both_databases
@pytest.mark.django_db(transaction=True)
def test_of_several_senders_one_gets_the_lease(ask: Ask) -> None:
    for number in range(20):
        ask(assignee=f"person{number}@acme.example")
    distribution.distribute_events()
    due = [[str(key), moment.isoformat()] for key, moment in Delivery.objects.values_list("pk", "next_try_at")]
    with Race() as race:
        racers = [race.enter("lease", due=due) for _ in range(3)]
        race.start(laps=len(due))
        gained = [racer.result() for racer in racers]

    assert [sum(lap) for lap in zip(*gained, strict=True)] == [1] * 20
    assert set(Delivery.objects.values_list("tries", flat=True)) == {1}


def test_what_is_over_the_cap_of_an_address_waits_and_then_goes(
    ask: Ask, post: Post, run_post: Run, settings: Any
) -> None:
    settings.MAIL_PER_RECIPIENT_PER_HOUR = 2
    for _ in range(3):
        ask(assignee="ann@acme.example")
    ask(assignee="ben@acme.example")
    run_post()

    assert post.of("created") == ["ann@acme.example", "ann@acme.example", "ben@acme.example"]
    held = Delivery.objects.get(status=DeliveryStatus.WAITING)
    assert "Held back" in held.last_error
    assert held.tries == 0
    with at(timezone.now() + timedelta(minutes=62)):
        assert len(run_post().of("created")) == 4


def test_what_is_over_the_cap_of_a_tenant_waits(ask: Ask, run_post: Run, settings: Any) -> None:
    settings.MAIL_PER_TENANT_PER_HOUR = 2
    for number in range(4):
        ask(assignee=f"person{number}@acme.example")

    assert len(run_post().sent) == 2
    assert Delivery.objects.filter(status=DeliveryStatus.WAITING).count() == 2


def test_an_address_that_cannot_be_reached_is_shown_as_such_and_not_tried(
    acme: Tenant, question: Checkpoint, run_post: Run
) -> None:
    reachability.mark_unreachable(acme, "ann@acme.example", reason="No such mailbox.", at=timezone.now())

    assert run_post().sent == []
    assert one(question, "ann@acme.example").last_error == "Cannot be reached: No such mailbox."


# --- Webhooks that are gone -----------------------------------------------------------------------------------------


@pytest.fixture
def webhook(acme: Tenant, tenant_admin: User) -> Webhook:
    return Webhook.objects.create(tenant=acme, url="https://hooks.example/1", secret="whsec_x")


def test_a_webhook_that_answers_410_is_switched_off_and_the_admins_hear_of_it(
    webhook: Webhook, question: Checkpoint, tenant_admin: User, post: Post, run_post: Run
) -> None:
    post.trouble[webhook.lane] = ChannelError("410 Gone", permanent=True, gone=True)
    run_post()
    run_post()

    webhook.refresh_from_db()
    assert not webhook.is_active
    assert "410" in webhook.disabled_reason
    assert post.of("webhook_disabled") == [tenant_admin.email]


def test_a_webhook_dead_for_days_is_switched_off_and_one_that_recovered_is_not(
    webhook: Webhook, ask: Ask, tenant_admin: User, post: Post, run_post: Run
) -> None:
    post.trouble[webhook.lane] = ChannelError("502", whole_lane=True)
    start = timezone.now()
    for day in range(7):
        with at(start + timedelta(days=day, minutes=day)):
            ask(assignee="", routing="external")
            run_post()

    webhook.refresh_from_db()
    assert not webhook.is_active
    assert webhook.disabled_at is not None
    assert webhook.disabled_at - start > timedelta(days=5)
    assert post.of("webhook_disabled") == [tenant_admin.email]


def test_a_success_in_between_starts_the_count_anew(
    webhook: Webhook, ask: Ask, tenant_admin: User, post: Post, run_post: Run
) -> None:
    start = timezone.now()
    for day in range(7):
        if day == 3:
            post.trouble.clear()
        else:
            post.trouble[webhook.lane] = ChannelError("502", whole_lane=True)
        with at(start + timedelta(days=day, minutes=day)):
            ask(assignee="", routing="external")
            run_post()

    webhook.refresh_from_db()
    assert webhook.is_active


def test_what_was_settled_long_ago_is_forgotten_and_what_waits_is_kept(
    refund: Checkpoint, approver: User, finance: Group, post: Post, run_post: Run
) -> None:
    post.trouble[approver.email] = ChannelError("451")
    run_post()
    with at(timezone.now() + timedelta(days=91)):
        assert deliveries.forget_deliveries().done == 1

    assert one(refund, approver.email).status == DeliveryStatus.WAITING


# --- Nobody can be reached ------------------------------------------------------------------------------------------


def bounced(tenant: Tenant, *emails: str) -> None:
    for email in emails:
        reachability.mark_unreachable(
            tenant, email, reason="The mailbox does not exist (550 5.1.1).", at=timezone.now()
        )


def test_a_checkpoint_whose_only_assignee_cannot_be_reached_goes_to_the_queue_with_that_reason(
    acme: Tenant, question: Checkpoint
) -> None:
    bounced(acme, "ann@acme.example")
    assert sweeps.reroute().done == 1

    row = Checkpoint.objects.get(pk=question.pk)
    assert row.is_unrouted
    assert row.unrouted_reason == "ann@acme.example cannot be reached: The mailbox does not exist (550 5.1.1)."
    assert sweeps.reroute().done == 0


def test_as_long_as_one_of_the_group_can_be_reached_it_stays_with_the_group(
    acme: Tenant, refund: Checkpoint, approver: User, colleague: User
) -> None:
    bounced(acme, approver.email)
    assert sweeps.reroute().done == 0
    bounced(acme, colleague.email)
    assert sweeps.reroute().done == 1

    assert "Nobody of group “finance” can be reached" in Checkpoint.objects.get(pk=refund.pk).unrouted_reason


def test_a_mark_in_another_tenant_says_nothing_here(globex: Tenant, question: Checkpoint) -> None:
    bounced(globex, "ann@acme.example")

    assert sweeps.reroute().done == 0


def test_an_admin_who_cannot_be_mailed_keeps_what_they_claimed(
    acme: Tenant, unrouted: Checkpoint, tenant_admin: User, as_person: Callable[[User], Actor]
) -> None:
    bounced(acme, tenant_admin.email)
    lifecycle.claim(unrouted, actor=as_person(tenant_admin))

    assert sweeps.reroute().done == 0


@pytest.mark.both_databases
@pytest.mark.django_db(transaction=True)
def test_a_webhook_deleted_while_its_message_is_on_the_way_stops_nobody(
    webhook: Webhook, acme: Tenant, question: Checkpoint, post: Post, run_post: Run, settings: Any
) -> None:
    settings.DELIVERY_LANES_AT_ONCE = 1
    other = Webhook.objects.create(tenant=acme, url="https://hooks.example/2", secret="whsec_x")

    class Deleting(list[Delivery]):
        def append(self, delivery: Delivery) -> None:
            super().append(delivery)
            if delivery.webhook_id == webhook.pk:
                Webhook.objects.get(pk=webhook.pk).delete()

    post.sent = Deleting()
    run_post()

    assert ("event", other.lane) in post.told()
    assert post.of("created") == ["ann@acme.example"]
    assert set(Delivery.objects.values_list("status", flat=True)) == {DeliveryStatus.SENT}
