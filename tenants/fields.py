import uuid
from typing import Any

import uuid_utils.compat
from django.db import models


def new_id() -> uuid.UUID:
    """Time-ordered (version 7): new rows go to the end of the primary key, and newest-first is a key scan."""
    return uuid_utils.compat.uuid7()


class ExactCharField(models.CharField):
    """Text that means the same on both databases: compared byte for byte.

    MariaDB's usual collations call ``AbC`` and ``abc``, or ``abc`` and ``abc `` with a blank, the same; SQLite does
    not. Identifiers must not depend on that, nor on how an operator created the database.
    """

    def db_type(self, connection: Any) -> str | None:
        column = super().db_type(connection)
        if connection.vendor == "mysql":
            return f"{column} CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin"
        return column
