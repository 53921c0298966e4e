"""A pytest plugin for ``make test-heavy``: counts the requests of a run whose promise is about all of them."""

import os
import time
from typing import Any

import pytest
from django.core.signals import request_started

from tests.heavy import figures

PROMISE = "HOLDPOINT_PROMISE"
FIGURES = {
    10: "{requests:,} requests to {routes} routes with every standing: another tenant's rows never found, 0 writes",
    11: "{requests:,} requests made from the OpenAPI document, with every scope, reading only and without a key: "
    "0 server errors, 0 answers that it does not tell",
}
started = time.perf_counter()
requests = 0


def count(**_: Any) -> None:
    global requests  # noqa: PLW0603 (one run, one number)
    requests += 1


def pytest_sessionstart(session: pytest.Session) -> None:
    request_started.connect(count)


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    from tests.routes import every_route

    if exitstatus == 0:
        promise = int(os.environ[PROMISE])
        figure = FIGURES[promise].format(requests=requests, routes=len(every_route()))
        figures.report(promise, figure, started=started)
