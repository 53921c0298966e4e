"""Make ``.venv`` and install the named requirement files into it: ``python tools/install.py base``.

Runs before anything is installed, so it needs nothing but the standard library. What is already there costs one look
at a stamp; the stamp is removed before the first change and written after the last, so an interrupted installation is
never mistaken for a finished one: it is started afresh.
"""

from __future__ import annotations

import argparse
import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
VENV_PYTHON = VENV / "bin" / "python"
STAMP = VENV / "holdpoint-installed.json"
OLDEST, TOO_NEW = (3, 11), (3, 14)


class InstallationFailed(Exception):
    """Carries the output of the command that failed."""


def requirement_file(name: str) -> Path:
    return ROOT / "requirements" / f"{name}.txt"


def fingerprint(name: str) -> str:
    return hashlib.sha256(requirement_file(name).read_bytes()).hexdigest()


def installed() -> dict[str, str] | None:
    """Name → fingerprint of what a finished installation put in; None when there is none for this interpreter."""
    if not VENV_PYTHON.exists():
        return None
    try:
        stamp = json.loads(STAMP.read_text())
    except (OSError, ValueError):
        return None
    return stamp["requirements"] if stamp.get("python") == sys.version else None


def missing(names: Sequence[str]) -> list[str]:
    present = installed() or {}
    return [name for name in names if present.get(name) != fingerprint(name)]


def can_build_mysqlclient() -> bool:
    """mysqlclient has no Linux wheel: it needs MariaDB's headers, Python's own and a compiler."""
    if not (shutil.which("pkg-config") and (shutil.which("cc") or shutil.which("gcc"))):
        return False
    if not Path(sysconfig.get_path("include"), "Python.h").exists():
        return False
    return any(
        subprocess.run(["pkg-config", "--exists", library], check=False).returncode == 0
        for library in ("libmariadb", "mariadb", "mysqlclient")
    )


def run(command: Sequence[str | Path]) -> None:
    finished = subprocess.run(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", check=False
    )
    if finished.returncode:
        words = " ".join(str(word) for word in command)
        raise InstallationFailed(f"{finished.stdout.rstrip()}\n\nThis command failed ({finished.returncode}): {words}")


def make_venv() -> None:
    uv = shutil.which("uv")
    if uv:
        try:
            run([uv, "venv", "--quiet", "--clear", "--no-project", "--python", sys.executable, VENV])
            return
        except InstallationFailed:
            pass  # an old uv that lacks an option is no reason to stop: Python can do it as well
    try:
        run([sys.executable, "-m", "venv", "--clear", VENV])
    except InstallationFailed as failure:
        hint = "\nOn Debian and Ubuntu the module is a package of its own: apt-get install python3-venv"
        raise InstallationFailed(f"{failure}{hint}") from failure


def ensure_pip() -> None:
    try:
        run([VENV_PYTHON, "-m", "pip", "--version"])
    except InstallationFailed:
        run([VENV_PYTHON, "-m", "ensurepip"])


def find_uv() -> str | None:
    """uv takes a twentieth of pip's time, so even a cold start is faster with fetching it first."""
    local = VENV / "bin" / "uv"
    found = shutil.which("uv") or (str(local) if local.exists() else None)
    if found:
        return found
    try:
        ensure_pip()
        run([VENV_PYTHON, "-m", "pip", "install", "--quiet", "--require-hashes", "-r", requirement_file("installer")])
    except InstallationFailed:
        return None
    return str(local) if local.exists() else None


def install_requirements(names: Sequence[str]) -> None:
    files = [word for name in names for word in ("-r", str(requirement_file(name)))]
    uv = find_uv()
    if uv:
        try:
            run([uv, "pip", "install", "--quiet", "--python", VENV_PYTHON, "--require-hashes", *files])
            return
        except InstallationFailed:
            pass  # a mirror that only pip is told about, say; if pip fails too, its words are the ones to show
    ensure_pip()
    run([VENV_PYTHON, "-m", "pip", "install", "--quiet", "--require-hashes", *files])


@contextmanager
def one_at_a_time() -> Iterator[None]:
    """``make run`` in one terminal and ``make test`` in another share the environment."""
    # Not in .venv, which a rebuild empties.
    lock = os.open(ROOT, os.O_RDONLY)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)


def install(names: Sequence[str]) -> None:
    if not missing(names):
        return
    with one_at_a_time():
        wanted = missing(names)
        if not wanted:
            return
        print(f"Installing {', '.join(wanted)} into .venv …", flush=True)
        present = installed()
        STAMP.unlink(missing_ok=True)
        if present is None:
            make_venv()
        install_requirements(wanted)
        # The requirement files overlap: what was installed from an older file may just have been changed.
        kept = {name: seen for name, seen in (present or {}).items() if up_to_date(name, seen)}
        stamp = {"python": sys.version, "requirements": kept | {name: fingerprint(name) for name in wanted}}
        unfinished = STAMP.with_suffix(".new")
        unfinished.write_text(json.dumps(stamp, indent=1))
        unfinished.replace(STAMP)


def up_to_date(name: str, seen: str) -> bool:
    return requirement_file(name).exists() and fingerprint(name) == seen


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="+", help="names of files in requirements/, such as base or dev")
    parser.add_argument(
        "--mariadb-if-possible", action="store_true", help="add the MariaDB driver where it can be compiled"
    )
    options = parser.parse_args()

    if not OLDEST <= sys.version_info[:2] < TOO_NEW:
        version = ".".join(str(part) for part in sys.version_info[:3])
        sys.exit(f"Holdpoint needs Python 3.11, 3.12 or 3.13; {sys.executable} is {version}.")
    names = list(dict.fromkeys(options.names))
    unknown = [name for name in names if not requirement_file(name).exists()]
    if unknown:
        sys.exit(f"There is no requirements/{unknown[0]}.txt")
    if options.mariadb_if_possible and (not missing(["mariadb"]) or can_build_mysqlclient()):
        names.append("mariadb")
    try:
        install(names)
    except InstallationFailed as failure:
        sys.exit(f"{failure}\n\nThe installation failed. It is safe to try again.")
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
