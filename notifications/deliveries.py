"""The queue of messages: claim by lease, look again, send outside any transaction, record, try again later.

A **lane** is what one failing transport holds up: all mail, one room, one webhook. Each lane is worked by itself, so a
server that is down or slow delays its own messages only.
"""

import logging
import random
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db import IntegrityError, connection, connections
from django.db.models import F
from django.utils import timezone

from checkpoints import lifecycle
from checkpoints.sweeps import Outcome
from notifications import endpoints
from notifications.caps import Caps
from notifications.channels.base import Channel, ChannelError, Receipt
from notifications.channels.registry import open_channel
from notifications.looking_again import Verdict, look_again
from notifications.models import Delivery, DeliveryStatus, DeliveryTry, Kind, UnroutedNotice
from tenants import reachability
from tenants.transactions import attempt

logger = logging.getLogger(__name__)

# Longer than any channel takes for one message: a mail server may be slow at every step of the conversation.
LEASE = timedelta(seconds=180)
# With the first try, eight within a day.
DELAYS = tuple(timedelta(seconds=s) for s in (30, 120, 600, 1800, 7200, 21600, 54000))
LONGEST_WAIT = timedelta(days=1)
CANDIDATES = 20
FORGOTTEN_AT_ONCE = 500


def send_deliveries(*, now: datetime | None = None) -> Outcome:
    """Everything that is due, lane by lane, some lanes at once."""
    due = Delivery.objects.due(now or timezone.now()).order_by()
    lanes = list(due.values_list("lane", flat=True).distinct())
    random.shuffle(lanes)
    outcome = Outcome()
    # Inside a transaction (a test) a second connection would see nothing.
    if len(lanes) < 2 or settings.DELIVERY_LANES_AT_ONCE < 2 or connection.in_atomic_block:
        parts = [work_lane(lane) for lane in lanes]
    else:
        with ThreadPoolExecutor(min(len(lanes), settings.DELIVERY_LANES_AT_ONCE)) as pool:
            parts = list(pool.map(_in_thread, lanes))
    for part in parts:
        outcome.done += part.done
        outcome.failed += part.failed
    return outcome


def _in_thread(lane: str) -> Outcome:
    try:
        return work_lane(lane)
    except Exception:
        # One lane's fault; its leases run out, and the others go on.
        logger.exception("Working lane %s failed", lane)
        return Outcome(failed=1)
    finally:
        connections.close_all()


def work_lane(lane: str) -> Outcome:
    """Until nothing is due, the transport is away, or the time for one look is over."""
    outcome = Outcome()
    worker = _LaneWorker()
    stop_at = time.monotonic() + settings.DELIVERY_LANE_SECONDS
    with open_channel(Kind(lane.partition(":")[0])) as channel:
        while time.monotonic() < stop_at and not worker.transport_is_away:
            candidates = list(_candidates(lane))
            if not candidates:
                break
            for key, due_at in candidates:
                if worker.transport_is_away or time.monotonic() >= stop_at:
                    break
                sent = worker.deal_with(key, due_at, channel)
                outcome.done += sent is True
                outcome.failed += sent is False
    return outcome


def _candidates(lane: str) -> list[tuple[UUID, datetime]]:
    """In the order in which things happened, as far as the other side lets us."""
    due = Delivery.objects.due(timezone.now()).filter(lane=lane).order_by("next_try_at", "pk")
    return list(due.values_list("pk", "next_try_at")[:CANDIDATES])


@dataclass(slots=True)
class _LaneWorker:
    caps: Caps = field(default_factory=Caps)
    transport_is_away: bool = False

    def deal_with(self, key: UUID, due_at: datetime, channel: Channel) -> bool | None:
        """True: taken by the transport. False: not this time. None: it was not ours to send, or need not be sent."""
        lease_ends = claim(key, due_at)
        if lease_ends is None:
            return None
        related = ("checkpoint__core", "checkpoint__tenant", "tenant", "channel", "webhook")
        delivery = Delivery.objects.select_related(*related).filter(pk=key).first()
        if delivery is None:
            return None  # its webhook or channel was deleted
        verdict = look_again(delivery)
        if verdict is not None:
            settle(delivery, verdict)
            return None
        if held_until := self.caps.hold(delivery):
            put_off(delivery, lease_ends, held_until)
            return None
        began = time.monotonic()
        try:
            receipt = channel.send(delivery)
        except ChannelError as error:
            self.transport_is_away = error.whole_lane
            record_failure(delivery, error, lease_ends=lease_ends, took=time.monotonic() - began)
            return False
        except Exception as error:
            # A fault of ours in this one message: the next one may be sound.
            logger.exception("Delivery %s could not be sent", delivery.pk)
            unexpected = ChannelError(f"{type(error).__name__} while sending; the log has more.")
            record_failure(delivery, unexpected, lease_ends=lease_ends, took=time.monotonic() - began)
            return False
        self.caps.count(delivery)
        record_success(delivery, receipt, took=time.monotonic() - began)
        return True


def claim(key: UUID, due_at: datetime) -> datetime | None:
    """The end of the lease, or None when somebody else was quicker."""
    lease_ends = timezone.now() + LEASE
    mine = Delivery.objects.filter(pk=key, status=DeliveryStatus.WAITING, next_try_at=due_at)
    return lease_ends if mine.update(next_try_at=lease_ends, tries=F("tries") + 1) else None


def settle(delivery: Delivery, verdict: Verdict) -> None:
    """Not sent, and not to be: it is no longer true, or would lead nowhere."""
    Delivery.objects.filter(pk=delivery.pk, status=DeliveryStatus.WAITING).update(
        status=verdict.status, next_try_at=None, tries=F("tries") - 1, last_error=verdict.reason
    )


