"""Every route the product serves, read from the URL configuration: what is not here cannot be forgotten."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import Any

from django.urls import URLPattern, URLResolver, get_resolver
from django.urls.resolvers import RegexPattern

CONVERTED = re.compile(r"<(?:\w+:)?(\w+)>")
NAMED = re.compile(r"\(\?P<(\w+)>[^)]*\)")


@dataclass(frozen=True)
class Route:
    pattern: str

    @property
    def parameters(self) -> tuple[str, ...]:
        return tuple(CONVERTED.findall(self.pattern))

    @property
    def is_api(self) -> bool:
        return self.pattern.startswith(("v1/", "api/"))

    @property
    def is_admin(self) -> bool:
        return self.pattern.startswith("admin/")

    def addresses(self, values: dict[str, list[Any]]) -> Iterator[str]:
        """One address per combination of values; a parameter without a value fails the test that asks."""
        for chosen in product(*(values[name] for name in self.parameters)):
            filled = iter(chosen)
            yield "/" + CONVERTED.sub(lambda _: str(next(filled)), self.pattern)  # noqa: B023


def every_route() -> list[Route]:
    return [Route(pattern) for pattern in _walk(get_resolver(), "")]


def _walk(resolver: URLResolver, before: str) -> Iterator[str]:
    for entry in resolver.url_patterns:
        here = before + _plain(entry.pattern)
        if isinstance(entry, URLPattern):
            yield here
        else:
            yield from _walk(entry, here)


def _plain(pattern: Any) -> str:
    text = str(pattern)
    if isinstance(pattern, RegexPattern):
        return NAMED.sub(r"<\1>", text).lstrip("^").rstrip("$")
    return text
