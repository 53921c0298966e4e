"""The processes of a run: servers, the load generator, and workers that take one command per line."""

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from config.supervisor import ROOT, ends_with_parent, web_command

STARTUP_SECONDS = 60
FLOOR = "bench.floor.wsgi:application"


class BenchFailed(Exception):
    pass


class Process:
    def __init__(self, command: list[str], environment: Mapping[str, str], **pipes: Any) -> None:
        self.process = subprocess.Popen(
            command,
            cwd=ROOT,
            env=environment,
            start_new_session=True,
            preexec_fn=ends_with_parent(signal.SIGTERM),  # noqa: PLW1509
            **pipes,
        )

    def stop(self) -> None:
        """At once: what it worked on is thrown away, too."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


class Worker(Process):
    """``python -m <module>``: a line of JSON in, a line of JSON out."""

    def __init__(self, module: str, environment: Mapping[str, str] | None = None) -> None:
        super().__init__(
            [sys.executable, "-m", module],
            environment or os.environ,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.name = module

    def tell(self, command: str) -> None:
        assert self.process.stdin is not None  # noqa: S101 (a pipe, as asked for above)
        self.process.stdin.write(command + "\n")
        self.process.stdin.flush()

    def hear(self) -> dict[str, Any]:
        assert self.process.stdout is not None  # noqa: S101
        line = self.process.stdout.readline()
        if not line:
            raise BenchFailed(f"{self.name} ended.")
        answer: dict[str, Any] = json.loads(line)
        if "failed" in answer:
            raise BenchFailed(f"{self.name}: {answer['failed']}")
        return answer

    def ask(self, command: str | dict[str, Any]) -> dict[str, Any]:
        self.tell(command if isinstance(command, str) else json.dumps(command))
        return self.hear()


class Server(Process):
    """gunicorn as the supervisor starts it, for the product or for the floor."""

    def __init__(self, environment: Mapping[str, str], *, application: str = "") -> None:
        self.port = free_port()
        command = web_command("127.0.0.1", self.port)
        if application:
            command[command.index("config.wsgi:application")] = application
        self.log = tempfile.TemporaryFile()  # noqa: SIM115 (closed in stop)
        super().__init__(command, environment, stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log)
        wait_for(self.port, self.process)

    def complaints(self) -> str:
        self.log.seek(0)
        return self.log.read().decode(errors="replace")

    def stop(self) -> None:
        super().stop()
        self.log.close()


class Supervisor(Process):
    """Web and worker together, as `make run` starts them."""

    def __init__(self, url: str) -> None:
        self.port = free_port()
        command = [sys.executable, "-m", "config.supervisor", "--port", str(self.port)]
        quiet = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        super().__init__(command, product_environment(url) | {"Q_WORKERS": "1"}, **quiet)
        wait_for(self.port, self.process)

    def stop(self) -> None:
        # Its children lead groups of their own, and it ends them.
        self.process.send_signal(signal.SIGINT)
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            super().stop()


@contextmanager
def running(*processes: Any) -> Iterator[None]:
    try:
        yield
    finally:
        for process in processes:
            process.stop()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_for(port: int, process: subprocess.Popen[Any]) -> None:
    give_up_at = time.monotonic() + STARTUP_SECONDS
    while time.monotonic() < give_up_at and process.poll() is None:
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return
        time.sleep(0.05)
    raise BenchFailed(f"Nothing answers on port {port}.")


def product_environment(database_url: str) -> dict[str, str]:
    """What an operator would set, and nothing from the shell or the .env of whoever measures."""
    return {
        "PATH": os.environ.get("PATH", os.defpath),
        "HOME": os.environ.get("HOME", "/"),
        "HOLDPOINT_ENV_FILE": "",
        "DJANGO_SETTINGS_MODULE": "config.settings",
        "SECRET_KEY": "only-for-measurements-" + "0123456789" * 5,
        "BASE_URL": "http://localhost:8000",
        "DATABASE_URL": database_url,
        "EMAIL_URL": "memory:",
        # So high that it is never reached, and not off: counting is part of what a request costs.
        "API_RATE_PER_MINUTE": "1000000",
    }


def floor_environment(database_url: str) -> dict[str, str]:
    return {"PATH": os.environ.get("PATH", os.defpath), "DATABASE_URL": database_url}


def resident_mib(leader: int) -> float:
    """Of a process and everything below it; pages that several of them share are counted once."""
    return sum(proportional_kib(pid) for pid in descendants(leader)) / 1024


def descendants(leader: int) -> list[int]:
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            # The name in brackets may hold blanks; what follows it does not.
            fields = entry.read_text().rpartition(")")[2].split()
            children.setdefault(int(fields[1]), []).append(int(entry.parent.name))
    found = [leader]
    for pid in found:
        found += children.get(pid, [])
    return found


def proportional_kib(pid: int) -> int:
    with suppress(OSError):
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1])
    return 0
