"""Promise 11: whatever is sent, the API neither breaks nor answers anything that its document does not tell.

schemathesis makes requests from the served document, in its own process and over real HTTP.
"""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest
from django.core.servers.basehttp import WSGIRequestHandler

from checkpoints import lifecycle
from checkpoints.answers import Answer
from checkpoints.api.schema import document
from checkpoints.models import Checkpoint, Event
from notifications import webhooks
from notifications.models import Delivery, Webhook
from tenants import keys, setup
from tenants.actors import Actor
from tenants.models import Tenant

pytestmark = [pytest.mark.schemathesis, pytest.mark.both_databases, pytest.mark.django_db(transaction=True)]

SEED = 20301
# How many cases of each operation the fuzzing makes; under ``make test-heavy`` with every phase for every key.
LARGER = 300 if os.environ.get("HOLDPOINT_TEST_SIZE") == "full" else 0
READING = ("checkpoints:read", "audit:read")
EVERY_PHASE = "examples,coverage,fuzzing,stateful"
# Where almost everything is refused, the many cases of the other phases say nothing new.
SHORT = EVERY_PHASE if LARGER else "examples,fuzzing"
# A run that takes longer hangs: the number of cases is fixed, and takes well below a minute for all three together.
SECONDS = 180
COMMANDS = {"resolved", "cancelled", "reassigned", "claimed", "released", "extended", "reminded", "commented"}
MANY = 100
HOOK = "https://hooks.acme.example/"
CONFIGURATION = """
[parameters]
"path.checkpoint_id" = {{ dictionary = "checkpoints", probability = 0.8 }}
"path.webhook_id" = {{ dictionary = "webhooks", probability = 0.8 }}
"path.delivery_id" = {{ dictionary = "deliveries", probability = 0.8 }}
"body.url" = {{ dictionary = "addresses", probability = 0.5 }}
"header.If-Match" = {{ dictionary = "versions", probability = 0.8 }}
"body.for" = {{ dictionary = "people", probability = 0.8 }}
"header.Idempotency-Key" = {{ dictionary = "names", probability = 0.8 }}

[dictionaries]
checkpoints.values = {checkpoints}
webhooks.values = {webhooks}
deliveries.values = {deliveries}
addresses.values = ["https://hooks.acme.example/holdpoint", "https://hooks.acme.example:8443/?token=1"]
people.values = ["ann@acme.example", "bob@acme.example"]
versions.values = ["*", '"1"', '"2"']
names.values = {names}

[phases.coverage]
unexpected-methods = ["PUT", "DELETE"]

[checks]
# Rules that no schema can tell, such as "the deadline is in the future", refuse what fits the schema.
positive_data_acceptance.enabled = false
# Beside the usual ones: a version that does not match is a reason as well, and so is a body that is too deep.
negative_data_rejection.expected-statuses = [400, 401, 403, 404, 405, 409, 411, 412, 413, 415, 422]
"""


@pytest.fixture
def rows(acme: Tenant, program: Actor) -> list[Checkpoint]:
    """Something to find: pending, claimed and ended ones."""
    ann = setup.add_person(acme, "ann@acme.example", roles=["approver"], groups=["finance"])
    setup.add_person(acme, "bob@acme.example", roles=["approver"], groups=["finance"])

    def ask(**fields: Any) -> Checkpoint:
        given = {"assignee": "group:finance", "options": ["approve", "reject"], "timeout": "1h"} | fields
        return lifecycle.create(lifecycle.Draft(core_id="refund-agent", prompt="Refund?", **given), actor=program)

    # Many: what comes first in the document ends some of them, and the rest shall find one that waits.
    made = [ask() for _ in range(200)]
    made += [ask(assignee="team:blue"), ask(routing="external"), ask(checkpoint_type="freeform", options=None)]
    made += [ask(required_approvals=2), ask(action={"name": "refund", "args": {"total": 1}}, options=None)]
    for row in made[3:120]:
        lifecycle.claim(row, actor=program, on_behalf_of=ann)
    lifecycle.resolve(made[1], actor=program, answer=Answer("approve"))
    lifecycle.cancel(made[2], actor=program)
    return made


