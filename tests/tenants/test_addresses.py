"""The client's address: from the connection, or from a proxy that the operator trusts."""

from typing import Any

import pytest
from django.test import RequestFactory

from tenants.addresses import address_of, client_of, is_this_machine

PROXY = "10.0.0.1"


def request(forwarded: str | None) -> Any:
    extra = {} if forwarded is None else {"HTTP_X_FORWARDED_FOR": forwarded}
    return RequestFactory().get("/", REMOTE_ADDR=PROXY, **extra)


def test_without_trust_the_header_counts_for_nothing() -> None:
    assert address_of(request("192.0.2.7")) == PROXY


@pytest.mark.parametrize(
    ("forwarded", "found"),
    [
        ("192.0.2.7", "192.0.2.7"),
        ("198.51.100.1, 192.0.2.7", "192.0.2.7"),
        ("anything at all,192.0.2.7", "192.0.2.7"),
        ("192.0.2.7:4711", "192.0.2.7"),
        ("2001:db8::1", "2001:db8::1"),
        ("[2001:db8::1]:4711", "2001:db8::1"),
        ("192.0.2.7, ", PROXY),
        ("unknown", PROXY),
        ("192.0.2.7 OR 1=1", PROXY),
        ("", PROXY),
        (None, PROXY),
    ],
)
def test_a_trusted_proxy_is_believed_about_the_last_one_before_it(
    settings: Any, forwarded: str | None, found: str
) -> None:
    settings.TRUST_PROXY = True
    assert address_of(request(forwarded)) == found


@pytest.mark.parametrize(
    ("address", "client"),
    [
        ("192.0.2.7", "192.0.2.7"),
        ("::ffff:192.0.2.7", "192.0.2.7"),
        ("2001:db8:0:1:aaaa::1", "2001:db8:0:1::"),
        ("fe80::1%eth0", "fe80::"),
        ("", ""),
        ("no address", ""),
    ],
)
def test_one_client_is_one_address_or_one_network(address: str, client: str) -> None:
    assert client_of(address) == client


@pytest.mark.parametrize(("address", "here"), [("127.0.0.1", True), ("::1", True), ("192.0.2.7", False), ("", False)])
def test_the_machine_knows_itself(address: str, here: bool) -> None:
    assert is_this_machine(address) is here
