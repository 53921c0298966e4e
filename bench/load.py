"""The load generator: ``python -m bench.load``, one job in JSON per line of standard input, one answer per line.

A process of its own, with one thread that serves all connections: so little work per request that it takes nothing
from the servers it measures. Connections stay open, as those of a client library do.
"""

import json
import selectors
import socket
import sys
import time
import uuid
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

ID, KEY = b"@id@", b"@key@"
GIVE_UP_SECONDS = 120
UUID_LENGTH = 36


def request_template(step: dict[str, Any], port: int) -> bytes:
    """Everything but the id and the idempotency key, which have the same length in every request."""
    body = b"" if step.get("body") is None else json.dumps(step["body"]).encode()
    lines = [f"{step['method']} {step['path']} HTTP/1.1", f"Host: localhost:{port}"]
    lines += [f"{name}: {value}" for name, value in step.get("headers", {}).items()]
    if step["method"] != "GET":
        lines += ["Content-Type: application/json", f"Content-Length: {len(body)}"]
    return "\r\n".join([*lines, "", ""]).encode() + body


@dataclass
class Outcome:
    latencies: list[float] = field(default_factory=list)
    statuses: Counter[int] = field(default_factory=Counter)
    ids: list[str] = field(default_factory=list)
    locked: int = 0
    trouble: str = ""


class Client:
    """One connection that works through turns, each one or several requests, one after the other."""

    def __init__(self, job: dict[str, Any], turns: Iterator[bytes], outcome: Outcome) -> None:
        self.templates = [request_template(step, job["port"]) for step in job["steps"]]
        self.keeps_id = [bool(step.get("keeps_id")) for step in job["steps"]]
        self.port = job["port"]
        self.turns, self.outcome = turns, outcome
        self.connect()
        self.identity, self.step = b"", len(self.templates)
        self.received, self.sent_at = b"", 0.0

    def connect(self) -> None:
        self.socket = socket.create_connection(("127.0.0.1", self.port), timeout=GIVE_UP_SECONDS)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def send_next(self) -> bool:
        if self.step >= len(self.templates):
            identity = next(self.turns, None)
            if identity is None:
                return False
            self.identity, self.step = identity, 0
        self.received = b""
        self.sent_at = time.perf_counter()
        self.socket.sendall(self.filled(self.templates[self.step]))
        return True

    def filled(self, template: bytes) -> bytes:
        return template.replace(ID, self.identity).replace(KEY, uuid.uuid4().hex.encode())

    def receive(self) -> bool:
        """True once the whole answer is there."""
        part = self.socket.recv(1 << 18)
        if not part:
            raise ConnectionError(f"The server hung up after {self.received[:200]!r}")
        self.received += part
        head, separator, body = self.received.partition(b"\r\n\r\n")
        if not separator or not is_whole(head.lower(), body):
            return False
        self.note(int(head[9:12]), body)
        return True

    def note(self, status: int, body: bytes) -> None:
        outcome = self.outcome
        outcome.latencies.append(time.perf_counter() - self.sent_at)
        outcome.statuses[status] += 1
        if status >= 400:
            outcome.locked += b"locked" in body
            outcome.trouble = outcome.trouble or body[:500].decode(errors="replace")
        elif self.keeps_id[self.step]:
            start = body.index(b'"id":"') + 6
            self.identity = body[start : start + UUID_LENGTH]
            outcome.ids.append(self.identity.decode())
        self.step += 1


def is_whole(head: bytes, body: bytes) -> bool:
    if (place := head.find(b"content-length:")) >= 0:
        length = int(head[place + 15 :].partition(b"\r\n")[0])
        return len(body) >= length
    if b"transfer-encoding: chunked" in head:
        return body.endswith(b"0\r\n\r\n")
    return True


def turns_of(job: dict[str, Any]) -> Iterator[bytes]:
    """The id for each turn, or nothing; fewer than asked for where that would take longer than somebody waits."""
    given: list[str] = job.get("ids") or []
    until = time.perf_counter() + job.get("seconds", GIVE_UP_SECONDS)
    for number in range(job["count"]):
        if time.perf_counter() > until:
            return
        yield given[number % len(given)].encode() if given else b""


def run(job: dict[str, Any]) -> dict[str, Any]:
    outcome = Outcome()
    turns = turns_of(job)
    clients = [Client(job, turns, outcome) for _ in range(min(job["clients"], job["count"]))]
    with selectors.DefaultSelector() as selector:
        started = time.perf_counter()
        for client in clients:
            if client.send_next():
                selector.register(client.socket, selectors.EVENT_READ, client)
        while selector.get_map():
            for key, _ in selector.select(GIVE_UP_SECONDS):
                if key.data.receive() and not key.data.send_next():
                    selector.unregister(key.fileobj)
            if time.perf_counter() - started > GIVE_UP_SECONDS:
                raise TimeoutError(f"Not done after {GIVE_UP_SECONDS} s: {outcome.statuses}")
        seconds = time.perf_counter() - started
    for client in clients:
        client.socket.close()
    ordered = sorted(outcome.latencies)
    return {
        "seconds": seconds,
        "turns": len(ordered) // len(job["steps"]),
        "statuses": {str(status): number for status, number in outcome.statuses.items()},
        "median_ms": 1000 * ordered[len(ordered) // 2],
        "p99_ms": 1000 * ordered[min(len(ordered) - 1, int(len(ordered) * 0.99))],
        "ids": outcome.ids,
        "locked": outcome.locked,
        "trouble": outcome.trouble,
    }


def main() -> None:
    for line in sys.stdin:
        try:
            answer = run(json.loads(line))
        except (OSError, ValueError) as error:
            answer = {"failed": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
