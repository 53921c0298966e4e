"""One short transaction, tried again where the database asks for that."""

import logging
import random
import time
from collections.abc import Callable
from typing import TypeVar

from django.db import OperationalError, connection, transaction

logger = logging.getLogger(__name__)

Result = TypeVar("Result")
# MariaDB: a row changed under a snapshot, a lock waited for too long, a deadlock. All three mean "once more, from the
# start"; the second one rolls back only its statement, so the transaction is always left as a whole.
ONCE_MORE = {1020, 1205, 1213}
TRIES = 5


def asks_for_another_try(error: OperationalError) -> bool:
    return bool(error.args) and error.args[0] in ONCE_MORE


def attempt(work: Callable[[], Result]) -> Result:
    """Runs ``work`` in a transaction. Inside somebody else's it is part of that one: only the outermost is repeated."""
    if connection.in_atomic_block:
        return work()
    return insistently(lambda: _in_transaction(work))


def _in_transaction(work: Callable[[], Result]) -> Result:
    with transaction.atomic():
        return work()


def insistently(work: Callable[[], Result]) -> Result:
    """Again, with a little patience, as often as the database asks for that."""
    for left in reversed(range(TRIES)):
        try:
            return work()
        except OperationalError as error:
            if not left or not asks_for_another_try(error):
                raise
            logger.info("The database asked for another try (%s)", error.args[0])
            time.sleep(random.uniform(0.005, 0.05))  # noqa: S311 (jitter, not a secret)
    raise AssertionError("unreachable")
