"""A private MariaDB that lives as long as one command: ``python -m tests.mariadb -- pytest -k claim``.

It listens on a socket in a temporary directory and nowhere else, and goes with everything it wrote. The tests and the
benchmarks also use it as a context manager that gives the ``DATABASE_URL``.
"""

import argparse
import os
import pwd
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import Any, BinaryIO
from urllib.parse import quote

from config.supervisor import ends_with_parent
from tools.system import mariadb_installer, mariadb_server

STARTUP_SECONDS = 60
GRACE_SECONDS = 10
# The kernel cuts a socket's path at 107 characters.
LONGEST_DIRECTORY = 80

SERVER_OPTIONS = [
    "--skip-networking",
    "--character-set-server=utf8mb4",
    "--collation-server=utf8mb4_unicode_ci",
    "--innodb-buffer-pool-size=256M",
    "--max-connections=200",
    "--skip-name-resolve",
    "--skip-log-bin",
]
DURABLE = ["--innodb-flush-log-at-trx-commit=1"]
# Nothing outlives the run, so nothing has to outlive a power cut.
FAST = ["--innodb-flush-log-at-trx-commit=0", "--innodb-flush-method=nosync", "--innodb-doublewrite=0", "--sync-frm=0"]


class MariaDBUnavailable(Exception):
    pass


@contextmanager
def throwaway_mariadb(*, fast: bool = False) -> Iterator[str]:
    """Start a server, give its ``DATABASE_URL``, and leave neither process nor file behind."""
    server, installer = mariadb_server(), mariadb_installer()
    if not (server and installer):
        raise MariaDBUnavailable("MariaDB is not installed. On Debian: apt-get install mariadb-server")
    with termination_as_exit(), private_directory() as directory:
        process: subprocess.Popen[bytes] | None = None
        try:
            make_data_directory(installer, directory)
            process = start_server(server, directory, FAST if fast else DURABLE)
            wait_until_ready(process, directory)
            yield f"mysql://root@localhost/holdpoint?unix_socket={quote(str(directory / 'socket'), safe='')}"
        finally:
            if process is not None:
                end(process)


@contextmanager
def termination_as_exit() -> Iterator[None]:
    """A polite kill or a closed terminal must run the clean-up, which the default action of the signals does not."""

    def leave(number: int, _frame: FrameType | None) -> None:
        sys.exit(128 + number)

    replaced = {}
    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(number) is signal.SIG_DFL:
                replaced[number] = signal.signal(number, leave)
    try:
        yield
    finally:
        for number, previous in replaced.items():
            signal.signal(number, previous)


@contextmanager
def private_directory() -> Iterator[Path]:
    directory = Path(tempfile.mkdtemp(prefix="holdpoint-mariadb-", dir=usable_parent()))
    try:
        yield directory
    finally:
        # A killed process may write for a moment longer, into a directory that was just emptied.
        for _attempt in range(50):
            shutil.rmtree(directory, ignore_errors=True)
            if not directory.exists():
                break
            time.sleep(0.02)


def usable_parent() -> Path:
    """The usual temporary directory, unless its path is too long for a socket or closed to the server's user."""
    for candidate in (Path(tempfile.gettempdir()).resolve(), Path("/tmp"), Path("/var/tmp")):  # noqa: S108
        reachable = os.geteuid() != 0 or all(
            step.stat().st_mode & 0o001 for step in (candidate, *candidate.parents) if step.exists()
        )
        if candidate.is_dir() and reachable and len(str(candidate)) <= LONGEST_DIRECTORY:
            return candidate
    raise MariaDBUnavailable("No temporary directory suits a MariaDB socket: set TMPDIR to a short, public path.")


def server_user() -> dict[str, Any]:
    """MariaDB refuses to run as root."""
    if os.geteuid() != 0:
        return {}
    nobody = pwd.getpwnam("nobody")
    return {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}


