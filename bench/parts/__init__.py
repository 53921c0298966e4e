"""What is measured, a module each. A part takes a database of one kind and gives its results."""

from collections.abc import Callable

from bench.parts import commands, memory, pages, reads, sweep, writers
from bench.report import Result, Sizes
from bench.sites import Ground

Part = Callable[[Ground, Sizes], list[Result]]

PARTS: dict[str, Part] = {
    "commands": commands.measure,
    "reads": reads.measure,
    "pages": pages.measure,
    "sweep": sweep.measure,
    "writers": writers.measure,
    "memory": memory.measure,
}
NEEDS_LARGE = {"pages", "sweep"}
# The promise is about SQLite; the embedded default is what the memory is about.
ONLY_ON_SQLITE = {"writers", "memory"}
