from typing import Any

from django.core.exceptions import ValidationError
from django.core.management.base import BaseCommand, CommandError, CommandParser

from tenants import setup, signin
from tenants.models import Tenant


class Command(BaseCommand):
    help = "Create a person (or add an existing one to a tenant) and print a sign-in link that works once."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("email")
        parser.add_argument("--tenant", required=True, help="the tenant's slug")
        parser.add_argument(
            "--role",
            action="append",
            default=[],
            help="tenant_admin, approver, auditor or a name of your own; repeatable",
        )
        parser.add_argument("--group", action="append", default=[], help="put the person into this group; repeatable")
        parser.add_argument("--name", default="", help="name people read")

    def handle(self, *args: Any, **options: Any) -> None:
        tenant = Tenant.objects.filter(slug=options["tenant"]).first()
        if tenant is None:
            known = ", ".join(Tenant.objects.values_list("slug", flat=True)[:20]) or "none yet"
            raise CommandError(
                f"There is no tenant {options['tenant']!r}. Known: {known}. Make one with create_tenant."
            )
        try:
            user = setup.add_person(
                tenant, options["email"], name=options["name"], roles=options["role"], groups=options["group"]
            )
        except ValidationError as error:
            raise CommandError(" ".join(error.messages)) from error
        if not user.is_active:
            raise CommandError(f"{user.email} is in {tenant.slug}, but the account is disabled: no link was made.")
        self.stderr.write(f"{user.email} is in {tenant.slug}. Sign in once with this link, then set a password:")
        self.stdout.write(signin.link_for(user))
