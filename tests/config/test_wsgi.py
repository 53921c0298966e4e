"""What reaches the server before any middleware does."""

import pytest
from django.test import RequestFactory

from config.wsgi import application


@pytest.mark.parametrize("charset", ["hex", "undefined", "unicode_escape", "latin-1", "utf-8", "no-such", "\xff"])
def test_a_strange_charset_is_no_reason_to_fail(db: None, charset: str) -> None:
    environ = RequestFactory().get("/healthz?a=%C3%BC").environ | {
        "CONTENT_TYPE": f"application/json; charset={charset}",
        "SERVER_NAME": "localhost",
    }
    answered: list[str] = []
    list(application(environ, lambda status, headers: answered.append(status)))  # type: ignore[arg-type]
    assert answered in (["200 OK"], ["415 Unsupported Media Type"], ["400 Bad Request"])
