"""The web server and the worker as one program in the foreground: ``python -m config.supervisor --port 8000``.

Each child leads a process group of its own, so that stopping it stops whatever it started. One thread does everything:
forking from a program with threads is where supervisors hang.
"""

import argparse
import ctypes
import errno
import http.client
import os
import selectors
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType

ROOT = Path(__file__).resolve().parent.parent
TICK_SECONDS = 0.1
STOP_SECONDS, HURRY_SECONDS = 5, 1
MOST_RESTARTS, RESTART_WINDOW_SECONDS = 5, 60
# Several beats of the worker, and long enough for its start.
SILENT_SECONDS = 60
PR_SET_PDEATHSIG = 1
LOOPBACK = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104


def ends_with_parent(number: signal.Signals) -> Callable[[], None] | None:
    """For ``preexec_fn``: the kernel sends the signal when this process dies, even of ``kill -9``."""
    if sys.platform != "linux":
        return None
    prctl, parent = ctypes.CDLL(None).prctl, os.getpid()

    def arrange() -> None:
        prctl(PR_SET_PDEATHSIG, number)
        # The parent may have died before the line above.
        if os.getppid() != parent:
            os._exit(1)

    return arrange


@dataclass
class Child:
    name: str
    colour: int
    command: Sequence[str]
    signal_if_orphaned: signal.Signals
    # A file whose time moves as long as the child does its work; a process can be there and hang.
    beat: Path | None = None
    # A request to stop goes to the child alone, which passes it on in its own way.
    stops_its_own: bool = False
    last_beat: float = 0.0
    heard_at: float = 0.0
    process: subprocess.Popen[bytes] | None = None
    start_at: float = 0.0
    restarts: deque[float] = field(default_factory=deque)
    output: int = -1
    unfinished_line: bytes = b""

    def start(self) -> None:
        self.output, inlet = os.pipe()
        self.process = subprocess.Popen(  # noqa: S603
            self.command,
            cwd=ROOT,
            env=os.environ | {"PYTHONUNBUFFERED": "1"},
            stdin=subprocess.DEVNULL,
            stdout=inlet,
            stderr=inlet,
            start_new_session=True,
            preexec_fn=ends_with_parent(self.signal_if_orphaned),  # noqa: PLW1509
        )
        os.close(inlet)
        self.heard_at = time.monotonic()

    def is_running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def send(self, number: signal.Signals) -> None:
        if self.process is not None:
            with suppress(ProcessLookupError):
                os.killpg(self.process.pid, number)

    def ask_to_stop(self, number: signal.Signals) -> None:
        if not self.stops_its_own:
            self.send(number)
        elif self.process is not None:
            self.process.send_signal(number)

    def is_silent(self) -> bool:
        """By our own clock: setting the time, or letting the machine sleep, silences nobody."""
        if self.beat is None or not self.is_running():
            return False
        with suppress(OSError):
            beaten = self.beat.stat().st_mtime
            if beaten != self.last_beat:
                self.last_beat, self.heard_at = beaten, time.monotonic()
        return time.monotonic() - self.heard_at > SILENT_SECONDS

    def whole_lines(self, received: bytes) -> list[bytes]:
        """Nothing received means the end: what is left then is a line, too."""
        *lines, self.unfinished_line = (self.unfinished_line + (received or b"\n")).split(b"\n")
        return lines if received else [line for line in lines if line]

    def delay_before_restart(self, now: float) -> float | None:
        """None when it has died too often to be worth another try."""
        while self.restarts and self.restarts[0] < now - RESTART_WINDOW_SECONDS:
            self.restarts.popleft()
        if len(self.restarts) >= MOST_RESTARTS:
            return None
        delay: float = 0.5 * 2 ** len(self.restarts)
        self.restarts.append(now)
        return delay


