"""Every answer names its request, and addresses are UTF-8."""

import pytest
from django.http import HttpRequest, HttpResponse
from django.test import Client, RequestFactory

from config.middleware import OnlyUtf8, RequestId


def echo(request: HttpRequest) -> HttpResponse:
    return HttpResponse(f"{request.request_id} {request.GET.get('name', '')}")  # type: ignore[attr-defined]


def through(**extra: str) -> HttpResponse:
    request = RequestFactory().get("/?name=%C3%A9", **extra)  # type: ignore[arg-type]
    return RequestId(OnlyUtf8(echo))(request)


@pytest.mark.parametrize("given", ["a", "abc-1.2_3", "x" * 64])
def test_a_plain_word_of_the_caller_names_the_request(given: str) -> None:
    response = through(HTTP_X_REQUEST_ID=given)

    assert response["X-Request-ID"] == given
    assert response.content.decode().split()[0] == given


@pytest.mark.parametrize("given", ["", "x" * 65, "a b", "a\nb", "a\r\nSet-Cookie: x", "<b>", "ü", "a\n"])
def test_anything_else_is_replaced(given: str) -> None:
    made = through(HTTP_X_REQUEST_ID=given)["X-Request-ID"]

    assert made != given
    assert len(made) == 32
    assert through(HTTP_X_REQUEST_ID=given)["X-Request-ID"] != made


@pytest.mark.parametrize("charset", ["utf-8", "latin-1", "utf-7", "unicode_escape", "nonsense"])
def test_an_address_is_utf8_whatever_charset_the_request_names(charset: str) -> None:
    assert through(CONTENT_TYPE=f"text/plain; charset={charset}").content.decode().endswith(" é")


@pytest.mark.django_db
def test_pages_have_a_request_id_too() -> None:
    assert len(Client().get("/healthz")["X-Request-ID"]) == 32
    missing = Client().get("/nowhere")
    assert missing.status_code == 404
    assert missing["X-Request-ID"] in missing.content.decode()
