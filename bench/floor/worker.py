"""The batched update, 500 rows at a time by index: ``python -m bench.floor.worker``, commands on standard input.

``tables`` makes the tables of the views; ``sweep <rows>`` ends so many due rows in the product's own table, with its
indexes and constraints, and says how long that took: no plan, no event, no chain, nobody asked.
"""

import json
import os
import sys
import time
from typing import Any

BATCH = 500
TABLE = "mod_scaicore_checkpoints"
# The plus keeps SQLite from walking an index on the status, with every row that waits, instead of looking up 500 ids.
GUARD = {"sqlite": "+status = 'pending'", "mysql": "status = 'pending'"}


def sweep(connection: Any, rows: int) -> dict[str, Any]:
    from django.db import transaction
    from django.utils import timezone

    now = timezone.now().replace(tzinfo=None)
    started, done = time.perf_counter(), 0
    while done < rows:
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute(
                f"SELECT id FROM {TABLE} WHERE status = 'pending' AND expires_at <= %s "  # noqa: S608
                f"ORDER BY expires_at LIMIT {min(BATCH, rows - done)}",
                [now],
            )
            found = [identity for (identity,) in cursor.fetchall()]
            if not found:
                break
            places = ", ".join(["%s"] * len(found))
            cursor.execute(
                f"UPDATE {TABLE} SET status = 'expired', closed_at = %s, updated_at = %s, close_reason = 'expired', "  # noqa: S608
                f"closed_by = 'timeout' WHERE id IN ({places}) AND {GUARD[connection.vendor]}",
                [now, now, *found],
            )
        done += len(found)
    return {"seconds": time.perf_counter() - started, "done": done}


def main() -> None:
    import django

    os.environ["DJANGO_SETTINGS_MODULE"] = "bench.floor.settings"
    django.setup()
    from django.db import connection

    from bench.floor.models import Document, Row

    for line in sys.stdin:
        command, *numbers = line.split()
        if command == "tables":
            with connection.schema_editor() as editor:
                editor.create_model(Row)
                editor.create_model(Document)
            answer: dict[str, Any] = {"made": 2}
        else:
            answer = sweep(connection, int(numbers[0]))
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
