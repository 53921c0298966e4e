"""Which waiting rows may lead to nobody any more. Asked from the side of the directory, which is small, not row by row.

What is found here is only suspected: ``lifecycle.reroute`` looks at each of these rows and decides. The others are
not looked at, so a sweep that finds nothing costs a handful of queries however many rows wait.
"""

import uuid
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any, cast

from django.db import connection
from django.db.models import Count, Exists, F, FilteredRelation, OuterRef, Q, Subquery, Value

from checkpoints.models import ALIKE, AssigneeType, Checkpoint, CheckpointSet, Routing, Status, Vote
from tenants import directory
from tenants.fields import new_id
from tenants.models import Core, Membership, MembershipSet, Tenant, Unreachable

COLLECTIVE = {AssigneeType.GROUP: "groups__slug", AssigneeType.ROLE: "roles__name"}
# Who is asked: the type, the tenant, and the name in it.
Asked = tuple[str, uuid.UUID, str]
# A person as a row may name them.
Person = tuple[uuid.UUID, str]


def suspects(*, at: datetime) -> Iterator[CheckpointSet]:
    """Sets of rows to look at, one by one. To be read to the end before any of them is changed."""
    tenants, delegates = _cores(at=at)
    alike = _assignments(tenants)
    yield from _too_few([kind for kind in alike if kind.type in COLLECTIVE])
    for kind in alike:
        if kind.type == AssigneeType.DELEGATED_USER and delegates.get(kind.core) != kind.value:
            yield kind.rows()
    yield from _gone_people(set(tenants.values()))
    yield from _out_of_reach(alike)


def waiting() -> CheckpointSet:
    rows: CheckpointSet = Checkpoint.objects.pending().filter(routing=Routing.PEOPLE)
    return rows


def able() -> MembershipSet:
    """Those who can act. Whoever is left out here counts neither in a group nor in a role."""
    members: MembershipSet = Membership.objects.active()
    return members


def unable() -> MembershipSet:
    """The others: what is assigned to one of them by name leads to nobody."""
    members: MembershipSet = Membership.objects.exclude(is_active=True, user__is_active=True)
    return members


@dataclass(frozen=True, slots=True)
class Kind:
    """What waiting rows have in common where one answer of the directory holds for all of them."""

    tenant: uuid.UUID
    type: str
    forbid_requester: bool
    required: int
    rejections_allowed: int
    core: uuid.UUID
    value: str

    @property
    def asked(self) -> Asked:
        return self.type, self.tenant, self.value

    def rows(self) -> CheckpointSet:
        return assigned(self.tenant, self.type, [self.value]).filter(
            core=self.core,
            forbid_requester=self.forbid_requester,
            required_approvals=self.required,
            rejections_allowed=self.rejections_allowed,
        )


def assigned(tenant: uuid.UUID, type_: str, values: Iterable[str]) -> CheckpointSet:
    return waiting().filter(tenant=tenant, assignee_type=type_, assignee_value__in=list(values))


# --- Groups, roles, delegations -------------------------------------------------------------------------------------


def _assignments(tenants: dict[uuid.UUID, uuid.UUID]) -> list[Kind]:
    """Everything that is asked of groups, roles and delegates, each once."""
    if connection.vendor == "sqlite":
        found: list[Any] = _jumping()
    else:
        rows = waiting().filter(assignee_type__in=[*COLLECTIVE, AssigneeType.DELEGATED_USER]).order_by()
        # MariaDB jumps by itself, but only where the DISTINCT has every column of the index from its first.
        found = [line[2:] for line in rows.values_list("status", "routing", *ALIKE).distinct()]
    return [Kind(tenants[line[ALIKE.index("core")]], *line) for line in found]


def _jumping() -> list[Any]:
    """SQLite would read every row of the index for a DISTINCT: here it jumps to where the next difference is."""
    table = connection.ops.quote_name(Checkpoint._meta.db_table)
    columns = [str(cast(Any, Checkpoint._meta.get_field(name)).column) for name in ALIKE]
    order, here = (", ".join(f"{alias}.{column}" for column in columns) for alias in ("later", "here"))
    some = f"SELECT later.rowid FROM {table} AS later WHERE later.status = %s AND later.routing = %s"  # noqa: S608
    # In the alphabet the three types come before "unrouted" and "user".
    routed = f"{some} AND later.assignee_type < %s"
    jumps = []
    for place in reversed(range(len(columns))):
        same = "".join(f" AND later.{column} = here.{column}" for column in columns[:place])
        more = f" AND later.{columns[place]} > here.{columns[place]}"
        jumps.append(f"({some if place else routed}{same}{more} ORDER BY {order} LIMIT 1)")
    sql = (
        f"WITH RECURSIVE step (place) AS (SELECT ({routed} ORDER BY {order} LIMIT 1) UNION ALL "  # noqa: S608
        f"SELECT COALESCE({', '.join(jumps)}) FROM step JOIN {table} AS here ON here.rowid = step.place) "
        f"SELECT {here} FROM step JOIN {table} AS here ON here.rowid = step.place"
    )
    each = [Status.PENDING, Routing.PEOPLE]
    bound = [*each, AssigneeType.UNROUTED]
    with connection.cursor() as cursor:
        cursor.execute(sql, bound + each * (len(columns) - 1) + bound)
        return [(*words, uuid.UUID(core), value) for *words, core, value in cursor.fetchall()]


