"""``manage.py sweep --loop`` that says when it begins, with leases so short that a test can wait for their end."""

import os
from datetime import timedelta

import django
from django.core.management import call_command

LEASE_SECONDS = "HOLDPOINT_LEASE_SECONDS"


def main() -> None:
    django.setup()
    from notifications import deliveries

    deliveries.LEASE = timedelta(seconds=float(os.environ[LEASE_SECONDS]))
    print("ready", flush=True)
    call_command("sweep", "--loop")


if __name__ == "__main__":
    main()