def put_off(delivery: Delivery, lease_ends: datetime, until: datetime) -> None:
    reason = "Held back: this address or tenant has had as many mails as it may within an hour."
    Delivery.objects.filter(pk=delivery.pk, next_try_at=lease_ends).update(
        next_try_at=until, tries=F("tries") - 1, last_error=reason
    )


def record_success(delivery: Delivery, receipt: Receipt, *, took: float) -> None:
    now = timezone.now()

    def work() -> None:
        # Also when the lease has run out meanwhile: it was sent, whoever else sends it now.
        Delivery.objects.filter(pk=delivery.pk, status=DeliveryStatus.WAITING).update(
            status=DeliveryStatus.SENT, next_try_at=None, sent_at=now, message_id=receipt.message_id, last_error=""
        )
        _record_try(delivery, now, True, receipt.detail, receipt.response_status, took)

    # First what follows from it: whoever dies in between sends it again, and then nothing is missing.
    _follow(lambda: _succeeded(delivery, at=now), delivery)
    _unless_deleted(delivery, work)


def _succeeded(delivery: Delivery, *, at: datetime) -> None:
    if delivery.webhook is not None:
        endpoints.succeeded(delivery.webhook)
    elif delivery.checkpoint is not None and delivery.asks and not delivery.checkpoint.notification_sent:
        to = delivery.recipient or str(delivery.channel)
        lifecycle.notified(delivery.checkpoint.pk, to=to, channel=delivery.kind, at=at)


def _follow(work: Callable[[], None], delivery: Delivery) -> None:
    """What cannot be written beside a message must not keep its own record from being written: it would go out again,
    and again."""
    try:
        work()
    except Exception:
        logger.exception("What follows from delivery %s could not be written", delivery.pk)


def record_failure(delivery: Delivery, error: ChannelError, *, lease_ends: datetime, took: float) -> None:
    now = timezone.now()
    # Counted when it was claimed: a sender that dies has used up a try as well.
    used_up = delivery.tries > len(DELAYS)
    given_up = error.permanent or used_up
    changes: dict[str, Any] = {"last_error": error.detail}
    if given_up:
        ended = "" if error.permanent else f" Given up after {delivery.tries} tries."
        changes |= {"status": DeliveryStatus.FAILED, "next_try_at": None, "last_error": error.detail + ended}
    else:
        changes["next_try_at"] = now + delay_after(delivery.tries, error.retry_after)

    def work() -> None:
        Delivery.objects.filter(pk=delivery.pk, status=DeliveryStatus.WAITING, next_try_at=lease_ends).update(**changes)
        if error.whole_lane and error.retry_after:
            _hold_back(delivery.lane, until=now + asked_for(error.retry_after))
        _record_try(delivery, now, False, error.detail, error.response_status, took)

    _follow(lambda: _failed(delivery, error, at=now), delivery)
    _unless_deleted(delivery, work)


def _unless_deleted(delivery: Delivery, work: Callable[[], None]) -> None:
    """A webhook may be deleted, with all its messages, while one of them is on the way."""
    try:
        attempt(work)
    except IntegrityError:
        if Delivery.objects.filter(pk=delivery.pk).exists():
            raise


def _failed(delivery: Delivery, error: ChannelError, *, at: datetime) -> None:
    if error.unreachable and delivery.recipient:
        reachability.mark_unreachable(delivery.tenant, delivery.recipient, reason=error.detail, at=at)
    if delivery.webhook is not None:
        endpoints.failed(delivery.webhook, error, at=at)


def delay_after(tries: int, retry_after: float | None = None) -> timedelta:
    """Longer each time, not for all at the same moment, and never sooner than the other side asked for."""
    planned = DELAYS[min(max(tries, 1), len(DELAYS)) - 1] * random.uniform(0.8, 1.2)  # noqa: S311 (jitter)
    return max(planned, asked_for(retry_after))


def asked_for(retry_after: float | None) -> timedelta:
    return timedelta(seconds=min(retry_after or 0, LONGEST_WAIT.total_seconds()))


def _hold_back(lane: str, *, until: datetime) -> None:
    """Whoever asked for time meant all messages. What would come sooner comes then, and has used up no try."""
    Delivery.objects.filter(status=DeliveryStatus.WAITING, lane=lane, next_try_at__lt=until).update(next_try_at=until)


def _record_try(
    delivery: Delivery, at: datetime, succeeded: bool, detail: str, response_status: int | None, took: float
) -> None:
    DeliveryTry.objects.create(
        tenant_id=delivery.tenant_id,
        delivery=delivery,
        at=at,
        succeeded=succeeded,
        detail=detail,
        response_status=response_status,
        took_ms=int(1000 * took),
    )


def forget_deliveries(*, now: datetime | None = None) -> Outcome:
    """What was settled long ago; the history of the checkpoint stays."""
    at = now or timezone.now()
    before = at - timedelta(days=settings.DELIVERY_KEEP_DAYS)
    # The ids are time-ordered: a stretch of the primary key.
    oldest = UUID(int=int(before.timestamp() * 1000) << 80)
    ended = Delivery.objects.filter(pk__lt=oldest).exclude(status=DeliveryStatus.WAITING).order_by("pk")
    keys = list(ended.values_list("pk", flat=True)[:FORGOTTEN_AT_ONCE])
    Delivery.objects.filter(pk__in=keys).delete()
    UnroutedNotice.objects.filter(told_at__lt=at - timedelta(days=7)).delete()
    return Outcome(done=len(keys))
