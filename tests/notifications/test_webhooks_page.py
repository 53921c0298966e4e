"""What docs/webhooks.md tells receivers to do works with what is sent."""

import re
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone

from checkpoints.events import canonical
from notifications import signing, webhooks
from notifications.models import Webhook
from tenants.actors import Actor

PAGE = Path(__file__).resolve().parents[2] / "docs" / "webhooks.md"
MESSAGE = {
    "type": "checkpoint.resolved",
    "timestamp": "2026-11-18T12:00:09.132641Z",
    "data": {"execution_id": "exec-81f2", "resolution": {"decision": "approve"}},
}
pytestmark = pytest.mark.django_db


class Receiver:
    """The lines of the page, in a program whose ``resume`` keeps what it was called with."""

    def __init__(self) -> None:
        (lines,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(), flags=re.DOTALL)
        self.resumed: list[tuple[str, str]] = []
        self.names: dict[str, Any] = {"resume": lambda *given: self.resumed.append(given)}
        exec(lines, self.names)  # noqa: S102 (our own page)

    def answer(self, webhook: Webhook, *, body: bytes | None = None, late: timedelta = timedelta()) -> int:
        now = timezone.now()
        sent = canonical(MESSAGE)
        headers = signing.signed_headers(message_id="m-1", body=sent, secrets=webhook.secrets(at=now), at=now - late)
        status: int = self.names["received"](sent if body is None else body, headers)
        return status


@pytest.fixture
def webhook(program: Actor, monkeypatch: pytest.MonkeyPatch) -> Webhook:
    made = webhooks.create(actor=program, url="https://hooks.acme.example/holdpoint")
    monkeypatch.setenv("HOLDPOINT_WEBHOOK_SECRET", made.secret)
    return made


def test_the_receiver_of_the_page_takes_what_we_sign(webhook: Webhook) -> None:
    receiver = Receiver()
    assert receiver.answer(webhook) == 204
    assert receiver.resumed == [("exec-81f2", "approve")]


def test_it_refuses_what_somebody_else_wrote_or_kept(webhook: Webhook) -> None:
    receiver = Receiver()
    assert receiver.answer(webhook, body=canonical(MESSAGE | {"type": "checkpoint.expired"})) == 400
    assert receiver.answer(webhook, late=timedelta(minutes=6)) == 400
    assert receiver.resumed == []


def test_old_and_new_secret_are_taken_for_a_day_after_a_rotation(
    webhook: Webhook, program: Actor, monkeypatch: pytest.MonkeyPatch
) -> None:
    receiver = Receiver()
    rotated = webhooks.rotate(webhook, actor=program)
    assert receiver.answer(rotated) == 204
    monkeypatch.setenv("HOLDPOINT_WEBHOOK_SECRET", rotated.secret)
    assert receiver.answer(rotated) == 204


def test_rotated_twice_the_leaked_secret_is_worth_nothing(webhook: Webhook, program: Actor) -> None:
    for _ in range(2):
        webhook = webhooks.rotate(webhook, actor=program)
    assert Receiver().answer(webhook) == 400


def test_every_type_that_is_sent_is_on_the_page() -> None:
    text = PAGE.read_text()
    sent = [type for type in webhooks.TYPES if type.startswith("checkpoint.")]
    assert [type for type in [*sent, webhooks.TEST_TYPE] if f"`{type}`" not in text] == []
