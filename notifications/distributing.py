from collections.abc import Sequence
from datetime import datetime

from checkpoints.models import Event


def take(events: Sequence[Event], at: datetime) -> None:
    return None
