"""What the test suite needs from the operating system: a MariaDB server, its headers, a compiler and Chromium.

On Debian, as root, what is missing is installed; anywhere else it is only named. ``make run`` needs none of it.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tools.install import can_build_mysqlclient

# Servers live where an ordinary user's PATH does not lead.
SERVER_DIRECTORIES = ("/usr/sbin", "/usr/local/sbin", "/usr/libexec", "/usr/local/libexec", "/opt/homebrew/bin")
SERVICE_POLICY = Path("/usr/sbin/policy-rc.d")


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
        packages.append("mariadb-server")
    if not can_build_mysqlclient():
        packages += ["build-essential", "libmariadb-dev", "pkg-config"]
        if sys.base_prefix == "/usr":
            packages.append("python3-dev")
    if not chromium():
        packages.append("chromium")
    return packages


@contextmanager
def no_services_started() -> Iterator[None]:
    """Debian starts a server as it installs one; ours is private to a test run and must not meet another."""
    if SERVICE_POLICY.exists():
        yield
        return
    SERVICE_POLICY.write_text("#!/bin/sh\nexit 101\n")
    SERVICE_POLICY.chmod(0o755)
    try:
        yield
    finally:
        SERVICE_POLICY.unlink(missing_ok=True)


def install(packages: list[str]) -> int:
    environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
    commands = (
        ["apt-get", "update", "-qq"],
        ["apt-get", "install", "-qq", "-y", "--no-install-recommends", *packages],
    )
    with no_services_started():
        for command in commands:
            finished = subprocess.run(
                command,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                check=False,
            )
            if finished.returncode:
                print(finished.stdout, f"This command failed: {' '.join(command)}", sep="\n")
                return finished.returncode
    return 0


def main() -> None:
    packages = missing_packages()
    if not packages:
        return
    words = " ".join(packages)
    if os.geteuid() == 0 and Path("/etc/debian_version").exists() and shutil.which("apt-get"):
        print(f"Installing for the tests: {words} …", flush=True)
        if install(packages) == 0:
            return
    # No failure: the suite still runs without them, says what it left out, and is strict about it under CI=true.
    print(f"Some tests need packages that are missing here. On Debian: apt-get install {words}", file=sys.stderr)


if __name__ == "__main__":
    main()
