"""Fill a database with very many rows and their events, for measurements alone.

It writes in bulk, past the lifecycle: nothing is decided here, no rule is asked, and nobody is told. That is why it
keeps to tenants of its own making.
"""

import json
import random
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import connection, models, transaction
from django.utils import timezone

from checkpoints import events
from checkpoints.models import AssigneeType, Checkpoint, Event, ExpiryAction, Priority, Status
from tenants import actors, setup
from tenants.actors import Actor
from tenants.models import Core, Tenant

MADE_HERE = "Made by seed_scale"
BATCH = 5_000
SPREAD = timedelta(days=90)
# Long gone, and a millisecond apart: a sweep that is told an earlier "now" finds as many due as one wants.
DUE_SINCE = timedelta(days=30)
DUE_STEP = timedelta(milliseconds=1)
WINDOW_SECONDS = 86_400

GROUPS = ("finance", "support", "legal", "operations", "security")
CORES = tuple(f"{name}-agent-{number}" for name in ("refund", "invoice", "release", "access") for number in range(5))
OPTIONS = [
    {"id": "approve", "label": "Approve", "variant": "primary"},
    {"id": "reject", "label": "Reject", "variant": "danger", "requires_comment": True},
]
QUESTIONS = (
    "Refund EUR {amount} to customer {number}?\nThe parcel arrived damaged; the order has photos.",
    "Pay invoice {number} over EUR {amount} to Northwind?\nIt is {amount} more than the order said.",
    "Release build {number} to production?\nTwo of {amount} checks were repeated.",
    "Give contractor {number} access to the ledger for {amount} days?",
)
# Of a hundred rows: what became of them.
STATUSES = [Status.RESOLVED] * 70 + [Status.EXPIRED] * 10 + [Status.CANCELLED] * 5 + [Status.PENDING] * 15
UNKNOWN = "Nobody knows the prefix “team:”. Use user:, group:, role: or delegated_user."
DUE_ACTIONS = [ExpiryAction.NONE] * 5 + [ExpiryAction.CANCEL] * 3 + [ExpiryAction.DEFAULT_OPTION] * 2

Line = tuple[Any, ...]


class Command(BaseCommand):
    help = "Fill a database with very many checkpoints and events in a tenant of its own, for measurements."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--rows", type=int, default=1_000_000, help="how many checkpoints to add")
        parser.add_argument("--tenant", default="scale", help="slug of the tenant they go to; made when missing")
        parser.add_argument("--due", type=int, default=0, help="so many of them wait, with a deadline that has passed")
        parser.add_argument("--force", action="store_true", help="also where other tenants have checkpoints")

    def handle(self, *args: Any, **options: Any) -> None:
        rows, due = options["rows"], options["due"]
        if rows < 1 or not 0 <= due <= rows:
            raise CommandError("Give at least one row, and no more due ones than rows.")
        if not options["force"] and (strangers := tenants_not_made_here()):
            raise CommandError(
                f"There are checkpoints of {', '.join(strangers[:5])} here. This is for empty databases; "
                "--force adds a tenant beside them."
            )
        started = time.monotonic()
        tenant = tenant_made_here(options["tenant"])
        written = 0
        with quick_inserts():
            for checkpoints, story in batches(tenant, rows=rows, due=due):
                with transaction.atomic():
                    insert(Checkpoint, checkpoints)
                    insert(Event, story)
                written += len(checkpoints)
                if options["verbosity"] > 1:
                    self.stdout.write(f"{written:,} rows, {time.monotonic() - started:.0f} s")
        refresh_statistics()
        seconds = time.monotonic() - started
        self.stdout.write(f"{tenant.slug}: {rows:,} checkpoints, {due:,} of them due, in {seconds:.0f} s.")


def tenants_not_made_here() -> list[str]:
    others = Tenant.objects.exclude(name=MADE_HERE)
    # One short look each: a single question over all rows would read all of them.
    return [tenant.slug for tenant in others if Checkpoint.objects.for_tenant(tenant).exists()]


def tenant_made_here(slug: str) -> Tenant:
    known: Tenant | None = Tenant.objects.filter(slug=slug).first()
    if known is not None:
        if known.name != MADE_HERE:
            raise CommandError(f"The tenant {slug} was not made by this command, and it will not write into it.")
        return known
    with transaction.atomic():
        tenant = setup.create_tenant(slug, name=MADE_HERE)
        setup.add_person(tenant, f"admin@{slug}.example", roles=["tenant_admin"])
        for group in GROUPS:
            for number in range(3):
                setup.add_person(tenant, f"{group}-{number}@{slug}.example", roles=["approver"], groups=[group])
        Core.objects.bulk_create(Core(tenant=tenant, slug=core) for core in CORES)
    return tenant


