"""One message that means nothing, so that an admin sees a channel work before it counts."""

from django.utils import timezone

from checkpoints import nudges
from notifications.models import Channel, Delivery, Kind, Occasion
from tenants.fields import new_id


def send_test(channel: Channel, *, to: str) -> Delivery:
    """Queued like any other; ``to`` is an address for mail, and a room is its own recipient."""
    now = timezone.now()
    identity = new_id()
    delivery: Delivery = Delivery.objects.create(
        id=identity,
        tenant=channel.tenant,
        dedupe_key=f"test:{identity}",
        occasion=Occasion.TEST,
        kind=channel.kind,
        lane=channel.lane,
        channel=channel,
        recipient=to if channel.kind == Kind.EMAIL else "",
        created_at=now,
        next_try_at=now,
    )
    nudges.nudge()
    return delivery
