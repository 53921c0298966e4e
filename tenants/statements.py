"""Queries that every request asks: their SQL is written once, not anew each time.

Building and compiling a query costs Django several times what SQLite or MariaDB need to answer it by a unique key.
Only for queries whose shape never changes, with plain values in their places.
"""

import threading
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from itertools import chain
from typing import Any, Generic, TypeVar, cast

from django.db import connection, connections, models
from django.db.models.base import ModelState
from django.db.models.query import BaseIterable, get_related_populators

from tenants.fields import ExactCharField

UUID = models.UUIDField()
ANY_TEXT = "any text"
ANY_ID = uuid.UUID(int=0)
Row = TypeVar("Row", bound=models.Model)
# Values that these fields hand on as they are.
PLAIN: dict[type, frozenset[type]] = {
    str: frozenset({models.CharField, models.TextField, ExactCharField}),
    int: frozenset({models.PositiveIntegerField, models.PositiveSmallIntegerField, models.PositiveBigIntegerField}),
    bool: frozenset({models.BooleanField}),
}


def _as_stored(value: Any) -> Any:
    """SQLite keeps a UUID as text, MariaDB as what it is."""
    return UUID.get_db_prep_value(value, connection) if isinstance(value, uuid.UUID) else value


def _prepared(field: Any, value: Any, ours: Any) -> Any:
    """As the database takes it. Of a checkpoint's seventy columns most hold a plain word or number, or nothing."""
    if value is None or (type(value) in PLAIN and type(field) in PLAIN[type(value)]):
        return value
    return field.get_db_prep_save(value, ours)


def insert(row: models.Model) -> None:
    """A row known to be new, with SQL that is written once per model. Its number, where it has one, stays unknown."""
    fields, sql = _insertion(type(row))
    # Not the proxy: it looks for this thread's connection anew with every attribute of every field.
    ours = connections[connection.alias]
    values = [_prepared(field, getattr(row, field.attname), ours) for field in fields]
    with ours.cursor() as cursor:
        cursor.execute(sql, values)
    row._state.adding = False
    row._state.db = ours.alias


def insert_many(rows: Sequence[models.Model]) -> None:
    """The same for some hundreds of one model; MariaDB takes them as one statement."""
    if not rows:
        return
    fields, sql = _insertion(type(rows[0]))
    ours = connections[connection.alias]
    columns = [_column(field, [getattr(row, field.attname) for row in rows], ours) for field in fields]
    with ours.cursor() as cursor:
        cursor.executemany(sql, list(zip(*columns, strict=True)))
    for row in rows:
        row._state.adding = False
        row._state.db = ours.alias


def update(row: models.Model, change: dict[str, Any], *, guard: tuple[str, ...]) -> int:
    """One row, where ``guard`` (the key first) is still what it says; how many were changed."""
    fields, guards, statement = _guarded_update(type(row), tuple(change), guard)
    ours = connections[connection.alias]
    values = [_prepared(field, change[field.name], ours) for field in fields]
    values += [_prepared(field, getattr(row, field.attname), ours) for field in guards]
    with ours.cursor() as cursor:
        cursor.execute(statement, values)
        return int(cursor.rowcount)


def update_many(rows: Sequence[models.Model], changes: Sequence[dict[str, Any]], *, guard: tuple[str, ...]) -> int:
    """The same for some hundreds that change the same columns."""
    fields, guards, statement = _guarded_update(type(rows[0]), tuple(changes[0]), guard)
    ours = connections[connection.alias]
    sets = [_column(field, [change[field.name] for change in changes], ours) for field in fields]
    known = [_column(field, [getattr(row, field.attname) for row in rows], ours) for field in guards]
    with ours.cursor() as cursor:
        if ours.vendor == "mysql" and len(rows) > 1:
            cursor.execute(*_joined_update(rows[0]._meta.db_table, fields, guards, sets, known))
        else:
            cursor.executemany(statement, list(zip(*sets, *known, strict=True)))
        return int(cursor.rowcount)


def _column(field: Any, values: Sequence[Any], ours: Any) -> list[Any]:
    """As the database takes them. Most columns of a batch hold the same in every row: that is prepared once."""
    prepared: list[Any] = []
    before: Any = None
    for value in values:
        if not prepared or value is not before:
            before, ready = value, _prepared(field, value, ours)
        prepared.append(ready)
    return prepared


@cache
def _guarded_update(
    model: type[models.Model], names: tuple[str, ...], guard: tuple[str, ...]
) -> tuple[list[Any], list[Any], str]:
    """SQL for a shape of change; there are as many shapes as there are commands."""
    meta, quote = model._meta, connection.ops.quote_name
    fields, guards = ([cast(Any, meta.get_field(name)) for name in part] for part in (names, guard))
    sets = ", ".join(f"{quote(field.column)} = %s" for field in fields)
    known = " AND ".join(f"{quote(field.column)} = %s" for field in guards)
    return fields, guards, f"UPDATE {quote(meta.db_table)} SET {sets} WHERE {known}"  # noqa: S608


