"""Addresses that belong to nobody."""

import pytest
from django.test import Client

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize("debug", [False, True])
@pytest.mark.parametrize("address", ["/v1/nothing", "/v1/checkpoints/nope", "/v1/checkpoints/", "/api/x", "/v1/ü"])
@pytest.mark.parametrize("method", ["GET", "POST", "DELETE"])
def test_a_program_that_lost_its_way_gets_a_problem(settings: object, debug: bool, address: str, method: str) -> None:
    settings.DEBUG = debug  # type: ignore[attr-defined]
    response = Client(enforce_csrf_checks=True).generic(method, address)
    assert response.status_code == 404
    assert response["Content-Type"] == "application/problem+json"
    assert response.json()["code"] == "not_found"


def test_a_person_who_lost_their_way_gets_a_page() -> None:
    response = Client().get("/nothing/here")
    assert response.status_code == 404
    assert "There is nothing at this address." in response.content.decode()
    assert response["X-Request-ID"] in response.content.decode()


def test_the_server_says_that_it_is_alive() -> None:
    assert Client().get("/healthz").content == b"ok\n"
