"""What was measured, against which target, as a table for people and as JSON for programs."""

import json
import os
import platform
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Any

# Beyond what noise explains.
ABOVE_THE_FLOOR = 1.1


@dataclass(frozen=True)
class Sizes:
    """How much is measured. Smaller ones show that a part runs; they say nothing about speed."""

    small_rows: int = 1_000
    large_rows: int = 1_000_000
    due: int = 10_000
    rounds: int = 5
    requests: int = 400
    page_requests: int = 10
    cycles: int = 1_000

    @property
    def due_rows(self) -> int:
        """Each round of the sweep uses up three lots: one sweeper's, two sweepers', and the floor's."""
        return 3 * self.due * self.rounds


@dataclass
class Result:
    part: str
    name: str
    database: str
    # Product and floor, or large and small: as shown, with their unit.
    measured: str
    compared_with: str = ""
    ratio: float | None = None
    target: str = ""
    met: bool | None = None
    note: str = ""
    rounds: list[dict[str, float]] = field(default_factory=list)

    @property
    def verdict(self) -> str:
        return {True: "met", False: "missed", None: "INVALID" if self.note.startswith("INVALID") else ""}[self.met]


def compare(
    part: str,
    name: str,
    database: str,
    *,
    pairs: list[tuple[float, float]],
    unit: str,
    at_least: float | None = None,
    at_most: float | None = None,
    floor: bool = False,
) -> Result:
    """Each pair was measured one right after the other: the median of their ratios is what the machine cannot blur."""
    ratio = median(mine / other for mine, other in pairs)
    target, met = "", None
    if at_least is not None:
        target, met = f"≥ {at_least:g}", ratio >= at_least
    if at_most is not None:
        target, met = f"≤ {at_most:g}", ratio <= at_most
    note = ""
    if floor and ratio > ABOVE_THE_FLOOR:
        # Nothing does more work in less time: a verdict on such a pair would be worth nothing.
        met, note = None, "INVALID: faster than its floor, so the floor is not one. Look at the floor."
    return Result(
        part,
        name,
        database,
        measured=shown(median(mine for mine, _ in pairs), unit),
        compared_with=shown(median(other for _, other in pairs), unit),
        ratio=round(ratio, 3),
        target=target,
        met=met,
        note=note,
        rounds=[{"measured": mine, "compared_with": other} for mine, other in pairs],
    )


def shown(value: float, unit: str) -> str:
    return f"{value:,.0f}{unit}" if value >= 100 else f"{value:,.3g}{unit}"


def table(results: list[Result]) -> str:
    heads = ("what", "database", "Holdpoint", "against", "ratio", "target", "verdict")
    lines = [heads] + [
        (
            f"{result.part}: {result.name}",
            result.database,
            result.measured,
            result.compared_with,
            "" if result.ratio is None else f"{result.ratio:.2f}",
            result.target,
            result.verdict,
        )
        for result in results
    ]
    widths = [max(len(line[column]) for line in lines) for column in range(len(heads))]
    padded = [[cell.ljust(width) for cell, width in zip(line, widths, strict=True)] for line in lines]
    text = [f"| {' | '.join(line)} |" for line in padded]
    text.insert(1, "|" + "|".join("-" * (width + 2) for width in widths) + "|")
    notes = [f"{result.part}: {result.name} ({result.database}): {result.note}" for result in results if result.note]
    return "\n".join([*text, "", *notes])


def machine() -> dict[str, Any]:
    load = os.getloadavg()[0]
    return {"cores": os.cpu_count(), "python": platform.python_version(), "system": platform.system(), "load": load}


def write(path: Path, results: list[Result], sizes: Sizes, *, seconds: float) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    document = {
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "seconds": round(seconds),
        "machine": machine(),
        "sizes": asdict(sizes),
        "results": [asdict(result) | {"verdict": result.verdict} for result in results],
    }
    path.write_text(json.dumps(document, indent=2) + "\n")