def _too_few(kinds: list[Kind]) -> Iterator[CheckpointSet]:
    """Where fewer are left than it could take, whoever asked and however they voted."""
    if not kinds:
        return
    sizes = _sizes()
    small = [kind for kind in kinds if sizes.get(kind.asked, 0) < _most_needed(kind)]
    names = _names({kind.asked for kind in small})
    for kind in small:
        size, needed = sizes.get(kind.asked, 0), kind.required
        if size < needed:
            yield kind.rows()
            continue
        doubtful = Q(pk__in=[])
        if kind.forbid_requester:
            doubtful |= Q(requested_by__in=names.get(kind.asked, []))
        if kind.rejections_allowed:
            doubtful |= Q(Exists(Vote.objects.filter(checkpoint=OuterRef("pk"), approves=False)))
        yield kind.rows().filter(doubtful)


def _most_needed(kind: Kind) -> int:
    """With so many left, the number is in reach: without the requester, and after every rejection allowed."""
    return kind.required + kind.forbid_requester + kind.rejections_allowed


def _sizes() -> dict[Asked, int]:
    counts = [
        _in(type_).values_list(Value(type_.value), "tenant", COLLECTIVE[type_]).annotate(size=Count("pk")).order_by()
        for type_ in COLLECTIVE
    ]
    return {(type_, tenant, name): size for type_, tenant, name, size in counts[0].union(*counts[1:], all=True)}


def _names(asked: set[Asked]) -> dict[Asked, list[str]]:
    """How a row would name the members, as emails and as user ids."""
    found: dict[Asked, list[str]] = {}
    for type_, field in COLLECTIVE.items():
        wanted = {name for kind, _, name in asked if kind == type_}
        if not wanted:
            continue
        members = _in(type_).filter(**{f"{field}__in": wanted})
        for tenant, name, email, user in members.values_list("tenant", field, "user__email", "user"):
            found.setdefault((type_.value, tenant, name), []).extend([email, str(user)])
    return found


def _in(type_: AssigneeType) -> MembershipSet:
    relation = COLLECTIVE[type_].partition("__")[0]
    return able().filter(**{f"{relation}__tenant": F("tenant")})


def _cores(*, at: datetime) -> tuple[dict[uuid.UUID, uuid.UUID], dict[uuid.UUID, str]]:
    """The tenant of each core, and the address of the delegate who can act for it now."""
    current = Q(delegations__starts_at__lte=at) & (
        Q(delegations__ends_at__isnull=True) | Q(delegations__ends_at__gt=at)
    )
    rows = Core.objects.annotate(current=FilteredRelation("delegations", condition=current))
    person = "current__delegate__user"
    names = (f"{person}__email", f"{person}__is_active", "current__delegate__is_active")
    tenants, delegates = {}, {}
    # The latest start wins, also when that person can no longer act.
    for core, tenant, email, *active in rows.order_by("current__starts_at", "current__id").values_list(
        "pk", "tenant", *names
    ):
        tenants[core] = tenant
        delegates[core] = email if all(active) else ""
    return tenants, delegates


# --- People whom no mail reaches ------------------------------------------------------------------------------------


def _out_of_reach(kinds: list[Kind]) -> Iterator[CheckpointSet]:
    marked: dict[uuid.UUID, set[str]] = {}
    for tenant, email in Unreachable.objects.order_by().values_list("tenant", "email"):
        marked.setdefault(tenant, set()).add(email)
    if not marked:
        return
    users = Membership.objects.filter(tenant__in=list(marked)).values_list("tenant", "user__email", "user")
    ids = {(tenant, email): str(user) for tenant, email, user in users if email in marked[tenant]}
    for tenant, emails in marked.items():
        names = [*emails, *(ids[tenant, email] for email in emails if (tenant, email) in ids)]
        yield assigned(tenant, AssigneeType.USER, names)
    members = _names({kind.asked for kind in kinds if kind.type in COLLECTIVE and kind.tenant in marked})
    for kind in kinds:
        emails = marked.get(kind.tenant, set())
        asked = {kind.value} if kind.type == AssigneeType.DELEGATED_USER else set(members.get(kind.asked, ())[::2])
        if asked and asked <= emails:
            yield kind.rows()