def make_data_directory(installer: str, directory: Path) -> None:
    user = server_user()
    if user:
        os.chown(directory, user["user"], user["group"])
    command = [
        installer,
        "--no-defaults",
        f"--datadir={directory / 'data'}",
        "--auth-root-authentication-method=normal",
        "--skip-test-db",
        "--skip-name-resolve",
        *FAST[:2],
    ]
    with logged(directory) as log:
        process = start(command, directory, log)
    try:
        failed = process.wait()
    finally:
        end(process)
    if failed:
        raise MariaDBUnavailable(f"{read_log(directory)}\nmariadb-install-db failed.")


def start_server(server: str, directory: Path, durability: Sequence[str]) -> subprocess.Popen[bytes]:
    first_statements = directory / "first.sql"
    first_statements.write_text("CREATE DATABASE holdpoint CHARACTER SET utf8mb4 COLLATE utf8mb4_unicode_ci;\n")
    first_statements.chmod(0o644)
    command = [
        server,
        "--no-defaults",
        f"--datadir={directory / 'data'}",
        f"--socket={directory / 'socket'}",
        f"--pid-file={directory / 'pid'}",
        f"--init-file={first_statements}",
        *SERVER_OPTIONS,
        *durability,
    ]
    with logged(directory) as log:
        return start(command, directory, log)


def start(command: Sequence[str], directory: Path, log: BinaryIO) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        command,
        cwd=directory,
        # Ours may be closed to the server's user.
        env=os.environ | {"TMPDIR": str(directory)},
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=log,
        # Ctrl-C is for the command; the server must stay until the command has finished with it.
        start_new_session=True,
        preexec_fn=ends_with_parent(signal.SIGKILL),  # noqa: PLW1509
        **server_user(),
    )


def end(process: subprocess.Popen[bytes]) -> None:
    """At once and with its children. The data goes too: an orderly shutdown would only take longer."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def logged(directory: Path) -> BinaryIO:
    return (directory / "log").open("wb")


def read_log(directory: Path) -> str:
    return (directory / "log").read_text(errors="replace")[-4000:]


def wait_until_ready(process: subprocess.Popen[bytes], directory: Path) -> None:
    give_up_at = time.monotonic() + STARTUP_SECONDS
    while time.monotonic() < give_up_at and process.poll() is None:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(5)
            try:
                connection.connect(str(directory / "socket"))
                # The first byte of the greeting: only a server that accepts sessions sends it.
                if connection.recv(1):
                    return
            except OSError:
                pass
        time.sleep(0.02)
    raise MariaDBUnavailable(f"{read_log(directory)}\nThe private MariaDB did not start.")


def run_to_the_end(command: Sequence[str], environment: Mapping[str, str] | None = None) -> int:
    """Run a command; when this process is told to stop, the command is gone before this function is left."""
    process = subprocess.Popen(command, env=environment, preexec_fn=ends_with_parent(signal.SIGKILL))  # noqa: PLW1509
    try:
        return exit_code(process.wait())
    except KeyboardInterrupt:
        # The terminal told the command as well: a second signal would cut its own clean-up short.
        wait_or(process.terminate, process)
        raise
    except BaseException:
        process.terminate()
        raise
    finally:
        wait_or(process.kill, process)


def wait_or(act: Callable[[], None], process: subprocess.Popen[bytes]) -> None:
    try:
        process.wait(GRACE_SECONDS)
    except subprocess.TimeoutExpired:
        act()


def exit_code(returned: int) -> int:
    return 128 - returned if returned < 0 else returned


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mariadb", description=__doc__)
    parser.add_argument("--fast", action="store_true", help="trade durability for speed")
    parser.add_argument("command", nargs="+", help="what to run with DATABASE_URL set; put -- before it")
    options = parser.parse_args()
    try:
        with throwaway_mariadb(fast=options.fast) as database_url:
            return run_to_the_end(options.command, os.environ | {"DATABASE_URL": database_url})
    except MariaDBUnavailable as problem:
        print(problem, file=sys.stderr)
        return 1
    except FileNotFoundError as problem:
        print(f"{problem.filename}: command not found", file=sys.stderr)
        return 127
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
