"""Read one, and the first page of 50: against a bare DRF view that gives the same bytes from one query."""

import http.client
import json
from typing import Any

from bench.parts.commands import ask
from bench.processes import BenchFailed, Worker, running
from bench.report import Result, Sizes, compare
from bench.sites import Ground

CLIENTS = 8
PAGE = "/v1/checkpoints?page_size=50"
TARGET = 0.8


def fetch(
    port: int, path: str, headers: dict[str, str] | None = None, *, method: str = "GET", body: bytes | None = None
) -> bytes:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    given = {"Host": f"localhost:{port}", "Content-Type": "application/json"} | (headers or {})
    connection.request(method, path, body, given)
    answer = connection.getresponse()
    text = answer.read()
    connection.close()
    if answer.status != http.client.OK:
        raise BenchFailed(f"{path}: {answer.status} {text[:200]!r}")
    return text


def job(port: int, path: str, count: int, headers: dict[str, str] | None = None) -> dict[str, Any]:
    step = {"method": "GET", "path": path, "headers": headers or {}}
    return {"port": port, "clients": CLIENTS, "count": count, "steps": [step]}


def measure(ground: Ground, sizes: Sizes) -> list[Result]:
    site = ground.small
    product, floor, load = site.product(), site.floor(), Worker("bench.load")
    with running(product, floor, load):
        page = fetch(product.port, PAGE, site.bearer)
        identity = json.loads(page)["results"][0]["id"]
        fetch(floor.port, "/documents", method="PUT", body=page)
        one = fetch(product.port, f"/v1/checkpoints/{identity}", site.bearer)
        if (fetch(floor.port, "/documents"), fetch(floor.port, "/documents/1")) != (page, one):
            raise BenchFailed("The floor does not answer with the same bytes.")
        ways = {
            "one": (f"/v1/checkpoints/{identity}", "/documents/1", sizes.requests),
            "list, first page of 50": (PAGE, "/documents", max(8, sizes.requests // 4)),
        }
        rates: dict[str, list[tuple[float, float]]] = {name: [] for name in ways}
        for round_number in range(-1, sizes.rounds):
            for name, (mine, other, count) in ways.items():
                answers = [
                    ask(load, job(product.port, mine, count, site.bearer)),
                    ask(load, job(floor.port, other, count)),
                ]
                # The first round only warms up.
                if round_number >= 0:
                    first, second = (answer["turns"] / answer["seconds"] for answer in answers)
                    rates[name].append((first, second))
    return [
        compare("reads", name, ground.database, pairs=pairs, unit="/s", at_least=TARGET, floor=True)
        for name, pairs in rates.items()
    ]
