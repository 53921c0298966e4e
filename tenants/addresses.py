"""Where a request came from. Everything that records, counts or compares a client's address asks here."""

import ipaddress
from typing import Any

from django.conf import settings

LONGEST = 64
# Whoever rents an IPv6 address owns this much of the space around it.
ONE_CLIENT = 64


def address_of(request: Any) -> str:
    direct = str(request.META.get("REMOTE_ADDR", ""))[:LONGEST]
    if not settings.TRUST_PROXY:
        return direct
    # The last entry is the one that our own proxy wrote; those before it are whatever the client sent.
    last = str(request.META.get("HTTP_X_FORWARDED_FOR", "")).rpartition(",")[2].strip()
    found = _parsed(last) or _parsed(last.rpartition(":")[0].strip("[]"))
    return str(found) if found else direct


def client_of(address: str) -> str:
    """What counts as one client: an IPv4 address, or the network that goes with an IPv6 one. Empty for neither."""
    found = _parsed(address)
    if found is None:
        return ""
    if isinstance(found, ipaddress.IPv6Address):
        if found.ipv4_mapped:
            return str(found.ipv4_mapped)
        return str(ipaddress.ip_network((int(found), ONE_CLIENT), strict=False).network_address)
    return str(found)


def is_this_machine(address: str) -> bool:
    found = _parsed(address)
    return found is not None and found.is_loopback


def _parsed(address: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return None