class Supervisor:
    def __init__(self, children: Sequence[Child], *, is_ready: Callable[[], bool], banner: str) -> None:
        self.children = children
        self.is_ready = is_ready
        self.banner = banner
        self.selector = selectors.DefaultSelector()
        self.stop_requests = 0
        self.in_a_hurry = False
        self.failure = ""
        self.look_at, self.look_again_after = 0.0, TICK_SECONDS
        self.on_terminal = sys.stdout.isatty()
        self.colours = self.on_terminal and "NO_COLOR" not in os.environ

    def run(self) -> int:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, self.request_stop)
        try:
            while not (self.stop_requests or self.failure or self.terminal_is_gone()):
                self.start_what_is_due()
                self.forward_output()
                self.look_after_the_silent()
                self.look_after_the_dead()
                self.announce()
        finally:
            self.stop()
        if self.failure:
            self.say(self.failure)
        return 1 if self.failure else 0

    def request_stop(self, number: int, _frame: FrameType | None) -> None:
        self.stop_requests += 1
        # Whoever presses Ctrl-C does not want to wait until a browser lets go of its connection.
        self.in_a_hurry = number == signal.SIGINT

    def terminal_is_gone(self) -> bool:
        # The hangup signal goes to the leader of the session alone; when that is make, it passes nothing on.
        return self.on_terminal and not sys.stdout.isatty()

    def start_what_is_due(self) -> None:
        for child in self.children:
            if child.process is None and time.monotonic() >= child.start_at:
                child.start()
                self.selector.register(child.output, selectors.EVENT_READ, child)

    def forward_output(self) -> None:
        for key, _events in self.selector.select(TICK_SECONDS):
            child: Child = key.data
            received = os.read(child.output, 65536)
            if not received:
                self.selector.unregister(child.output)
            for line in child.whole_lines(received):
                self.say(line.decode(errors="replace").rstrip("\r"), child)

    def look_after_the_silent(self) -> None:
        for child in self.children:
            if child.is_silent():
                self.say(f"{child.name} has not shown a sign of life for {SILENT_SECONDS:g} s: ending it by force.")
                child.send(signal.SIGKILL)
                # Its end is seen to like any other; it may take a moment.
                child.heard_at = time.monotonic()

    def look_after_the_dead(self) -> None:
        for child in self.children:
            if child.process is None or child.process.poll() is None:
                continue
            code = child.process.returncode
            ending = f"exit code {code}" if code >= 0 else signal.Signals(-code).name
            self.bury(child)
            delay = child.delay_before_restart(time.monotonic())
            if delay is None:
                self.failure = f"{child.name} keeps ending ({ending}): giving up."
                return
            self.say(f"{child.name} has ended ({ending}): starting it again in {delay:g} s.")
            child.start_at = time.monotonic() + delay

    def bury(self, child: Child) -> None:
        # What it left behind may hold the port or a lock that its successor needs.
        child.send(signal.SIGKILL)
        give_up_at = time.monotonic() + 1
        while child.output in self.selector.get_map() and time.monotonic() < give_up_at:
            self.forward_output()
        with suppress(KeyError):
            self.selector.unregister(child.output)
        os.close(child.output)
        child.process = None

    def announce(self) -> None:
        if not self.banner or time.monotonic() < self.look_at:
            return
        if self.is_ready():
            self.say(self.banner)
            self.banner = ""
        # Ever more rarely: a server that answers with an error logs each of them.
        self.look_again_after = min(2 * self.look_again_after, 5)
        self.look_at = time.monotonic() + self.look_again_after

    def stop(self) -> None:
        """Ask all groups to end, insist after a while or when asked again, and leave nobody behind."""
        asked_before = self.stop_requests
        request, patience = (signal.SIGINT, HURRY_SECONDS) if self.in_a_hurry else (signal.SIGTERM, STOP_SECONDS)
        for child in self.children:
            child.ask_to_stop(request)
        insist_at = time.monotonic() + patience
        while any(child.is_running() for child in self.children):
            if time.monotonic() >= insist_at or self.stop_requests > asked_before:
                break
            with suppress(OSError):
                self.forward_output()
        for child in self.children:
            child.send(signal.SIGKILL)
            if child.process is not None:
                child.process.wait()

    def say(self, text: str, child: Child | None = None) -> None:
        prefix = f"{child.name:<6} | " if child else ""
        if child and self.colours:
            prefix = f"\x1b[{child.colour}m{prefix}\x1b[0m"
        try:
            print(f"{prefix}{text}", flush=True)
        except OSError:
            # Nobody reads any more. Python would complain about it once again as it exits.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            self.stop_requests += 1


def reason_it_cannot_listen(host: str, port: int) -> str:
    if not 0 < port < 65536:
        return f"{port} is no port: use a number from 1 to 65535."
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as problem:
            if problem.errno == errno.EADDRINUSE:
                return f"Port {port} is taken. Try: make run PORT={port + 1}"
            return f"Cannot listen on {host}, port {port}: {problem.strerror or problem}"
    return ""


def answers(host: str, port: int) -> bool:
    connection = http.client.HTTPConnection(LOOPBACK.get(host, host), port, timeout=1)
    try:
        connection.request("GET", "/healthz", headers={"Host": f"localhost:{port}"})
        return connection.getresponse().status == http.HTTPStatus.OK
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def web_command(host: str, port: int) -> list[str]:
    return [
        *(sys.executable, "-m", "gunicorn", "config.wsgi:application"),
        *("--bind", f"[{host}]:{port}" if ":" in host else f"{host}:{port}"),
        *("--worker-class", "gthread", "--workers", "2", "--threads", "4"),
        # Shorter than the patience of stop().
        *("--graceful-timeout", "3"),
        # Its control socket is one per user, not one per server.
        *("--log-level", "warning", "--no-control-socket"),
    ]


def worker_command(beat: Path) -> list[str]:
    return [sys.executable, "manage.py", "worker", "--beat-file", str(beat)]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m config.supervisor", description=__doc__)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument("--banner", type=Path, help="a text file to show once the web server answers")
    options = parser.parse_args()

    problem = reason_it_cannot_listen(options.host, options.port)
    if problem:
        print(problem, file=sys.stderr)
        return 1
    banner = options.banner.read_text().rstrip() if options.banner else f"Ready: http://localhost:{options.port}/"
    with tempfile.TemporaryDirectory(prefix="holdpoint-supervisor-") as directory:
        beat = Path(directory, "worker.beat")
        # gunicorn's master ends its workers when asked to, and would orphan them when killed. The worker holds nothing.
        web = Child("web", 36, web_command(options.host, options.port), signal.SIGTERM)
        worker = Child("worker", 35, worker_command(beat), signal.SIGKILL, beat=beat, stops_its_own=True)
        supervisor = Supervisor([web, worker], is_ready=lambda: answers(options.host, options.port), banner=banner)
        return supervisor.run()


if __name__ == "__main__":
    sys.exit(main())