# --- People by name -------------------------------------------------------------------------------------------------


def _gone_people(tenants: set[uuid.UUID]) -> Iterator[CheckpointSet]:
    by_id, twice = _asked_by_id(tenants), _named_in_two_ways()
    members = _memberships({value for _, value in by_id} | {name for _, *pair in twice for name in pair})
    gone: dict[uuid.UUID, list[str]] = {}
    for tenant, email in _asked_in_vain():
        gone.setdefault(tenant, []).append(email)
    for tenant, value in by_id:
        membership = members.get((tenant, value))
        if membership is None or not membership.is_active or not membership.user.is_active:
            gone.setdefault(tenant, []).append(value)
    for tenant, values in gone.items():
        yield assigned(tenant, AssigneeType.USER, values)
    for tenant, value, requester in twice:
        membership = members.get((tenant, value)) or members.get((tenant, requester))
        if membership is not None and membership.user.email in {value, requester}:
            yield assigned(tenant, AssigneeType.USER, [value]).filter(forbid_requester=True, requested_by=requester)


def _asked_in_vain() -> list[Person]:
    asked = waiting().filter(
        tenant=OuterRef("tenant"), assignee_type=AssigneeType.USER, assignee_value=OuterRef("user__email")
    )
    # Not EXISTS: MariaDB would turn it round and look at every row that waits for a person.
    found = unable().annotate(row=Subquery(asked.values("pk")[:1])).filter(row__isnull=False)
    return list(found.values_list("tenant", "user__email"))


def _asked_by_id(tenants: set[uuid.UUID]) -> list[Person]:
    """Who is asked by user id, each once. Ids are time-ordered, and so they come before nearly every address."""
    before = f"{int(new_id().hex[:2], 16) + 1:02x}"
    if connection.vendor == "sqlite":
        found = _jumping_from_id_to_id(before)
    else:
        rows = Checkpoint.objects.pending().filter(
            tenant__in=tenants, assignee_type=AssigneeType.USER, assignee_value__gt="", assignee_value__lt=before
        )
        names = ("tenant", "assignee_value", "assignee_type", "status")
        found = [line[:2] for line in rows.order_by().values_list(*names).distinct()]
    return [(tenant, value) for tenant, value in found if not directory.looks_like_email(value)]


def _jumping_from_id_to_id(before: str) -> list[Person]:
    rows, tenants = (connection.ops.quote_name(model._meta.db_table) for model in (Checkpoint, Tenant))
    of_tenant = f"FROM {rows} WHERE tenant_id = step.tenant AND assignee_type = %s AND assignee_value"
    sql = (
        f"WITH RECURSIVE step (tenant, value) AS (SELECT id, '' FROM {tenants} UNION ALL "  # noqa: S608
        f"SELECT tenant, (SELECT MIN(assignee_value) {of_tenant} > step.value AND assignee_value < %s) "
        f"FROM step WHERE value IS NOT NULL) "
        f"SELECT tenant, value FROM step WHERE EXISTS (SELECT 1 {of_tenant} = step.value AND status = %s)"
    )
    with connection.cursor() as cursor:
        cursor.execute(sql, [AssigneeType.USER, before, AssigneeType.USER, Status.PENDING])
        return [(uuid.UUID(tenant), value) for tenant, value in cursor.fetchall()]


def _named_in_two_ways() -> list[tuple[uuid.UUID, str, str]]:
    """Four eyes, where one of assignee and requester is an address and the other a user id: they may be one person."""
    rows = waiting().filter(assignee_type=AssigneeType.USER, forbid_requester=True)
    by_address, for_address = Q(requested_by__contains="@"), Q(assignee_value__contains="@")
    rows = rows.filter(by_address & ~for_address | for_address & ~by_address)
    return list(rows.order_by().values_list("tenant", "assignee_value", "requested_by").distinct())


def _memberships(names: set[str]) -> dict[Person, Membership]:
    ids = [uuid.UUID(name) for name in names if _is_id(name)]
    if not ids:
        return {}
    found = Membership.objects.filter(user__in=ids).select_related("user")
    return {(membership.tenant_id, str(membership.user_id)): membership for membership in found}


def _is_id(name: str) -> bool:
    try:
        uuid.UUID(name)
    except ValueError:
        return False
    return True
