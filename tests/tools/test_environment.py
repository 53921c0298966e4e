"""The plugin that every test run loads, on a suite of four tests."""

import os
import subprocess
import sys

import pytest

from tools.install import ROOT

SUITE = """
import os, pytest

def test_plain():
    assert "SWEEP_BATCH" not in os.environ
    assert "ANYMAIL_WEBHOOK_SECRET" not in os.environ
    assert os.environ["BASE_URL"] == "http://testserver"
    assert os.environ["HOLDPOINT_ENV_FILE"] == ""

@pytest.mark.both_databases
def test_portable(): pass

@pytest.mark.browser
def test_seen(): pass

@pytest.mark.schemathesis
@pytest.mark.both_databases
def test_sent(): pass
"""


@pytest.fixture
def run_suite(tmp_path):
    (tmp_path / "test_suite.py").write_text(SUITE)

    def run(subset, **environment):
        plugins = ["-p", "tests.environment", "-p", "no:django", "-p", "no:cacheprovider"]
        names = {"HOLDPOINT_TEST_DIRECTORY": str(tmp_path), "HOLDPOINT_TEST_SUBSET": subset, "PYTHONPATH": str(ROOT)}
        return subprocess.run(
            [sys.executable, "-m", "pytest", *plugins, "-c", os.devnull, "--rootdir", ".", "-v", "."],
            cwd=tmp_path,
            env=os.environ | {"DATABASE_URL": "sqlite:///:memory:"} | names | environment,
            capture_output=True,
            text=True,
            check=False,
        )

    return run


@pytest.mark.parametrize(
    ("subset", "chosen"),
    [
        ("", {"test_plain", "test_portable", "test_sent"}),
        ("browser", {"test_seen"}),
        ("schemathesis", {"test_sent"}),
        ("ordinary", {"test_plain", "test_portable"}),
        ("both_databases", {"test_portable"}),
    ],
)
def test_a_subset_runs_its_tests_and_no_others(run_suite, subset, chosen):
    finished = run_suite(subset)
    passed = {line.split("::")[1].split()[0] for line in finished.stdout.splitlines() if " PASSED " in line}
    assert passed == chosen
    assert "Database of this run: SQLite" in finished.stdout


def test_a_subset_nobody_knows_is_an_error(run_suite):
    finished = run_suite("brwoser")
    assert finished.returncode == pytest.ExitCode.USAGE_ERROR
    assert "brwoser" in finished.stdout + finished.stderr


def test_the_settings_of_a_developer_do_not_reach_the_tests(run_suite):
    mine = {"SWEEP_BATCH": "7", "ANYMAIL_WEBHOOK_SECRET": "mine", "HOLDPOINT_ENV_FILE": ".env.mine"}
    finished = run_suite("", BASE_URL="https://mine.example", **mine)
    assert finished.returncode == 0, finished.stdout