@dataclass(slots=True)
class Made:
    """What the rows of one call have in common."""

    tenant: Tenant
    cores: list[Core]
    program: Actor
    clock: Actor
    chance: random.Random


def batches(tenant: Tenant, *, rows: int, due: int) -> Iterator[tuple[list[Line], list[Line]]]:
    now = timezone.now()
    made = Made(
        tenant=tenant,
        cores=list(Core.objects.for_tenant(tenant)),
        program=Actor(tenant=tenant, kind="key", name="seed", via="api", address="127.0.0.1"),
        clock=actors.clock(tenant),
        chance=random.Random(rows),  # noqa: S311 (the same rows on every database)
    )
    checkpoints, story = Table(Checkpoint), Table(Event)
    every = rows // due if due else 0
    due_at = now - DUE_SINCE
    left = due
    for number in range(rows):
        columns = one_row(made, number, created_at=now - SPREAD + SPREAD * number / rows)
        if left and number % every == 0:
            columns |= waiting_past_its_deadline(made, at=due_at)
            due_at += DUE_STEP
            left -= 1
        elif (status := STATUSES[made.chance.randrange(100)]) != Status.PENDING:
            columns |= ended(made, status, at=columns["created_at"] + timedelta(minutes=made.chance.randrange(1, 600)))
        elif number % 3 == 0:
            columns |= assigned("team:blue", AssigneeType.UNROUTED, "", UNKNOWN)
        chain = events_of(columns, made)
        columns |= {"event_count": len(chain), "row_version": len(chain), "event_head": chain[-1].digest}
        checkpoints.add(columns)
        for event in chain:
            story.add({name: getattr(event, name) for name in story.names})
        if len(checkpoints.lines) >= BATCH:
            yield checkpoints.take(), story.take()
    if checkpoints.lines:
        yield checkpoints.take(), story.take()


def one_row(made: Made, number: int, *, created_at: datetime) -> dict[str, Any]:
    """One that waits; what follows may end it."""
    amount = made.chance.randrange(10, 5_000)
    group = GROUPS[number % len(GROUPS)]
    core = made.cores[number % len(made.cores)]
    return {
        "id": time_ordered_id(created_at, made.chance),
        "tenant_id": made.tenant.pk,
        "core_id": core.pk,
        "execution_id": f"exec-{number:07d}",
        "flow_name": core.slug.partition("-")[0],
        "block_index": number % 7,
        "prompt": QUESTIONS[number % len(QUESTIONS)].format(amount=amount, number=number),
        "options": OPTIONS,
        "context": {"order": {"id": number, "total": amount, "currency": "EUR"}, "customer": f"no-{number % 9973}"},
        "priority": made.chance.randrange(4),
        "status": Status.PENDING,
        "created_at": created_at,
        "updated_at": created_at,
        "created_by": made.program.label,
    } | assigned(f"group:{group}", AssigneeType.GROUP, group)


def assigned(raw: str, kind: AssigneeType, value: str, reason: str | None = None) -> dict[str, Any]:
    return {
        "assignee_raw": raw,
        "assignee_type": kind,
        "assignee_value": value,
        "assignee_resolved": {"type": str(kind), "value": value, "reason": reason},
    }


def ended(made: Made, status: Status, *, at: datetime) -> dict[str, Any]:
    changes = {"status": status, "updated_at": at}
    if status == Status.RESOLVED:
        resolution = {"decision": "approve", "response": None, "comment": None, "via": "api"}
        return changes | {"resolution": resolution, "resolved_by": made.program.label, "resolved_at": at}
    who = made.clock if status == Status.EXPIRED else made.program
    return changes | {"close_reason": str(status), "closed_by": who.label, "closed_at": at}


def waiting_past_its_deadline(made: Made, *, at: datetime) -> dict[str, Any]:
    action = DUE_ACTIONS[made.chance.randrange(len(DUE_ACTIONS))]
    return {
        "expires_at": at,
        "window_s": WINDOW_SECONDS,
        "timeout_raw": "24h",
        "expiry_action": action,
        "default_option": "reject" if action == ExpiryAction.DEFAULT_OPTION else None,
    }


def events_of(columns: dict[str, Any], made: Made) -> list[Event]:
    expires_at = columns.get("expires_at")
    detail = {
        "core_id": columns["flow_name"],
        "checkpoint_type": "approval",
        "prompt": columns["prompt"],
        "assignee_raw": columns["assignee_raw"],
        "assignee_resolved": columns["assignee_resolved"],
        "priority": Priority(columns["priority"]).word,
        "expires_at": events.moment(expires_at) if expires_at else None,
    }
    data = {"detail": detail, "before": None, "after": {"status": "pending"}}
    chain = [build(columns, made.program, [], name="created", at=columns["created_at"], data=data)]
    status = columns["status"]
    if status != Status.PENDING:
        data = {"detail": {}, "before": {"status": "pending"}, "after": {"status": str(status)}}
        who = made.clock if status == Status.EXPIRED else made.program
        chain.append(build(columns, who, chain, name=str(status), at=columns["updated_at"], data=data))
    return chain


