"""What the test suite needs from the operating system: a MariaDB server, its headers, a compiler, Chromium and a font.

On Debian, as root, what is missing is installed; anywhere else it is only named. ``make run`` needs none of it.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from tools.install import can_build_mysqlclient

# Servers live where an ordinary user's PATH does not lead.
SERVER_DIRECTORIES = ("/usr/sbin", "/usr/local/sbin", "/usr/libexec", "/usr/local/libexec", "/opt/homebrew/bin")
FONTS = Path("/usr/share/fonts")


def find_program(*names: str) -> str | None:
    path = os.pathsep.join([os.environ.get("PATH", os.defpath), *SERVER_DIRECTORIES])
    return next((found for name in names if (found := shutil.which(name, path=path))), None)


def mariadb_server() -> str | None:
    return find_program("mariadbd", "mysqld")


def mariadb_installer() -> str | None:
    return find_program("mariadb-install-db", "mysql_install_db")


def chromium() -> str | None:
    return find_program("chromium", "chromium-browser", "google-chrome")


def missing_packages() -> list[str]:
    packages = []
    if not (mariadb_server() and mariadb_installer()):
        # The programs alone: mariadb-server itself would also set up and start a service.
        packages += ["mariadb-server-core", "mariadb-client-core"]
    of_debian = sys.base_prefix == "/usr"
    if not can_build_mysqlclient():
        packages += ["build-essential", "libmariadb-dev", "pkg-config"]
        if of_debian:
            packages.append("python3-dev")
    if of_debian and not find_spec("ensurepip"):
        packages.append("python3-venv")
    if not chromium():
        packages.append("chromium")
    if not any(FONTS.rglob("*.[ot]t[fc]")):
        packages.append("fonts-dejavu-core")  # or Chromium draws no text
    return packages


def apt_get(*arguments: str) -> bool:
    command = ["apt-get", "-qq", "-o", "Acquire::http::Timeout=30", "-o", "DPkg::Lock::Timeout=120", *arguments]
    finished = subprocess.run(
        command,
        env=os.environ | {"DEBIAN_FRONTEND": "noninteractive"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        check=False,
    )
    if finished.returncode:
        print(f"{finished.stdout.rstrip()}\nThis command failed: {' '.join(command)}", file=sys.stderr, flush=True)
    return finished.returncode == 0


def may_install() -> bool:
    return os.geteuid() == 0 and Path("/etc/debian_version").exists() and shutil.which("apt-get") is not None


def install(packages: Sequence[str]) -> bool:
    # One of several sources that fails to update may not be the one that matters: only the installation decides.
    apt_get("update")
    return apt_get("install", "--yes", "--no-install-recommends", *packages)


def main() -> None:
    packages = missing_packages()
    if not packages:
        return
    words = " ".join(packages)
    if may_install():
        print(f"Installing for the tests, which may take some minutes: {words} …", flush=True)
        try:
            # Mirrors fail for a moment more often than for long.
            if install(packages) or install(packages):
                return
        except KeyboardInterrupt:
            sys.exit(130)
    # No failure: the suite still runs without them, says what it left out, and is strict about it under CI=true.
    print(f"Some tests need packages that are missing here. On Debian: apt-get install {words}", file=sys.stderr)


if __name__ == "__main__":
    main()
