"""Reading settings from the environment.

A value that cannot be read never stops the import of the settings: it is kept in ``problems`` and becomes a system
check with an id and a hint, so that the operator sees every mistake at once and not one per start.
"""

import json
import os
import pkgutil
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit


@dataclass(frozen=True)
class Problem:
    name: str
    message: str
    hint: str


problems: list[Problem] = []

MAIL = "django.core.mail.backends."
MAIL_PORTS = {"smtp": 25, "smtps": 465, "smtp+tls": 587}
# Modules beside the providers' that are none.
NO_PROVIDERS = {"base", "base_requests", "console", "test"}
TRUE = {"1", "true", "yes", "on"}
FALSE = {"0", "false", "no", "off", ""}


def read_env_file(path: Path) -> None:
    """Lines of ``NAME=value``; what the environment already holds wins."""
    if not path.is_file():
        return
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        hint = "It holds lines of NAME=value, in UTF-8, and this user may read it."
        problems.append(Problem(path.name, f"{path.name} cannot be read.", hint))
        return
    for line in lines:
        name, separator, value = line.partition("=")
        name = name.strip().removeprefix("export ").strip()
        if not separator or not name or name.startswith("#"):
            continue
        value = value.strip()
        if len(value) >= 2 and value[0] == value[-1] and value[0] in "\"'":
            value = value[1:-1]
        os.environ.setdefault(name, value)


def text(name: str, default: str = "") -> str:
    return os.environ.get(name, default).strip()


def words(name: str, default: str = "") -> list[str]:
    return [word.strip() for word in text(name, default).split(",") if word.strip()]


def flag(name: str, default: bool = False) -> bool:
    value = text(name, "1" if default else "0").lower()
    if value not in TRUE | FALSE:
        problems.append(
            Problem(name, f"{name} is {value!r}, which is neither yes nor no.", f"Use {name}=1 or {name}=0.")
        )
        return default
    return value in TRUE


def number(name: str, default: int, *, least: int = 0, most: int = 10**9) -> int:
    value = text(name, str(default))
    try:
        parsed = int(value)
    except ValueError:
        problems.append(Problem(name, f"{name} is {value!r}, which is not a whole number.", f"Use {name}={default}."))
        return default
    if not least <= parsed <= most:
        hint = f"Use a number from {least} to {most}."
        problems.append(Problem(name, f"{name} is {parsed}, which is out of range.", hint))
        return default
    return parsed


def one_of(name: str, known: tuple[str, ...], default: str) -> str:
    value = text(name, default).upper()
    if value not in known:
        problems.append(Problem(name, f"{name} is {value!r}, which is not known.", f"Use one of: {', '.join(known)}."))
        return default
    return value


def family(prefix: str, **defaults: Any) -> dict[str, Any]:
    """Every variable whose name starts like this, without that beginning. Lists and such are JSON."""
    found = dict(defaults)
    for name, value in os.environ.items():
        if name.startswith(prefix) and value.strip():
            found[name.removeprefix(prefix)] = _plain_or_json(name, value.strip())
    return found


def _plain_or_json(name: str, value: str) -> Any:
    if value.lower() in {"true", "false"}:
        return value.lower() == "true"
    if value[0] in "[{":
        try:
            return json.loads(value)
        except ValueError:
            problems.append(Problem(name, f"{name} is not JSON.", "What starts with [ or { must be JSON."))
    elif name.endswith("_TIMEOUT") and value.isdecimal():
        return int(value)
    return value


def host_of(url: str) -> str:
    """Empty where there is none, or where the address cannot be read: a system check says so."""
    try:
        return urlsplit(url).hostname or ""
    except ValueError:
        return ""


def database(url: str) -> dict[str, Any]:
    """``sqlite:///relative/or//absolute`` or ``mysql://user:password@host:port/name?unix_socket=…``."""
    hint = "Use sqlite:///var/holdpoint.sqlite3 or mysql://user:password@host:3306/name"
    try:
        parts = urlsplit(url)
        if parts.scheme == "sqlite" and parts.path.strip("/"):
            return _sqlite(unquote(parts.path).removeprefix("/"))
        if parts.scheme in {"mysql", "mariadb"} and parts.path.strip("/"):
            return _mariadb(parts)
        problem = "DATABASE_URL cannot be read."
    except ValueError:  # a port that is no number, half an IPv6 address
        problem = "DATABASE_URL cannot be read."
    except OSError as error:
        problem, hint = (
            f"The folder of DATABASE_URL cannot be used: {error.strerror}.",
            "Name a folder you may write to.",
        )
    problems.append(Problem("DATABASE_URL", problem, hint))
    return _sqlite(":memory:")


