"""What a person on the desk can do to a checkpoint: read the form, call one verb, say what happened."""

import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, cast

from django.http import HttpRequest
from django.utils import timezone
from rest_framework.exceptions import APIException, ParseError, ValidationError

from checkpoints import answers, assignment, errors, lifecycle, machine, policy
from checkpoints.api.parsing import loads, trouble_with
from checkpoints.api.problems import STATUS
from checkpoints.models import AssigneeType, Checkpoint, Routing
from desk import stories
from notifications import reminders
from tenants import actors, directory
from tenants.actors import Actor
from tenants.addresses import address_of
from tenants.models import Group, Membership, Role, Tenant, User

MOST_SUGGESTIONS = 200
NO_VERSION = -1
CHANGED = "The checkpoint has changed since you opened its page. This is how it stands now; decide again."


@dataclass(frozen=True)
class Outcome:
    sentence: str = ""
    refused: errors.Refusal | None = None

    @property
    def status(self) -> int:
        return STATUS[self.refused.code] if self.refused else 200


@dataclass(frozen=True)
class Offer:
    """Whether this person may do this now, and the reason either way."""

    allowed: bool
    reason: str
    override: bool


def as_identity(given: str) -> uuid.UUID | None:
    try:
        return uuid.UUID(given)
    except ValueError:
        return None


def actor_for(request: HttpRequest, tenant: Tenant) -> Actor:
    return actors.person(cast(User, request.user), tenant, via="admin", address=address_of(request))


def offers(request: HttpRequest, row: Checkpoint) -> dict[str, Any]:
    """For the page: every command this person could use now, by policy's own answer."""
    now = timezone.now()
    actor = actor_for(request, row.tenant)
    found: dict[str, Any] = {}
    for name in (COMMANDS.keys() - OF_ONESELF) | {"reassign"}:
        if row.status in machine.TABLE[name]:
            verdict = policy.verdict(actor, name, row, at=now)
            found[name] = Offer(verdict.allowed, verdict.reason, verdict.override)
    # Policy says who may; these say whether there is anything to do.
    if "release" in found and not row.claimant(at=now):
        del found["release"]
    if "claim" in found and row.claimant(at=now) == actor.name:
        del found["claim"]
    if "extend" in found and row.expires_at is None:
        del found["extend"]
    if found and _hears(row, actor):
        name = "unmute" if reminders.is_muted(row, email=actor.name) else "mute"
        found[name] = Offer(True, "", override=False)
    if found:
        found["options"] = answers.options_of(row)
        found["claimant"] = row.claimant(at=now)
    return found


def boxes(row: Checkpoint, found: dict[str, Any]) -> set[str]:
    """The fields that the page has now: what is wrong with another one must be said elsewhere."""

    def may(name: str) -> bool:
        return name in found and found[name].allowed

    shown = {field for name, field in FIELDS.items() if may(name)}
    if may("resolve"):
        options = {option.id for option in found["options"]}
        shown |= {"decision", "comment"}
        if row.checkpoint_type == "freeform" or (row.action and "respond" in options):
            shown.add("response")
        if row.action and "edit" in options:
            shown.add("edited_args")
    return shown


def run(request: HttpRequest, row: Checkpoint, command: str) -> Outcome:
    form = {name: str(value) for name, value in request.POST.items()}
    try:
        return Outcome(COMMANDS[command](row, actor_for(request, row.tenant), form))
    except errors.Refusal as refusal:
        return Outcome(refused=refusal)


def _resolve(row: Checkpoint, actor: Actor, form: dict[str, str]) -> str:
    answer = answers.Answer(
        decision=_bounded(form, "decision") or None,
        response=_bounded(form, "response") or None,
        comment=_bounded(form, "comment"),
        edited_args=_edited_args(row, form),
    )
    try:
        row = lifecycle.resolve(row, actor=actor, answer=answer, if_version=_version(form))
    except errors.Stale as stale:
        # Where it has ended, who ended it and how says more.
        machine.check(stale.checkpoint or row, "resolve")
        raise errors.Stale(stale.checkpoint, CHANGED) from stale
    if row.is_pending:
        return "Your vote counts. It is decided when enough have voted."
    return f"Decided: {(row.resolution or {}).get('decision')}. The program goes on with it."


