"""Thin adapters: check the shape, call one verb, answer with the row."""

import uuid
from typing import Any, cast

from django.utils import timezone
from rest_framework.exceptions import ValidationError
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from checkpoints import errors, lifecycle, policy
from checkpoints.answers import Answer
from checkpoints.api import lists, represent, shapes
from checkpoints.api.parsing import LengthRequired
from checkpoints.models import Checkpoint, Event
from tenants import directory
from tenants.actors import Actor
from tenants.models import User

HISTORY_LENGTH = 1000


class View(APIView):
    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        if "chunked" in request.META.get("HTTP_TRANSFER_ENCODING", "").lower():
            raise LengthRequired
        super().initial(request, *args, **kwargs)

    @property
    def actor(self) -> Actor:
        return cast(Actor, self.request.auth)

    def find(self, checkpoint_id: uuid.UUID) -> Checkpoint:
        rows = policy.visible(self.actor, at=timezone.now()).select_related("core", "tenant")
        row: Checkpoint | None = rows.filter(pk=checkpoint_id).first()
        if row is None:
            raise errors.NotFound
        return row

    def read(self, shape: type[shapes.Shape]) -> dict[str, Any]:
        given = shape(data={} if self.request.data is None else self.request.data)
        given.is_valid(raise_exception=True)
        return dict(given.validated_data)


class Checkpoints(View):
    def get(self, request: Request) -> Response:
        policy.admit(self.actor, "read")
        rows = lists.filtered(request, policy.visible(self.actor, at=timezone.now()))
        return Response(lists.page(request, rows))

    def post(self, request: Request) -> Response:
        policy.admit(self.actor, "create")
        row = lifecycle.create(lifecycle.Draft(**self.read(shapes.Create)), actor=self.actor)
        headers = {"ETag": represent.etag(row), "Location": f"/v1/checkpoints/{row.pk}"}
        return Response(represent.checkpoint(row), status=201, headers=headers)


class OneCheckpoint(View):
    def get(self, request: Request, checkpoint_id: uuid.UUID) -> Response:
        policy.admit(self.actor, "read")
        row = self.find(checkpoint_id)
        tag = represent.etag(row)
        if tag in [given.strip() for given in request.headers.get("If-None-Match", "").split(",")]:
            return Response(status=304, headers={"ETag": tag})
        return Response(represent.checkpoint(row), headers={"ETag": tag})


class History(View):
    def get(self, request: Request, checkpoint_id: uuid.UUID) -> Response:
        policy.admit(self.actor, "read")
        row = self.find(checkpoint_id)
        story = Event.objects.for_tenant(self.actor.tenant).filter(subject_id=row.pk).order_by("sequence")
        return Response([represent.history(event) for event in story[:HISTORY_LENGTH]])


class Command(View):
    command: str
    shape: type[shapes.Shape]

    def post(self, request: Request, checkpoint_id: uuid.UUID) -> Response:
        policy.admit(self.actor, self.command)
        row = self.find(checkpoint_id)
        row = self.run(row, self.read(self.shape), {"actor": self.actor, "if_version": self.if_version()})
        return Response(represent.checkpoint(row), headers={"ETag": represent.etag(row)})

    def run(self, row: Checkpoint, given: dict[str, Any], who: dict[str, Any]) -> Checkpoint:
        raise NotImplementedError

    def if_version(self) -> int | None:
        header = self.request.headers.get("If-Match", "").strip()
        if header in {"", "*"}:
            return None
        number = header.strip('"')
        # A tag we never gave out matches no version.
        return int(number) if number.isascii() and number.isdigit() and len(number) < 10 else -1


class Resolve(Command):
    command, shape = "resolve", shapes.Resolve

    def run(self, row: Checkpoint, given: dict[str, Any], who: dict[str, Any]) -> Checkpoint:
        answer = Answer(given.get("decision"), given.get("response"), given.get("comment") or "")
        return lifecycle.resolve(row, answer=answer, **who)


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
