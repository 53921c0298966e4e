"""How many requests a minute, counted together by all processes.

Each process counts in memory and adds its share to one row per subject and minute, once a second at most, or when a
tenth of the limit has come together sooner; the row's answer tells it what the others have counted. The limit may be
overshot by that much; a request costs no write.
"""

import logging
import math
import threading
import time
from dataclasses import dataclass, field
from typing import Any

from django.conf import settings
from django.db import Error, connection, models
from rest_framework import exceptions
from rest_framework.request import Request
from rest_framework.throttling import BaseThrottle

from tenants.actors import Actor
from tenants.addresses import client_of
from tenants.models import RefusedKeyCount, RequestCount

logger = logging.getLogger(__name__)

WINDOW_SECONDS = 60
MERGE_SECONDS = 1
# A share below this part of the limit is kept for later: somebody who polls now and then costs no write at all.
WORTH_A_WRITE = 600
# A share above this part of it does not wait for the second: a burst must not have the limit in every process.
CANNOT_WAIT = 10
# After a failure the database is left alone for a while.
REST_SECONDS = 10
# Against callers with very many addresses. Forgetting costs a second of overshoot.
MOST_TALLIES = 50_000
KEPT_MINUTES = 2
REMOVED_AT_ONCE = 1000


@dataclass(frozen=True, slots=True)
class Subject:
    """Who is counted: the table, and what names the row in it, besides the minute."""

    model: type[models.Model]
    names: tuple[tuple[str, Any], ...]


@dataclass(slots=True)
class Tally:
    """What this process knows about one subject in this minute."""

    merged_at: float
    shared: int = 0
    own: int = 0
    merging: bool = False


@dataclass(slots=True)
class Counter:
    tallies: dict[Subject, Tally] = field(default_factory=dict)
    minute: int = 0
    rests_until: float = 0
    failing: bool = False
    lock: threading.Lock = field(default_factory=threading.Lock)

    def seconds_to_wait(self, subject: Subject, limit: int) -> int:
        """Counts one request. Zero when it fits into the limit."""
        now = time.time()
        minute = int(now // WINDOW_SECONDS)
        with self.lock:
            tally = self._tally(subject, minute, now)
            fits = tally.shared + tally.own < limit
            tally.own += fits
            share = self._due(tally, limit, now)
        if share:
            self._merge(subject, minute, tally, share, now)
            fits = fits and tally.shared + tally.own <= limit
        return 0 if fits else math.ceil(WINDOW_SECONDS - now % WINDOW_SECONDS)

    def forget(self) -> None:
        with self.lock:
            self.tallies, self.minute, self.rests_until, self.failing = {}, 0, 0, False

    def _tally(self, subject: Subject, minute: int, now: float) -> Tally:
        if minute != self.minute or len(self.tallies) >= MOST_TALLIES:
            self.tallies, self.minute = {}, minute
        return self.tallies.setdefault(subject, Tally(merged_at=now))

    def _due(self, tally: Tally, limit: int, now: float) -> int:
        """The share to add now; the threads that come meanwhile go on with what is known."""
        fresh = 0 <= now - tally.merged_at < MERGE_SECONDS and tally.own * CANNOT_WAIT < limit
        if fresh or tally.merging or now < self.rests_until or tally.own < max(1, limit // WORTH_A_WRITE):
            return 0
        tally.merging, tally.merged_at = True, now
        return tally.own

    def _merge(self, subject: Subject, minute: int, tally: Tally, share: int, now: float) -> None:
        try:
            total = add(subject, minute, share)
        except Error:
            # The share is kept for the next time, and the request goes on: a limit is no reason to fail one.
            if not self.failing:
                logger.warning("Requests are not counted together while the database fails", exc_info=True)
            with self.lock:
                self.failing, self.rests_until = True, now + REST_SECONDS
        else:
            with self.lock:
                tally.shared, tally.own, self.failing = total, tally.own - share, False
        finally:
            tally.merging = False


counter = Counter()


def add(subject: Subject, minute: int, share: int) -> int:
    """One statement: adds to the row, or makes it, and says what it holds now."""
    values = dict(subject.names) | {"minute": minute, "count": share}
    fields: list[Any] = [subject.model._meta.get_field(name) for name in values]
    quote = connection.ops.quote_name
    columns = [quote(one.column) for one in fields]
    count = columns[-1]
    clash = (
        f"ON DUPLICATE KEY UPDATE {count} = {count} + VALUES({count})"
        if connection.vendor == "mysql"
        else f"ON CONFLICT ({', '.join(columns[:-1])}) DO UPDATE SET {count} = {count} + excluded.{count}"
    )
    statement = (
        f"INSERT INTO {quote(subject.model._meta.db_table)} ({', '.join(columns)}) "  # noqa: S608 (names of our own columns)
        f"VALUES ({', '.join(['%s'] * len(columns))}) {clash} RETURNING {count}"
    )
    with connection.cursor() as cursor:
        cursor.execute(
            statement,
            [one.get_db_prep_save(value, connection) for one, value in zip(fields, values.values(), strict=True)],
        )
        # To the end: SQLite has not written before the last row was read.
        ((total,),) = cursor.fetchall()
    return int(total)


def count_request(actor: Actor) -> None:
    """By the key's family, so that a rotation does not double the limit; people by themselves, in each tenant."""
    limit: int = settings.API_RATE_PER_MINUTE
    who = actor.user.pk if actor.user is not None else None
    if actor.key is not None:
        limit = limit if actor.key.rate_per_minute is None else actor.key.rate_per_minute
        who = actor.key.family
    if who is None or not limit:
        return
    subject = Subject(RequestCount, (("tenant", actor.tenant.pk), ("subject", who)))
    if wait := counter.seconds_to_wait(subject, limit):
        whose = "this key" if actor.key is not None else "a person"
        raise exceptions.Throttled(wait, f"Too many requests: {whose} may send {limit:,} a minute.")


def count_wrong_key(address: str) -> None:
    """Only wrong keys are refused for it. A good one passes: many clients may share an address with a bad one."""
    limit: int = settings.API_WRONG_KEYS_PER_MINUTE
    if not limit:
        return
    subject = Subject(RefusedKeyCount, (("address", client_of(address)),))
    if wait := counter.seconds_to_wait(subject, limit):
        raise exceptions.Throttled(wait, f"Too many wrong keys from this address: {limit:,} a minute are answered.")


class RequestsPerMinute(BaseThrottle):
    """Where DRF asks: once the caller is known, before anything else is done."""

    def allow_request(self, request: Request, view: Any) -> bool:
        if isinstance(request.auth, Actor):
            count_request(request.auth)
        return True


def remove_old_counts() -> int:
    """Rows of minutes that are over. By their keys, so that no lock touches a row that is still counted in."""
    oldest = int(time.time() // WINDOW_SECONDS) - KEPT_MINUTES
    removed = 0
    for model in (RequestCount, RefusedKeyCount):
        old = model.objects.filter(minute__lt=oldest)
        while ids := list(old.values_list("pk", flat=True)[:REMOVED_AT_ONCE]):
            removed += model.objects.filter(pk__in=ids).delete()[0]
    return removed
