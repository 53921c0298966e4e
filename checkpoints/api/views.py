"""Thin adapters: check the shape, call one verb, answer with the row."""

import json
import uuid
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar, cast

from django.db import models
from django.http import HttpResponse, QueryDict
from django.utils import timezone
from rest_framework.exceptions import UnsupportedMediaType, ValidationError
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from checkpoints import assignment, errors, idempotency, lifecycle, policy
from checkpoints.answers import Answer
from checkpoints.api import lists, represent, shapes
from checkpoints.api.parsing import LengthRequired, discard_rest
from checkpoints.idempotency import Answered
from checkpoints.models import Checkpoint, Event
from tenants import directory
from tenants.actors import Actor
from tenants.models import User

HISTORY_LENGTH = 1000
NO_VERSION = -1


Row = TypeVar("Row", bound=models.Model)
Render = Callable[[Row], Answered]
# A command, told what to write along with its effect.
Work = Callable[[Callable[[Row], models.Model] | None], Row]


def as_bytes(content: Any) -> bytes:
    """What is stored for a repeat is what was sent."""
    return json.dumps(content, ensure_ascii=False, separators=(",", ":")).encode()


def render(row: Checkpoint) -> Answered:
    return Answered(200, {"ETag": represent.etag(row)}, as_bytes(represent.checkpoint(row)))


def render_new(row: Checkpoint) -> Answered:
    told = render(row)
    return Answered(201, told.headers | {"Location": f"/v1/checkpoints/{row.pk}"}, told.body)


def respond(answered: Answered) -> HttpResponse:
    headers = {"Content-Type": "application/json"} | answered.headers
    return HttpResponse(answered.body, status=answered.status, headers=headers)


class View(APIView):
    http_method_names = ["get", "head", "post"]

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        if "chunked" in request.META.get("HTTP_TRANSFER_ENCODING", "").lower():
            raise LengthRequired
        super().initial(request, *args, **kwargs)

    def finalize_response(self, request: Any, response: Any, *args: Any, **kwargs: Any) -> Any:
        # Only for those we know: a stranger must not keep us reading.
        if isinstance(getattr(request, "_auth", None), Actor):
            discard_rest(request._request)
        return super().finalize_response(request, response, *args, **kwargs)

    @property
    def actor(self) -> Actor:
        return cast(Actor, self.request.auth)

    def once(self, route: str, prepare: Callable[[], Work[Row]], render: Render[Row]) -> HttpResponse:
        """With an Idempotency-Key, a repeat gets the first answer, whatever became of the row since.

        ``prepare`` looks and checks, and returns the work itself. The route is one under all its mounts.
        """
        key = self.request.headers.get("Idempotency-Key")
        if key is None:
            return respond(render(prepare()(None)))
        claim = idempotency.claim_for(self.actor, route=route, key=key, body=self.body())
        if answered := idempotency.stored(claim):
            return respond(answered)
        work = prepare()
        told: list[tuple[Row, Answered]] = []

        def along(row: Row) -> models.Model:
            told.append((row, render(row)))
            return idempotency.to_store(claim, told[-1][1])

        def run() -> Answered:
            row = work(along)
            if told and told[-1][0] is row:
                return told[-1][1]
            # Nothing was changed: a twin had done it, or an earlier request under another key.
            return idempotency.stored(claim) or render(row)

        return respond(idempotency.once(claim, run))

    def find(self, checkpoint_id: uuid.UUID) -> Checkpoint:
        row = policy.find(self.actor, checkpoint_id, at=timezone.now())
        if row is None:
            raise errors.NotFound
        return row

    def body(self) -> Any:
        data = self.request.data
        if isinstance(data, QueryDict):
            # A form: without a body it is what curl sends for none; with one, a session's CSRF check has eaten it.
            if self.request.META.get("CONTENT_LENGTH") not in {None, "", "0"}:
                raise UnsupportedMediaType(str(self.request.content_type))
            return {}
        if data is None:
            # The word null; no body at all has become an empty object before.
            raise ValidationError({"body": ["Send a JSON object."]})
        return data

    def read(self, shape: type[shapes.Shape]) -> dict[str, Any]:
        return shapes.read(shape, self.body())


class Checkpoints(View):
    def get(self, request: Request) -> Response:
        policy.admit(self.actor, "read")
        rows = lists.filtered(request, policy.visible(self.actor, at=timezone.now()))
        return Response(lists.page(request, rows))

    def post(self, request: Request) -> HttpResponse:
        policy.admit(self.actor, "create")
        return self.once("checkpoints", self.prepare, render_new)

    def prepare(self) -> Work[Checkpoint]:
        draft = lifecycle.Draft(**self.read(shapes.Create))
        return lambda along: lifecycle.create(draft, actor=self.actor, along=along)


class OneCheckpoint(View):
    def get(self, request: Request, checkpoint_id: uuid.UUID) -> Response:
        policy.admit(self.actor, "read")
        row = self.find(checkpoint_id)
        tag = represent.etag(row)
        # A proxy that compresses makes our tag a weak one; for a copy in a cache that is as good.
        known = {given.removeprefix("W/") for given in tags(request.headers.get("If-None-Match", ""))}
        if known & {tag, "*"}:
            return Response(status=304, headers={"ETag": tag})
        return Response(represent.checkpoint(row), headers={"ETag": tag})


