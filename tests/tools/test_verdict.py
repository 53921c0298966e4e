"""What the last lines and the exit code of ``make test`` say."""

import pytest

from tools import test as testing
from tools.test import Job

GOOD = Job("MariaDB", True, 1.0, {"passed": 3})


@pytest.fixture
def verdict(monkeypatch, capsys):
    """The exit code and the last line of a run with these jobs."""

    def of(*jobs, left_out="", ci=False):
        def run(_arguments, out):
            out.extend([left_out] if left_out else [])
            yield from jobs

        monkeypatch.setattr(testing, "run", run)
        monkeypatch.setattr("sys.argv", ["tools.test"])
        monkeypatch.setenv("CI", "true" if ci else "")
        code = testing.main()
        return code, capsys.readouterr().out.splitlines()[-1]

    return of


@pytest.mark.parametrize("ci", [False, True])
def test_a_good_run_ends_with_the_counts(verdict, ci):
    assert verdict(GOOD, Job("SQLite", True, 1.0, {"passed": 1}), ci=ci) == (0, "4 passed, 0 failed, 0 skipped")


def test_one_failed_job_fails_the_run(verdict):
    assert verdict(Job("lint", False, 1.0), GOOD)[0] == 1
    assert verdict(GOOD, Job("SQLite", False, 1.0, {"failed": 1}))[0] == 1


def test_what_was_left_out_is_the_last_line(verdict):
    assert verdict(GOOD, left_out="THE MARIADB TESTS WERE SKIPPED") == (0, "THE MARIADB TESTS WERE SKIPPED")


def test_leaving_something_out_fails_under_ci(verdict):
    assert verdict(GOOD, left_out="THE MARIADB TESTS WERE SKIPPED", ci=True) == (1, "THE MARIADB TESTS WERE SKIPPED")


def test_a_run_without_a_test_fails(verdict):
    assert verdict(Job("lint", True, 1.0)) == (1, "No test was run.")