def build(
    columns: dict[str, Any], actor: Actor, before: list[Event], *, name: str, at: datetime, data: dict[str, Any]
) -> Event:
    event = events.build(
        actor=actor,
        subject_id=columns["id"],
        sequence=len(before) + 1,
        previous_digest=before[-1].digest if before else "",
        type=f"checkpoint.{name}",
        at=at,
        data=data,
    )
    # Handed out long ago: an outbox of a million old events would be found by the next worker.
    event.distributed_at = at
    return event


def time_ordered_id(at: datetime, chance: random.Random) -> uuid.UUID:
    """A UUID of version 7 for a moment in the past."""
    milliseconds = int(at.timestamp() * 1000)
    noise = chance.getrandbits(74)
    value = milliseconds << 80 | 0x7 << 76 | (noise >> 62) << 64 | 0b10 << 62 | noise & (1 << 62) - 1
    return uuid.UUID(int=value)


class Table:
    """Lines for one table, as bulk_create makes them, without asking every field of every row for its default."""

    def __init__(self, model: type[models.Model]) -> None:
        fields = [field for field in model._meta.concrete_fields if not isinstance(field, models.AutoField)]
        self.names = [str(field.attname) for field in fields]
        self.writers = {str(field.attname): writer_for(field) for field in fields}
        self.defaults = {
            str(field.attname): self.writers[str(field.attname)](None if field.primary_key else field.get_default())
            for field in fields
        }
        self.lines: list[Line] = []

    def add(self, columns: dict[str, Any]) -> None:
        line = self.defaults.copy()
        for name, value in columns.items():
            line[name] = self.writers[name](value)
        self.lines.append(tuple(line.values()))

    def take(self) -> list[Line]:
        lines, self.lines = self.lines, []
        return lines


def insert(model: type[models.Model], lines: list[Line]) -> None:
    fields = [field for field in model._meta.concrete_fields if not isinstance(field, models.AutoField)]
    quote = connection.ops.quote_name
    names = ", ".join(quote(str(field.column)) for field in fields)
    places = ", ".join(["%s"] * len(fields))
    statement = f"INSERT INTO {quote(model._meta.db_table)} ({names}) VALUES ({places})"  # noqa: S608 (the model's names)
    with connection.cursor() as cursor:
        cursor.executemany(statement, lines)


def writer_for(field: Any) -> Any:
    if isinstance(field, models.JSONField):
        return as_json
    if isinstance(field, models.DateTimeField):
        return as_moment
    if isinstance(field, models.UUIDField) or (
        isinstance(field, models.ForeignKey) and isinstance(field.target_field, models.UUIDField)
    ):
        return as_text if connection.features.has_native_uuid_field else as_hex
    return as_it_is


def as_json(value: Any) -> str | None:
    return None if value is None else json.dumps(value)


def as_moment(value: datetime | None) -> str | None:
    return None if value is None else value.astimezone(UTC).replace(tzinfo=None).isoformat(" ", "microseconds")


def as_text(value: uuid.UUID | None) -> str | None:
    return None if value is None else str(value)


def as_hex(value: uuid.UUID | None) -> str | None:
    return None if value is None else value.hex


def as_it_is(value: Any) -> Any:
    return value


class quick_inserts:
    """MariaDB looks up every foreign key and every unique value it is given; here they are known to be right."""

    NAMES = ("foreign_key_checks", "unique_checks")

    def __enter__(self) -> None:
        self.set(0)

    def __exit__(self, *_: Any) -> None:
        self.set(1)

    def set(self, value: int) -> None:
        if connection.vendor == "mysql":
            with connection.cursor() as cursor:
                for name in self.NAMES:
                    cursor.execute(f"SET SESSION {name} = {value}")


def refresh_statistics() -> None:
    """MariaDB does it by itself, a while after so many inserts. SQLite never does, so it is left as users have it."""
    # It commits, which must not happen to a transaction of somebody else.
    if connection.vendor == "mysql" and not connection.in_atomic_block:
        with connection.cursor() as cursor:
            for model in (Checkpoint, Event):
                cursor.execute(f"ANALYZE TABLE {connection.ops.quote_name(model._meta.db_table)}")
                cursor.fetchall()
