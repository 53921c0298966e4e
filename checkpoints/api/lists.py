"""Filters and cursor pages: read off an index, never counted, never skipped over."""

import base64
import binascii
import json
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, cast
from urllib.parse import unquote_to_bytes

from django.db.models import Q, QuerySet
from rest_framework.exceptions import ValidationError
from rest_framework.request import Request
from rest_framework.utils.urls import remove_query_param, replace_query_param

from checkpoints import assignment, quorum
from checkpoints.api import represent
from checkpoints.api.parsing import trouble_with
from checkpoints.api.problems import flat
from checkpoints.api.shapes import Moment
from checkpoints.models import AssigneeType, Checkpoint, Priority, Routing, Status
from tenants.actors import Actor
from tenants.models import Core
from tenants.statements import bare

PAGE_SIZE = 50
LARGEST_PAGE = 200


def word(column: str, known: list[str]) -> Callable[[str], Q]:
    def condition(value: str) -> Q:
        if value not in known:
            raise ValueError(f"“{value[:60]}” is not known. Use one of: {', '.join(known)}.")
        return Q(**{column: value})

    return condition


def exactly(column: str) -> Callable[[str], Q]:
    return lambda value: Q(**{column: value})


def moment(look_up: str) -> Callable[[str], Q]:
    def condition(value: str) -> Q:
        try:
            return Q(**{look_up: Moment().to_internal_value(value)})
        except ValidationError as error:
            raise ValueError(" ".join(flat(error.detail))) from error

    return condition


def _priority(value: str) -> Q:
    if value not in Priority.words():
        raise ValueError(f"“{value[:60]}” is not known. Use one of: {', '.join(Priority.words())}.")
    return Q(priority=Priority.named(value))


def _assignee(value: str) -> Q:
    parsed = assignment.parse(value)
    if parsed.type == AssigneeType.UNROUTED:
        raise ValueError(parsed.reason)
    if parsed.type == AssigneeType.DELEGATED_USER:
        return Q(assignee_type=parsed.type)
    return Q(assignee_type=parsed.type, assignee_value=parsed.value)


FILTERS: dict[str, Callable[[str], Q]] = {
    "status": word("status", Status.values),
    "priority": _priority,
    "checkpoint_type": exactly("checkpoint_type"),
    "assignee": _assignee,
    "assignee_type": word("assignee_type", AssigneeType.values),
    "core_id": exactly("core__slug"),
    "flow_name": exactly("flow_name"),
    "execution_id": exactly("execution_id"),
    "instance_key": exactly("instance_key"),
    "routing": word("routing", Routing.values),
    "created_after": moment("created_at__gt"),
    "created_before": moment("created_at__lt"),
    "expires_before": moment("expires_at__lt"),
}
ORDERS = ("newest", "urgent")
PAGING = ("cursor", "page_size", "order")


def filtered(
    request: Request,
    rows: QuerySet[Any],
    *,
    filters: dict[str, Callable[[str], Q]] = FILTERS,
    paging: tuple[str, ...] = PAGING,
) -> QuerySet[Any]:
    wrong: dict[str, list[str]] = {}
    if not _is_utf8(request):
        raise ValidationError({"query": ["The query string is not UTF-8."]})
    for name, values in request.query_params.lists():
        value = str(values[-1])
        try:
            if len(values) > 1:
                raise ValueError("Give it once.")
            if name in paging:
                continue
            if name not in filters:
                raise ValueError(f"Unknown filter. Known: {', '.join([*filters, *paging])}.")
            if trouble := trouble_with(value):
                raise ValueError(trouble)
            rows = rows.filter(_core(request, value) if name == "core_id" else filters[name](value))
        except ValueError as error:
            wrong[name[:100]] = [str(error)]
    if wrong:
        raise ValidationError(wrong)
    return rows


def _core(request: Request, slug: str) -> Q:
    """By key, looked up first: joined by its slug, MariaDB would walk the whole list for a rare core."""
    key = Core.objects.for_tenant(_actor(request).tenant).filter(slug=slug).values_list("pk", flat=True).first()
    return Q(core=key) if key else Q(pk__in=[])


def _actor(request: Request) -> Actor:
    return cast(Actor, request.auth)


def _is_utf8(request: Request) -> bool:
    """Django would put a replacement character there, and the filter would quietly match nothing."""
    try:
        unquote_to_bytes(request.META.get("QUERY_STRING", "").encode("latin-1")).decode("utf-8")
    except UnicodeError:
        return False
    return True


class Walk(Protocol):
    """One way through rows that a cursor can take up again; its letter keeps the cursors of other lists out."""

    @property
    def letter(self) -> str: ...
    def ordering(self, backwards: bool) -> list[str]: ...
    def beyond(self, backwards: bool, position: list[Any]) -> Q: ...
    def position(self, row: Any) -> list[Any]: ...
    def read(self, position: list[Any]) -> list[Any]:
        """A position out of a cursor; ValueError when it cannot be one."""