def _version(form: dict[str, str]) -> int | None:
    """What the page showed when it was served."""
    given = form.get("row_version")
    if given is None:
        return None
    return int(given) if given.isdecimal() and len(given) < 20 else NO_VERSION


def _edited_args(row: Checkpoint, form: dict[str, str]) -> Any:
    """The text box holds the arguments as JSON; it counts only where somebody chose to edit."""
    if not row.action or form.get("decision") != "edit":
        return None
    try:
        return loads(_bounded(form, "edited_args").encode())
    except (ParseError, ValidationError, APIException) as error:
        raise errors.InvalidDecision({"edited_args": [f"This is not JSON: {error}"]}, row) from error


def _cancel(row: Checkpoint, actor: Actor, form: dict[str, str]) -> str:
    lifecycle.cancel(row, actor=actor, reason=_bounded(form, "reason"))
    return "Cancelled. The program will not resume from it."


def _claim(row: Checkpoint, actor: Actor, form: dict[str, str]) -> str:
    lifecycle.claim(row, actor=actor)
    return "It is yours now."


def _release(row: Checkpoint, actor: Actor, form: dict[str, str]) -> str:
    row = lifecycle.release(row, actor=actor)
    if row.assignee_type in {AssigneeType.GROUP, AssigneeType.ROLE}:
        return "Released: anybody who is asked may take it."
    return f"Released. It is still {stories.asked(row)} who is asked."


def _extend(row: Checkpoint, actor: Actor, form: dict[str, str]) -> str:
    row = lifecycle.extend(row, actor=actor, timeout=_bounded(form, "timeout"))
    return f"The deadline is now {row.expires_at:%d %B %Y, %H:%M} UTC."


def _remind(row: Checkpoint, actor: Actor, form: dict[str, str]) -> str:
    lifecycle.remind(row, actor=actor)
    return "One more reminder has been asked for."


def _comment(row: Checkpoint, actor: Actor, form: dict[str, str]) -> str:
    lifecycle.comment(row, actor=actor, text=_bounded(form, "text"))
    return "Your comment is in the history."


def _mute(row: Checkpoint, actor: Actor, form: dict[str, str]) -> str:
    _check_mute(row, actor)
    reminders.mute(row, email=actor.name)
    return "You get no more reminders of this one. Everything else still reaches you."


def _unmute(row: Checkpoint, actor: Actor, form: dict[str, str]) -> str:
    _check_mute(row, actor)
    reminders.unmute(row, email=actor.name)
    return "You are reminded of this one again."


def _check_mute(row: Checkpoint, actor: Actor) -> None:
    # Whatever has ended, nobody is reminded of.
    machine.check(row, "remind")
    if not _hears(row, actor):
        raise errors.NotAllowed(row, f"{actor.name} is not asked, and so never reminded of this one.")


def _hears(row: Checkpoint, actor: Actor) -> bool:
    """Is asked, or may come to be asked at any moment. Of what is in the queue nobody is reminded."""
    if not row.is_pending or row.is_unrouted or row.routing != Routing.PEOPLE or actor.user is None:
        return False
    standing = directory.standing(row.tenant, actor.user)
    return standing.is_admin or bool(policy.assignee_because(row, standing, at=timezone.now()))


OF_ONESELF = {"mute", "unmute"}
COMMANDS: dict[str, Callable[[Checkpoint, Actor, dict[str, str]], str]] = {
    "resolve": _resolve,
    "cancel": _cancel,
    "claim": _claim,
    "release": _release,
    "extend": _extend,
    "remind": _remind,
    "comment": _comment,
    "mute": _mute,
    "unmute": _unmute,
}


