"""The contract (semantics §1 to §4) as plain Python: no database, no clock of its own, nothing of the product imported.

The state machine in ``test_state_machine.py`` holds the product against it. A command either returns nothing, and the
row has changed as the contract says, or raises ``Refused`` with the code that the product must give.
"""

from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

CLAIM = timedelta(minutes=60)
VERBS = ["approve", "edit", "reject", "respond", "ignore"]
ADMIN = "tenant_admin"


class Refused(Exception):
    def __init__(self, code: str) -> None:
        super().__init__(code)
        self.code = code


@dataclass
class Person:
    email: str
    identity: str
    roles: set[str] = field(default_factory=set)
    groups: set[str] = field(default_factory=set)
    account: bool = True
    membership: bool = True

    @property
    def active(self) -> bool:
        return self.account and self.membership

    @property
    def is_admin(self) -> bool:
        return self.active and ADMIN in self.roles

    def answers_to(self, name: str) -> bool:
        return name in {self.email, self.identity}


@dataclass
class Directory:
    people: dict[str, Person]
    groups: set[str]
    # In the order of their start; the latest wins where they overlap.
    delegations: list[tuple[str, datetime | None]] = field(default_factory=list)

    def named(self, name: str) -> Person | None:
        return next((person for person in self.people.values() if person.answers_to(name)), None)

    def delegate(self, at: datetime) -> Person | None:
        current = [email for email, ends in self.delegations if ends is None or at < ends]
        person = self.people[current[-1]] if current else None
        return person if person and person.active else None

    def assignees(self, kind: str, value: str, at: datetime) -> set[str]:
        """Who is asked, of those with an account: asked at the moment of acting."""
        if kind == "delegated_user":
            person = self.delegate(at)
            return {person.email} if person else set()
        return {
            person.email
            for person in self.people.values()
            if person.active
            and (
                (kind == "user" and person.answers_to(value))
                or (kind == "group" and value in person.groups)
                or (kind == "role" and value in person.roles)
            )
        }

    def resolve(self, raw: str, at: datetime, without: str = "") -> tuple[str, str]:
        """Where an assignee string leads; ``without`` is a requester whom four eyes keep out."""
        kind, value = parse(raw)
        if kind == "user":
            person = self.named(value)
            if person is None:
                # Somebody without an account decides by emailed link.
                leads = "@" in value and value != without
            else:
                leads = person.active and not person.answers_to(without)
            return (kind, value) if leads else ("unrouted", "")
        if kind == "unrouted":
            return kind, ""
        asked = {email for email in self.assignees(kind, value, at) if not self.people[email].answers_to(without)}
        if not asked:
            return "unrouted", ""
        return (kind, next(iter(asked))) if kind == "delegated_user" else (kind, value)


def parse(raw: str) -> tuple[str, str]:
    text = raw.strip()
    if not text:
        return "unrouted", ""
    prefix, colon, value = text.partition(":")
    prefix, value = prefix.strip().lower(), value.strip().lower()
    if prefix == "delegated_user":
        return prefix, ""
    if not colon:
        return "user", text.lower()
    return (prefix, value) if prefix in {"user", "group", "role"} and value else ("unrouted", "")


@dataclass(frozen=True)
class Actor:
    """A person by email, or a key by name with its scopes."""

    email: str = ""
    key: str = ""
    scopes: frozenset[str] = frozenset()
    tenant: str = "acme"

    @property
    def label(self) -> str:
        return f"user:{self.email}" if self.email else f"key:{self.key}"


@dataclass(frozen=True)
class Said:
    decision: str | None = None
    response: str | None = None
    comment: str = ""
    edited_args: Any = None


@dataclass
class Row:
    """What the contract knows of a checkpoint; ``picture`` is what can be compared with the product."""

    raw: str = ""
    kind: str = "unrouted"
    value: str = ""
    checkpoint_type: str = "approval"
    routing: str = "people"
    options: list[str] = field(default_factory=list)
    comment_needed: str = ""
    default_option: str | None = None
    action: dict[str, Any] | None = None
    requested_by: str = ""
    forbid_requester: bool = False
    required: int = 1
    rejections_allowed: int = 0
    expires_at: datetime | None = None
    span: timedelta | None = None
    expiry_action: str = "none"
    targets: list[str] = field(default_factory=list)
    step: int = 0
    created_by: str = ""

    status: str = "pending"
    events: list[str] = field(default_factory=lambda: ["created"])
    assignment_version: int = 1
    reminders: int = 0
    claimed_by: str = ""
    claimed_at: datetime | None = None
    votes: dict[str, Said] = field(default_factory=dict)
    decided: Said | None = None
    ended_by: str = ""
    reason: str = ""
    override: bool = False
    option: str | None = None

    def claimant(self, at: datetime) -> str:
        return self.claimed_by if self.claimed_at and at < self.claimed_at + CLAIM else ""

    @property
    def excluded(self) -> str:
        return self.requested_by if self.forbid_requester else ""

    @property
    def choices(self) -> list[str]:
        if self.options:
            return self.options
        if self.checkpoint_type == "debug_breakpoint":
            return ["continue"]
        return VERBS if self.action else []

    def approvals(self) -> int:
        return sum(said.decision == "approve" for said in self.votes.values())


