"""``make bench``: floor and product in the same run, one after the other in turns, on SQLite and on MariaDB."""

import argparse
import sys
import time
from pathlib import Path

from bench.parts import NEEDS_LARGE, ONLY_ON_SQLITE, PARTS
from bench.processes import BenchFailed
from bench.report import Result, Sizes, table, write
from bench.sites import KINDS, grounds
from config.supervisor import ROOT
from tests.mariadb import MariaDBUnavailable, termination_as_exit

JSON = ROOT / "var" / "bench.json"
FEWEST_ROUNDS = 5


def run(parts: list[str], databases: list[str], sizes: Sizes) -> list[Result]:
    results: list[Result] = []
    with grounds(databases, sizes, with_large=bool(NEEDS_LARGE & set(parts))) as made:
        say(f"The databases are ready: {sizes.small_rows:,} and {sizes.large_rows:,} rows.")
        for part in parts:
            for ground in made:
                if part in ONLY_ON_SQLITE and ground.database != "SQLite":
                    continue
                say(f"{part} on {ground.database}")
                results += PARTS[part](ground, sizes)
    return results


def say(sentence: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {sentence}", file=sys.stderr, flush=True)


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--only", default="", help=f"some of: {', '.join(PARTS)}")
    parser.add_argument("--databases", default=",".join(KINDS))
    parser.add_argument("--rows", type=int, default=Sizes.large_rows, help="rows of the large database")
    parser.add_argument("--due", type=int, default=Sizes.due, help="due rows of one sweep")
    parser.add_argument("--rounds", type=int, default=Sizes.rounds)
    parser.add_argument("--requests", type=int, default=Sizes.requests, help="requests of one round")
    parser.add_argument("--cycles", type=int, default=Sizes.cycles, help="cycles of the 8 writers")
    parser.add_argument("--json", type=Path, default=JSON)
    return parser.parse_args()


def words(given: str, known: list[str]) -> list[str]:
    chosen = [word.strip() for word in given.split(",") if word.strip()] or known
    if wrong := set(chosen) - set(known):
        sys.exit(f"Unknown: {', '.join(sorted(wrong))}. Known: {', '.join(known)}.")
    return chosen


def main() -> int:
    given = options()
    sizes = Sizes(
        large_rows=given.rows,
        # No more than a fifth of the rows: the rest is what the sweep must not look at.
        due=min(given.due, max(1, given.rows // (15 * given.rounds))),
        rounds=given.rounds,
        requests=given.requests,
        cycles=given.cycles,
    )
    parts, databases = words(given.only, list(PARTS)), words(given.databases, list(KINDS))
    started = time.monotonic()
    try:
        with termination_as_exit():
            results = run(parts, databases, sizes)
    except (BenchFailed, MariaDBUnavailable) as problem:
        print(problem, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    seconds = time.monotonic() - started
    print(table(results))
    write(given.json, results, sizes, seconds=seconds)
    missed = [result for result in results if result.met is False]
    print(f"{len(missed)} targets missed; {seconds:.0f} s; also in {given.json}")
    if sizes.rounds < FEWEST_ROUNDS or sizes != Sizes(rounds=sizes.rounds):
        print("Smaller than the usual sizes: these figures only show that it runs.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