def _sqlite(path: str) -> dict[str, Any]:
    if path != ":memory:":
        Path(path).parent.mkdir(parents=True, exist_ok=True)
    return {
        "ENGINE": "config.sqlite",
        "NAME": path,
        "OPTIONS": {
            # Deferred transactions fail at once with "database is locked" when a reader becomes a writer;
            # immediate ones queue up behind the busy timeout.
            "transaction_mode": "IMMEDIATE",
            "timeout": 20,
            "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL; PRAGMA foreign_keys=ON;",
        },
        # Opening a file costs more than a query, and the last one to close it copies the whole log back.
        "CONN_MAX_AGE": 60,
        # A file, not memory: several processes must see the same test database.
        "TEST": {"NAME": f"{path}.test" if path != ":memory:" else None},
    }


def _mariadb(parts: Any) -> dict[str, Any]:
    options: dict[str, Any] = {
        "charset": "utf8mb4",
        "isolation_level": "read committed",
        "init_command": "SET SESSION sql_mode='STRICT_TRANS_TABLES,ERROR_FOR_DIVISION_BY_ZERO,NO_ENGINE_SUBSTITUTION'",
    }
    for name, value in parse_qsl(parts.query):
        # The driver wants its timeouts as numbers.
        options[name] = int(value) if name.endswith("_timeout") else value
    return {
        "ENGINE": "django.db.backends.mysql",
        "NAME": unquote(parts.path).strip("/"),
        "USER": unquote(parts.username or ""),
        "PASSWORD": unquote(parts.password or ""),
        "HOST": parts.hostname or "",
        "PORT": str(parts.port or ""),
        "OPTIONS": options,
        "CONN_MAX_AGE": 60,
        "CONN_HEALTH_CHECKS": True,
        "TEST": {"CHARSET": "utf8mb4", "COLLATION": "utf8mb4_unicode_ci"},
    }


def email(url: str) -> dict[str, Any]:
    """``smtp://user:password@host:port`` (``smtps``, ``smtp+tls``), ``anymail://postmark`` or any provider Anymail
    has, ``folder:///path``, ``console:`` or ``memory:``."""
    problem, hint = "EMAIL_URL cannot be read.", "Use smtp://user:password@host:25 or folder:///var/mail"
    try:
        parts = urlsplit(url)
        if parts.scheme == "anymail":
            if parts.netloc in _providers():
                return {"EMAIL_BACKEND": f"anymail.backends.{parts.netloc}.EmailBackend"}
            problem, hint = (
                "EMAIL_URL names no provider that is known.",
                f"Use anymail:// and one of: {', '.join(_providers())}.",
            )
        elif found := _email(parts):
            return {name: f"{MAIL}{value}" if name == "EMAIL_BACKEND" else value for name, value in found.items()}
    except ValueError:
        pass  # a port that is no number, half an IPv6 address: reported below
    problems.append(Problem("EMAIL_URL", problem, hint))
    return {"EMAIL_BACKEND": f"{MAIL}console.EmailBackend"}


def _providers() -> list[str]:
    """Those the installed Anymail has; asked for without importing any of them."""
    backends = find_spec("anymail.backends")
    folders = list(backends.submodule_search_locations or []) if backends else []
    return sorted({module.name for module in pkgutil.iter_modules(folders)} - NO_PROVIDERS)


def _email(parts: Any) -> dict[str, Any]:
    if parts.scheme == "console":
        return {"EMAIL_BACKEND": "console.EmailBackend"}
    if parts.scheme == "memory":
        return {"EMAIL_BACKEND": "locmem.EmailBackend"}
    if parts.scheme == "folder" and parts.path.strip("/"):
        return {
            "EMAIL_BACKEND": "filebased.EmailBackend",
            "EMAIL_FILE_PATH": unquote(parts.path).removeprefix("/"),
        }
    if parts.scheme in MAIL_PORTS and parts.hostname:
        return {
            "EMAIL_BACKEND": "smtp.EmailBackend",
            "EMAIL_HOST": parts.hostname,
            "EMAIL_PORT": parts.port or MAIL_PORTS[parts.scheme],
            "EMAIL_HOST_USER": unquote(parts.username or ""),
            "EMAIL_HOST_PASSWORD": unquote(parts.password or ""),
            "EMAIL_USE_SSL": parts.scheme == "smtps",
            "EMAIL_USE_TLS": parts.scheme == "smtp+tls",
            "EMAIL_TIMEOUT": 20,
        }
    return {}
