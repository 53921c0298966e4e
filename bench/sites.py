"""Where is measured: a small and a large database of each kind, made for this run and gone after it."""

import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

from bench.processes import FLOOR, Server, Worker, floor_environment, product_environment, running
from bench.report import Sizes
from tests.mariadb import throwaway_mariadb

# A server that keeps what it works on in memory, as one in production does.
POOL_BYTES = 1 << 30


@dataclass
class Site:
    url: str
    rows: int
    due: int = 0
    facts: dict[str, Any] = field(default_factory=dict)
    has_floor: bool = False

    def prepare(self) -> "Site":
        if not self.facts:
            worker = self.product_worker()
            with running(worker):
                self.facts = worker.ask({"do": "prepare", "rows": self.rows, "due": self.due})
        return self

    def product(self) -> Server:
        return Server(product_environment(self.url))

    def floor(self) -> Server:
        if not self.has_floor:
            tables = self.floor_worker()
            with running(tables):
                tables.ask("tables")
            self.has_floor = True
        return Server(floor_environment(self.url), application=FLOOR)

    def product_worker(self) -> Worker:
        return Worker("bench.product", product_environment(self.url))

    def floor_worker(self) -> Worker:
        return Worker("bench.floor.worker", floor_environment(self.url))

    @property
    def bearer(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.facts['key']}"}

    @property
    def cookie(self) -> dict[str, str]:
        return {"Cookie": self.facts["cookie"]}


@dataclass
class Ground:
    """One kind of database: the small site, and the large one where a part needs it."""

    database: str
    small: Site
    large: Site


@contextmanager
def grounds(databases: list[str], sizes: Sizes, *, with_large: bool) -> Iterator[list[Ground]]:
    with ExitStack() as stack:
        made = [stack.enter_context(KINDS[name](sizes)) for name in databases]
        sites = [site for ground in made for site in ([ground.large] if with_large else []) + [ground.small]]
        # Filling is for the most part one process's work: two at a time take half as long.
        with ThreadPoolExecutor(2) as pool:
            list(pool.map(Site.prepare, sites))
        yield made


@contextmanager
def sqlite(sizes: Sizes) -> Iterator[Ground]:
    with tempfile.TemporaryDirectory(prefix="holdpoint-bench-") as directory:
        yield Ground(
            "SQLite",
            Site(f"sqlite:///{directory}/small.sqlite3", sizes.small_rows),
            Site(f"sqlite:///{directory}/large.sqlite3", sizes.large_rows, sizes.due_rows),
        )


@contextmanager
def mariadb(sizes: Sizes) -> Iterator[Ground]:
    with throwaway_mariadb() as url:
        large_url = url.replace("/holdpoint?", "/holdpoint_large?")
        prepare_server(url)
        yield Ground(
            "MariaDB",
            Site(url, sizes.small_rows),
            Site(large_url, sizes.large_rows, sizes.due_rows),
        )


def prepare_server(url: str) -> None:
    from urllib.parse import parse_qs, urlsplit

    import MySQLdb

    connection = MySQLdb.connect(user="root", unix_socket=parse_qs(urlsplit(url).query)["unix_socket"][0])
    with connection.cursor() as cursor:
        cursor.execute("CREATE DATABASE holdpoint_large CHARACTER SET utf8mb4 COLLATE utf8mb4_unicode_ci")
        cursor.execute(f"SET GLOBAL innodb_buffer_pool_size = {POOL_BYTES}")
    connection.close()


KINDS: dict[str, Any] = {"sqlite": sqlite, "mariadb": mariadb}
