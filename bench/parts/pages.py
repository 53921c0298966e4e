"""What a reader waits for at many rows: against the same page at few."""

from collections.abc import Callable
from typing import Any

from bench.parts.commands import ask
from bench.processes import Server, Supervisor, Worker, running
from bench.report import Result, Sizes, compare
from bench.sites import Ground, Site

DESK = "/admin/checkpoints/checkpoint/"
TARGET = 1.5
# A page that is this slow is known to be after one request.
LONGEST_SECONDS = 2
Address = Callable[[Site], str]

# Each with whether it is the API's, and whether the target names it.
PAGES: dict[str, tuple[Address, bool, bool]] = {
    "API list": (lambda site: "/v1/checkpoints", True, True),
    "API list, pending, most urgent first": (lambda site: "/v1/checkpoints?status=pending&order=urgent", True, True),
    "API read one": (lambda site: f"/v1/checkpoints/{site.facts['ids'][0]}", True, True),
    "desk queue": (lambda site: DESK, False, True),
    "desk waiting": (lambda site: f"{DESK}?show=waiting", False, True),
    "desk ended": (lambda site: f"{DESK}?show=ended", False, True),
    "desk all": (lambda site: f"{DESK}?show=all", False, True),
    "desk checkpoint page": (lambda site: f"{DESK}{site.facts['ids'][0]}/change/", False, True),
    "desk search by id": (lambda site: f"{DESK}?show=all&q={site.facts['ids'][0]}", False, True),
    "desk search by execution": (lambda site: f"{DESK}?show=all&q={site.facts['executions'][0]}", False, True),
}


def job(site: Site, server: Server | Supervisor, name: str, count: int) -> dict[str, Any]:
    address, for_programs, _ = PAGES[name]
    headers = site.bearer if for_programs else site.cookie
    step = {"method": "GET", "path": address(site), "headers": headers}
    return {"port": server.port, "clients": 1, "count": count, "steps": [step], "seconds": LONGEST_SECONDS}


def measure(ground: Ground, sizes: Sizes) -> list[Result]:
    large, small = ground.large, ground.small
    servers = {"large": large.product(), "small": small.product()}
    load = Worker("bench.load")
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in PAGES}
    with running(*servers.values(), load):
        for name in PAGES:
            # Both workers of a server have their templates read before anything counts.
            for site, server in ((large, servers["large"]), (small, servers["small"])):
                ask(load, job(site, server, name, 4) | {"clients": 4})
        for _ in range(sizes.rounds):
            for name in PAGES:
                mine = ask(load, job(large, servers["large"], name, sizes.page_requests))
                other = ask(load, job(small, servers["small"], name, sizes.page_requests))
                times[name].append((mine["median_ms"], other["median_ms"]))
    rows = f"{large.rows:,} rows against {small.rows:,}"
    return [
        compare("pages", name, ground.database, pairs=pairs, unit=" ms", at_most=TARGET)
        for name, pairs in times.items()
    ] + [Result("pages", f"filled by seed_scale ({rows})", ground.database, f"{large.facts['seconds']:.0f} s")]
