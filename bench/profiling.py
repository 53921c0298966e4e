"""Where the time of a request goes: ``python -m bench.profiling``. cProfile around the application, and queries."""

import argparse
import cProfile
import io
import json
import os
import pstats
import sys
import tempfile
import time
import uuid
from collections import Counter
from typing import Any

from bench.parts.commands import CREATE, DECIDE
from bench.processes import product_environment

WARM_UP = 20


class Caller:
    """Calls the application as the server does, without the server."""

    def __init__(self, application: Any, bearer: str) -> None:
        self.application, self.bearer = application, bearer

    def call(self, method: str, path: str, body: Any = None) -> Any:
        text = b"" if body is None else json.dumps(body).encode()
        route, _, query = path.partition("?")
        environ = {
            "REQUEST_METHOD": method,
            "PATH_INFO": route,
            "QUERY_STRING": query,
            "SERVER_NAME": "localhost",
            "SERVER_PORT": "80",
            "SERVER_PROTOCOL": "HTTP/1.1",
            "HTTP_HOST": "localhost",
            "HTTP_AUTHORIZATION": f"Bearer {self.bearer}",
            "HTTP_IDEMPOTENCY_KEY": uuid.uuid4().hex,
            "REMOTE_ADDR": "127.0.0.1",
            "CONTENT_LENGTH": str(len(text)),
            "CONTENT_TYPE": "application/json",
            "wsgi.input": io.BytesIO(text),
            "wsgi.errors": sys.stderr,
            "wsgi.url_scheme": "http",
            "wsgi.multithread": True,
        }
        statuses: list[str] = []
        answer = self.application(environ, lambda status, headers: statuses.append(status))
        content = b"".join(answer)
        answer.close()
        if not statuses[0].startswith("2"):
            raise RuntimeError(f"{path}: {statuses[0]} {content[:300]!r}")
        return json.loads(content)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.profiling", description=__doc__)
    parser.add_argument("--requests", type=int, default=300)
    parser.add_argument("--lines", type=int, default=30)
    parser.add_argument("--sort", default="tottime", help="tottime or cumulative")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="holdpoint-profile-") as directory:
        url = os.environ.get("DATABASE_URL") or f"sqlite:///{directory}/profile.sqlite3"
        os.environ.update(product_environment(url))
        import django

        django.setup()
        from bench.product import prepare

        facts = prepare(rows=1000, due=0)
        from config.wsgi import application

        caller = Caller(application, facts["key"])
        identity = facts["ids"][0]
        created = [caller.call("POST", "/v1/checkpoints", CREATE)["id"] for _ in range(WARM_UP + 2 * given.requests)]
        ways = {
            "create": lambda number: caller.call("POST", "/v1/checkpoints", CREATE),
            "resolve": lambda number: caller.call("POST", f"/v1/checkpoints/{created.pop()}/resolve", DECIDE),
            "read one": lambda number: caller.call("GET", f"/v1/checkpoints/{identity}"),
            "list": lambda number: caller.call("GET", "/v1/checkpoints?page_size=50"),
        }
        for name, work in ways.items():
            show(name, work, given.requests, given.lines, given.sort)


def show(name: str, work: Any, requests: int, lines: int, sort: str) -> None:
    statements = queries_of(work)
    # Of this process alone: what else the machine does is not counted.
    started = time.process_time()
    for number in range(requests // 2):
        work(number)
    plain = (time.process_time() - started) / (requests // 2)
    profile = cProfile.Profile()
    profile.enable()
    for number in range(requests):
        work(number)
    profile.disable()
    print(f"\n── {name}: {1000 * plain:.2f} ms of CPU, {sum(statements.values())} statements ──")
    for statement, times in statements.items():
        print(f"  {times} x {statement}")
    text = io.StringIO()
    pstats.Stats(profile, stream=text).sort_stats(sort).print_stats(lines)
    print(text.getvalue().partition("ncalls")[2])


def queries_of(work: Any) -> Counter[str]:
    from django.db import connection

    statements: Counter[str] = Counter()

    def note(execute: Any, sql: str, *arguments: Any) -> Any:
        statements[sql.partition("FROM")[2][:60] if sql.startswith("SELECT") else sql[:60]] += 1
        return execute(sql, *arguments)

    work(0)
    with connection.execute_wrapper(note):
        work(1)
    return statements


if __name__ == "__main__":
    main()
