"""What each route does, takes and answers, in words. The rest of the document is read off the code.

Whoever brings routes of their own adds to ``DESCRIBED``, as ``pages.py`` does; another room by ``rooms.register``.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from checkpoints import policy
from checkpoints.api import shapes, views
from checkpoints.api.schema import examples, parameters

ENDED = ("AlreadyResolved", "AlreadyCancelled", "AlreadyExpired")
WITHOUT_STANDING = ("Invalid", "MethodNotAllowed", "LengthRequired")
EVERYWHERE = (*WITHOUT_STANDING, "Unauthenticated", "Forbidden", "NotFound", "Throttled", "Unavailable")
EVERY_POST = ("TooLarge", "UnsupportedMediaType", "IdempotencyMismatch")


@dataclass(frozen=True, slots=True)
class Operation:
    name: str
    summary: str
    description: str = ""
    tag: str = "Checkpoints"
    # One of them is enough; empty when everybody may ask.
    scopes: tuple[str, ...] = ()
    # Whether a signed-in person may, with their session.
    people: bool = True
    query: Callable[[], list[dict[str, Any]]] | None = None
    headers: tuple[str, ...] = ()
    body: type[shapes.Shape] | None = None
    # Each accepted by the server as it stands, by name.
    bodies: dict[str, Any] = field(default_factory=dict)
    status: int = 200
    # A schema, or the name of one among the components; None for an answer without a body.
    answer: str | dict[str, Any] | None = "Checkpoint"
    answer_words: str = "The row, as it is now."
    answer_headers: tuple[str, ...] = ("ETag",)
    example: Callable[[], Any] = examples.row
    # Names of REFUSALS, beside those that every route has.
    refusals: tuple[str, ...] = ()

    @property
    def has_304(self) -> bool:
        return "If-None-Match" in self.headers


def command(name: str, body: type[shapes.Shape], summary: str, description: str, **rest: Any) -> dict[str, Operation]:
    refusals = (*ENDED, "Stale", *EVERY_POST, *rest.pop("refusals", ()))
    return {
        "post": Operation(
            name=name,
            summary=summary,
            description=description,
            scopes=policy.SCOPES[name],
            headers=("If-Match", "Idempotency-Key"),
            body=body,
            refusals=refusals,
            **rest,
        )
    }


DESCRIBED: dict[type, dict[str, Operation]] = {
    views.Checkpoints: {
        "post": Operation(
            name="create",
            summary="Ask: create a checkpoint",
            description="The program suspends here and goes on when somebody has decided. With `supersedes`, the older "
            "checkpoint is cancelled in the same moment: 409 when it has ended, 403 when this key may not cancel it.",
            scopes=policy.SCOPES["create"],
            people=False,
            headers=("Idempotency-Key",),
            body=shapes.Create,
            bodies=examples.CREATE,
            status=201,
            answer_words="The new row.",
            answer_headers=("ETag", "Location"),
            example=examples.new_row,
            refusals=(*ENDED, *EVERY_POST),
        ),
        "get": Operation(
            name="list",
            summary="List checkpoints",
            description="A page of rows, cut by position: what is created meanwhile neither repeats nor pushes others "
            "out. There is no total count. A filter that is unknown or given twice is 400.",
            scopes=policy.SCOPES["read"],
            query=parameters.filters,
            answer="Page",
            answer_words="A page.",
            answer_headers=(),
            example=examples.page,
        ),
    },
    views.OneCheckpoint: {
        "get": Operation(
            name="read",
            summary="Read a checkpoint",
            scopes=policy.SCOPES["read"],
            headers=("If-None-Match",),
        )
    },
    views.History: {
        "get": Operation(
            name="history",
            summary="Read what happened",
            description="The events of one checkpoint, oldest first.",
            scopes=policy.SCOPES["read"],
            answer={
                "type": "array",
                "items": {"$ref": "#/components/schemas/HistoryEntry"},
                "maxItems": views.HISTORY_LENGTH,
            },
            answer_words="The story.",
            answer_headers=(),
            example=examples.history,
        )
    },
    views.Resolve: command(
        "resolve",
        shapes.Resolve,
        "Decide",
        "Exactly one decision wins. The same decision delivered twice by the same actor is answered with the stored "
        "outcome. While the checkpoint is pending a decision counts, also after its deadline. Where several have to "
        "approve, a member's decision is a vote, and the row stays pending until the number is reached.",
        bodies=examples.RESOLVE,
        answer_words="The decided row.",
        example=examples.resolved_row,
        refusals=("InvalidDecision", "ClaimedByOther", "AlreadyVoted"),
    ),
    views.Cancel: command(
        "cancel",
        shapes.Cancel,
        "Cancel",
        "The program never resumes from it. With the scope `checkpoints:create` alone, a key cancels what it created.",
        bodies=examples.CANCEL,
        example=examples.cancelled_row,
        answer_words="The cancelled row.",
    ),
    views.Reassign: command(
        "reassign",
        shapes.Reassign,
        "Ask somebody else",
        "`null`, or an assignment that leads to nobody, sends it to the queue. An assignee may hand over to one active "
        "member of the tenant.",
        bodies=examples.REASSIGN,
        refusals=("ClaimedByOther",),
    ),
    views.Claim: command(
        "claim",
        shapes.OnBehalf,
        "Claim",
        "Unrouted: it becomes the claimer's. Group or role: others see who has it, and are refused while the claim "
        "lasts.",
        bodies=examples.ON_BEHALF,
        refusals=("ClaimedByOther", "NotClaimable"),
    ),
    views.Release: command(
        "release",
        shapes.OnBehalf,
        "Give a claim back",
        "By whoever claimed it, or by a tenant admin.",
        bodies=examples.ON_BEHALF,
        refusals=("NotClaimable",),
    ),
    views.Extend: command(
        "extend",
        shapes.Extend,
        "Set a later deadline",
        "`timeout` counts from now, not from the old deadline.",
        bodies=examples.EXTEND,
    ),
    views.Remind: command(
        "remind",
        shapes.Remind,
        "Ask for one more reminder",
        "Now, whatever the interval.",
        bodies={"empty": {}},
        refusals=("NobodyToRemind",),
    ),
    views.Comment: command(
        "comment",
        shapes.Comment,
        "Leave a remark",
        "A question or remark, for the history.",
        bodies=examples.COMMENT,
    ),
}


def refusals_of(operation: Operation) -> tuple[str, ...]:
    if not operation.scopes:
        return WITHOUT_STANDING
    return EVERYWHERE + operation.refusals