@dataclass(frozen=True, slots=True)
class ByColumn:
    letter: str
    column: str
    parse: Callable[[Any], Any]
    descending: bool = False

    def ordering(self, backwards: bool) -> list[str]:
        return [f"-{self.column}" if self.descending != backwards else self.column]

    def beyond(self, backwards: bool, position: list[Any]) -> Q:
        return Q(**{f"{self.column}__{'lt' if self.descending != backwards else 'gt'}": position[0]})

    def position(self, row: Any) -> list[Any]:
        value = getattr(row, self.column)
        return [value if isinstance(value, int) else str(value)]

    def read(self, position: list[Any]) -> list[Any]:
        [value] = position
        return [self.parse(value)]


class MostUrgent:
    letter = "u"

    def ordering(self, backwards: bool) -> list[str]:
        return ["-priority", "-id"] if backwards else ["priority", "id"]

    def beyond(self, backwards: bool, position: list[Any]) -> Q:
        identity, priority = position
        if backwards:
            return Q(priority__lte=priority) & (Q(priority__lt=priority) | Q(id__lt=identity))
        return Q(priority__gte=priority) & (Q(priority__gt=priority) | Q(id__gt=identity))

    def position(self, row: Any) -> list[Any]:
        return [str(row.pk), row.priority]

    def read(self, position: list[Any]) -> list[Any]:
        identity, priority = position
        if not isinstance(priority, int) or priority not in Priority.values:
            raise ValueError
        return [uuid.UUID(identity), priority]


WALKS: dict[str, Walk] = {"newest": ByColumn("n", "id", uuid.UUID, descending=True), "urgent": MostUrgent()}


def page(request: Request, rows: QuerySet[Checkpoint]) -> dict[str, Any]:
    def shown(found: list[Checkpoint]) -> list[dict[str, Any]]:
        # Neither is joined: SQLite would sort what the index has in order, and MariaDB would start from the cores.
        tenant, cores = _actor(request).tenant, Core.objects.in_bulk({row.core_id for row in found})
        for row in found:
            row.tenant, row.core = tenant, cores[row.core_id]
        quorum.attach(found)
        return [represent.checkpoint(row) for row in found]

    return paged(request, bare(rows, represent.READ), walk=WALKS[_order(request)], shown=shown)


def paged(
    request: Request, rows: QuerySet[Any], *, walk: Walk, shown: Callable[[list[Any]], list[dict[str, Any]]]
) -> dict[str, Any]:
    size = _size(request)
    backwards, position = _cursor(request, walk)
    rows = rows.order_by(*walk.ordering(backwards))
    if position:
        rows = rows.filter(walk.beyond(backwards, position))
    found = list(rows[: size + 1])
    more, found = len(found) > size, found[:size]
    if backwards:
        found.reverse()
    after = more if not backwards else True
    before = bool(position) if not backwards else more
    if backwards and not found:
        # Everything in front has gone from this list in the meantime.
        return {"next": _without_cursor(request), "previous": None, "results": []}
    return {
        "next": _link(request, walk, found[-1], backwards=False) if found and after else None,
        "previous": _link(request, walk, found[0], backwards=True) if found and before else None,
        "results": shown(found),
    }


def _size(request: Request) -> int:
    given = request.query_params.get("page_size", str(PAGE_SIZE))
    if given.isascii() and given.isdigit() and len(given) <= 4 and 1 <= int(given) <= LARGEST_PAGE:
        return int(given)
    raise ValidationError({"page_size": [f"Give a number from 1 to {LARGEST_PAGE}."]})


def _order(request: Request) -> str:
    order = str(request.query_params.get("order", ORDERS[0]))
    if order not in ORDERS:
        raise ValidationError({"order": [f"Use one of: {', '.join(ORDERS)}."]})
    return order


def _link(request: Request, walk: Walk, row: Any, *, backwards: bool) -> str:
    parts = [walk.letter, "p" if backwards else "n", *walk.position(row)]
    text = json.dumps(parts, separators=(",", ":"))
    cursor = base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")
    return replace_query_param(_without_cursor(request), "cursor", cursor)


def _without_cursor(request: Request) -> str:
    return remove_query_param(request.build_absolute_uri(), "cursor")


def _cursor(request: Request, walk: Walk) -> tuple[bool, list[Any]]:
    given = request.query_params.get("cursor")
    if given is None:
        return False, []
    try:
        padded = given.encode("ascii") + b"=" * (-len(given) % 4)
        letter, direction, *position = json.loads(base64.b64decode(padded, altchars=b"-_", validate=True))
        if letter != walk.letter or direction not in ("n", "p"):
            raise ValueError
        return direction == "p", walk.read(position)
    except (ValueError, TypeError, AttributeError, binascii.Error, RecursionError) as error:
        raise ValidationError({"cursor": ["Use the next or previous address of a page as it is."]}) from error
