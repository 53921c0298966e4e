"""Speaks the HTTP API as a program would, through Django's test client."""

import json
from typing import Any

from django.http import HttpResponse
from django.test import Client

from checkpoints.models import Checkpoint

ROOT = "/v1"


class ApiClient:
    def __init__(self, *, secret: str = "", browser: Client | None = None, root: str = ROOT) -> None:
        self.client = browser or Client(raise_request_exception=True)
        self.root = root
        self.headers = {"Authorization": f"Bearer {secret}"} if secret else {}

    def request(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        raw: bytes | str | None = None,
        content_type: str = "application/json",
        **headers: str,
    ) -> HttpResponse:
        content: bytes | str = raw if raw is not None else ("" if body is None else json.dumps(body))
        sent = self.headers | {name.replace("_", "-"): value for name, value in headers.items()}
        # Named twice: Django's client leaves the type out of a request without a body.
        return self.client.generic(  # type: ignore[return-value]
            method,
            f"{self.root}{path}",
            content,
            content_type=content_type,
            headers=sent,
            CONTENT_TYPE=content_type,
        )

    def create(self, **fields: Any) -> HttpResponse:
        return self.request("POST", "/checkpoints", {"core_id": "refund-agent", "prompt": "Refund?"} | fields)

    def list(self, **filters: Any) -> HttpResponse:
        return self.client.get(f"{self.root}/checkpoints", filters, headers=self.headers)  # type: ignore[return-value]

    def get(self, checkpoint: Checkpoint | str, part: str = "", **headers: str) -> HttpResponse:
        return self.request("GET", self._path(checkpoint, part), **headers)

    def command(self, checkpoint: Checkpoint | str, name: str, body: Any = None, **headers: str) -> HttpResponse:
        return self.request("POST", self._path(checkpoint, name), {} if body is None else body, **headers)

    def resolve(self, checkpoint: Checkpoint | str, decision: str = "approve", **fields: Any) -> HttpResponse:
        return self.command(checkpoint, "resolve", {"decision": decision} | fields)

    def _path(self, checkpoint: Checkpoint | str, part: str) -> str:
        identity = checkpoint.pk if isinstance(checkpoint, Checkpoint) else checkpoint
        return f"/checkpoints/{identity}" + (f"/{part}" if part else "")


PROBLEM = {"type", "title", "status", "detail", "code", "errors", "request_id"}


def problem(response: Any, status: int, code: str, *fields: str) -> dict[str, Any]:
    """The body of a refusal, after a look at everything that each of them promises."""
    content = response.content.decode()
    assert response.status_code == status, content
    assert response["Content-Type"] == "application/problem+json"
    found: dict[str, Any] = json.loads(content)
    assert found.keys() >= PROBLEM
    assert found.keys() <= PROBLEM | {"checkpoint"}
    assert (found["status"], found["code"]) == (status, code)
    assert found["type"] == f"urn:holdpoint:problem:{code}"
    assert found["detail"]
    assert found["request_id"] == response["X-Request-ID"]
    for field in fields:
        assert field in found["errors"], found["errors"]
    assert all(isinstance(text, str) for texts in found["errors"].values() for text in texts)
    return found