FIELDS = {"comment": "text", "extend": "timeout", "cancel": "reason"}


def _bounded(form: dict[str, str], name: str) -> str:
    text = form.get(name, "")
    if trouble := _trouble(text, answers.TEXT_LENGTH):
        raise errors.InvalidInput({name: [trouble]})
    return text


def _trouble(text: str, most: int) -> str:
    return f"At most {most:,} characters." if len(text) > most else trouble_with(text)


def wrong_with_reassignment(form: Mapping[str, str]) -> errors.FieldErrors:
    """Before anybody is looked up: neither a preview nor a change begins with less than what was typed."""
    limits = {"assignee": assignment.RAW_LENGTH, "comment": answers.TEXT_LENGTH}
    found = {name: _trouble(form.get(name, ""), most) for name, most in limits.items()}
    return {name: [trouble] for name, trouble in found.items() if trouble}


def claim_several(request: HttpRequest, rows: Iterable[Checkpoint]) -> tuple[int, list[str]]:
    return _each(rows, lambda row: lifecycle.claim(row, actor=actor_for(request, row.tenant)))


def reassign_several(request: HttpRequest, rows: Iterable[Checkpoint]) -> tuple[int, list[str]]:
    assignee = str(request.POST.get("assignee", ""))
    comment = str(request.POST.get("comment", ""))
    return _each(
        rows,
        lambda row: lifecycle.reassign(row, actor=actor_for(request, row.tenant), assignee=assignee, comment=comment),
    )


def _each(rows: Iterable[Checkpoint], act: Callable[[Checkpoint], Any]) -> tuple[int, list[str]]:
    done, refused = 0, []
    for row in rows:
        try:
            act(row)
            done += 1
        except errors.Refusal as refusal:
            refused.append(f"{row}: {refusal.detail}")
    return done, refused


@dataclass(frozen=True)
class Preview:
    """Where an assignee string would lead, before anything is changed."""

    rows: list[Checkpoint]
    sentence: str
    people: list[str]
    has_account: bool = True


def previews(rows: list[Checkpoint], raw: str) -> list[Preview]:
    """One per distinct answer: a delegated core may lead each of several checkpoints to somebody else."""
    now = timezone.now()
    found: dict[assignment.Assignment, list[Checkpoint]] = {}
    for row in rows:
        answer = assignment.resolve(raw, tenant=row.tenant, core=row.core, at=now)
        answer = assignment.four_eyes(answer, tenant=row.tenant, without=assignment.excluded(row))
        found.setdefault(answer, []).append(row)
    return [_preview(answer, group) for answer, group in found.items()]


def _preview(answer: assignment.Assignment, rows: list[Checkpoint]) -> Preview:
    if answer.reason:
        return Preview(rows, answer.reason, [])
    tenant = rows[0].tenant
    people = assignment.people(answer, tenant=tenant)
    members = set(
        Membership.objects.for_tenant(tenant)
        .active()
        .filter(user__email__in=people)
        .values_list("user__email", flat=True)
    )
    return Preview(rows, stories.named(answer, rows[0].core), people, has_account=set(people) <= members)


def suggestions(tenant: Tenant) -> list[str]:
    groups = Group.objects.for_tenant(tenant).values_list("slug", flat=True)[:MOST_SUGGESTIONS]
    roles = Role.objects.for_tenant(tenant).values_list("name", flat=True)[:MOST_SUGGESTIONS]
    members = Membership.objects.for_tenant(tenant).active().order_by("user__email")
    return [
        *(f"group:{slug}" for slug in groups),
        *(f"role:{name}" for name in roles),
        *(f"user:{email}" for email in members.values_list("user__email", flat=True)[:MOST_SUGGESTIONS]),
        "delegated_user",
    ]
