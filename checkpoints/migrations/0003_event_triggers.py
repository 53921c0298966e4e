"""Events are written once: the database itself refuses to change or delete them.

Each trigger is dropped before it is made, so a migration that was cut short on MariaDB (where DDL commits by itself)
can simply be run again. SQLite drops a table's triggers when Django rebuilds the table: a later migration that does so
calls ``guard`` again, or ``verify_audit`` and the tests complain.
"""

from typing import Any

from django.db import migrations

TABLE = "mod_scaicore_events"
# Everything but distributed_at, the mark of the outbox.
CHAINED = (
    "id",
    "tenant_id",
    "subject_type",
    "subject_id",
    "sequence",
    "type",
    "at",
    "actor",
    "via",
    "address",
    "data",
    "previous_digest",
    "digest",
)
CHANGED = "Events are written once: only distributed_at may change."
DELETED = "Events are written once: they are never deleted."
REPLACED = "Events are written once: this one is there already."

SQLITE = {
    "event_never_changed": (
        f"BEFORE UPDATE ON {TABLE} WHEN "
        + " OR ".join(f"NEW.{column} IS NOT OLD.{column}" for column in CHAINED)
        + f" BEGIN SELECT RAISE(ABORT, '{CHANGED}'); END"
    ),
    "event_never_deleted": f"BEFORE DELETE ON {TABLE} BEGIN SELECT RAISE(ABORT, '{DELETED}'); END",
    # INSERT OR REPLACE deletes what is in its way without asking the trigger above.
    "event_never_replaced": (
        f"BEFORE INSERT ON {TABLE} WHEN EXISTS (SELECT 1 FROM {TABLE} WHERE id = NEW.id)"  # noqa: S608 (names of ours)
        f" OR EXISTS (SELECT 1 FROM {TABLE} WHERE subject_id = NEW.subject_id AND sequence = NEW.sequence)"
        f" BEGIN SELECT RAISE(ABORT, '{REPLACED}'); END"
    ),
}
# 4025 is MariaDB's number for a violated constraint: both databases then raise the same IntegrityError.
REFUSE = "SIGNAL SQLSTATE '23000' SET MYSQL_ERRNO = 4025, MESSAGE_TEXT = "
MARIADB = {
    "event_never_changed": (
        f"BEFORE UPDATE ON {TABLE} FOR EACH ROW IF NOT ("
        # As bytes: JSON is stored under a collation to which a blank at the end is nothing.
        + " AND ".join(f"BINARY NEW.`{column}` <=> BINARY OLD.`{column}`" for column in CHAINED)
        + f") THEN {REFUSE}'{CHANGED}'; END IF"
    ),
    "event_never_deleted": f"BEFORE DELETE ON {TABLE} FOR EACH ROW {REFUSE}'{DELETED}'",
}
GUARDS: dict[str, dict[str, str]] = {"sqlite": SQLITE, "mysql": MARIADB}


def guard(apps: Any, schema_editor: Any) -> None:
    unguard(apps, schema_editor)
    for name, body in GUARDS[schema_editor.connection.vendor].items():
        schema_editor.execute(f"CREATE TRIGGER {name} {body}", params=None)


def unguard(apps: Any, schema_editor: Any) -> None:
    for name in GUARDS[schema_editor.connection.vendor]:
        schema_editor.execute(f"DROP TRIGGER IF EXISTS {name}", params=None)


class Migration(migrations.Migration):
    dependencies = [("checkpoints", "0002_votes_and_stored_answers")]

    # Not atomic: on MariaDB, Django refuses DDL inside a transaction. On SQLite the migration as a whole is one.
    operations = [migrations.RunPython(guard, unguard, atomic=False)]
