"""Real processes that collide on purpose.

Each racer is ``python -m tests.racing <job>`` with its own connection to the test database. It says when it is ready,
waits at the line until all of them are, and then says in one line of JSON what it met.
"""

import hashlib
import http.client
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

PATIENCE = 60
ROOT = Path(__file__).resolve().parent.parent


def database_url() -> str:
    """The test database of this process, as another process must name it."""
    from django.db import connection

    settings = connection.settings_dict
    if connection.vendor == "sqlite":
        return f"sqlite:///{quote(str(settings['NAME']))}"
    name = quote(settings["USER"], safe="")
    if settings["PASSWORD"]:
        name += ":" + quote(settings["PASSWORD"], safe="")
    host = (settings["HOST"] or "localhost") + (f":{settings['PORT']}" if settings["PORT"] else "")
    socket = settings["OPTIONS"].get("unix_socket")
    query = f"?unix_socket={quote(socket, safe='')}" if socket else ""
    return f"mysql://{name}@{host}/{quote(settings['NAME'])}{query}"


class Racer:
    def __init__(self, job: str, orders: dict[str, Any]) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.racing", job],
            cwd=os.getcwd(),
            env=os.environ | {"DATABASE_URL": database_url(), "LOG_LEVEL": "ERROR"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._tell(json.dumps(orders, default=str))

    def _tell(self, line: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def hear(self) -> str:
        assert self.process.stdout is not None
        line = self.process.stdout.readline().strip()
        if not line:
            _, errors = self.process.communicate(timeout=PATIENCE)
            raise AssertionError(f"A racer gave up:\n{errors}")
        return line

    def wait_at_the_line(self) -> None:
        assert self.hear() == "ready"

    def go(self) -> None:
        self._tell("go")

    def result(self) -> Any:
        found = json.loads(self.hear())
        assert self.process.wait(PATIENCE) == 0
        return found

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(PATIENCE)

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate()


class Race:
    """Everybody waits at the line until all are there."""

    def __init__(self) -> None:
        self.racers: list[Racer] = []

    def __enter__(self) -> "Race":
        return self

    def __exit__(self, *_: object) -> None:
        for racer in self.racers:
            racer.close()

    def enter(self, job: str, **orders: Any) -> Racer:
        racer = Racer(job, orders)
        self.racers.append(racer)
        return racer

    def start(self, *, laps: int = 1) -> None:
        """Several laps are several starts: with one, whoever is quickest may have it all before the others wake up."""
        for _ in range(laps):
            for racer in self.racers:
                racer.wait_at_the_line()
            for racer in self.racers:
                racer.go()

    def results(self) -> list[Any]:
        self.start()
        return [racer.result() for racer in self.racers]


# --- In the other process -------------------------------------------------------------------------------------------


def met(act: Callable[[], Any]) -> str:
    """What came of it, in a word: ``won``, the refusal's code, or the name of what should never get out."""
    from checkpoints.errors import Refusal

    try:
        act()
    except Refusal as refusal:
        return refusal.code
    except Exception as error:  # noqa: BLE001 (named to the test, which fails on it)
        return f"{type(error).__name__}: {error}"
    return "won"


def each(orders: dict[str, Any], act: Callable[[Any, Any], Any]) -> dict[str, str]:
    """The rows as they were read before the start: the worst case for whoever is late."""
    from checkpoints.models import Checkpoint
    from tenants import actors
    from tenants.models import User

    user = User.objects.get(email=orders["email"])
    laps = orders.get("laps") or [orders["ids"]]
    rows = Checkpoint.objects.select_related("core", "tenant").in_bulk([key for lap in laps for key in lap])
    found = {str(key): row for key, row in rows.items()}
    outcomes = {}
    for lap in laps:
        line_up()
        for key in lap:
            row = found[key]
            outcomes[key] = met(lambda row=row: act(row, actors.person(user, row.tenant, via="admin")))  # type: ignore[misc]
    return outcomes


def line_up() -> None:
    print("ready", flush=True)
    assert sys.stdin.readline().strip() == "go"


def decide(orders: dict[str, Any]) -> dict[str, str]:
    from checkpoints import lifecycle
    from checkpoints.answers import Answer

    return each(orders, lambda row, actor: lifecycle.resolve(row, actor=actor, answer=Answer(orders["decision"])))


def claim(orders: dict[str, Any]) -> dict[str, str]:
    from checkpoints import lifecycle

    return each(orders, lambda row, actor: lifecycle.claim(row, actor=actor))


def comment(orders: dict[str, Any]) -> dict[str, str]:
    from checkpoints import lifecycle

    return each(orders, lambda row, actor: lifecycle.comment(row, actor=actor, text="Me too."))


def create(orders: dict[str, Any]) -> list[str]:
    """The same new cores, and the same older checkpoints to supersede, by everybody at once."""
    from checkpoints import lifecycle
    from tenants import actors
    from tenants.models import ApiKey

    actor = actors.program(ApiKey.objects.select_related("tenant").get(pk=orders["key"]))
    line_up()
    return [
        met(lambda draft=draft: lifecycle.create(lifecycle.Draft(**draft), actor=actor))  # type: ignore[misc]
        for draft in orders["drafts"]
    ]


def sweep(orders: dict[str, Any]) -> dict[str, int]:
    from checkpoints import sweeps

    done = failed = 0
    for now in orders.get("laps") or [orders["now"]]:
        line_up()
        outcome = sweeps.expire_checkpoints(now=datetime.fromisoformat(now), batch=orders["batch"])
        done, failed = done + outcome.done, failed + outcome.failed
    return {"done": done, "failed": failed}


def sweep_and_hang(orders: dict[str, Any]) -> None:
    """Stops for ever inside its second batch, with everything changed and nothing committed."""
    from checkpoints import sweeps
    from checkpoints.lifecycle import expiring

    swap_many, batches = expiring.swap_many, iter(range(2))

    def hang(*args: Any, **kwargs: Any) -> None:
        swap_many(*args, **kwargs)
        if next(batches) == 1:
            print("hanging", flush=True)
            signal.pause()

    expiring.swap_many = hang
    line_up()
    sweeps.expire_checkpoints(now=datetime.fromisoformat(orders["now"]), batch=orders["batch"])


def repeat(orders: dict[str, Any]) -> list[Any]:
    """The same requests with the same Idempotency-Keys as everybody else; one start each, so that they meet."""
    from tests.api_client import ApiClient

    api = ApiClient(secret=orders["secret"])
    told = []
    for path, key, body in orders["requests"]:
        line_up()
        response = api.request("POST", path, body, Idempotency_Key=key)
        told.append([response.status_code, response.content.decode()])
    return told


def call(orders: dict[str, Any]) -> list[int]:
    """So many requests at each of the moments; how many of them were let through."""
    import time_machine

    from tests.api_client import ApiClient

    api = ApiClient(secret=orders["secret"])
    passed = []
    for moment in orders["moments"]:
        line_up()
        with time_machine.travel(moment, tick=False):
            passed.append(sum(api.list(page_size=1).status_code == 200 for _ in range(orders["requests"])))
    return passed


def add_up(orders: dict[str, Any]) -> int:
    """One by one into the same row, as often as can be."""
    from tenants import limits
    from tenants.models import RequestCount

    subject = limits.Subject(RequestCount, (("tenant", orders["tenant"]), ("subject", orders["subject"])))
    line_up()
    return [limits.add(subject, orders["minute"], 1) for _ in range(orders["times"])][-1]


def post(orders: dict[str, Any]) -> list[list[Any]]:
    """Requests over real HTTP, each at its moment where it has one: status, fingerprint of the body, code of a problem.

    A connection each: one that the server has just given up must not look like an answer.
    """
    told = []
    for lap in orders["laps"]:
        line_up()
        for asked in lap:
            if "at" in asked:
                time.sleep(max(0.0, asked["at"] - time.time()))
            connection = http.client.HTTPConnection("127.0.0.1", orders["port"], timeout=PATIENCE)
            connection.request("POST", asked["path"], asked["body"], orders["headers"] | asked.get("headers", {}))
            response = connection.getresponse()
            content = response.read()
            connection.close()
            problem = response.getheader("Content-Type", "").startswith("application/problem+json")
            code = json.loads(content)["code"] if problem else ""
            told.append([response.status, hashlib.sha256(content).hexdigest(), code])
    return told


def sweep_until(orders: dict[str, Any]) -> dict[str, int]:
    """By the real clock, again and again, and once more when the moment has come."""
    from checkpoints import sweeps

    done = failed = 0
    line_up()
    over = False
    while not over:
        over = time.time() > orders["end"]
        outcome = sweeps.expire_checkpoints(batch=orders["batch"])
        done, failed = done + outcome.done, failed + outcome.failed
        # SQLite hands its one lock to nobody in particular: whoever never lets go would always be first.
        time.sleep(0.01)
    return {"done": done, "failed": failed}


def guess(orders: dict[str, Any]) -> list[int]:
    from django.test import Client, override_settings

    tries = []
    with override_settings(PASSWORD_HASHERS=["django.contrib.auth.hashers.MD5PasswordHasher"]):
        for password in orders["passwords"]:
            line_up()
            form = {"username": orders["email"], "password": password}
            tries.append(Client(REMOTE_ADDR=orders["address"]).post("/admin/login/", form).status_code)
    return tries


def distribute(orders: dict[str, Any]) -> int:
    from checkpoints import distribution

    line_up()
    return distribution.distribute_events(batch=orders["batch"]).done


def lease(orders: dict[str, Any]) -> list[bool]:
    """The same deliveries as everybody else, one start each."""
    import uuid

    from notifications import deliveries

    gained = []
    for key, moment in orders["due"]:
        line_up()
        gained.append(deliveries.claim(uuid.UUID(key), datetime.fromisoformat(moment)) is not None)
    return gained


JOBS: dict[str, Callable[[dict[str, Any]], Any]] = {
    "add_up": add_up,
    "call": call,
    "decide": decide,
    "guess": guess,
    "claim": claim,
    "comment": comment,
    "create": create,
    "distribute": distribute,
    "lease": lease,
    "post": post,
    "repeat": repeat,
    "sweep": sweep,
    "sweep_and_hang": sweep_and_hang,
    "sweep_until": sweep_until,
}


def main(arguments: Sequence[str]) -> None:
    import django

    django.setup()
    orders = json.loads(sys.stdin.readline())
    print(json.dumps(JOBS[arguments[0]](orders)), flush=True)


def keys(rows: Iterable[Any]) -> list[str]:
    return [str(row.pk) for row in rows]


if __name__ == "__main__":
    main(sys.argv[1:])
