"""What is asked of the product without HTTP: ``python -m bench.product``, commands in JSON on standard input."""

import io
import json
import os
import sys
import time
from collections.abc import Callable
from datetime import datetime
from typing import Any

TENANT = "scale"
SAMPLE = 20


def prepare(*, rows: int, due: int) -> dict[str, Any]:
    """A migrated database with so many rows, and what one needs to ask for them."""
    from django.core.management import call_command

    from checkpoints.models import Checkpoint
    from tenants import keys
    from tenants.models import Tenant, User

    call_command("migrate", verbosity=0)
    started = time.perf_counter()
    call_command("seed_scale", rows=rows, due=due, tenant=TENANT, stdout=io.StringIO())
    seconds = time.perf_counter() - started
    tenant = Tenant.objects.get(slug=TENANT)
    # All of one kind, so that pages of few and of many rows show the same amount.
    newest = Checkpoint.objects.for_tenant(tenant).pending().filter(assignee_type="group").newest_first()
    return {
        "seconds": seconds,
        "key": keys.create(tenant, name="bench").secret,
        "cookie": session_of(User.objects.get(email=f"admin@{TENANT}.example")),
        "ids": [str(identity) for identity in newest.values_list("pk", flat=True)[:SAMPLE]],
        "executions": list(newest.values_list("execution_id", flat=True)[:SAMPLE]),
    }


def session_of(user: Any) -> str:
    from django.conf import settings
    from django.contrib.auth import BACKEND_SESSION_KEY, HASH_SESSION_KEY, SESSION_KEY
    from django.contrib.sessions.backends.db import SessionStore

    session = SessionStore()
    session[SESSION_KEY] = str(user.pk)
    session[BACKEND_SESSION_KEY] = settings.AUTHENTICATION_BACKENDS[-1]
    session[HASH_SESSION_KEY] = user.get_session_auth_hash()
    session.create()
    return f"{settings.SESSION_COOKIE_NAME}={session.session_key}"


def moment_when_due(*, rows: int) -> dict[str, Any]:
    """The "now" at which exactly so many of the rows that are left have become due."""
    from django.utils import timezone

    from checkpoints.models import Checkpoint

    due = Checkpoint.objects.due(timezone.now()).order_by("expires_at").values_list("expires_at", flat=True)
    found = list(due[:rows])
    if len(found) < rows:
        raise ValueError(f"Only {len(found)} rows are left that are due.")
    return {"at": found[-1].isoformat()}


def sweep(*, at: str) -> dict[str, Any]:
    return counted(expire, at)


def expire(now: datetime) -> int:
    from checkpoints import sweeps

    return sweeps.expire_checkpoints(now=now).done


def reroute(*, at: str) -> dict[str, Any]:
    from checkpoints import sweeps

    return counted(lambda now: sweeps.reroute(now=now).done, at)


def counted(work: Any, at: str) -> dict[str, Any]:
    from django.db import connection

    queries = 0

    def count(execute: Any, *arguments: Any) -> Any:
        nonlocal queries
        queries += 1
        return execute(*arguments)

    started = time.perf_counter()
    with connection.execute_wrapper(count):
        done = work(datetime.fromisoformat(at))
    return {"seconds": time.perf_counter() - started, "done": done, "queries": queries}


COMMANDS: dict[str, Callable[..., dict[str, Any]]] = {
    "prepare": prepare,
    "moment_when_due": moment_when_due,
    "sweep": sweep,
    "reroute": reroute,
}


def main() -> None:
    import django

    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
    django.setup()
    for line in sys.stdin:
        given = json.loads(line)
        try:
            answer = COMMANDS[given.pop("do")](**given)
        except Exception as error:  # noqa: BLE001 (whoever asked shall hear of it)
            answer = {"failed": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
