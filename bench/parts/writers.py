"""8 writers on one SQLite file: nobody may be told that it is locked."""

from bench.parts.commands import CLIENTS, product_side
from bench.processes import Worker, running
from bench.report import Result, Sizes
from bench.sites import Ground


def measure(ground: Ground, sizes: Sizes) -> list[Result]:
    site = ground.small
    product, load = site.product(), Worker("bench.load")
    with running(product, load):
        side = product_side(product, site.bearer)
        answer = load.ask(side.job(side.create, side.decide, count=sizes.cycles))
        locked = answer["locked"] + product.complaints().count("locked")
    failed = sum(number for status, number in answer["statuses"].items() if int(status) >= 400)
    return [
        Result(
            "writers",
            f"{CLIENTS} at once, {sizes.cycles:,} cycles",
            ground.database,
            measured=f"{failed} refused or failed, {locked} locked; "
            f"{sizes.cycles / answer['seconds']:.0f} cycles/s, p99 {answer['p99_ms']:.0f} ms",
            target="no 5xx, no “locked”",
            met=not failed and not locked,
            note=answer["trouble"],
        )
    ]
