"""A pytest plugin, loaded with ``-p tests.environment`` before Django: the run depends on nobody's shell or ``.env``.

``HOLDPOINT_TEST_SUBSET`` narrows a run for ``make test``: ``ordinary``, ``browser`` or ``schemathesis``, and on SQLite
``both_databases``.
"""

import atexit
import json
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import quote

import pytest

ROOT = Path(__file__).resolve().parent.parent
# Kinds of tests that run apart from the others: they start programs, and want the machine for themselves.
OF_THEIR_OWN = {"browser", "schemathesis"}
SUBSETS: dict[str, Callable[[set[str]], bool]] = {
    # Playwright keeps an event loop in its thread, in which no other test could use the database.
    "": lambda marks: "browser" not in marks,
    "browser": lambda marks: "browser" in marks,
    "schemathesis": lambda marks: "schemathesis" in marks,
    "ordinary": lambda marks: not marks & OF_THEIR_OWN,
    "both_databases": lambda marks: "both_databases" in marks and not marks & OF_THEIR_OWN,
}
OUTCOMES = {"passed": ("passed", "xpassed"), "failed": ("failed", "error"), "skipped": ("skipped", "xfailed")}


def names_the_settings_read() -> set[str]:
    """Read from the source: a list kept by hand would miss the next setting, and a developer's value would get in."""
    source = (ROOT / "config/settings.py").read_text()
    read = set(re.findall(r"""\benv\.\w+\(\s*["']([A-Z][A-Z0-9_]*)["']""", source))
    # A name that ends in an underscore is the beginning of a whole family.
    families = tuple(name for name in read if name.endswith("_"))
    return read | {name for name in os.environ if families and name.startswith(families)}


def directory_of_this_run() -> Path:
    """Given by ``make test``, and to xdist's workers by the process that started them."""
    given = os.environ.get("HOLDPOINT_TEST_DIRECTORY")
    if given:
        return Path(given)
    directory = Path(tempfile.mkdtemp(prefix="holdpoint-tests-"))
    # Not pytest_unconfigure, which a run that ends on a wrong option never reaches.
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    return directory


def prepare() -> None:
    directory = directory_of_this_run()
    state = directory / "state" / os.environ.get("PYTEST_XDIST_WORKER", "main")
    state.mkdir(parents=True, exist_ok=True)

    for name in names_the_settings_read() - {"DATABASE_URL"}:
        os.environ.pop(name, None)
    os.environ.setdefault("DATABASE_URL", f"sqlite:///{quote(str(directory))}/holdpoint.sqlite3")
    os.environ.update(
        DJANGO_SETTINGS_MODULE="config.settings",
        HOLDPOINT_TEST_DIRECTORY=str(directory),
        HOLDPOINT_ENV_FILE="",
        DEBUG="0",
        SECRET_KEY="only-for-tests-" + "0123456789" * 5,
        ALLOWED_HOSTS="localhost,127.0.0.1,testserver,[::1]",
        BASE_URL="http://testserver",
        EMAIL_URL="memory:",
        STATE_DIR=str(state),
        # No thread with a connection of its own beside a test's transaction; tests of the nudge ask for it.
        JOBS_NUDGE="0",
    )


prepare()


def on_sqlite() -> bool:
    return os.environ["DATABASE_URL"].startswith("sqlite:")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    subset = os.environ.get("HOLDPOINT_TEST_SUBSET", "")
    if subset not in SUBSETS:
        raise pytest.UsageError(f"HOLDPOINT_TEST_SUBSET={subset} is none of {sorted(SUBSETS)}")
    if subset == "both_databases" and not on_sqlite():
        return
    chosen: list[pytest.Item] = []
    left_out: list[pytest.Item] = []
    for item in items:
        belongs = SUBSETS[subset]({mark.name for mark in item.iter_markers()})
        (chosen if belongs else left_out).append(item)
    config.hook.pytest_deselected(items=left_out)
    items[:] = chosen


# Around pytest's own, which prints its list of failures last.
@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> Iterator[None]:
    yield
    stats = terminalreporter.stats
    counts = {name: sum(len(stats.get(outcome, [])) for outcome in parts) for name, parts in OUTCOMES.items()}
    Path(os.environ["HOLDPOINT_TEST_DIRECTORY"], "counts.json").write_text(json.dumps(counts))
    terminalreporter.write_line(f"Database of this run: {'SQLite' if on_sqlite() else 'MariaDB'}")
