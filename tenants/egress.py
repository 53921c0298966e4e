"""Which addresses may be called. Everything that is sent to an address a tenant gave goes through ``post``.

A name is resolved once, here; every address it has is judged; and the socket is opened to one of the judged addresses.
A name that answers differently the second time is never asked a second time. Host header and TLS keep the name.
"""

import functools
import ipaddress
import re
import socket
import ssl
import threading
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import httpcore
import httpx
from django.conf import settings

LONGEST_URL = 2000
MOST_ANSWER = 16 * 1024
CONNECT_SECONDS = 5.0
# Two of them: a name often has an address of each kind, and only one of them leads somewhere.
MOST_ADDRESSES_TRIED = 2

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network


def _networks(*names: str) -> tuple[Network, ...]:
    return tuple(ipaddress.ip_network(name) for name in names)


# Python's own ``is_global`` differs from release to release, so that the list is here as well.
NOT_PUBLIC = _networks(
    *("0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12"),
    *("192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15", "198.51.100.0/24"),
    *("203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4"),
    # Teredo and other protocols, documentation, and 6to4, which carries an IPv4 address inside.
    *("2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20"),
)
# Nothing else of IPv6 is handed out. Mapped IPv4, NAT64, unique local, link-local and multicast lie outside of it.
PUBLIC_IPV6 = ipaddress.IPv6Network("2000::/3")
# What WEBHOOK_ALLOW_PRIVATE opens; link-local and the like stay shut.
PRIVATE = _networks(
    *("10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "::1/128", "fc00::/7")
)
# Where clouds hand out the credentials of the machine, also where they lie among public or private addresses.
METADATA = _networks(
    *("169.254.0.0/16", "168.63.129.16/32", "100.100.100.200/32", "192.0.0.192/32"),
    *("fd00:ec2::254/128", "fd20:ce::254/128"),
)
# Interface identifiers of ISATAP: an IPv4 address in the last four bytes of any IPv6 address.
ISATAP = {0x00005EFE, 0x02005EFE}
INSIDE = (".localhost", ".local", ".internal", ".intranet", ".lan", ".home.arpa", ".onion")
HOST = re.compile(r"[a-z0-9_-]{1,63}(\.[a-z0-9_-]{1,63})*\.?", re.ASCII)
# What resolvers take for an IPv4 address: 2130706433, 0x7f.1, 0177.0.0.1.
NUMBER = re.compile(r"([0-9]+|0x[0-9a-f]*)", re.ASCII)


class EgressError(Exception):
    """It was not called, or did not answer. The text is for people and holds nothing of the address."""

    def __init__(self, detail: str, *, permanent: bool = False) -> None:
        self.detail = detail
        # The address itself will never do.
        self.permanent = permanent
        super().__init__(detail)


class NotAllowed(EgressError):
    pass


class Unanswered(EgressError):
    pass


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    # Names in lower case.
    headers: dict[str, str]
    # The beginning of it, as it came: nothing is unpacked.
    body: bytes


def trouble_with(url: str) -> str:
    """What is wrong with an address, in a sentence for forms and the API; empty when it may be tried.

    Nothing is resolved or called: a name is judged by its addresses when something is sent.
    """
    if not url or len(url) > LONGEST_URL:
        return f"An address has 1 to {LONGEST_URL} characters."
    if any(not char.isprintable() or char in ' \\"<>^`{|}' for char in url):
        return "An address holds no blanks, backslashes, quotes or control characters."
    try:
        parsed = httpx.URL(url)
        host, port = parsed.raw_host.decode("ascii").lower(), parsed.port
    except (httpx.InvalidURL, ValueError):
        return "This address cannot be read."
    if parsed.scheme != "https" and not (parsed.scheme == "http" and settings.WEBHOOK_ALLOW_PRIVATE):
        return "The address must start with https://."
    if parsed.userinfo:
        return "The address must not hold a user name or a password."
    if port is not None and not 0 < port < 65536:
        return "A port is a number from 1 to 65535."
    return _trouble_with_host(host)


def _trouble_with_host(host: str) -> str:
    if ":" in host:
        return _trouble_with_literal(host)
    if not HOST.fullmatch(host):
        return "The address needs a host, such as https://hooks.example/path."
    host = host.removesuffix(".")
    if NUMBER.fullmatch(host.rpartition(".")[2]):
        # The last part is a number, so that resolvers read the whole as IPv4, some of them in odd ways.
        return _trouble_with_literal(host)
    if settings.WEBHOOK_ALLOW_PRIVATE:
        return ""
    if "." not in host or f".{host}".endswith(INSIDE):
        return "The host must be one that everybody on the internet can reach."
    return ""


def _trouble_with_literal(host: str) -> str:
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return "The host looks like an IP address, but is none in the usual spelling."
    return "" if may_be_called(address) else "The host must not be a private or reserved address."


def may_be_called(address: Address) -> bool:
    if _within(address, METADATA):
        return False
    return is_public(address) or (settings.WEBHOOK_ALLOW_PRIVATE and _within(address, PRIVATE))


def is_public(address: Address) -> bool:
    if isinstance(address, ipaddress.IPv6Address) and not _is_plain(address):
        return False
    return address.is_global and not address.is_multicast and not _within(address, NOT_PUBLIC)


def _is_plain(address: ipaddress.IPv6Address) -> bool:
    carries_ipv4 = (int(address) >> 32) & 0xFFFFFFFF in ISATAP
    return address in PUBLIC_IPV6 and not address.scope_id and not carries_ipv4


def _within(address: Address, networks: tuple[Network, ...]) -> bool:
    return any(address in network for network in networks)


def post(url: str, *, content: bytes, headers: Mapping[str, str], timeout: float) -> Answer:
    """One POST and its answer, whatever its status; redirects are answers too. Raises EgressError.

    Everything together takes no longer than ``timeout`` seconds.
    """
    if trouble := trouble_with(url):
        raise NotAllowed(trouble, permanent=True)
    until = time.monotonic() + timeout
    parsed = httpx.URL(url)
    fixed = [
        ("Host", parsed.netloc.decode("ascii")),
        ("Accept-Encoding", "identity"),
        ("Connection", "close"),
        ("Content-Length", str(len(content))),
    ]
    request = httpcore.Request(
        "POST",
        httpcore.URL(scheme=parsed.raw_scheme, host=parsed.raw_host, port=parsed.port, target=parsed.raw_path),
        headers=[*fixed, *headers.items()],
        content=content,
        # The bound of all of it is kept by the stream below.
        extensions={"timeout": {"connect": min(CONNECT_SECONDS, timeout), "read": timeout, "write": timeout}},
    )
    try:
        with httpcore.ConnectionPool(ssl_context=_tls(), network_backend=_Checked(until), max_connections=1) as pool:
            response = pool.handle_request(request)
            try:
                body = _beginning_of(response.iter_stream())
            finally:
                response.close()
    except httpcore.TimeoutException as error:
        raise Unanswered(f"No answer within {timeout:g} seconds.") from error
    except (httpcore.NetworkError, httpcore.ProtocolError, httpcore.UnsupportedProtocol) as error:
        raise Unanswered(_in_words(error)) from error
    found = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in response.headers}
    return Answer(status=response.status, headers=found, body=body)