@pytest.fixture
def deliveries(program: Actor, monkeypatch: pytest.MonkeyPatch) -> list[Delivery]:
    """Given up, of so many webhooks that deleting some leaves others."""
    # Here and in what the requests ask for: the limit is the business of other tests.
    monkeypatch.setattr(webhooks, "MOST_WEBHOOKS", 10_000)
    made = [webhooks.create(actor=program, url=HOOK) for _ in range(MANY)]
    sent = [webhooks.send_test(webhook, actor=program) for webhook in made]
    Delivery.objects.update(status="failed", next_try_at=None)
    return sent


@pytest.fixture
def fuzz(
    live_server: Any,
    settings: Any,
    monkeypatch: pytest.MonkeyPatch,
    rows: list[Checkpoint],
    deliveries: list[Delivery],
    tmp_path: Path,
) -> Callable[..., set[str]]:
    # Without it each answer waits 40 ms for the client's acknowledgement.
    monkeypatch.setattr(WSGIRequestHandler, "disable_nagle_algorithm", True)
    # The document tells of 429 as well; here the requests shall get past it.
    settings.API_RATE_PER_MINUTE = settings.API_WRONG_KEYS_PER_MINUTE = 0
    configuration = tmp_path / "schemathesis.toml"
    known = {
        "checkpoints": [str(row.pk) for row in rows],
        "webhooks": [str(row.webhook_id) for row in deliveries],
        "deliveries": [str(row.pk) for row in deliveries],
        "names": [f"request-{number}" for number in range(500)],
    }
    configuration.write_text(CONFIGURATION.format(**{name: json.dumps(values) for name, values in known.items()}))
    # From a file: an address that serves the document would be left out of the test.
    served = tmp_path / "openapi.json"
    with urlopen(f"{live_server.url}/v1/schema") as answer:  # noqa: S310 (our own server)
        served.write_bytes(answer.read())
    report = tmp_path / "report.json"

    def run(secret: str, *, phases: str, examples: int) -> set[str]:
        """The names of the events that came of it."""
        credential = ["--header", f"Authorization: Bearer {secret}"] if secret else []
        last = Event.objects.latest("id").pk
        finished = subprocess.run(
            [
                *(sys.executable, "-m", "schemathesis.cli", "--config-file", str(configuration), "run"),
                *(str(served), "--url", live_server.url, *credential),
                *("--phases", phases, "--max-examples", str(LARGER or examples), "--seed", str(SEED)),
                *("--generation-database", "none", "--no-color", "--warnings", "off"),
                *("--report", "json", "--report-json-path", str(report)),
            ],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=None if LARGER else SECONDS,
            check=False,
        )
        assert finished.returncode == 0, finished.stdout[-30_000:] + finished.stderr[-5_000:]
        tested = json.loads(report.read_text())
        print(f"{tested['running_time']:.1f} s")
        assert tested["operations"]["tested"] == number_of_operations()
        return {event.name for event in Event.objects.filter(pk__gt=last)}

    return run


def number_of_operations() -> int:
    methods = {"get", "post", "put", "patch", "delete"}
    return sum(len(methods & set(told)) for told in document.document()["paths"].values())


def test_with_every_scope_the_api_never_breaks(acme: Tenant, fuzz: Callable[..., set[str]]) -> None:
    secret = keys.create(acme, name="everything").secret
    happened = fuzz(secret, phases=EVERY_PHASE, examples=10)
    # The requests did something: all that a schema can say was said right often enough.
    assert happened >= COMMANDS
    assert Webhook.objects.exclude(previous_secret="").exists()
    assert Webhook.objects.exclude(url=HOOK).exists()
    assert Delivery.objects.filter(status="waiting").exists()
    assert Webhook.objects.filter(url=HOOK).count() < MANY


def test_with_a_key_that_only_reads_the_api_never_breaks(acme: Tenant, fuzz: Callable[..., set[str]]) -> None:
    secret = keys.create(acme, name="reader", scopes=READING).secret
    assert fuzz(secret, phases=SHORT, examples=5) == set()


def test_without_a_key_the_api_never_breaks(fuzz: Callable[..., set[str]]) -> None:
    assert fuzz("", phases=SHORT, examples=5) == set()


def test_the_document_is_openapi_3_1() -> None:
    """Against the official schema, of which schemathesis brings a copy."""
    from schemathesis.specs.openapi.definitions import OPENAPI_31_VALIDATOR

    told = json.loads(document.text())
    assert [error.message for error in OPENAPI_31_VALIDATOR.iter_errors(told)] == []
    assert not OPENAPI_31_VALIDATOR.is_valid(told | {"paths": {"without-a-slash": {"get": {"responses": []}}}})
