"""Real servers on loopback for what is sent: an HTTP endpoint and a mail server that do as they are told."""

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from aiosmtpd.controller import Controller
from aiosmtpd.smtp import SMTP, AuthResult, Envelope, Session

HANG = "hang"


@dataclass
class Request:
    path: str
    headers: dict[str, str]
    body: bytes
    # By the clock of the tests, which some of them move.
    at: float = field(default_factory=time.time)


@dataclass
class Reply:
    status: int = 200
    body: bytes = b"ok"
    headers: dict[str, str] = field(default_factory=dict)


@dataclass
class HttpEndpoint:
    """Answers with what is next in ``replies``; the last one stays. HANG takes the request and says nothing; a function
    is called for the reply, and may take its time."""

    replies: list[Any] = field(default_factory=lambda: [Reply()])
    requests: list[Request] = field(default_factory=list)
    address: str = ""
    over: threading.Event = field(default_factory=threading.Event)
    listen: Callable[[], None] = lambda: None

    def next_reply(self) -> Any:
        return self.replies.pop(0) if len(self.replies) > 1 else self.replies[0]


@contextmanager
def http_endpoint(*, listening: bool = True) -> Iterator[HttpEndpoint]:
    """Without ``listening`` it has an address, and refuses every connection until ``listen()``."""
    endpoint = HttpEndpoint()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            headers = {name.lower(): value for name, value in self.headers.items()}
            endpoint.requests.append(Request(self.path, headers, body))
            reply = endpoint.next_reply()
            if callable(reply):
                reply = reply()
            if reply == HANG:
                endpoint.over.wait(30)
                return
            self.send_response(reply.status)
            for name, value in ({"Content-Length": str(len(reply.body))} | reply.headers).items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(reply.body)

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler, bind_and_activate=False)
    server.server_bind()
    endpoint.address = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)

    def listen() -> None:
        server.server_activate()
        thread.start()

    endpoint.listen = listen
    if listening:
        listen()
    try:
        yield endpoint
    finally:
        endpoint.over.set()
        if thread.is_alive():
            server.shutdown()
            thread.join()
        server.server_close()


@dataclass
class MailServer:
    """``refuses`` maps a recipient to the answer it gets; ``at_data`` is what a whole message is answered."""

    port: int = 0
    refuses: dict[str, str] = field(default_factory=dict)
    at_data: str = "250 OK"
    taken: list[Envelope] = field(default_factory=list)
    sessions: set[Any] = field(default_factory=set)
    # Ends the connections that are open now, as a server does with idle ones.
    end_connections: Callable[[], None] = lambda: None

    async def handle_RCPT(
        self, server: SMTP, session: Session, envelope: Envelope, address: str, options: list[str]
    ) -> str:
        if address in self.refuses:
            return self.refuses[address]
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, server: SMTP, session: Session, envelope: Envelope) -> str:
        self.sessions.add(session.peer)
        if self.at_data.startswith("250"):
            self.taken.append(envelope)
        return self.at_data


class _Controller(Controller):
    """On a port that the system chose, and that nobody can take in between."""

    def __init__(self, handler: Any, **options: Any) -> None:
        self.listening = socket.create_server(("127.0.0.1", 0))
        self.transports: list[Any] = []
        super().__init__(handler, hostname="127.0.0.1", port=self.listening.getsockname()[1], **options)

    def factory(self) -> SMTP:
        found = super().factory()
        made = found.connection_made

        def remember(transport: Any) -> None:
            self.transports.append(transport)
            made(transport)

        found.connection_made = remember  # type: ignore[method-assign]
        return found

    def _create_server(self) -> Any:
        return self.loop.create_server(self._factory_invoker, sock=self.listening)

    def end_connections(self) -> None:
        ended = threading.Event()

        def end() -> None:
            for transport in self.transports:
                transport.close()
            # After the loop has looked at the closed ones.
            self.loop.call_later(0.05, ended.set)

        self.loop.call_soon_threadsafe(end)
        ended.wait(5)


@contextmanager
def mail_server(password: str = "") -> Iterator[MailServer]:
    server = MailServer()
    options: dict[str, Any] = {}
    if password:
        options = {
            "authenticator": lambda _, __, ___, ____, data: AuthResult(
                success=data.password == password.encode(), handled=False
            ),
            "auth_required": True,
            "auth_require_tls": False,
        }
    controller = _Controller(server, **options)
    server.port = controller.port
    server.end_connections = controller.end_connections
    controller.start()
    try:
        yield server
    finally:
        controller.stop()


@contextmanager
def silent_server() -> Iterator[int]:
    """Takes connections and never says a word."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield listening.getsockname()[1]


def closed_port() -> int:
    """Where nobody listens."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return int(taken.getsockname()[1])
