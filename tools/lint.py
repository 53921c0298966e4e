"""Everything that can be found wrong without running a test: ``make lint``. ``make format`` repairs what it can."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from tools.install import ROOT

PYTHON = sys.executable
STEPS: dict[str, Sequence[str]] = {
    "ruff check": [PYTHON, "-m", "ruff", "check", "--quiet"],
    "ruff format": [PYTHON, "-m", "ruff", "format", "--check"],
    "mypy": [PYTHON, "-m", "mypy"],
    "migrations": [PYTHON, "manage.py", "makemigrations", "--check", "--dry-run"],
    "deployment": [PYTHON, "manage.py", "check", "--deploy", "--fail-level", "WARNING"],
}


def production_like(directory: str) -> dict[str, str]:
    """What an operator would set: the deployment check must be clean with nothing more than that."""
    return {
        "PATH": os.environ.get("PATH", os.defpath),
        "HOME": os.environ.get("HOME", directory),
        "HOLDPOINT_ENV_FILE": "",
        "DJANGO_SETTINGS_MODULE": "config.settings",
        "DEBUG": "0",
        "SECRET_KEY": "AbCdEfGhIjKlMnOpQrStUvWxYz0123456789-only-for-the-checks",
        "ALLOWED_HOSTS": "holdpoint.example",
        "BASE_URL": "https://holdpoint.example",
        "DATABASE_URL": f"sqlite:///{directory}/holdpoint.sqlite3",
        "STATE_DIR": directory,
    }


def lint() -> bool:
    with tempfile.TemporaryDirectory(prefix="holdpoint-lint-") as directory, ThreadPoolExecutor() as pool:
        environment = production_like(directory)

        def outcome(command: Sequence[str]) -> subprocess.CompletedProcess[str]:
            return subprocess.run(
                command,
                cwd=ROOT,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                check=False,
            )

        clean = True
        for name, finished in zip(STEPS, pool.map(outcome, STEPS.values()), strict=True):
            if finished.returncode:
                clean = False
                print(f"── {name} ──\n{finished.stdout.rstrip()}\n", flush=True)
    return clean


def main() -> None:
    try:
        clean = lint()
    except KeyboardInterrupt:
        sys.exit(130)
    print("lint: clean" if clean else "lint: see above")
    sys.exit(not clean)


if __name__ == "__main__":
    main()
