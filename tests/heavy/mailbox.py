"""A real mail server on loopback that keeps what it is given, by the name each message carries."""

import email
import socket
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from aiosmtpd.controller import Controller

Letters = Counter[tuple[str, str]]


class Mailbox:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._came: Letters = Counter()

    async def handle_DATA(self, server: Any, session: Any, envelope: Any) -> str:
        name = email.message_from_bytes(envelope.content)["Message-ID"]
        with self._lock:
            self._came.update((name, recipient) for recipient in envelope.rcpt_tos)
        return "250 OK"

    def came(self) -> Letters:
        """Each (Message-ID, recipient), and how often it came."""
        with self._lock:
            return self._came.copy()


class Server(Controller):
    """On whatever port is free, which is taken before anybody else can."""

    def __init__(self, mailbox: Mailbox) -> None:
        self.socket = socket.create_server(("127.0.0.1", 0))
        super().__init__(mailbox, hostname="127.0.0.1", port=self.socket.getsockname()[1], ready_timeout=30)

    def _create_server(self) -> Any:
        return self.loop.create_server(self._factory_invoker, sock=self.socket)


@contextmanager
def mail_server() -> Iterator[tuple[Mailbox, str]]:
    """The mailbox, and the EMAIL_URL that leads to it."""
    mailbox = Mailbox()
    server = Server(mailbox)
    server.start()
    try:
        yield mailbox, f"smtp://127.0.0.1:{server.port}"
    finally:
        server.stop()