ENDED = {"resolved": "already_resolved", "cancelled": "already_cancelled", "expired": "already_expired"}


class Contract:
    """The commands, each with who may use it."""

    def __init__(self, directory: Directory) -> None:
        self.directory = directory
        self.rows: dict[Any, Row] = {}

    # --- Who may ------------------------------------------------------------------------------------------------

    def person(self, actor: Actor) -> Person:
        person = self.directory.people.get(actor.email)
        if person is None or not person.active:
            raise Refused("forbidden")
        return person

    def is_assignee(self, row: Row, person: Person, at: datetime) -> bool:
        return person.email in self.directory.assignees(row.kind, row.value, at)

    def before(self, row: Row, actor: Actor) -> None:
        if actor.tenant != "acme":
            raise Refused("not_found")
        if row.status != "pending":
            raise Refused(ENDED[row.status])

    def admins_only(self, row: Row, actor: Actor, scope: str) -> None:
        self.before(row, actor)
        allowed = scope in actor.scopes if actor.key else self.person(actor).is_admin
        if not allowed:
            raise Refused("forbidden")

    # --- Create -------------------------------------------------------------------------------------------------

    def create(self, row: Row, *, actor: Actor, at: datetime) -> None:
        if "checkpoints:create" not in actor.scopes:
            raise Refused("forbidden")
        self.check_draft(row)
        row.kind, row.value = self.directory.resolve(row.raw, at)
        # Here the group must be large enough: who leaves it later shows in the queue.
        if row.required > 1 and row.kind in {"group", "role"} and self.voters_left(row, at) < row.required:
            raise Refused("invalid")
        row.kind, row.value = self.directory.resolve(row.raw, at, row.excluded)
        row.created_by = actor.key

    def check_draft(self, row: Row) -> None:
        wrong = [
            row.expiry_action != "none" and row.expires_at is None,
            row.expiry_action == "escalate" and not row.targets,
            row.expiry_action != "escalate" and bool(row.targets),
            row.forbid_requester and not row.requested_by,
            row.default_option is not None and row.default_option not in row.choices,
            row.expiry_action == "approve" and bool(row.choices) and "approve" not in row.choices,
            row.required <= 1 and row.rejections_allowed > 0,
        ]
        if row.required > 1:
            asked = [parse(raw)[0] for raw in [row.raw, *row.targets]]
            wrong += [
                any(kind not in {"group", "role", "unrouted"} for kind in asked),
                row.routing == "external",
                row.checkpoint_type in {"freeform", "debug_breakpoint"},
                bool(row.choices) and "approve" not in row.choices,
            ]
        if any(wrong):
            raise Refused("invalid")

    def supersede(self, older: Row, *, actor: Actor) -> None:
        self.cancel(older, actor=actor, reason="superseded")

    # --- Decide -------------------------------------------------------------------------------------------------

    def resolve(self, row: Row, said: Said, *, actor: Actor, at: datetime) -> bool:
        """False when it is the same decision, delivered twice."""
        if actor.tenant == "acme" and self.is_repeated(row, said, actor):
            return False
        self.before(row, actor)
        override = False
        if actor.key:
            if "checkpoints:resolve" not in actor.scopes:
                raise Refused("forbidden")
            override = row.required > 1
        else:
            override = self.check_decider(row, self.person(actor), at)
        said = self.checked(row, said)
        if row.required > 1 and not override:
            self.vote(row, said, actor)
        else:
            self.decide(row, said, actor, override)
        return True

    def check_decider(self, row: Row, person: Person, at: datetime) -> bool:
        if row.forbid_requester and person.answers_to(row.requested_by):
            raise Refused("forbidden")
        other = row.claimant(at) not in {"", person.email}
        if self.is_assignee(row, person, at):
            if other and not person.is_admin:
                raise Refused("claimed_by_other")
            return other
        if not person.is_admin:
            raise Refused("forbidden")
        return True

    def checked(self, row: Row, said: Said) -> Said:
        """The answer as it counts, or the refusal."""
        decision = said.decision
        freeform = row.checkpoint_type == "freeform"
        if not decision and freeform and (not row.choices or "answered" in row.choices):
            decision = "answered"
        needs_words = freeform or (row.action is not None and not row.options and decision == "respond")
        edits = row.action is not None and decision == "edit"
        wrong = [
            not decision or decision == "default",
            bool(row.choices) and decision not in row.choices,
            bool(row.comment_needed) and decision == row.comment_needed and not said.comment.strip(),
            needs_words and not (said.response or "").strip(),
            edits != (said.edited_args is not None),
            edits and not isinstance((said.edited_args or {}).get("amount"), int),
        ]
        if any(wrong):
            raise Refused("invalid_decision")
        return replace(said, decision=decision)

    def is_repeated(self, row: Row, said: Said, actor: Actor) -> bool:
        try:
            said = self.checked(row, said)
        except Refused:
            return False
        stored = row.decided if row.status == "resolved" and row.ended_by == actor.label else row.votes.get(actor.email)
        return stored == said

    def vote(self, row: Row, said: Said, actor: Actor) -> None:
        if actor.email in row.votes:
            raise Refused("already_voted")
        row.votes[actor.email] = said
        if row.approvals() >= row.required or len(row.votes) - row.approvals() > row.rejections_allowed:
            self.decide(row, said, actor, override=False)
        else:
            row.events.append("voted")

    def decide(self, row: Row, said: Said, actor: Actor, override: bool) -> None:
        row.decided, row.override = said, override
        self.end(row, "resolved", actor.label)

    def end(self, row: Row, status: str, by: str, reason: str = "") -> None:
        row.status, row.ended_by, row.reason = status, by, reason
        row.events.append(status)

    def cancel(self, row: Row, *, actor: Actor, reason: str = "cancelled") -> None:
        self.before(row, actor)
        own = actor.key and row.created_by == actor.key and "checkpoints:create" in actor.scopes
        if not own:
            self.admins_only(row, actor, "checkpoints:manage")
        self.end(row, "cancelled", actor.label, reason)

    def comment(self, row: Row, *, actor: Actor, at: datetime) -> None:
        self.before(row, actor)
        if actor.key:
            allowed = "checkpoints:resolve" in actor.scopes
        else:
            person = self.person(actor)
            allowed = person.is_admin or self.is_assignee(row, person, at)
        if not allowed:
            raise Refused("forbidden")
        row.events.append("commented")

    # --- Whose it is --------------------------------------------------------------------------------------------

    def move(self, row: Row, raw: str, kind: str, value: str, event: str) -> None:
        row.raw, row.kind, row.value = raw, kind, value
        row.assignment_version += 1
        row.claimed_by, row.claimed_at, row.votes = "", None, {}
        row.events.append(event)

    def reassign(self, row: Row, raw: str, *, actor: Actor, at: datetime) -> None:
        self.before(row, actor)
        # Whether it may be asked at all comes before four eyes: the refusal is about what was written.
        kind, value = self.directory.resolve(raw, at)
        if actor.key:
            if "checkpoints:manage" not in actor.scopes:
                raise Refused("forbidden")
        elif not (person := self.person(actor)).is_admin:
            self.check_hand_over(row, person, kind, value, at)
        if row.required > 1 and kind not in {"group", "role", "unrouted"}:
            raise Refused("invalid")
        kind, value = self.directory.resolve(raw, at, row.excluded)
        self.move(row, raw, kind, value, "reassigned")

    def check_hand_over(self, row: Row, person: Person, kind: str, value: str, at: datetime) -> None:
        if not self.is_assignee(row, person, at):
            raise Refused("forbidden")
        if row.claimant(at) not in {"", person.email}:
            raise Refused("claimed_by_other")
        taker = self.directory.named(value) if kind == "user" else None
        if taker is None or not taker.active or taker.email == row.excluded:
            raise Refused("invalid")

    def claim(self, row: Row, *, actor: Actor, email: str, at: datetime) -> bool:
        """False when it is claimed again by whoever has it."""
        if row.status == "pending" and actor.tenant == "acme" and row.claimant(at) == email:
            return False
        self.before(row, actor)
        if actor.key and "checkpoints:resolve" not in actor.scopes:
            raise Refused("forbidden")
        person = self.person(Actor(email=email))
        if email == row.excluded:
            raise Refused("forbidden")
        if row.required > 1:
            raise Refused("not_claimable")
        if row.kind == "unrouted":
            if not person.is_admin:
                raise Refused("forbidden")
            self.move(row, f"user:{email}", "user", email, "claimed")
        else:
            asked = self.is_assignee(row, person, at)
            if not asked and not person.is_admin:
                raise Refused("forbidden")
            if row.claimant(at):
                raise Refused("claimed_by_other")
            if row.kind not in {"group", "role"}:
                raise Refused("not_claimable")
            if not asked:
                raise Refused("forbidden")
            row.events.append("claimed")
        row.claimed_by, row.claimed_at = email, at
        return True

    def release(self, row: Row, *, actor: Actor, email: str, at: datetime) -> None:
        self.before(row, actor)
        if actor.key and "checkpoints:resolve" not in actor.scopes:
            raise Refused("forbidden")
        person = self.person(Actor(email=email))
        holder = row.claimant(at)
        own = holder == email or (not holder and self.is_assignee(row, person, at))
        if not own and not person.is_admin:
            raise Refused("forbidden")
        if not row.claimed_by:
            raise Refused("not_claimable")
        row.claimed_by, row.claimed_at = "", None
        row.events.append("released")

    # --- Time ---------------------------------------------------------------------------------------------------

    def extend(self, row: Row, span: timedelta, *, actor: Actor, at: datetime) -> None:
        self.admins_only(row, actor, "checkpoints:manage")
        if row.expires_at is None or at + span <= row.expires_at:
            raise Refused("invalid")
        row.expires_at = at + span
        row.events.append("extended")

    def remind(self, row: Row, *, actor: Actor) -> None:
        self.admins_only(row, actor, "checkpoints:manage")
        if row.routing == "external" or row.kind == "unrouted":
            raise Refused("nobody_to_remind")
        row.reminders += 1
        row.events.append("reminded")

    def expire_due(self, at: datetime) -> int:
        due = [row for row in self.rows.values() if row.status == "pending" and row.expires_at and row.expires_at <= at]
        for row in due:
            self.expire(row, at)
        return len(due)

    def expire(self, row: Row, at: datetime) -> None:
        match row.expiry_action:
            case "cancel":
                self.end(row, "cancelled", "timeout", "expired")
            case "default_option":
                row.decided, row.option = Said("default"), row.default_option
                self.end(row, "resolved", "timeout")
            case "approve":
                row.decided = Said("approve")
                self.end(row, "resolved", "timeout")
            case "escalate" if row.targets:
                target = row.targets.pop(0)
                self.move(row, target, *self.directory.resolve(target, at, row.excluded), "escalated")
                row.step += 1
                assert row.span is not None
                row.expires_at = at + row.span
            case _:
                self.end(row, "expired", "timeout", "expired")

    def voters_left(self, row: Row, at: datetime) -> int:
        asked = self.directory.assignees(row.kind, row.value, at)
        return sum(
            email not in row.votes and not self.directory.people[email].answers_to(row.excluded) for email in asked
        )

    def reroute_all(self, at: datetime) -> int:
        moved = 0
        for row in self.rows.values():
            if row.status != "pending" or row.routing == "external" or row.kind == "unrouted":
                continue
            kind, value = self.directory.resolve(row.raw, at, row.excluded)
            if row.required > 1 and kind in {"group", "role"}:
                out_of_reach = row.approvals() + self.voters_left(row, at) < row.required
                kind, value = ("unrouted", "") if out_of_reach else (kind, value)
            if (kind, value) != (row.kind, row.value):
                self.move(row, row.raw, kind, value, "rerouted")
                moved += 1
        return moved

    # --- What must always be so ---------------------------------------------------------------------------------

    def somebody_or_something_will_wake(self, row: Row, at: datetime) -> bool:
        if row.routing == "external" or row.kind == "unrouted" or row.expires_at is not None:
            return True
        if row.kind == "user" and self.directory.named(row.value) is None:
            return row.value != row.excluded
        able = {
            email
            for email in self.directory.assignees(row.kind, row.value, at)
            if not self.directory.people[email].answers_to(row.excluded)
        }
        return row.approvals() + len(able - row.votes.keys()) >= row.required
