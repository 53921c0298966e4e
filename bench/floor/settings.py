"""The least that Django and DRF need: no authentication, no middleware. The database is used as well as it can be."""

import os
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit


def database(url: str) -> dict[str, Any]:
    parts = urlsplit(url)
    if parts.scheme == "sqlite":
        return {
            "ENGINE": "django.db.backends.sqlite3",
            "NAME": unquote(parts.path).removeprefix("/"),
            "CONN_MAX_AGE": None,
            "OPTIONS": {
                "transaction_mode": "IMMEDIATE",
                "timeout": 20,
                "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;",
            },
        }
    return {
        "ENGINE": "django.db.backends.mysql",
        "NAME": parts.path.strip("/"),
        "USER": parts.username or "",
        "CONN_MAX_AGE": None,
        "OPTIONS": {
            "charset": "utf8mb4",
            "isolation_level": "read committed",
            "unix_socket": parse_qs(parts.query)["unix_socket"][0],
        },
    }


SECRET_KEY = "nothing is signed here"  # noqa: S105
ALLOWED_HOSTS = ["localhost"]
DATABASES = {"default": database(os.environ["DATABASE_URL"])}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
INSTALLED_APPS = ["bench.floor"]
ROOT_URLCONF = "bench.floor.views"
USE_TZ = True
TIME_ZONE = "UTC"
REST_FRAMEWORK: dict[str, Any] = {
    "DEFAULT_AUTHENTICATION_CLASSES": [],
    "DEFAULT_PERMISSION_CLASSES": [],
    "DEFAULT_PARSER_CLASSES": ["rest_framework.parsers.JSONParser"],
    "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.JSONRenderer"],
    "UNAUTHENTICATED_USER": None,
}
LOGGING_CONFIG = None
