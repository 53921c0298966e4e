"""Web and worker as `make run` starts them, after a few requests, doing nothing."""

import time

from bench.parts.commands import ask
from bench.parts.pages import PAGES, job
from bench.processes import Supervisor, Worker, resident_mib, running
from bench.report import Result, Sizes
from bench.sites import Ground

MOST_MIB = 300
SETTLE_SECONDS = 2


def measure(ground: Ground, sizes: Sizes) -> list[Result]:
    site = ground.small
    everything, load = Supervisor(site.url), Worker("bench.load")
    with running(everything, load):
        for name in PAGES:
            # A process that has served nobody has not read half of its code yet.
            ask(load, job(site, everything, name, 8) | {"clients": 8})
        time.sleep(SETTLE_SECONDS)
        mib = resident_mib(everything.process.pid)
    return [
        Result(
            "memory",
            "web and worker, idle",
            ground.database,
            measured=f"{mib:.0f} MiB",
            target=f"≤ {MOST_MIB} MiB",
            met=mib <= MOST_MIB,
        )
    ]
