"""What a channel is. To write the next one: a small file with one ``send``, a line in ``CHANNELS``, and the contract
suite in ``tests/contracts/test_channels.py`` runs over it.

A channel sends, and says how that went. Queues, leases, retries and records are the business of ``deliveries.py``.
"""

from dataclasses import dataclass
from types import TracebackType
from typing import Self

from notifications.models import Delivery

MOST_DETAIL = 500


@dataclass(frozen=True, slots=True)
class Receipt:
    """The transport has taken it."""

    # Its name for the message, by which later reports find back; empty where it has none.
    message_id: str = ""
    detail: str = ""
    response_status: int | None = None


class ChannelError(Exception):
    """It was not taken. What follows from that is said here, and decided elsewhere."""

    def __init__(
        self,
        detail: str,
        *,
        permanent: bool = False,
        whole_lane: bool = False,
        unreachable: bool = False,
        gone: bool = False,
        retry_after: float | None = None,
        response_status: int | None = None,
    ) -> None:
        # For people: no secrets, no addresses with tokens in them, one line.
        self.detail = " ".join(detail.split())[:MOST_DETAIL]
        # Trying again would not help.
        self.permanent = permanent
        # The transport itself is away: the next message of this lane would fail as well.
        self.whole_lane = whole_lane
        # There is no such mailbox: the recipient cannot be reached this way at all.
        self.unreachable = unreachable
        # The endpoint wants nothing ever again (410).
        self.gone = gone
        # Seconds the other side asked us to wait.
        self.retry_after = retry_after
        self.response_status = response_status
        super().__init__(self.detail)


class Channel:
    """Used as a context: what is opened for the first message may be kept for the next ones of the same lane."""

    def send(self, delivery: Delivery) -> Receipt:
        """Sends one message, or raises ChannelError. Outside any transaction; bounded in time.

        The delivery comes with its checkpoint, core, tenant, channel and webhook read along.
        """
        raise NotImplementedError

    def close(self) -> None:
        """Whatever was kept open."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
