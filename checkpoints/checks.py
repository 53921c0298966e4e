"""A job queue that cannot work shows up as a system check."""

import importlib.util
from typing import Any

from django.conf import settings
from django.core.checks import CheckMessage, Error, register


@register
def jobs_are_run_once(**_: Any) -> list[CheckMessage]:
    """What the library would do by itself: repeat what still runs, for ever, and replay what a pause has missed."""
    cluster: dict[str, Any] = settings.Q_CLUSTER
    timeout, retry = cluster.get("timeout"), cluster.get("retry", 60)
    wrong = {
        f"A job may take {timeout} seconds, but is started again after {retry}.": (
            not timeout or timeout >= retry,
            "Make Q_RETRY_SECONDS well above Q_TIMEOUT_SECONDS.",
        ),
        "A job that fails would be tried for ever.": (
            not (0 < cluster.get("max_attempts", 0) <= 3 and cluster.get("ack_failures")),
            "Set max_attempts from 1 to 3, and ack_failures.",
        ),
        "A pause would be made up for, run by run.": (cluster.get("catch_up", True), "Set catch_up to False."),
        "Each finished job would look through those before it.": (
            cluster.get("save_limit", 250) > 0,
            "Set save_limit to -1 or 0: forget_tasks removes what is old.",
        ),
        "Jobs would wait in memory while their lease runs out.": (
            cluster.get("bulk", 1) != 1 or not 0 < cluster.get("queue_limit", 0) <= 10,
            "Set bulk to 1, and queue_limit from 1 to 10.",
        ),
    }
    return [Error(message, hint=hint, id="holdpoint.E007") for message, (is_wrong, hint) in wrong.items() if is_wrong]


@register
def redis_can_be_reached_at_all(**_: Any) -> list[CheckMessage]:
    if not settings.REDIS_URL:
        return []
    if not settings.REDIS_URL.startswith(("redis://", "rediss://", "unix://")):
        return [Error("REDIS_URL cannot be read.", hint="Use redis://host:6379/0", id="holdpoint.E008")]
    if importlib.util.find_spec("redis") is None:
        hint = "pip install --require-hashes -r requirements/redis.txt, or remove REDIS_URL."
        return [Error("REDIS_URL is set, but the library for Redis is not installed.", hint=hint, id="holdpoint.E008")]
    return []
