"""Misconfiguration shows up as system checks, each with an id and a hint."""

from typing import Any
from urllib.parse import urlsplit

from django.conf import settings
from django.core.checks import CheckMessage, Error, Tags, Warning, register
from django.core.exceptions import ImproperlyConfigured
from django.db import connections

from config import environment

OLDEST_MARIADB = (10, 11, 6)


@register
def values_can_be_read(**_: Any) -> list[CheckMessage]:
    return [Error(problem.message, hint=problem.hint, id="holdpoint.E001") for problem in environment.problems]


@register
def secret_key_is_set(**_: Any) -> list[CheckMessage]:
    try:
        # Django refuses to hand out an empty one.
        if settings.SECRET_KEY:
            return []
    except ImproperlyConfigured:
        pass
    hint = "Set SECRET_KEY to 50 or more random characters, or DEBUG=1 on your own machine."
    return [Error("SECRET_KEY is not set.", hint=hint, id="holdpoint.E002")]


@register
def base_url_is_complete(**_: Any) -> list[CheckMessage]:
    try:
        parts = urlsplit(settings.BASE_URL)
        more = parts.path or parts.query or parts.fragment or parts.username
        if parts.scheme in {"http", "https"} and parts.hostname and parts.port != 0 and not more:
            return []
    except ValueError:
        pass  # half an IPv6 address, a port that is none
    hint = "Use scheme and host, such as https://holdpoint.example; links in mails start with it."
    return [Error(f"BASE_URL is {settings.BASE_URL!r}.", hint=hint, id="holdpoint.E003")]


@register(Tags.database)
def database_is_fit(databases: Any = None, **_: Any) -> list[CheckMessage]:
    found: list[CheckMessage] = []
    for alias in databases or []:
        connection = connections[alias]
        if connection.vendor == "mysql":
            found += _mariadb(connection)
    return found


def _mariadb(connection: Any) -> list[CheckMessage]:
    found: list[CheckMessage] = []
    version = connection.mysql_version
    if not connection.mysql_is_mariadb or version < OLDEST_MARIADB:
        spoken = ".".join(map(str, version))
        hint = "Use MariaDB 10.11.6 or newer: older ones sort version 7 UUIDs wrongly. MySQL is not supported."
        found.append(Error(f"The database server is version {spoken}.", hint=hint, id="holdpoint.E004"))
    with connection.cursor() as cursor:
        cursor.execute("SELECT @@tx_isolation, @@character_set_database")
        isolation, charset = cursor.fetchone()
    if isolation != "READ-COMMITTED":
        hint = "Remove isolation_level from DATABASE_URL: guarded changes must see what others committed."
        found.append(Error(f"The isolation level is {isolation}.", hint=hint, id="holdpoint.E005"))
    if charset != "utf8mb4":
        hint = "ALTER DATABASE … CHARACTER SET utf8mb4 before the first migrate: prompts hold any character."
        found.append(Error(f"The database's character set is {charset}.", hint=hint, id="holdpoint.E006"))
    return found


@register(Tags.security, deploy=True)
def links_are_safe(**_: Any) -> list[CheckMessage]:
    if settings.BASE_URL.startswith("https://"):
        return []
    hint = "Set BASE_URL=https://…: sign-in links travel over it."
    return [Warning("BASE_URL is not https.", hint=hint, id="holdpoint.W001")]
