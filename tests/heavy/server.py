"""A real web server over the test database, on loopback, as the supervisor would start it."""

import http.client
import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager

from config.supervisor import ends_with_parent, web_command
from tests.racing import ROOT, database_url

STARTUP_SECONDS = 60


class WebServer:
    """Without a rate limit: these tests send more than a program should."""

    def __init__(self) -> None:
        self.port = free_port()
        self.start()

    def start(self) -> None:
        environment = os.environ | {"DATABASE_URL": database_url(), "API_RATE_PER_MINUTE": "0", "LOG_LEVEL": "ERROR"}
        self.process = subprocess.Popen(
            web_command("127.0.0.1", self.port),
            cwd=ROOT,
            env=environment,
            start_new_session=True,
            preexec_fn=ends_with_parent(signal.SIGTERM),  # noqa: PLW1509
        )

    def kill(self) -> None:
        """With all its processes, and without a word."""
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(STARTUP_SECONDS)

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait(STARTUP_SECONDS)

    def wait_until_it_answers(self) -> None:
        give_up_at = time.monotonic() + STARTUP_SECONDS
        while time.monotonic() < give_up_at and self.process.poll() is None:
            connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=5)
            try:
                connection.request("GET", "/healthz")
                if connection.getresponse().status == 200:
                    return
            except OSError:
                time.sleep(0.05)
            finally:
                connection.close()
        raise AssertionError("The web server did not start.")


@contextmanager
def web_server() -> Iterator[WebServer]:
    server = WebServer()
    try:
        server.wait_until_it_answers()
        yield server
    finally:
        server.stop()


@contextmanager
def served() -> Iterator[int]:
    """For those who need no more than the port."""
    with web_server() as server:
        yield server.port


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
