"""Addresses at which there is nothing."""

from typing import Any

import pytest
from django.test import Client


@pytest.mark.parametrize("debug", [True, False])
@pytest.mark.parametrize("address", ["/v1", "/v1/", "/api", "/api/", "/v1/nothing", "/api/v2/x/", "/v1//", "/api/%0A"])
@pytest.mark.parametrize("method", ["get", "post"])
def test_programs_get_a_problem_where_there_is_nothing(settings: Any, address: str, method: str, debug: bool) -> None:
    settings.DEBUG = debug
    response = getattr(Client(enforce_csrf_checks=True), method)(address)
    assert (response.status_code, response["Content-Type"]) == (404, "application/problem+json")
    assert response.json()["detail"] == "There is nothing at this address."


@pytest.mark.parametrize("address", ["/v1x", "/apis", "/nothing"])
def test_people_get_a_page(address: str) -> None:
    response = Client().get(address)
    assert (response.status_code, response["Content-Type"]) == (404, "text/html; charset=utf-8")
    assert "There is nothing at this address." in response.content.decode()
