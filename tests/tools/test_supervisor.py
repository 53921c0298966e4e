"""The supervisor as its user meets it: a process with output, an exit code and children, which are shell one-liners."""

import http.server
import os
import pty
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from config.supervisor import answers
from tools.install import ROOT

PATIENCE_SECONDS = 20
STAYS = "echo pid $$; exec sleep 600"
STARTS_ANOTHER = "sleep 600 & echo pid $!; wait"
IGNORES_REQUESTS = "trap '' INT TERM; echo pid $$; while :; do sleep 600 & wait; done"

PROGRAM = """
import signal, sys
from pathlib import Path
from config import supervisor
supervisor.MOST_RESTARTS = 1
supervisor.SILENT_SECONDS = 1
web, worker, ready, beat = sys.argv[1:]
watched = {"beat": Path(beat), "stops_its_own": True} if beat else {}
children = [
    supervisor.Child("web", 36, ["sh", "-c", web], signal.SIGTERM),
    supervisor.Child("worker", 35, ["sh", "-c", worker], signal.SIGKILL, **watched),
]
sys.exit(supervisor.Supervisor(children, is_ready=Path(ready).exists, banner="Come in").run())
"""


class Supervised:
    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.lines: list[str] = []

    def read_until(self, part: str) -> str:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.append(line.rstrip("\n"))
            if part in line:
                return self.lines[-1]
        raise AssertionError(f"It never said {part!r}, only {self.lines}")

    def pid_of(self, name: str) -> int:
        return int(self.read_until(f"{name:<6} | pid ").split()[-1])

    def pids(self) -> list[int]:
        """Of both children, which start in any order."""
        return [int(self.read_until("| pid ").split()[-1]) for _ in range(2)]

    def end(self) -> int:
        code = self.process.wait(PATIENCE_SECONDS)
        if self.process.stdout is not None and not self.process.stdout.closed:
            self.lines += self.process.stdout.read().splitlines()
        return code


@pytest.fixture
def supervise(tmp_path: Path) -> Iterator[Callable[..., Supervised]]:
    started: list[subprocess.Popen[str]] = []

    def start(*, web: str = STAYS, worker: str = STAYS, stdout: int = subprocess.PIPE, beat: str = "") -> Supervised:
        command = [sys.executable, "-c", PROGRAM, web, worker, str(tmp_path / "ready"), beat]
        started.append(
            subprocess.Popen(command, cwd=ROOT, stdout=stdout, stderr=subprocess.STDOUT, text=True, bufsize=1)
        )
        return Supervised(started[-1])

    yield start
    for process in started:
        # Not killed, or what its children started would stay.
        process.terminate()
        process.wait(PATIENCE_SECONDS)
        if process.stdout is not None:
            process.stdout.close()


@pytest.fixture
def unused_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def is_gone(pid: int) -> bool:
    """Waits for the end of a process that is not ours to wait for."""
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([handle], [], [], PATIENCE_SECONDS)[0])
    finally:
        os.close(handle)


def test_what_the_children_say_is_shown_with_their_names(supervise):
    supervised = supervise(web="echo hello; exec sleep 600", worker="printf 'half a line'; exit 3")
    supervised.read_until("worker has ended (exit code 3)")
    assert "web    | hello" in supervised.lines
    assert "worker | half a line" in supervised.lines


def test_the_banner_is_shown_once_the_server_is_ready_and_not_before(supervise, tmp_path):
    supervised = supervise()
    supervised.pids()
    assert "Come in" not in supervised.lines
    (tmp_path / "ready").touch()
    supervised.read_until("Come in")
    supervised.process.terminate()
    supervised.end()
    assert supervised.lines.count("Come in") == 1


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_request_to_stop_ends_everything_without_complaint(supervise, number):
    supervised = supervise(worker=STARTS_ANOTHER)
    pids = supervised.pids()
    supervised.process.send_signal(number)
    assert supervised.end() == 0
    assert all(is_gone(pid) for pid in pids)
    assert len(supervised.lines) == 2


def test_ctrl_c_does_not_wait_for_a_child_that_will_not_stop(supervise):
    supervised = supervise(web=IGNORES_REQUESTS)
    pids = supervised.pids()
    supervised.process.send_signal(signal.SIGINT)
    assert supervised.end() == 0
    assert all(is_gone(pid) for pid in pids)


