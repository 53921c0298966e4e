"""The expiry sweep: against the batched update, two sweepers against one, and with nothing to do."""

import json
from datetime import UTC, datetime
from statistics import median

from bench.processes import BenchFailed, Worker, running
from bench.report import Result, Sizes, compare, shown
from bench.sites import Ground

TARGET = 0.25
# Two that are as fast as one, within what the machine blurs.
TWO_SWEEPERS = 0.95
MOST_QUERIES = 5
MOST_QUERIES_OF_REROUTE = 8
LONG_AGO = datetime(2000, 1, 1, tzinfo=UTC).isoformat()


def measure(ground: Ground, sizes: Sizes) -> list[Result]:
    site = ground.large
    one, two, floor = site.product_worker(), site.product_worker(), site.floor_worker()
    with running(one, two, floor):
        floor.ask("sweep 0")
        # The first look of a process opens its connection and reads its code.
        for worker in (one, two):
            worker.ask({"do": "sweep", "at": LONG_AGO})
        empty = [one.ask({"do": "sweep", "at": LONG_AGO}) for _ in range(sizes.rounds)]
        single: list[tuple[float, float]] = []
        double: list[tuple[float, float]] = []
        for _ in range(sizes.rounds):
            alone = swept([one], sizes.due)
            batched = floor.ask(f"sweep {sizes.due}")
            if batched["done"] != sizes.due:
                raise BenchFailed(f"The floor ended {batched['done']} of {sizes.due}.")
            single.append((alone, sizes.due / batched["seconds"]))
            double.append((swept([one, two], sizes.due), alone))
        now = datetime.now(UTC).isoformat()
        rerouted = [one.ask({"do": "reroute", "at": now}) for _ in range(sizes.rounds)]
    queries = max(look["queries"] for look in empty)
    name = f"{sizes.due:,} due among {site.rows:,}"
    return [
        compare("sweep", name, ground.database, pairs=single, unit=" rows/s", at_least=TARGET, floor=True),
        compare(
            "sweep", "two sweepers against one", ground.database, pairs=double, unit=" rows/s", at_least=TWO_SWEEPERS
        ),
        Result(
            "sweep",
            "nothing due",
            ground.database,
            measured=f"{queries} queries, {shown(1000 * median(look['seconds'] for look in empty), ' ms')}",
            target=f"≤ {MOST_QUERIES} queries",
            met=queries <= MOST_QUERIES,
        ),
        Result(
            "sweep",
            "reroute with nothing to do",
            ground.database,
            measured=f"{rerouted[-1]['queries']} queries, "
            + shown(1000 * median(look["seconds"] for look in rerouted), " ms"),
            target=f"≤ {MOST_QUERIES_OF_REROUTE} queries",
            met=rerouted[-1]["queries"] <= MOST_QUERIES_OF_REROUTE,
        ),
    ]


def swept(sweepers: list[Worker], rows: int) -> float:
    """Rows a second, from the first start to the last end."""
    at = sweepers[0].ask({"do": "moment_when_due", "rows": rows})["at"]
    for sweeper in sweepers:
        sweeper.tell(json.dumps({"do": "sweep", "at": at}))
    answers = [sweeper.hear() for sweeper in sweepers]
    if sum(answer["done"] for answer in answers) != rows:
        raise BenchFailed(f"{rows} were due, and the sweepers ended {[answer['done'] for answer in answers]}.")
    seconds: float = max(answer["seconds"] for answer in answers)
    return rows / seconds
