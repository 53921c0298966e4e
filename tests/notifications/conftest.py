"""A transport that keeps what it is given, and fails as it is told: for all that is not about sending itself."""

from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from checkpoints import distribution
from notifications import deliveries
from notifications.channels.base import Channel, ChannelError, Receipt
from notifications.models import Delivery


@dataclass
class Post:
    """What went out, and whom the transport refuses."""

    sent: list[Delivery] = field(default_factory=list)
    trouble: dict[str, ChannelError] = field(default_factory=dict)
    everywhere: ChannelError | None = None

    def channel(self, kind: str) -> Channel:
        post = self

        class Kept(Channel):
            def send(self, delivery: Delivery) -> Receipt:
                error = post.everywhere or post.trouble.get(delivery.recipient or delivery.lane)
                if error is not None:
                    raise error
                post.sent.append(delivery)
                return Receipt(message_id=f"m-{delivery.pk}")

        return Kept()

    def told(self, occasion: str | None = None) -> list[tuple[str, str]]:
        """(occasion, recipient or lane) in the order of sending."""
        return [
            (str(one.occasion), one.recipient or one.lane)
            for one in self.sent
            if occasion is None or one.occasion == occasion
        ]

    def of(self, *occasions: str) -> list[str]:
        return sorted(one.recipient for one in self.sent if one.occasion in occasions)


@pytest.fixture
def post(monkeypatch: pytest.MonkeyPatch) -> Post:
    kept = Post()
    monkeypatch.setattr(deliveries, "open_channel", kept.channel)
    return kept


@pytest.fixture
def run_post(post: Post) -> Callable[[], Post]:
    """Distribute what happened and send what is due."""

    def run() -> Post:
        distribution.distribute_events()
        deliveries.send_deliveries()
        return post

    return run
