"""The whole record, for those who check it: every event with who, how, from where, before and after."""

import uuid
from typing import Any

from django.db.models import Q
from rest_framework.request import Request
from rest_framework.response import Response

from checkpoints import policy
from checkpoints.api import lists, represent
from checkpoints.api.schema import auditing
from checkpoints.api.schema.operations import DESCRIBED
from checkpoints.api.views import View
from checkpoints.models import Event

MODULE = "scaicore"
LARGEST_ID = 2**63 - 1


def _module(value: str) -> Q:
    """Other programs keep the records of several modules; here there is one."""
    if value != MODULE:
        raise ValueError(f"“{value[:60]}” is not known. Use {MODULE}.")
    return Q()


def _checkpoint(value: str) -> Q:
    try:
        return Q(subject_type="checkpoint", subject_id=uuid.UUID(value))
    except ValueError as error:
        raise ValueError("Give the id of a checkpoint.") from error


FILTERS = {
    "module": _module,
    "event": lambda value: Q(type=f"checkpoint.{value}"),
    "type": lists.exactly("type"),
    "actor": lists.exactly("actor"),
    "via": lists.exactly("via"),
    "checkpoint_id": _checkpoint,
    "after": lists.moment("at__gt"),
    "before": lists.moment("at__lt"),
}
PAGING = ("cursor", "page_size")


def _number(value: Any) -> int:
    if not isinstance(value, int) or not 0 <= value <= LARGEST_ID:
        raise ValueError
    return value


NEWEST = lists.ByColumn("a", "id", _number, descending=True)
AS_IT_HAPPENED = lists.ByColumn("s", "sequence", _number)
# The same order as by id within one checkpoint, and the one its index has: SQLite would read all the tenant's events.
LATEST_OF_ONE = lists.ByColumn("l", "sequence", _number, descending=True)


class Audit(View):
    def get(self, request: Request) -> Response:
        policy.admit(self.actor, "audit")
        events = Event.objects.for_tenant(self.actor.tenant)
        rows = lists.filtered(request, events, filters=FILTERS, paging=PAGING)
        walk = LATEST_OF_ONE if "checkpoint_id" in request.query_params else NEWEST
        return Response(lists.paged(request, rows, walk=walk, shown=shown))


class CheckpointAudit(View):
    def get(self, request: Request, checkpoint_id: uuid.UUID) -> Response:
        policy.admit(self.actor, "audit")
        events = Event.objects.for_tenant(self.actor.tenant).filter(subject_id=self.find(checkpoint_id).pk)
        rows = lists.filtered(request, events, filters={}, paging=PAGING)
        return Response(lists.paged(request, rows, walk=AS_IT_HAPPENED, shown=shown))


DESCRIBED[Audit] = {"get": auditing.TENANT}
DESCRIBED[CheckpointAudit] = {"get": auditing.ONE_CHECKPOINT}


def shown(events: list[Event]) -> list[dict[str, Any]]:
    return [entry(event) for event in events]


def entry(event: Event) -> dict[str, Any]:
    return {
        "id": event.pk,
        "checkpoint_id": str(event.subject_id),
        "sequence": event.sequence,
        "event": event.name,
        "type": event.type,
        "at": represent.moment(event.at),
        "actor": event.actor,
        "via": event.via,
        "address": event.address or None,
        "detail": _part(event, "detail"),
        "before": _part(event, "before"),
        "after": _part(event, "after"),
        "previous_digest": event.previous_digest or None,
        "digest": event.digest,
    }


def _part(event: Event, name: str) -> dict[str, Any]:
    """Somebody who edits the record can put any JSON there; it must not hide the rest of the page."""
    found = event.data.get(name) if isinstance(event.data, dict) else None
    return found if isinstance(found, dict) else {}
