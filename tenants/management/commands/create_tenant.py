from typing import Any

from django.core.exceptions import ValidationError
from django.core.management.base import BaseCommand, CommandError, CommandParser

from tenants import setup


class Command(BaseCommand):
    help = "Create a tenant with its standard roles."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("slug", help="short name in addresses and in the API, such as acme")
        parser.add_argument("--name", help="name people read; the slug when left out")
        parser.add_argument("--time-zone", default="UTC", help="such as Europe/Berlin")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            tenant = setup.create_tenant(options["slug"], name=options["name"], time_zone=options["time_zone"])
        except ValidationError as error:
            raise CommandError(" ".join(error.messages)) from error
        self.stdout.write(f"Created tenant {tenant.slug}.")
