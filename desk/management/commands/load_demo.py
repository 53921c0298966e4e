"""Two tenants with people and a dozen checkpoints, made the way programs and people make them."""

import hashlib
import hmac
import json
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand
from django.db import transaction
from django.utils import timezone

from checkpoints import lifecycle
from checkpoints.answers import Answer
from checkpoints.lifecycle import Draft
from checkpoints.models import Checkpoint
from notifications import webhooks
from notifications.models import Channel, Kind
from tenants import actors, keys, reachability, setup
from tenants.actors import Actor
from tenants.models import ApiKey, Core, Delegation, Membership, Tenant, User

PASSWORD = "holdpoint-demo"  # noqa: S105 (shown on the terminal of whoever asks for the demo)
KEY_NAME = "demo"
APPROVE_REJECT = [
    {"id": "approve", "label": "Approve", "variant": "primary"},
    {"id": "reject", "label": "Reject", "variant": "danger", "requires_comment": True},
]


class Command(BaseCommand):
    help = "Load demonstration data (once) and print where to go and how to sign in."

    def handle(self, *args: Any, **options: Any) -> None:
        acme = _tenant("acme", "Acme", "Europe/Berlin")
        globex = _tenant("globex", "Globex", "America/New_York")
        _person(acme, "admin@acme.example", "Ada Admin", roles=["tenant_admin"])
        _person(acme, "ann@acme.example", "Ann Approver", roles=["approver"], groups=["finance"])
        _person(acme, "bob@acme.example", "Bob Approver", roles=["approver"], groups=["finance", "travel"])
        _person(acme, "carl@acme.example", "Carl Approver", roles=["approver"], groups=["travel"])
        _person(globex, "admin@globex.example", "Greta Admin", roles=["tenant_admin"])
        secret = _key(acme)
        # All or nothing: a start that was interrupted is made up for by the next one.
        with transaction.atomic():
            if not Checkpoint.objects.for_tenant(acme).exists():
                Story(acme).tell()
                Story(globex).tell_briefly()
        self.stdout.write(banner(secret))


def banner(secret: str) -> str:
    question = {"core_id": "refund-agent", "execution_id": "exec-1", "prompt": "Refund EUR 12?"}
    body = json.dumps(question | {"options": ["approve", "reject"], "assignee": "team:blue"})
    curl = (
        f"curl -s {settings.BASE_URL}/v1/checkpoints -H 'Authorization: Bearer {secret}' "
        f"-H 'Content-Type: application/json' -d '{body}'"
    )
    return f"""
  Holdpoint runs at {settings.BASE_URL}/

  Sign in as        admin@acme.example      password  {PASSWORD}
  another tenant    admin@globex.example    password  {PASSWORD}

  Create a checkpoint that lands in Acme's queue:

{curl}

  Ctrl-C stops everything.
"""


def _tenant(slug: str, name: str, time_zone: str) -> Tenant:
    known: Tenant | None = Tenant.objects.filter(slug=slug).first()
    return known or setup.create_tenant(slug, name=name, time_zone=time_zone)


def _person(tenant: Tenant, email: str, name: str, **standing: list[str]) -> User:
    known = User.objects.filter(email=email).first()
    if known is not None:
        return known
    user = setup.add_person(tenant, email, name=name, **standing)
    user.set_password(PASSWORD)
    user.save(update_fields=["password"])
    return user


def _key(tenant: Tenant) -> str:
    """Derived, so that every start prints the line that already works; nothing secret is stored in the open."""
    digest = hmac.new(settings.SECRET_KEY.encode(), b"the demo's API key", hashlib.sha256).hexdigest()
    secret = f"{keys.PREFIX}_demo_{digest}"
    if not ApiKey.objects.for_tenant(tenant).filter(secret_hash=keys.hash_of(secret)).exists():
        keys.create(tenant, name=KEY_NAME, secret=secret)
    return secret


