"""Every problem the API answers with: status, code, an example, and the headers that come with it."""

from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

from checkpoints.api import problems
from checkpoints.api.schema.bodies import Schema

REQUEST_ID = "32c27af106664517834fd44dc59d69db"
# Headers that an answer always carries, beside X-Request-ID.
HEADERS = {
    401: ("WWW-Authenticate",),
    405: ("Allow",),
    409: ("ETag",),
    412: ("ETag",),
    429: ("Retry-After",),
    503: ("Retry-After",),
}


@dataclass(frozen=True, slots=True)
class Refusal:
    status: int
    code: str
    when: str
    detail: str
    errors: tuple[str, str] = ("", "")

    @property
    def has_row(self) -> bool:
        return self.status in problems.WITH_ROW

    @property
    def title(self) -> str:
        return HTTPStatus(self.status).phrase

    def schema(self) -> Schema:
        properties: dict[str, Schema] = {
            "type": {"const": f"urn:holdpoint:problem:{self.code}"},
            "title": {"const": self.title},
            "status": {"const": self.status},
            "detail": {"type": "string", "minLength": 1, "description": "What is wrong, in words."},
            "code": {"const": self.code},
            "errors": {
                "type": "object",
                "description": "The sentences about each wrong field.",
                "additionalProperties": {"type": "array", "items": {"type": "string"}, "minItems": 1},
            },
            "request_id": {"type": "string", "pattern": "^[A-Za-z0-9._-]{1,64}$"},
        }
        if self.has_row:
            properties["checkpoint"] = {"$ref": "#/components/schemas/Checkpoint"}
        return {
            "type": "object",
            "description": self.when,
            "required": list(properties),
            "properties": properties,
            "additionalProperties": False,
        }

    def example(self, row: dict[str, Any]) -> dict[str, Any]:
        field, sentence = self.errors
        return {
            "type": f"urn:holdpoint:problem:{self.code}",
            "title": self.title,
            "status": self.status,
            "detail": f"{field}: {sentence}" if field else self.detail,
            "code": self.code,
            "errors": {field: [sentence]} if field else {},
            "request_id": REQUEST_ID,
        } | ({"checkpoint": row} if self.has_row else {})


REFUSALS: dict[str, Refusal] = {
    "Invalid": Refusal(
        400,
        "invalid",
        "Malformed JSON, a wrong type, an unknown field or filter, or a value that cannot be. Also a person of several "
        "tenants without `X-Tenant`.",
        "",
        ("core_id", "This field is required."),
    ),
    "InvalidDecision": Refusal(
        400,
        "invalid_decision",
        "Not an option, or a comment or response is missing.",
        "",
        ("decision", "“maybe” is not an option. Choose one of: approve, reject."),
    ),
    "Unauthenticated": Refusal(
        401, "unauthenticated", "No key and no session, or a key that is not valid.", "Send an API key, or sign in."
    ),
    "Forbidden": Refusal(
        403,
        "forbidden",
        "A missing scope, not allowed by policy (the reason in words), or a session's write without its CSRF token.",
        "This key lacks the scope checkpoints:manage.",
    ),
    "NotFound": Refusal(
        404, "not_found", "Not there, or not yours: the same answer for both.", "There is no such checkpoint."
    ),
    "MethodNotAllowed": Refusal(
        405,
        "method_not_allowed",
        "This address does not take this method; `Allow` names those it takes.",
        "Method “DELETE” not allowed.",
    ),
    "AlreadyResolved": Refusal(
        409,
        "already_resolved",
        "It has been decided.",
        "Already decided: user:ann@acme.example chose “approve” at 2030-01-31 12:00:00 UTC.",
    ),
    "AlreadyCancelled": Refusal(
        409,
        "already_cancelled",
        "It has been cancelled.",
        "Cancelled by key:refund-agent at 2030-01-31 12:00:00 UTC (superseded).",
    ),
    "AlreadyExpired": Refusal(409, "already_expired", "It has expired.", "Expired at 2030-01-31 12:00:00 UTC."),
    "AlreadyVoted": Refusal(
        409,
        "already_voted",
        "This person has voted otherwise.",
        "This person has voted, and a vote cannot be changed.",
    ),
    "ClaimedByOther": Refusal(
        409,
        "claimed_by_other",
        "Somebody else is working on it; `detail` names them.",
        "ann@acme.example is working on this.",
    ),
    "NotClaimable": Refusal(
        409, "not_claimable", "There is nothing to claim, or nothing to release.", "Nobody has claimed this."
    ),
    "NobodyToRemind": Refusal(
        409,
        "nobody_to_remind",
        "Somebody outside resumes it, so nobody can be reminded.",
        "Nobody is asked by this checkpoint: somebody outside resumes it.",
    ),
    "LengthRequired": Refusal(
        411,
        "invalid",
        "A body in chunks, without a length.",
        "Send a Content-Length: bodies in chunks are not read.",
    ),
    "Stale": Refusal(
        412,
        "stale",
        "`If-Match` does not match.",
        "The checkpoint has changed since you read it: it is at version 4 now. Read it again.",
    ),
    "TooLarge": Refusal(
        413, "too_large", "The body or its nesting is over the limit.", "The JSON is nested more than 32 levels deep."
    ),
    "UnsupportedMediaType": Refusal(
        415,
        "unsupported_media_type",
        "The body is not announced as JSON.",
        "Send JSON, with the header Content-Type: application/json.",
    ),
    "IdempotencyMismatch": Refusal(
        422,
        "idempotency_mismatch",
        "The `Idempotency-Key` was used with another body.",
        "This Idempotency-Key was used with another body. Use a new key for a new request.",
    ),
    "Throttled": Refusal(
        429,
        "throttled",
        "Too many requests; `Retry-After` says in how many seconds to go on.",
        "Too many requests: this key may send 6,000 a minute.",
    ),
    "Unavailable": Refusal(
        503,
        "unavailable",
        "The database is out of reach, or too many changes to one row at once. Nothing was written; repeat it.",
        "The database is out of reach. Nothing was written; try again.",
    ),
}