def _joined_update(
    table: str, fields: list[Any], guards: list[Any], sets: list[list[Any]], known: list[list[Any]]
) -> tuple[str, list[Any]]:
    """MariaDB runs one statement for each row of an ``executemany``; joined with a list of values it is one for all."""
    quote = connection.ops.quote_name
    varying: list[list[Any]] = [known[0]]

    def place(values: list[Any], parameters: list[Any]) -> str:
        if any(value != values[0] for value in values):
            varying.append(values)
            return f"given.c{len(varying) - 1}"
        parameters.append(values[0])
        return "%s"

    written: list[Any] = []
    checked: list[Any] = []
    assignments = ", ".join(
        f"{quote(table)}.{quote(field.column)} = {place(values, written)}"
        for field, values in zip(fields, sets, strict=True)
    )
    conditions = "".join(
        f" AND {quote(table)}.{quote(field.column)} = {place(values, checked)}"
        for field, values in zip(guards[1:], known[1:], strict=True)
    )
    first = ", ".join(f"%s AS c{number}" for number in range(len(varying)))
    line = f"({', '.join(['%s'] * len(varying))})"
    given = f"SELECT {first} UNION ALL VALUES {', '.join([line] * (len(known[0]) - 1))}"
    sql = (
        f"UPDATE {quote(table)} JOIN ({given}) AS given ON {quote(table)}.{quote(guards[0].column)} = given.c0"  # noqa: S608
        f"{conditions} SET {assignments}"
    )
    return sql, [value for values in zip(*varying, strict=True) for value in values] + checked + written


def bare(rows: models.QuerySet[Row], names: tuple[str, ...]) -> models.QuerySet[Row]:
    """The rows with these columns alone, as ``only()`` would give them in three times the time."""
    rows = rows.all()
    rows._iterable_class = _bare(names)
    return rows


@cache
def _bare(names: tuple[str, ...]) -> Any:
    class Bare(BaseIterable):
        def __iter__(self) -> Iterator[Any]:
            model, alias = self.queryset.model, self.queryset.db
            for values in _columns(self.queryset, names):
                row = model.__new__(model)
                row._state = state = ModelState()
                state.adding, state.db = False, alias
                row.__dict__.update(zip(names, values, strict=True))
                yield row

    return Bare


def _columns(rows: models.QuerySet[Any], names: tuple[str, ...]) -> Iterable[tuple[Any, ...]]:
    compiler: Any = rows.query.get_compiler(rows.db)
    found = list(chain.from_iterable(compiler.execute_sql(chunked_fetch=False) or []))
    if not found:
        return []
    places = {part[0].target.attname: place for place, part in enumerate(compiler.select)}
    all_columns = list(zip(*found, strict=True))
    converters = compiler.get_converters([part[0] for part in compiler.select])
    columns = []
    for name in names:
        place = places[name]
        column: Sequence[Any] = all_columns[place]
        if place in converters:
            functions, expression = converters[place]
            column = _converted(column, functions, expression, compiler.connection)
        columns.append(column)
    return zip(*columns, strict=True)


def _converted(values: Sequence[Any], converters: Any, expression: Any, ours: Any) -> list[Any]:
    """Equal ones once: of a page, most columns hold little else. Whoever reads the rows changes nothing in them."""
    known: dict[Any, Any] = {}
    for value in values:
        if value not in known:
            ready = value
            for convert in converters:
                ready = convert(ready, expression, ours)
            known[value] = ready
    return [known[value] for value in values]


@cache
def _insertion(model: type[models.Model]) -> tuple[list[Any], str]:
    fields = [field for field in model._meta.local_concrete_fields if not isinstance(field, models.AutoField)]
    quote = connection.ops.quote_name
    names = ", ".join(quote(str(field.column)) for field in fields)
    places = ", ".join(["%s"] * len(fields))
    return fields, f"INSERT INTO {quote(model._meta.db_table)} ({names}) VALUES ({places})"  # noqa: S608


class Prepared(Generic[Row]):
    """``Prepared(lambda: ApiKey.objects.filter(secret_hash=ANY_TEXT))``, then ``.one(value)``: a row, or None.

    ``ANY_TEXT`` and ``ANY_ID`` stand for values given later, in the order in which the SQL has them.
    """

    def __init__(self, build: Callable[[], models.QuerySet[Row]]) -> None:
        self.build = build
        # A compiled query belongs to its connection, and a connection to its thread.
        self.mine = threading.local()

    def one(self, *values: Any) -> Row | None:
        read = getattr(self.mine, "read", None)
        if read is None:
            read = self.mine.read = self.compile()
        found: Row | None = read(values)
        return found

    def compile(self) -> Callable[[tuple[Any, ...]], Row | None]:
        compiler = self.build().order_by()[:1].query.get_compiler(connection=connection)
        sql, template = compiler.as_sql()
        open_places = {ANY_TEXT, _as_stored(ANY_ID)}
        slots = [place for place, value in enumerate(template) if value in open_places]
        select, info = compiler.select, compiler.klass_info
        assert select is not None and info is not None  # noqa: S101, PT018 (set by as_sql)
        model, places = info["model"], info["select_fields"]
        start, end = places[0], places[-1] + 1
        names = [column[0].target.attname for column in select[start:end]]
        # The stubs describe a later Django, where it takes one argument more.
        populators = cast(Any, get_related_populators)(info, select, connection.alias)
        converters = compiler.get_converters([column[0] for column in select])

        def read(values: tuple[Any, ...]) -> Row | None:
            parameters = list(template)
            for place, value in zip(slots, values, strict=True):
                parameters[place] = _as_stored(value)
            with connection.cursor() as cursor:
                cursor.execute(sql, parameters)
                found = cursor.fetchone()
            if found is None:
                return None
            columns = next(iter(compiler.apply_converters([found], converters)))
            row: Row = model.from_db(connection.alias, names, columns[start:end])
            for populator in populators:
                populator.populate(columns, row)
            return row

        return read