@pytest.mark.parametrize("name", ["web", "worker"])
def test_a_killed_child_is_started_again(supervise, name):
    supervised = supervise(**{"web": "exec sleep 600", "worker": "exec sleep 600"} | {name: STAYS})
    first = supervised.pid_of(name)
    os.kill(first, signal.SIGKILL)
    assert supervised.read_until("has ended") == f"{name} has ended (SIGKILL): starting it again in 0.5 s."
    assert supervised.pid_of(name) != first


def test_what_a_dead_child_started_is_gone_before_its_successor_comes(supervise):
    supervised = supervise(web="exec sleep 600", worker="sleep 600 & echo pid $!; exit 1")
    left_behind = supervised.pid_of("worker")
    supervised.pid_of("worker")
    assert is_gone(left_behind)


def test_a_child_that_keeps_ending_makes_it_give_up_and_say_so_last(supervise):
    supervised = supervise(worker="exit 3")
    web = supervised.pid_of("web")
    assert supervised.end() == 1
    assert supervised.lines[-1] == "worker keeps ending (exit code 3): giving up."
    assert is_gone(web)


def test_a_child_that_hangs_is_ended_with_all_it_started_and_started_again(supervise, tmp_path):
    hangs = "trap '' TERM; sleep 600 & echo pid $!; touch \"$0\"; wait; wait"
    supervised = supervise(worker=hangs.replace("$0", str(tmp_path / "beat")), beat=str(tmp_path / "beat"))
    first = supervised.pid_of("worker")
    said = supervised.read_until("sign of life")
    assert said == "worker has not shown a sign of life for 1 s: ending it by force."
    assert is_gone(first)
    assert supervised.pid_of("worker") != first


def test_a_child_that_beats_is_left_alone(supervise, tmp_path):
    beats = f"echo pid $$; while :; do touch {tmp_path / 'beat'}; sleep 0.2; echo beat; done"
    supervised = supervise(worker=beats, beat=str(tmp_path / "beat"))
    for _ in range(12):
        supervised.read_until("| beat")
    assert not any("sign of life" in line for line in supervised.lines)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells children that their parent was killed")
def test_a_killed_supervisor_leaves_no_child_behind(supervise):
    supervised = supervise()
    pids = supervised.pids()
    supervised.process.kill()
    assert all(is_gone(pid) for pid in pids)


def test_it_ends_with_its_terminal_even_when_nobody_sends_a_signal(supervise):
    terminal, inside = pty.openpty()
    supervised = supervise(stdout=inside)
    os.close(inside)
    said = b""
    while said.count(b"pid ") < 2:
        said += os.read(terminal, 1024)
    os.close(terminal)
    assert supervised.end() == 0


def test_it_ends_quietly_when_nobody_reads_its_output_any_more(supervise):
    supervised = supervise(worker=STAYS)
    worker = supervised.pid_of("worker")
    supervised.process.stdout.close()
    os.kill(worker, signal.SIGKILL)
    assert supervised.end() == 0


@pytest.mark.parametrize(("status", "expected"), [(200, True), (500, False)])
def test_only_a_good_answer_counts_as_ready(status, expected):
    class Health(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status if self.path == "/healthz" else 404)
            self.end_headers()

        def log_message(self, *_arguments: object) -> None:
            pass

    with http.server.HTTPServer(("127.0.0.1", 0), Health) as server:
        threading.Thread(target=server.handle_request, daemon=True).start()
        assert answers("127.0.0.1", server.server_port) is expected


def test_a_server_that_is_not_there_yet_is_not_ready(unused_port):
    assert answers("127.0.0.1", unused_port) is False


@pytest.mark.parametrize("module", ["tools.run", "config.supervisor"])
def test_a_taken_port_is_said_in_one_line(module):
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        finished = subprocess.run(
            [sys.executable, "-m", module, "--port", str(port)], cwd=ROOT, capture_output=True, text=True, check=False
        )
    assert finished.returncode == 1
    assert finished.stdout + finished.stderr == f"Port {port} is taken. Try: make run PORT={port + 1}\n"


def test_a_number_that_is_no_port_is_refused():
    finished = subprocess.run(
        [sys.executable, "-m", "tools.run", "--port", "99999"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert finished.returncode == 1
    assert finished.stderr == "99999 is no port: use a number from 1 to 65535.\n"