class Story:
    def __init__(self, tenant: Tenant) -> None:
        self.tenant = tenant
        self.program = actors.program(
            ApiKey.objects.for_tenant(tenant).first() or keys.create(tenant, name=KEY_NAME).row
        )

    def ask(self, core: str, prompt: str, **fields: Any) -> Checkpoint:
        return lifecycle.create(Draft(core_id=core, prompt=prompt, **fields), actor=self.program)

    def person(self, email: str) -> Actor:
        return actors.person(User.objects.get(email=email), self.tenant, via="admin")

    def tell(self) -> None:
        admin, ann, bob = (self.person(f"{name}@acme.example") for name in ("admin", "ann", "bob"))
        self._waiting(ann)
        self._unrouted()
        self._ended(admin, ann, bob)
        self._messages()

    def _waiting(self, ann: Actor) -> None:
        self.ask(
            "refund-agent",
            "Refund EUR 1,240 to Northwind for order 991?\nThe parcel arrived damaged; the order has photos.",
            assignee="group:finance",
            options=APPROVE_REJECT,
            priority="high",
            execution_id="exec-81f2",
            flow_name="refund",
            block_index=4,
            context={"order": {"id": 991, "total": 1240, "currency": "EUR"}, "customer": "Northwind"},
            timeout="24h",
            expiry_action="escalate",
            escalation_target="role:tenant_admin",
            reminder_interval_m=60,
        )
        claimed = self.ask(
            "invoice-bot",
            "Invoice 2207 differs from its order by EUR 96. Pay it?",
            assignee="group:finance",
            options=["pay", "dispute"],
        )
        lifecycle.claim(claimed, actor=ann)
        self.ask(
            "support-writer",
            "What shall we answer to the customer who asks for a discount?",
            assignee="user:ann@acme.example",
            checkpoint_type="freeform",
            priority="low",
        )
        core = Core.objects.get_or_create(tenant=self.tenant, slug="deploy-bot")[0]
        Delegation.objects.create(
            tenant=self.tenant,
            core=core,
            delegate=Membership.objects.for_tenant(self.tenant).get(user__email="bob@acme.example"),
            starts_at=timezone.now(),
            ends_at=timezone.now() + timedelta(days=14),
        )
        self.ask(
            "deploy-bot",
            "Release 4.2 has passed staging. Roll it out to production?",
            assignee="delegated_user",
            options=["roll out", "wait"],
            timeout="3d",
        )
        self.ask(
            "deploy-bot",
            "Waiting for the maintenance window.",
            routing="external",
            checkpoint_type="debug_breakpoint",
        )

    def _unrouted(self) -> None:
        self.ask(
            "payroll",
            "Pay run for November: 2 of 214 salaries changed by more than 20 %. Release it?",
            assignee="group:payroll",
            options=APPROVE_REJECT,
            priority="critical",
            timeout="8h",
        )
        self.ask(
            "contract-reader", "Clause 7.2 limits our liability. Accept?", assignee="team:legal", options=APPROVE_REJECT
        )
        self.ask("newsletter", "Send the December newsletter to 18,000 subscribers?", options=["send", "hold"])

    def _messages(self) -> None:
        """Examples to look at, all of them switched off: a demonstration calls nobody."""
        room = {"name": "Finance", "url": "https://chat.example/hooks/finance/demo", "is_active": False}
        Channel.objects.create(tenant=self.tenant, kind=Kind.CHAT, occasions=["created", "decided"], **room)
        webhook = webhooks.create(actor=self.program, url="https://ledger.example/holdpoint", description="Ledger")
        webhooks.change(webhook, actor=self.program, wish=webhooks.Wish(is_active=False))
        gone = "550 5.1.1 The mailbox does not exist."
        reachability.mark_unreachable(self.tenant, "carl@acme.example", reason=gone, at=timezone.now())
        self.ask(
            "office-helper",
            "Book the trip of the design team to Lisbon for EUR 4,300?",
            assignee="group:travel",
            options=APPROVE_REJECT,
            reminder_interval_m=240,
        )

    def _ended(self, admin: Actor, ann: Actor, bob: Actor) -> None:
        done = self.ask(
            "refund-agent", "Refund EUR 18 to Blue Yonder?", assignee="group:finance", options=APPROVE_REJECT
        )
        lifecycle.comment(done, actor=ann, text="Second refund this month, but the reason is good.")
        lifecycle.resolve(done, actor=bob, answer=Answer(decision="approve"))
        refused = self.ask(
            "refund-agent", "Refund EUR 9,800 to Fabrikam?", assignee="group:finance", options=APPROVE_REJECT
        )
        lifecycle.resolve(refused, actor=admin, answer=Answer(decision="reject", comment="Goods were never returned."))
        withdrawn = self.ask(
            "deploy-bot", "Release 4.1 to production?", assignee="delegated_user", options=["roll out", "wait"]
        )
        lifecycle.cancel(withdrawn, actor=admin, reason="Replaced by 4.2")
        self._let_pass("Book the 09:40 flight to Oslo?", expiry_action="cancel")
        self._let_pass(
            "Keep the test cluster for another week?",
            options=["keep", "drop"],
            default_option="drop",
            expiry_action="default_option",
        )
        self._let_pass("Raise the ad budget by EUR 500?", expiry_action="reject")

    def _let_pass(self, prompt: str, **fields: Any) -> None:
        row = self.ask("office-helper", prompt, assignee="user:bob@acme.example", timeout="1s", **fields)
        # As the sweep would, a second from now; nobody has to wait for it.
        lifecycle.expire_one(row, at=row.expires_at or timezone.now())

    def tell_briefly(self) -> None:
        self.ask(
            "price-watcher",
            "Lower the price of SKU 88 to USD 14?",
            assignee="role:tenant_admin",
            options=APPROVE_REJECT,
        )
        self.ask(
            "price-watcher",
            "A supplier asks for prepayment. Agree?",
            assignee="group:purchasing",
            options=APPROVE_REJECT,
        )