def _beginning_of(parts: Iterable[bytes]) -> bytes:
    found = b""
    for part in parts:
        found += part
        if len(found) >= MOST_ANSWER:
            break
    return found[:MOST_ANSWER]


def _in_words(error: Exception) -> str:
    # The library hands on what it met as its only argument, and cuts the chain of causes.
    cause = error.args[0] if error.args else None
    if isinstance(cause, ssl.SSLCertVerificationError):
        return f"The certificate is not valid for this host: {cause.verify_message}."
    if isinstance(cause, ssl.SSLError):
        return "The encrypted connection could not be set up."
    if isinstance(cause, ConnectionRefusedError):
        return "The connection was refused."
    if isinstance(error, httpcore.ProtocolError):
        return "The answer was not HTTP, or ended half way."
    return "The connection failed or broke off."


@functools.cache
def _tls() -> ssl.SSLContext:
    return httpx.create_ssl_context(trust_env=False)


class _Checked(httpcore.NetworkBackend):
    """Resolves a name, refuses it when any of its addresses may not be called, and connects to one that was judged."""

    def __init__(self, until: float) -> None:
        self._until = until
        self._backend = httpcore.SyncBackend()

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.NetworkStream:
        addresses = _judged(host, port, _left(self._until, timeout))
        refusal: Exception = httpcore.ConnectError("no address")
        for address in addresses[:MOST_ADDRESSES_TRIED]:
            try:
                # A number, never the name: nothing is looked up again.
                stream = self._backend.connect_tcp(str(address), port, _left(self._until, timeout))
                return _Bounded(stream, self._until)
            except (httpcore.ConnectError, httpcore.ConnectTimeout) as error:
                refusal = error
        raise refusal

    def connect_unix_socket(
        self, path: str, timeout: float | None = None, socket_options: Iterable[Any] | None = None
    ) -> httpcore.NetworkStream:
        raise NotAllowed("Only hosts can be called.", permanent=True)


class _Bounded(httpcore.NetworkStream):
    """Whoever answers one byte at a time is cut off as well."""

    def __init__(self, stream: httpcore.NetworkStream, until: float) -> None:
        self._stream = stream
        self._until = until

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return self._stream.read(max_bytes, _left(self._until, timeout))

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self._stream.write(buffer, _left(self._until, timeout))

    def close(self) -> None:
        self._stream.close()

    def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore.NetworkStream:
        secured = self._stream.start_tls(ssl_context, server_hostname, _left(self._until, timeout))
        return _Bounded(secured, self._until)

    def get_extra_info(self, info: str) -> Any:
        return self._stream.get_extra_info(info)


def _left(until: float, timeout: float | None) -> float:
    left = until - time.monotonic()
    if left <= 0:
        raise httpcore.ReadTimeout("the time for the whole call is used up")
    return left if timeout is None else min(left, timeout)


def _judged(host: str, port: int, timeout: float) -> list[Address]:
    found: list[Address] = []
    for family, _, _, _, sockaddr in _resolved(host, port, timeout):
        # A scope names an interface of this machine, whether it comes in the text or beside it.
        scoped = "%" in str(sockaddr[0]) or (family == socket.AF_INET6 and bool(sockaddr[3]))
        address = None if scoped else ipaddress.ip_address(sockaddr[0])
        if address is None or not may_be_called(address):
            raise NotAllowed("The host leads to a private or reserved address.")
        if address not in found:
            found.append(address)
    return found


def _resolved(host: str, port: int, timeout: float) -> list[Any]:
    """In a thread of its own: a resolver has no time limit that one could give it."""
    answers: list[Any] = []
    problems: list[Exception] = []

    def ask() -> None:
        try:
            answers.extend(socket.getaddrinfo(host, port, type=socket.SOCK_STREAM))
        except (OSError, UnicodeError) as error:
            problems.append(error)

    asking = threading.Thread(target=ask, name="egress-resolver", daemon=True)
    asking.start()
    asking.join(timeout)
    if asking.is_alive():
        raise httpcore.ConnectTimeout("the resolver takes too long")
    if problems or not answers:
        raise Unanswered("The host was not found.")
    return answers
