import sys
import uuid
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from checkpoints import events
from checkpoints.models import Checkpoint, Event
from tenants.models import Tenant


class Command(BaseCommand):
    help = "Check every chain of events against its checkpoint. Ends with 1 when anything was tampered with."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--tenant", help="only the checkpoints of the tenant with this slug")
        parser.add_argument("--checkpoint", help="only the checkpoint with this id")

    def handle(self, *args: Any, **options: Any) -> None:
        verification = events.Verification(_tenant(options["tenant"]), _checkpoint_id(options["checkpoint"]))
        for finding in verification.findings():
            self.stdout.write(_one_line(f"{finding.checkpoint_id}: {finding.sentence}"))
        missing = events.missing_triggers()
        for name in missing:
            self.stdout.write(f"The trigger {name} is missing: nothing stops somebody from changing events.")
        self.stdout.write(
            f"{_number(verification.checkpoints, 'checkpoint')} with {_number(verification.events, 'event')} verified: "
            + (f"{_number(verification.broken, 'chain')} broken." if verification.broken else "every chain is whole.")
        )
        if verification.broken or missing:
            sys.exit(1)


def _tenant(slug: str | None) -> Tenant | None:
    if slug is None:
        return None
    tenant = Tenant.objects.filter(slug=slug).first()
    if tenant is None:
        raise CommandError(f"There is no tenant {slug!r}.", returncode=2)
    return tenant


def _checkpoint_id(given: str | None) -> uuid.UUID | None:
    if given is None:
        return None
    try:
        wanted = uuid.UUID(given)
    except ValueError as error:
        raise CommandError(f"{given!r} is not the id of a checkpoint.", returncode=2) from error
    # Nothing to verify is not the same as nothing wrong.
    if not (Checkpoint.objects.filter(pk=wanted).exists() or Event.objects.filter(subject_id=wanted).exists()):
        raise CommandError(f"There is no checkpoint {wanted}, and no event of one.", returncode=2)
    return wanted


def _one_line(text: str) -> str:
    """What somebody wrote into an event must not look like a line of ours."""
    return "".join(letter if letter.isprintable() else "?" for letter in text)


def _number(count: int, word: str) -> str:
    return f"{count:,} {word}" if count == 1 else f"{count:,} {word}s"