class History(View):
    def get(self, request: Request, checkpoint_id: uuid.UUID) -> Response:
        policy.admit(self.actor, "read")
        row = self.find(checkpoint_id)
        story = Event.objects.for_tenant(self.actor.tenant).filter(subject_id=row.pk)
        # Of a very long story its end; the whole of it is in the audit.
        latest = list(story.order_by("-sequence")[:HISTORY_LENGTH])
        return Response([represent.history(event) for event in reversed(latest)])


class Command(View):
    command: str
    shape: type[shapes.Shape]

    def post(self, request: Request, checkpoint_id: uuid.UUID) -> HttpResponse:
        policy.admit(self.actor, self.command)
        return self.once(f"checkpoints/{checkpoint_id}/{self.command}", partial(self.prepare, checkpoint_id), render)

    def prepare(self, checkpoint_id: uuid.UUID) -> Work[Checkpoint]:
        row = self.find(checkpoint_id)
        given = self.read(self.shape)
        who = {"actor": self.actor, "if_version": self.if_version(row)}
        return lambda along: self.run(row, given, who | {"along": along})

    def find(self, checkpoint_id: uuid.UUID) -> Checkpoint:
        """Also what a colleague has ended: somebody who was asked hears who decided what, not that it never was."""
        try:
            return super().find(checkpoint_id)
        except errors.NotFound:
            rows = Checkpoint.objects.for_tenant(self.actor.tenant).select_related("core", "tenant")
            row: Checkpoint | None = rows.filter(pk=checkpoint_id).first()
            if row is None or self.actor.user is None:
                raise
            standing = directory.standing(self.actor.tenant, self.actor.user)
            if not policy.assignee_because(row, standing, at=timezone.now()):
                raise
            return row

    def run(self, row: Checkpoint, given: dict[str, Any], who: dict[str, Any]) -> Checkpoint:
        raise NotImplementedError

    def if_version(self, row: Checkpoint) -> int | None:
        given = tags(self.request.headers.get("If-Match", ""))
        if not given or "*" in given:
            return None
        # A bare number is what people type into curl. A tag we never gave out matches no version.
        return row.row_version if {represent.etag(row), str(row.row_version)} & given else NO_VERSION


def tags(header: str) -> set[str]:
    return {tag.strip() for tag in header.split(",") if tag.strip()}


class Resolve(Command):
    command, shape = "resolve", shapes.Resolve

    def run(self, row: Checkpoint, given: dict[str, Any], who: dict[str, Any]) -> Checkpoint:
        said = Answer(
            given.get("decision"), given.get("response"), given.get("comment") or "", given.get("edited_args")
        )
        return lifecycle.resolve(row, answer=said, **who)


class Cancel(Command):
    command, shape = "cancel", shapes.Cancel

    def run(self, row: Checkpoint, given: dict[str, Any], who: dict[str, Any]) -> Checkpoint:
        return lifecycle.cancel(row, reason=given.get("reason") or "", **who)


class Reassign(Command):
    command, shape = "reassign", shapes.Reassign

    def run(self, row: Checkpoint, given: dict[str, Any], who: dict[str, Any]) -> Checkpoint:
        return lifecycle.reassign(row, assignee=given["assignee"] or "", comment=given.get("comment") or "", **who)


class OnBehalf(Command):
    shape = shapes.OnBehalf

    def person(self, given: dict[str, Any]) -> User | None:
        name = (given.get("for") or "").strip()
        if not name:
            return None
        if self.actor.user is not None:
            # Not looked up: somebody who acts for themselves must not learn who else is a member.
            if assignment.is_person(self.actor.user, name.lower()):
                return self.actor.user
            raise errors.NotAllowed(None, "You can do this only for yourself; leave “for” out.")
        membership = directory.membership_of(self.actor.tenant, name)
        if membership is None or not membership.is_active or not membership.user.is_active:
            raise ValidationError({"for": [f"No active member of this tenant is called “{name}”."]})
        return membership.user


class Claim(OnBehalf):
    command = "claim"

    def run(self, row: Checkpoint, given: dict[str, Any], who: dict[str, Any]) -> Checkpoint:
        return lifecycle.claim(row, on_behalf_of=self.person(given), **who)


class Release(OnBehalf):
    command = "release"

    def run(self, row: Checkpoint, given: dict[str, Any], who: dict[str, Any]) -> Checkpoint:
        return lifecycle.release(row, on_behalf_of=self.person(given), **who)


class Extend(Command):
    command, shape = "extend", shapes.Extend

    def run(self, row: Checkpoint, given: dict[str, Any], who: dict[str, Any]) -> Checkpoint:
        return lifecycle.extend(row, expires_at=given.get("expires_at"), timeout=given.get("timeout"), **who)


class Remind(Command):
    command, shape = "remind", shapes.Remind

    def run(self, row: Checkpoint, given: dict[str, Any], who: dict[str, Any]) -> Checkpoint:
        return lifecycle.remind(row, **who)


class Comment(Command):
    command, shape = "comment", shapes.Comment

    def run(self, row: Checkpoint, given: dict[str, Any], who: dict[str, Any]) -> Checkpoint:
        return lifecycle.comment(row, text=given["text"], **who)
