"""No address of a tenant's choosing leads into our network: nothing is even tried there."""

import socket
import ssl
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tenants import egress
from tests.heavy import figures

pytestmark = [pytest.mark.both_databases, pytest.mark.heavy]
resolve = socket.getaddrinfo
tried = 0


@pytest.fixture(scope="module", autouse=True)
def figure() -> Iterator[None]:
    started = time.perf_counter()
    yield
    if tried >= len(FORBIDDEN):
        figures.report(9, f"{tried} addresses that lead inside, by number and by name: 0 connections", started=started)


def never_called(url: str, neighbour: "Listener", attempts: list[Any]) -> egress.NotAllowed:
    global tried  # noqa: PLW0603 (one run, one number)
    with pytest.raises(egress.NotAllowed) as refusal:
        call(url)
    assert attempts == []
    assert neighbour.connections == 0
    tried += 1
    return refusal.value


class Listener(ThreadingHTTPServer):
    """A neighbour on loopback who would be reached by a hole in the guard."""

    def __init__(self, handler: type[BaseHTTPRequestHandler]) -> None:
        self.connections = 0
        super().__init__(("127.0.0.1", 0), handler)

    def get_request(self) -> Any:
        found = super().get_request()
        self.connections += 1
        return found


class Answering(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        self.server.seen = dict(self.headers)  # type: ignore[attr-defined]
        self.server.body = self.rfile.read(int(self.headers["Content-Length"]))  # type: ignore[attr-defined]
        self.send_response(200)
        self.send_header("X-Told", "yes")
        self.end_headers()
        self.wfile.write(b"thanks" * 10_000 if self.path == "/much" else b"thanks")

    def log_message(self, *_: Any) -> None:
        pass


class Redirecting(Answering):
    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(307)
        self.send_header("Location", f"http://127.0.0.1:{self.server.server_address[1]}/inside")
        self.end_headers()


class Dripping(Answering):
    """One byte now and then, for ever."""

    def do_POST(self) -> None:
        try:
            self.wfile.write(b"HTTP/1.1 200 OK\r\nX-Long: ")
            while not self.server.over.wait(0.05):  # type: ignore[attr-defined]
                self.wfile.write(b"x")
        except OSError:
            pass


@pytest.fixture
def serve() -> Iterator[Callable[..., Listener]]:
    started: list[Listener] = []

    def start(handler: type[BaseHTTPRequestHandler] = Answering) -> Listener:
        server = Listener(handler)
        server.over = threading.Event()  # type: ignore[attr-defined]
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        started.append(server)
        return server

    yield start
    for server in started:
        server.over.set()  # type: ignore[attr-defined]
        server.shutdown()
        server.server_close()


@pytest.fixture
def neighbour(serve: Callable[..., Listener]) -> Listener:
    return serve()


@pytest.fixture
def attempts(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Every address that a socket was asked to connect to. Only loopback is let through: the tests call nobody."""
    tried: list[Any] = []
    connect = socket.socket.connect

    def record(self: socket.socket, address: Any) -> None:
        tried.append(address[0])
        if not str(address[0]).startswith("127."):
            raise ConnectionRefusedError
        connect(self, address)

    monkeypatch.setattr(socket.socket, "connect", record)
    return tried


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[str]]:
    """What the resolver says, one list per name; every question takes the first entry, the last one stays."""
    book: dict[str, list[str]] = {}

    def look_up(host: Any, port: Any, *rest: Any, **named: Any) -> list[Any]:
        if host not in book:
            return resolve(host, port, *rest, **named)
        said = book[host].pop(0) if len(book[host]) > 1 else book[host][0]
        found: list[Any] = []
        for address in said.split():
            bare, _, scope = address.partition("%")
            if ":" in bare:
                found.append((socket.AF_INET6, socket.SOCK_STREAM, 6, "", (bare, port, 0, int(scope or 0))))
            else:
                found.append((socket.AF_INET, socket.SOCK_STREAM, 6, "", (bare, port)))
        return found

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    return book


@pytest.fixture
def private_allowed(settings: Any) -> None:
    settings.WEBHOOK_ALLOW_PRIVATE = True


def call(url: str, timeout: float = 5) -> egress.Answer:
    return egress.post(url, content=b"{}", headers={"X-Said": "this"}, timeout=timeout)


# PORT stands for the neighbour's, where something would answer.
FORBIDDEN = [
    # this machine, plainly and in every spelling
    "https://127.0.0.1:PORT/",
    "https://127.1:PORT/",
    "https://127.0.1:PORT/",
    "https://127.255.255.254:PORT/",
    "https://2130706433:PORT/",
    "https://017700000001:PORT/",
    "https://0x7f000001:PORT/",
    "https://0x7f.0.0.1:PORT/",
    "https://0x7f.1:PORT/",
    "https://0177.0.0.1:PORT/",
    "https://00000177.0.0.0x1:PORT/",
    "https://127.0.0.1.:PORT/",
    "https://127.0.0.0x1:PORT/",
    "https://0:PORT/",
    "https://0.0.0.0:PORT/",
    "https://0x0:PORT/",
    "https://0.1.2.3:PORT/",
    "https://\uff11\uff12\uff17.0.0.1:PORT/",
    "https://127。0。0。1:PORT/",
    "https://①②⑦.0.0.1:PORT/",
    "https://%31%32%37.0.0.1:PORT/",
    "https://127%2e0%2e0%2e1:PORT/",
    "https://127.0.0.1%00.example:PORT/",
    "https://localhost:PORT/",
    "https://LOCALHOST:PORT/",
    "https://localhost.:PORT/",
    "https://any.localhost:PORT/",
    "https://printer.local/",
    "https://vault.internal/",
    "https://metadata/",
    "https://[::1]:PORT/",
    "https://[0:0:0:0:0:0:0:1]:PORT/",
    "https://[::]:PORT/",
    "https://[::127.0.0.1]:PORT/",
    # IPv4 inside IPv6
    "https://[::ffff:127.0.0.1]:PORT/",
    "https://[::ffff:7f00:1]:PORT/",
    "https://[::ffff:8.8.8.8]/",
    "https://[::ffff:0:127.0.0.1]/",
    "https://[64:ff9b::127.0.0.1]:PORT/",
    "https://[64:ff9b::8.8.8.8]/",
    "https://[64:ff9b:1::10.0.0.1]/",
    "https://[2002:7f00:1::]/",
    "https://[2002:0808:0808::1]/",
    "https://[2001:0:4136:e378:8000:63bf:80ff:fffe]/",
    "https://[2a00:1450:4001:801::5efe:10.0.0.1]/",
    "https://[2a00:1450:4001:801:200:5efe:10.0.0.1]/",
    # networks of one's own
    "https://10.0.0.1/",
    "https://172.16.0.1/",
    "https://172.31.255.255/",
    "https://192.168.1.1/",
    "https://192.168.257/",
    "https://100.64.0.1/",
    "https://169.254.1.1/",
    "https://[fc00::1]/",
    "https://[fd12:3456:789a::1]/",
    "https://[fec0::1]/",
    "https://[fe80::1]/",
    "https://[fe80::1%25lo]/",
    "https://[fe80::1%lo]/",
    # where clouds keep credentials
    "https://169.254.169.254/latest/meta-data/",
    "https://2852039166/latest/meta-data/",
    "https://0xa9fea9fe/",
    "https://[::ffff:a9fe:a9fe]/",
    "https://[fd00:ec2::254]/",
    "https://[fd20:ce::254]/",
    "https://168.63.129.16/",
    "https://100.100.100.200/",
    "https://192.0.0.192/",
    "https://metadata.google.internal/",
    # reserved, documentation, benchmarks, multicast, broadcast
    "https://192.0.2.1/",
    "https://192.88.99.1/",
    "https://198.18.0.1/",
    "https://198.51.100.7/",
    "https://203.0.113.7/",
    "https://224.0.0.1/",
    "https://239.255.255.250/",
    "https://240.0.0.1/",
    "https://255.255.255.255/",
    "https://[2001:db8::1]/",
    "https://[3fff::1]/",
    "https://[100::1]/",
    "https://[5f00::1]/",
    "https://[ff02::1]/",
    # not what one calls
    "http://hooks.example/",
    "http://127.0.0.1:PORT/",
    "HTTP://hooks.example/",
    "ftp://hooks.example/",
    "file:///etc/passwd",
    "gopher://127.0.0.1:PORT/_x",
    "unix:///run/docker.sock",
    "javascript:alert(1)",
    "//127.0.0.1:PORT/",
    "127.0.0.1:PORT",
    "https:///path",
    "https://",
    "https:",
    "",
    "https://user:secret@hooks.example/",
    "https://hooks.example@127.0.0.1:PORT/",
    "https://127.0.0.1:PORT@hooks.example/",
    "https://hooks.example\\@127.0.0.1:PORT/",
    "https://127.0.0.1:PORT\\.hooks.example/",
    "https://hooks.example:0/",
    "https://hooks.example:99999/",
    "https://hooks.example:port/",
    "https://hooks .example/",
    "https://hooks.example/\r\nHost: inside",
    "\thttps://127.0.0.1:PORT/",
    "https://[::1/",
    "https://[127.0.0.1]:PORT/",
    "https://hooks..example/",
    "https://.example/",
    "https://" + "a" * 64 + ".example/",
    "https://hooks.example/" + "a" * 2000,
]


@pytest.mark.parametrize("url", FORBIDDEN)
def test_a_forbidden_address_is_refused_in_words_and_never_tried(url, neighbour, attempts):
    url = url.replace("PORT", str(neighbour.server_address[1]))
    assert egress.trouble_with(url).endswith(".")
    assert never_called(url, neighbour, attempts).permanent


@pytest.mark.parametrize(
    "addresses",
    [
        "127.0.0.1",
        "10.0.0.5",
        "169.254.169.254",
        "168.63.129.16",
        "100.64.0.1",
        "0.0.0.0",  # noqa: S104
        "224.0.0.1",
        "255.255.255.255",
        "::1",
        "::",
        "::ffff:127.0.0.1",
        "::ffff:8.8.8.8",
        "64:ff9b::7f00:1",
        "64:ff9b:1::1",
        "2002:7f00:1::",
        "2001:0:4136:e378:8000:63bf:80ff:fffe",
        "fd00:ec2::254",
        "fe80::1%2",
        "2a00:1450:4001:801::200e%2",
        # one of several is enough
        "8.8.8.8 127.0.0.1",
        "127.0.0.1 8.8.8.8",
        "2a00:1450:4001:801::200e ::1",
    ],
)
def test_a_name_that_leads_inside_is_refused_and_never_tried(addresses, neighbour, attempts, names):
    names["hooks.example"] = [addresses]
    refusal = never_called(f"https://hooks.example:{neighbour.server_address[1]}/", neighbour, attempts)
    # The name may be repaired; and what it leads to is not told.
    assert not refusal.permanent
    assert not set(addresses.split()) & set(str(refusal).split())


def test_a_name_is_asked_for_once_so_that_it_cannot_change_its_mind(neighbour, attempts, names):
    names["hooks.example"] = ["93.184.215.14", "127.0.0.1"]
    with pytest.raises(egress.Unanswered):
        call(f"https://hooks.example:{neighbour.server_address[1]}/")
    assert attempts == ["93.184.215.14"]
    assert names["hooks.example"] == ["127.0.0.1"]
    assert neighbour.connections == 0


def test_a_public_address_is_tried(attempts, names):
    """The guard refuses, and does not refuse everything."""
    names["hooks.example"] = ["8.8.8.8 2a00:1450:4001:801::200e"]
    for url in ("https://hooks.example/", "https://1.1.1.1/", "https://[2a00:1450:4001:801::200e]:8443/"):
        assert egress.trouble_with(url) == ""
        with pytest.raises(egress.Unanswered, match="refused"):
            call(url)
    assert attempts == [
        *("8.8.8.8", "2a00:1450:4001:801::200e"),
        "1.1.1.1",
        "2a00:1450:4001:801::200e",
    ]


def test_a_redirect_is_an_answer_and_not_followed(serve, attempts, private_allowed):
    redirecting = serve(Redirecting)
    answer = call(f"http://127.0.0.1:{redirecting.server_address[1]}/")
    assert answer.status == 307
    assert redirecting.connections == 1


def test_an_operator_may_allow_private_addresses_and_plain_http(neighbour, attempts, private_allowed):
    answer = call(f"http://127.0.0.1:{neighbour.server_address[1]}/hook")
    assert (answer.status, answer.body, answer.headers["x-told"]) == (200, b"thanks", "yes")
    assert neighbour.body == b"{}"
    assert neighbour.seen["X-Said"] == "this"
    assert neighbour.seen["Host"] == f"127.0.0.1:{neighbour.server_address[1]}"
    assert attempts == ["127.0.0.1"]


@pytest.mark.parametrize(
    "url",
    [
        "http://169.254.169.254/",
        "http://[fd00:ec2::254]/",
        "http://100.100.100.200/",
        "http://168.63.129.16/",
        "http://0.0.0.0/",
        "http://[fe80::1]/",
        "http://[::ffff:127.0.0.1]/",
        "http://2130706433/",
        "http://224.0.0.1/",
        "http://user:secret@127.0.0.1/",
        "ftp://127.0.0.1/",
    ],
)
def test_even_then_metadata_and_odd_spellings_stay_shut(url, attempts, private_allowed):
    assert egress.trouble_with(url)
    with pytest.raises(egress.NotAllowed):
        call(url)
    assert attempts == []


def test_a_proxy_of_the_environment_is_not_used(neighbour, attempts, private_allowed, serve, monkeypatch):
    proxy = serve()
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, f"http://127.0.0.1:{proxy.server_address[1]}")
    call(f"http://127.0.0.1:{neighbour.server_address[1]}/")
    assert (neighbour.connections, proxy.connections) == (1, 0)


def test_of_a_long_answer_only_the_beginning_is_read(neighbour, private_allowed):
    answer = call(f"http://127.0.0.1:{neighbour.server_address[1]}/much")
    assert len(answer.body) == 16 * 1024


def test_whoever_drips_is_cut_off_when_the_time_is_up(serve, private_allowed):
    dripping = serve(Dripping)
    began = time.monotonic()
    with pytest.raises(egress.Unanswered, match=r"within 0\.4 seconds"):
        call(f"http://127.0.0.1:{dripping.server_address[1]}/", timeout=0.4)
    assert time.monotonic() - began < 3


def test_a_resolver_that_hangs_is_not_waited_for(monkeypatch, private_allowed):
    over = threading.Event()
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: over.wait(20) and [])
    began = time.monotonic()
    with pytest.raises(egress.Unanswered, match=r"within 0\.3 seconds"):
        call("http://hooks.example/", timeout=0.3)
    over.set()
    assert time.monotonic() - began < 3


def test_a_name_that_nobody_has_is_said_to_be_unknown(monkeypatch):
    def nobody(*_: Any, **__: Any) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", nobody)
    with pytest.raises(egress.Unanswered, match="The host was not found"):
        call("https://hooks.example/")


def test_a_server_that_is_away_is_told_apart_from_one_that_may_not_be_called(private_allowed):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with pytest.raises(egress.Unanswered, match="refused"):
        call(f"http://127.0.0.1:{port}/")


def test_something_that_does_not_speak_http_is_unanswered(serve, private_allowed):
    class Rude(Answering):
        def do_POST(self) -> None:
            self.wfile.write(b"220 mail.example ESMTP\r\n")

    with pytest.raises(egress.Unanswered, match="not HTTP"):
        call(f"http://127.0.0.1:{serve(Rude).server_address[1]}/")


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    """Of hooks.example, signed by nobody but itself."""
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"),
            *("-days", "2", "-subj", "/CN=hooks.example", "-addext", "subjectAltName=DNS:hooks.example"),
            *("-keyout", str(tmp_path / "both.pem"), "-out", str(tmp_path / "certificate.pem")),
        ],
        check=True,
        capture_output=True,
    )
    with (tmp_path / "both.pem").open("a") as both:
        both.write((tmp_path / "certificate.pem").read_text())
    return tmp_path


@pytest.fixture
def secure_neighbour(serve: Callable[..., Listener], certificate: Path) -> Listener:
    server = serve()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate / "both.pem")
    server.names_asked_for = []  # type: ignore[attr-defined]
    context.sni_callback = lambda _, name, __: server.names_asked_for.append(name)  # type: ignore[attr-defined]
    server.socket = context.wrap_socket(server.socket, server_side=True)
    return server


def test_tls_is_checked_against_the_name_though_the_address_is_called(
    secure_neighbour, certificate, names, attempts, private_allowed, monkeypatch
):
    names["hooks.example"] = ["127.0.0.1"]
    names["other.example"] = ["127.0.0.1"]
    port = secure_neighbour.server_address[1]
    with pytest.raises(egress.Unanswered, match="certificate is not valid"):
        call(f"https://hooks.example:{port}/")

    trusting = ssl.create_default_context(cafile=str(certificate / "certificate.pem"))
    monkeypatch.setattr(egress, "_tls", lambda: trusting)
    assert call(f"https://hooks.example:{port}/").status == 200
    assert secure_neighbour.seen["Host"] == f"hooks.example:{port}"
    with pytest.raises(egress.Unanswered, match="certificate is not valid"):
        call(f"https://other.example:{port}/")
    assert secure_neighbour.names_asked_for == ["hooks.example", "hooks.example", "other.example"]
    assert set(attempts) == {"127.0.0.1"}
