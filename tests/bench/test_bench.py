"""Every part of the bench runs, with sizes that say nothing about speed."""

import json
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.utils import timezone

from bench.__main__ import run
from bench.parts import PARTS
from bench.report import Sizes, compare, table, write
from checkpoints import events
from checkpoints.models import Checkpoint, Status

TOY = Sizes(small_rows=60, large_rows=120, due=4, rounds=2, requests=8, page_requests=1, cycles=8)


def test_every_part_runs_and_the_table_and_the_file_hold_its_results(tmp_path: Path) -> None:
    # One test: several would start the servers again in each process of the suite.
    results = run(list(PARTS), ["sqlite"], TOY)

    assert {result.part for result in results} == set(PARTS)
    assert {result.verdict for result in results if result.target} <= {"met", "missed", "INVALID"}
    (writers,) = [result for result in results if result.part == "writers"]
    assert writers.verdict == "met", writers
    write(tmp_path / "bench.json", results, TOY, seconds=1)
    assert len(json.loads((tmp_path / "bench.json").read_text())["results"]) == len(results)
    assert all(result.name in table(results) for result in results)


def test_a_ratio_is_the_middle_one_of_the_rounds() -> None:
    result = compare("part", "name", "SQLite", pairs=[(1, 10), (6, 10), (200, 10)], unit="/s", at_least=0.65)
    assert (result.ratio, result.verdict) == (0.6, "missed")


def test_what_is_faster_than_its_floor_meets_no_target() -> None:
    result = compare("part", "name", "SQLite", pairs=[(178, 100)], unit="/s", at_least=0.25, floor=True)
    assert (result.met, result.verdict) == (None, "INVALID")


def seed(**options: Any) -> None:
    call_command("seed_scale", stdout=StringIO(), **options)


@pytest.mark.both_databases
@pytest.mark.django_db
def test_seeded_rows_have_whole_histories_and_so_many_are_due() -> None:
    seed(rows=50, due=7)
    rows = list(Checkpoint.objects.all())
    assert len(rows) == 50
    assert [trouble for row in rows if (trouble := events.trouble_with(row))] == []
    assert Checkpoint.objects.due(timezone.now()).count() == 7
    assert {row.status for row in rows} >= {Status.PENDING, Status.RESOLVED}


@pytest.mark.both_databases
@pytest.mark.django_db
def test_seeding_keeps_away_from_other_peoples_checkpoints(refund: Checkpoint) -> None:
    with pytest.raises(CommandError, match=refund.tenant.slug):
        seed(rows=5)
    with pytest.raises(CommandError, match="not made by this command"):
        seed(rows=5, tenant=refund.tenant.slug, force=True)
    assert Checkpoint.objects.count() == 1
    seed(rows=5, force=True)
    assert Checkpoint.objects.for_tenant(refund.tenant).count() == 1
