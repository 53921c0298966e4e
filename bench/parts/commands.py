"""Create, resolve and the cycle of both, over HTTP, with 8 clients: against one insert and one guarded update."""

from dataclasses import dataclass
from typing import Any

from bench.processes import BenchFailed, Server, Worker, running
from bench.report import Result, Sizes, compare
from bench.sites import Ground

CLIENTS = 8
CREATE = {
    "core_id": "refund-agent-0",
    "execution_id": "exec-81f2",
    "flow_name": "refund",
    "block_index": 4,
    "prompt": "Refund EUR 1,240 to Acme?",
    "options": [
        {"id": "approve", "label": "Approve", "variant": "primary"},
        {"id": "reject", "requires_comment": True},
    ],
    "assignee": "group:finance",
    "priority": "high",
    "context": {"order": {"id": 991, "total": 1240}},
    "timeout": "24h",
}
DECIDE = {"decision": "approve", "comment": "As agreed."}
TARGET = 0.65
# The floor answers faster: as many requests as the product gets would be over before they can be measured.
FLOOR_TIMES = 3


@dataclass
class Side:
    """The product or the floor: where it listens, and how one creates and decides there."""

    server: Server
    create: dict[str, Any]
    decide: dict[str, Any]
    times: int = 1

    def job(self, *steps: dict[str, Any], count: int, ids: list[str] | None = None) -> dict[str, Any]:
        return {"port": self.server.port, "clients": CLIENTS, "count": count * self.times, "steps": steps, "ids": ids}


def product_side(server: Server, bearer: dict[str, str]) -> Side:
    headers = bearer | {"Idempotency-Key": "@key@"}
    return Side(
        server,
        {"method": "POST", "path": "/v1/checkpoints", "body": CREATE, "headers": headers, "keeps_id": True},
        {"method": "POST", "path": "/v1/checkpoints/@id@/resolve", "body": DECIDE, "headers": headers},
    )


def floor_side(server: Server) -> Side:
    return Side(
        server,
        {"method": "POST", "path": "/rows", "body": CREATE, "keeps_id": True},
        {"method": "POST", "path": "/rows/@id@/decide", "body": DECIDE},
        times=FLOOR_TIMES,
    )


def ask(load: Worker, job: dict[str, Any]) -> dict[str, Any]:
    answer = load.ask(job)
    if any(int(status) >= 400 for status in answer["statuses"]):
        raise BenchFailed(f"{job['steps'][0]['path']}: {answer['statuses']} {answer['trouble']}")
    return answer


def measure(ground: Ground, sizes: Sizes) -> list[Result]:
    site = ground.small
    product, floor, load = site.product(), site.floor(), Worker("bench.load")
    with running(product, floor, load):
        sides = [product_side(product, site.bearer), floor_side(floor)]
        for side in sides:
            ask(load, side.job(side.create, side.decide, count=CLIENTS * 4))
        rates: dict[str, list[tuple[float, float]]] = {"create": [], "resolve": [], "cycle": []}
        for _ in range(sizes.rounds):
            created = [ask(load, side.job(side.create, count=sizes.requests)) for side in sides]
            decided = [
                ask(load, side.job(side.decide, count=sizes.requests, ids=answer["ids"]))
                for side, answer in zip(sides, created, strict=True)
            ]
            cycled = [ask(load, side.job(side.create, side.decide, count=sizes.requests)) for side in sides]
            for name, answers in (("create", created), ("resolve", decided), ("cycle", cycled)):
                mine, other = (answer["turns"] / answer["seconds"] for answer in answers)
                rates[name].append((mine, other))
    return [
        compare("commands", name, ground.database, pairs=pairs, unit="/s", at_least=TARGET, floor=True)
        for name, pairs in rates.items()
    ]
