"""``make test-heavy``: a promise counts as kept when its tests passed and said their figure, and only then."""

import os
import re
import sys
from pathlib import Path

import pytest

from tools import heavy

ROOT = Path(heavy.__file__).resolve().parent.parent
FIGURE = "import os; open(os.environ['HOLDPOINT_FIGURES'], 'a').write('promise 1, SQLite: all of it, 1 s\\n')"


@pytest.fixture
def test_file(tmp_path, monkeypatch):
    def write(body):
        path = tmp_path / "test_promise.py"
        path.write_text(f"def test_promise():\n    {body}\n")
        monkeypatch.setitem(heavy.PROMISES, 1, [str(path), "-p", "no:cacheprovider", "--rootdir", str(ROOT)])

    return write


def test_a_promise_that_passed_shows_its_figure(test_file):
    test_file(FIGURE)
    assert heavy.keep(1, "SQLite", "") == heavy.Result(["promise 1, SQLite: all of it, 1 s"], kept=True)


@pytest.mark.parametrize("body", ["pass", f"{FIGURE}; assert False"])
def test_a_promise_without_a_figure_or_with_a_failure_is_broken(test_file, body, capsys):
    test_file(body)
    result = heavy.keep(1, "SQLite", "")
    assert not result.kept
    assert result.lines[0].startswith("promise 1, SQLite: BROKEN")
    assert "test_promise" in capsys.readouterr().err or body == "pass"


def test_a_promise_that_never_ends_is_broken(monkeypatch):
    monkeypatch.setattr(heavy, "LIMIT_SECONDS", 0.2)
    kept, said = heavy.finished([sys.executable, "-c", "import time; time.sleep(60)"], dict(os.environ))
    assert (kept, said.strip()) == (False, "Not finished after 0.2 s.")


def test_the_tests_of_every_promise_are_there():
    for promise, arguments in heavy.PROMISES.items():
        files = [ROOT / name for name in arguments if name.startswith("tests/")]
        text = "".join(path.read_text() for file in files for path in ([file] if file.is_file() else file.glob("*.py")))
        if "-k" in arguments:
            assert re.search(rf"def test_\w*{arguments[arguments.index('-k') + 1]}", text), promise
        assert "def test_" in text, promise
