from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from tenants import keys
from tenants.models import Tenant


class Command(BaseCommand):
    help = "Create an API key and print it alone on standard output. It is shown only now."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("tenant", help="the tenant's slug")
        parser.add_argument("name", help="what the key is for; decisions made with it say key:<name>")
        parser.add_argument("--scope", action="append", default=[], help="repeatable; all scopes when left out")

    def handle(self, *args: Any, **options: Any) -> None:
        tenant = Tenant.objects.filter(slug=options["tenant"]).first()
        if tenant is None:
            raise CommandError(f"There is no tenant {options['tenant']!r}. Make one with create_tenant.")
        name = options["name"].strip()
        if not name or len(name) > 100 or not name.isprintable():
            raise CommandError("The name of a key has 1 to 100 printable characters.")
        try:
            made = keys.create(tenant, name=name, scopes=options["scope"])
        except keys.UnknownScope as error:
            raise CommandError(str(error)) from error
        self.stdout.write(made.secret)
