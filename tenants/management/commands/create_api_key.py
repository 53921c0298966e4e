from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from tenants import keys
from tenants.models import Tenant

MOST_PER_MINUTE = 10**9


class Command(BaseCommand):
    help = "Create an API key and print it alone on standard output. It is shown only now."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("tenant", help="the tenant's slug")
        parser.add_argument("name", help="what the key is for; decisions made with it say key:<name>")
        parser.add_argument("--scope", action="append", default=[], help="repeatable; all scopes when left out")

        parser.add_argument("--rate-per-minute", type=int, help="requests a minute; the server's own when left out")

    def handle(self, *args: Any, **options: Any) -> None:
        tenant = Tenant.objects.filter(slug=options["tenant"]).first()
        if tenant is None:
            raise CommandError(f"There is no tenant {options['tenant']!r}. Make one with create_tenant.")
        name = options["name"].strip()
        if not name or len(name) > 100 or not name.isprintable():
            raise CommandError("The name of a key has 1 to 100 printable characters.")
        rate = options["rate_per_minute"]
        if rate is not None and not 1 <= rate <= MOST_PER_MINUTE:
            raise CommandError(f"A key may send 1 to {MOST_PER_MINUTE:,} requests a minute.")
        try:
            made = keys.create(tenant, name=name, scopes=options["scope"], rate_per_minute=rate)
        except keys.UnknownScope as error:
            raise CommandError(str(error)) from error
        self.stdout.write(made.secret)
