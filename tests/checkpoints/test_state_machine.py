"""The lifecycle against the contract (promise 12): random lives of checkpoints, each step compared with a plain model.

``contract.py`` is the model. Every step runs in the product and in the model; both must say the same, whether it
happened or was refused, and afterwards the row, its votes and its history must be as the model has them.
"""

import time
from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import time_machine
from django.db import transaction
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule, run_state_machine_as_test

from checkpoints import errors, events, lifecycle, sweeps
from checkpoints.answers import Answer
from checkpoints.models import Checkpoint, Event, Vote
from tenants import actors, keys, scopes, setup
from tenants.models import Core, Delegation, Group, Membership, Role, Tenant, User
from tests.checkpoints import contract
from tests.checkpoints.contract import Actor, Refused, Row, Said
from tests.checkpoints.stories import again
from tests.heavy import figures
from tests.heavy.sizes import IS_FULL, SIZES

pytestmark = [pytest.mark.both_databases, pytest.mark.heavy, pytest.mark.django_db]

START = datetime(2030, 6, 1, 12, tzinfo=UTC)
CORE = "refund-agent"
#        who       roles                              groups
CAST = {
    "root": ({"tenant_admin"}, set()),
    "rex": ({"tenant_admin"}, {"finance"}),
    "ann": (set(), {"finance"}),
    "ben": ({"approver"}, {"finance", "board"}),
    "cid": ({"approver"}, {"board"}),
    "dora": ({"approver", "auditor"}, set()),
}
EMAILS = {name: f"{name}@acme.example" for name in CAST}
NOBODYS = "guest@elsewhere.example"
ENDINGS = {"resolved", "cancelled", "expired"}


class World:
    """Made once; every life is rolled back to it."""

    def __init__(self) -> None:
        self.acme = setup.create_tenant("acme", name="Acme")
        globex = setup.create_tenant("globex", name="Globex")
        self.core = Core.objects.create(tenant=self.acme, slug=CORE)
        self.users: dict[str, User] = {}
        for name, (roles, groups) in CAST.items():
            self.users[EMAILS[name]] = setup.add_person(self.acme, EMAILS[name], roles=roles, groups=groups)
        outsider = setup.add_person(globex, "outsider@globex.example", roles=["tenant_admin"])
        self.actors: dict[Actor, actors.Actor] = {
            Actor(email=email): actors.person(user, self.acme, via="admin") for email, user in self.users.items()
        }
        self.actors[Actor(email=outsider.email, tenant="globex")] = actors.person(outsider, globex, via="admin")
        self._add_key(self.acme, "full", scopes.ALL)
        self._add_key(self.acme, "creator", ["checkpoints:create"])
        self._add_key(self.acme, "reader", ["checkpoints:read"])
        # The same name as a key of acme: a name is no credential.
        self._add_key(globex, "full", scopes.ALL)

    def _add_key(self, tenant: Tenant, name: str, allowed: Any) -> None:
        row = keys.create(tenant, name=name, scopes=allowed).row
        self.actors[Actor(key=name, scopes=frozenset(allowed), tenant=tenant.slug)] = actors.program(row)

    def directory(self) -> contract.Directory:
        people = {
            EMAILS[name]: contract.Person(EMAILS[name], str(self.users[EMAILS[name]].pk), set(roles), set(groups))
            for name, (roles, groups) in CAST.items()
        }
        return contract.Directory(people, {"finance", "board"})

    def membership(self, email: str) -> Membership:
        found: Membership = Membership.objects.for_tenant(self.acme).get(user=self.users[email])
        return found


# --- What can be drawn ----------------------------------------------------------------------------------------------

PEOPLE = sorted(EMAILS.values())
# Not root: there is always somebody who looks into the queue.
OTHERS = [email for email in PEOPLE if email != EMAILS["root"]]
MINUTES = st.sampled_from([1, 20, 45, 61, 240, 1500])
GROUPS = st.sampled_from(["finance", "board"])


def choose_actor(number: int, world: World) -> Actor:
    return list(world.actors)[number % len(world.actors)]


# As World lists them: the cast, the outsider, and the keys.
NUMBERS = st.integers(0, 10)
FULL_KEY, CREATOR_KEY = len(CAST) + 1, len(CAST) + 2
RAWS = st.sampled_from(
    [
        "group:finance",
        " Group : FINANCE ",
        "group:board",
        "group:nowhere",
        "role:approver",
        "role:tenant_admin",
        "role:wizard",
        *(f"user:{email}" for email in PEOPLE[:3]),
        PEOPLE[3].upper(),
        f"user:{NOBODYS}",
        "user:4711",
        "delegated_user",
        "delegated_user",
        "Delegated_User:",
        "team:blue",
        "",
    ]
)
ROUTED = RAWS.filter(lambda raw: bool(raw.strip()))
COLLECTIVE = ["group:finance", " Group : FINANCE ", "group:board", "role:approver", "role:tenant_admin", "role:wizard"]
SPANS: dict[str | int, int] = {"30m": 30 * 60, "2h": 2 * 3600, "PT24H": 24 * 3600, 90: 90}
SAID = st.builds(
    Said,
    decision=st.sampled_from(["approve", "approve", "reject", "edit", "respond", "continue", "default", "maybe", None]),
    response=st.sampled_from([None, None, "In words."]),
    comment=st.sampled_from(["", "Because."]),
    edited_args=st.sampled_from([None, None, None, {"amount": 5}, {"amount": "five"}]),
)
SCHEMA = {"type": "object", "properties": {"amount": {"type": "integer"}}, "required": ["amount"]}
SHAPES: dict[str, dict[str, Any]] = {
    "options": {"options": ["approve", "reject"]},
    "commented": {"options": ["approve", {"id": "reject", "requires_comment": True}]},
    "any": {},
    "action": {"action": {"name": "refund", "args": {"amount": 7}, "args_schema": SCHEMA}},
    "freeform": {"checkpoint_type": "freeform"},
    "breakpoint": {"checkpoint_type": "debug_breakpoint"},
}


@st.composite
def drafts(draw: st.DrawFn) -> dict[str, Any]:
    """As a program would send them: they make sense, unless one thing is spoiled."""
    quorum = draw(st.sampled_from([False, False, True]))
    raws = st.sampled_from(COLLECTIVE) if quorum else ROUTED
    fields: dict[str, Any] = {"assignee": draw(raws)}
    shapes = ["options", "commented", "any", "action"] + ([] if quorum else ["freeform", "breakpoint"])
    fields |= draw(st.sampled_from([SHAPES[name] for name in shapes]))
    if draw(st.booleans()):
        fields["timeout"] = draw(st.sampled_from(list(SPANS)))
        fields |= draw(expiries(raws, breakpoint="checkpoint_type" in fields, options="options" in fields))
    if quorum:
        fields["required_approvals"] = draw(st.sampled_from([2, 2, 3]))
        fields["rejections_allowed"] = draw(st.sampled_from([0, 1]))
    if draw(st.booleans()):
        fields["requested_by"] = draw(st.sampled_from([*PEOPLE, NOBODYS]))
        fields["forbid_requester"] = draw(st.sampled_from([True, True, False]))
    if not quorum and draw(st.sampled_from([False] * 6 + [True])):
        fields["routing"] = "external"
    return fields


@st.composite
def expiries(draw: st.DrawFn, raws: Any, *, breakpoint: bool, options: bool) -> dict[str, Any]:
    actions = ["none", "cancel", "default_option", "escalate", "escalate", "reject"]
    action = draw(st.sampled_from(actions if breakpoint else [*actions, "approve"]))
    fields: dict[str, Any] = {"expiry_action": action}
    if action == "default_option":
        fields["default_option"] = draw(st.sampled_from([None, "reject"])) if options else None
    if action == "escalate":
        fields["escalation_target"], *fields["escalation_chain"] = draw(st.lists(raws, min_size=1, max_size=3))
    return fields


SPOILS: list[dict[str, Any]] = [
    {"required_approvals": 7},
    {"required_approvals": 2, "routing": "external"},
    {"required_approvals": 2, "assignee": f"user:{PEOPLE[0]}"},
    {"required_approvals": 2, "options": ["yes", "no"]},
    {"required_approvals": 1, "rejections_allowed": 1},
    {"forbid_requester": True, "requested_by": ""},
    {"default_option": "maybe"},
    {"expiry_action": "escalate", "escalation_target": None, "escalation_chain": []},
    {"expiry_action": "cancel", "escalation_target": "group:board"},
    {"expiry_action": "approve", "options": ["yes", "no"], "escalation_target": None, "escalation_chain": []},
    {"assignee": ""},
]


def as_row(fields: dict[str, Any], now: datetime) -> Row:
    options = fields.get("options", [])
    span = timedelta(seconds=SPANS[fields["timeout"]]) if "timeout" in fields else None
    return Row(
        raw=fields["assignee"],
        checkpoint_type=fields.get("checkpoint_type", "approval"),
        routing=fields.get("routing", "people"),
        options=[option if isinstance(option, str) else option["id"] for option in options],
        comment_needed=next((option["id"] for option in options if isinstance(option, dict)), ""),
        default_option=fields.get("default_option"),
        action=fields.get("action"),
        requested_by=fields.get("requested_by", ""),
        forbid_requester=fields.get("forbid_requester", False),
        required=fields.get("required_approvals", 1),
        rejections_allowed=fields.get("rejections_allowed", 0),
        span=span,
        expires_at=now + span if span else None,
        expiry_action=fields.get("expiry_action", "none"),
        targets=[target for target in (fields.get("escalation_target"), *fields.get("escalation_chain", [])) if target],
    )


def command(**drawn: Any) -> Any:
    """A rule about one of the rows, most often one that is still pending."""

    def decorate(function: Any) -> Any:
        return rule(place=st.integers(0, 9), **drawn)(precondition(lambda self: bool(self.model.rows))(function))

    return decorate


# --- The machine ----------------------------------------------------------------------------------------------------


class Lives(RuleBasedStateMachine):
    world: World
    tally: Counter[str]

    def __init__(self) -> None:
        super().__init__()
        self.directory = self.world.directory()
        self.model = contract.Contract(self.directory)
        self.clock = time_machine.travel(START, tick=False)
        self.traveller = self.clock.start()
        self.life = transaction.atomic()
        self.life.__enter__()

    def teardown(self) -> None:
        try:
            for key in self.model.rows:
                self.compare(key)
                assert events.trouble_with(self.row(key)) == ""
        finally:
            transaction.set_rollback(True)
            self.life.__exit__(None, None, None)
            self.clock.stop()
        self.tally["lives"] += 1

    @property
    def now(self) -> datetime:
        return datetime.now(UTC)

    def pick(self, place: int) -> Any:
        pending = [key for key, row in self.model.rows.items() if row.status == "pending"]
        keys_drawn = pending if pending and place < 8 else list(self.model.rows)
        return keys_drawn[place % len(keys_drawn)]

    def row(self, key: Any) -> Checkpoint:
        found: Checkpoint = Checkpoint.objects.select_related("core", "tenant").get(pk=key)
        return found

    def both(self, product: Any, model: Any) -> str:
        """The refusal's code, the same from both; empty when it happened."""
        self.tally["steps"] += 1
        told = expected = ""
        try:
            with transaction.atomic():
                product()
        except errors.Refusal as refusal:
            told = refusal.code
        try:
            model()
        except Refused as refused:
            expected = refused.code
        assert told == expected, f"the product says {told or 'done'}, the contract {expected or 'done'}"
        self.tally["refused" if told else "done"] += 1
        return told

    def run(self, key: Any, actor: Actor, product: Any, model: Any) -> None:
        self.both(lambda: product(self.row(key), self.world.actors[actor]), lambda: model(self.model.rows[key]))
        self.compare(key)

    def compare(self, key: Any) -> None:
        """Everything a reader could notice; terminal is final because the model never moves what has ended."""
        row, expected = again(Checkpoint(pk=key)), self.model.rows[key]
        story = list(Event.objects.filter(subject_id=key).order_by("sequence").values_list("type", flat=True))
        assert story == [f"checkpoint.{name}" for name in expected.events]
        assert sum(name in ENDINGS for name in expected.events) == (expected.status != "pending")
        assert row.row_version == row.event_count == len(story)
        assert (row.status, row.assignee_raw, row.assignee_type, row.assignee_value) == (
            expected.status,
            expected.raw,
            expected.kind,
            expected.value,
        )
        assert (row.assignment_version, row.escalation_step) == (expected.assignment_version, expected.step)
        assert (row.expires_at, row.reminder_count) == (expected.expires_at, expected.reminders)
        assert (row.resolved_by or row.closed_by, row.close_reason) == (expected.ended_by, expected.reason)
        if row.is_unrouted:
            assert row.unrouted_reason
        if row.is_pending:
            assert row.claimant(at=self.now) == expected.claimant(self.now)
        if row.status == "resolved":
            self.compare_resolution(row.resolution or {}, expected)
        votes = Vote.objects.filter(checkpoint=key, assignment_version=row.assignment_version)
        assert dict(votes.values_list("voter", "decision")) == {
            voter: said.decision for voter, said in expected.votes.items()
        }

    def compare_resolution(self, resolution: dict[str, Any], expected: Row) -> None:
        assert expected.decided is not None
        assert resolution["decision"] == expected.decided.decision
        assert resolution.get("override", False) == expected.override
        assert resolution.get("option") == expected.option
        assert resolution.get("edited_args") == expected.decided.edited_args
        assert (resolution.get("comment") or "") == expected.decided.comment

    # --- Programs and people --------------------------------------------------------------------------------------

    def _create(self, fields: dict[str, Any], number: int, older: Any = None) -> None:
        actor, now = choose_actor(number, self.world), self.now
        if actor.tenant != "acme":
            # Nothing that a sweep would count: the model knows one tenant.
            fields = {"assignee": "", "required_approvals": fields.get("required_approvals", 1), "options": ["approve"]}
        made: list[Checkpoint] = []
        row = as_row(fields, now)
        home = self.model if actor.tenant == "acme" else contract.Contract(contract.Directory({}, set()))

        def product() -> None:
            draft = lifecycle.Draft(core_id=CORE, prompt="Refund?", supersedes=older, **fields)
            made.append(lifecycle.create(draft, actor=self.world.actors[actor]))

        def model() -> None:
            if older is not None and actor.tenant != "acme" and actor.key:
                raise Refused("invalid")
            home.create(row, actor=actor, at=now)
            if older is not None:
                home.supersede(self.model.rows[older], actor=actor)

        refused = self.both(product, model)
        if older is not None:
            self.compare(older)
        if refused or actor.tenant != "acme":
            return
        self.model.rows[made[0].pk] = row
        self.compare(made[0].pk)

    @initialize(drawn=st.lists(drafts(), min_size=3, max_size=3), delegate=st.sampled_from(PEOPLE))
    def begin(self, drawn: list[dict[str, Any]], delegate: str) -> None:
        self.core_is_delegated(delegate, None)
        for fields in drawn:
            self._create(fields, FULL_KEY)

    @rule(fields=drafts(), number=st.sampled_from([FULL_KEY, CREATOR_KEY]))
    def create(self, fields: dict[str, Any], number: int) -> None:
        self._create(fields, number)

    @rule(fields=drafts(), number=st.sampled_from([FULL_KEY, 0, 6, 9, 10]))
    def create_as_anybody(self, fields: dict[str, Any], number: int) -> None:
        self._create(fields, number)

    @rule(fields=drafts(), spoil=st.sampled_from(SPOILS))
    def create_something_spoiled(self, fields: dict[str, Any], spoil: dict[str, Any]) -> None:
        self._create(fields | spoil, FULL_KEY)

    @command(fields=drafts(), number=st.sampled_from([FULL_KEY, FULL_KEY, CREATOR_KEY, 0, 2, 9]))
    def supersede(self, place: int, fields: dict[str, Any], number: int) -> None:
        self._create(fields, number, self.pick(place))

    @command(number=NUMBERS, said=SAID)
    def resolve(self, place: int, number: int, said: Said) -> None:
        key = self.pick(place)
        actor = choose_actor(number, self.world)
        self._resolve(key, actor, said)

    @command(number=NUMBERS, said=SAID)
    def one_who_is_asked_decides(self, place: int, number: int, said: Said) -> None:
        key = self.pick(place)
        row = self.model.rows[key]
        asked = sorted(self.directory.assignees(row.kind, row.value, self.now)) or PEOPLE
        choices = row.choices or ["approve", "reject"]
        # Most say yes: a quorum that nobody follows never gets far.
        decision = choices[number % len(choices)] if number % 4 == 3 else choices[0]
        self._resolve(key, Actor(email=asked[number % len(asked)]), replace(said, decision=decision, edited_args=None))

    @command(said=SAID)
    def the_requester_tries_to_decide(self, place: int, said: Said) -> None:
        key = self.pick(place)
        requester = self.model.rows[key].requested_by
        if requester in PEOPLE:
            self._resolve(key, Actor(email=requester), replace(said, decision="approve", edited_args=None))

    def _resolve(self, key: Any, actor: Actor, said: Said) -> None:
        answer = Answer(said.decision, said.response, said.comment, said.edited_args)
        self.run(
            key,
            actor,
            lambda row, who: lifecycle.resolve(row, actor=who, answer=answer),
            lambda row: self.model.resolve(row, said, actor=actor, at=self.now),
        )

    @command(number=NUMBERS)
    def cancel(self, place: int, number: int) -> None:
        key = self.pick(place)
        actor = choose_actor(number, self.world)
        self.run(
            key,
            actor,
            lambda row, who: lifecycle.cancel(row, actor=who),
            lambda row: self.model.cancel(row, actor=actor),
        )

    @command(number=NUMBERS, raw=RAWS)
    def reassign(self, place: int, number: int, raw: str) -> None:
        key = self.pick(place)
        actor = choose_actor(number, self.world)
        self._reassign(key, actor, raw)

    @command(raw=RAWS)
    def an_admin_reassigns(self, place: int, raw: str) -> None:
        self._reassign(self.pick(place), Actor(email=EMAILS["root"]), raw)

    @rule(raw=st.sampled_from(COLLECTIVE), number=NUMBERS, said=SAID)
    def what_somebody_has_begun_moves_on_and_begins_anew(self, raw: str, number: int, said: Said) -> None:
        begun = [
            key for key, row in self.model.rows.items() if row.status == "pending" and (row.votes or row.claimed_by)
        ]
        if not begun:
            return
        key = begun[number % len(begun)]
        self._reassign(key, Actor(email=EMAILS["root"]), raw)
        row = self.model.rows[key]
        for email in sorted(self.directory.assignees(row.kind, row.value, self.now))[:2]:
            self._resolve(key, Actor(email=email), replace(said, decision="approve", edited_args=None))

    @rule(number=NUMBERS)
    def one_who_is_asked_claims_and_time_passes(self, number: int) -> None:
        free = [key for key, row in self.model.rows.items() if row.status == "pending" and row.required == 1]
        if not free:
            return
        key = free[number % len(free)]
        row = self.model.rows[key]
        asked = sorted(self.directory.assignees(row.kind, row.value, self.now)) or [EMAILS["root"]]
        self._claim_or_release(key, "claim", Actor(email=asked[number % len(asked)]), "")
        self.time_passes([1, 59, 60, 61][number % 4])
        self._claim_or_release(key, "claim", Actor(email=asked[(number + 1) % len(asked)]), "")

    @command(number=NUMBERS, taker=st.sampled_from([*PEOPLE, NOBODYS]))
    def hand_over(self, place: int, number: int, taker: str) -> None:
        key = self.pick(place)
        row = self.model.rows[key]
        asked = sorted(self.directory.assignees(row.kind, row.value, self.now)) or PEOPLE
        self._reassign(key, Actor(email=asked[number % len(asked)]), taker)

    def _reassign(self, key: Any, actor: Actor, raw: str) -> None:
        self.run(
            key,
            actor,
            lambda row, who: lifecycle.reassign(row, actor=who, assignee=raw),
            lambda row: self.model.reassign(row, raw, actor=actor, at=self.now),
        )

    @command(number=NUMBERS, name=st.sampled_from(["claim", "claim", "release"]), email=st.sampled_from(PEOPLE))
    def claim_or_release(self, place: int, number: int, name: str, email: str) -> None:
        key = self.pick(place)
        self._claim_or_release(key, name, choose_actor(number, self.world), email)

    def _claim_or_release(self, key: Any, name: str, actor: Actor, email: str) -> None:
        """A key names the person it acts for."""
        named = self.world.users[email] if actor.key else None
        email = email if actor.key else actor.email
        verb = getattr(lifecycle, name)
        self.run(
            key,
            actor,
            lambda row, who: verb(row, actor=who, on_behalf_of=named),
            lambda row: getattr(self.model, name)(row, actor=actor, email=email, at=self.now),
        )

    @command(number=NUMBERS, minutes=MINUTES)
    def extend(self, place: int, number: int, minutes: int) -> None:
        key = self.pick(place)
        actor = choose_actor(number, self.world)
        self.run(
            key,
            actor,
            lambda row, who: lifecycle.extend(row, actor=who, timeout=f"{minutes}m"),
            lambda row: self.model.extend(row, timedelta(minutes=minutes), actor=actor, at=self.now),
        )

    @command(number=NUMBERS)
    def remind(self, place: int, number: int) -> None:
        key = self.pick(place)
        actor = choose_actor(number, self.world)
        self.run(
            key,
            actor,
            lambda row, who: lifecycle.remind(row, actor=who),
            lambda row: self.model.remind(row, actor=actor),
        )

    @command(number=NUMBERS)
    def comment(self, place: int, number: int) -> None:
        key = self.pick(place)
        actor = choose_actor(number, self.world)
        self.run(
            key,
            actor,
            lambda row, who: lifecycle.comment(row, actor=who, text="Why?"),
            lambda row: self.model.comment(row, actor=actor, at=self.now),
        )

    # --- Time and the directory -----------------------------------------------------------------------------------

    @rule(minutes=MINUTES)
    def time_passes(self, minutes: int) -> None:
        self.traveller.shift(timedelta(minutes=minutes))

    @command()
    def the_deadline_comes(self, place: int) -> None:
        deadline = self.model.rows[self.pick(place)].expires_at
        if deadline is not None and deadline > self.now:
            self.traveller.move_to(deadline, tick=False)
        self.the_expiry_sweep_runs(100)

    @rule(batch=st.sampled_from([1, 100]))
    def the_expiry_sweep_runs(self, batch: int) -> None:
        outcome = sweeps.expire_checkpoints(batch=batch)
        assert (outcome.done, outcome.failed) == (self.model.expire_due(self.now), 0)
        self.compare_all()
        assert sweeps.expire_checkpoints().done == 0

    @rule(batch=st.sampled_from([1, 100]))
    def the_reroute_sweep_runs(self, batch: int) -> None:
        assert sweeps.reroute(batch=batch).done == self.model.reroute_all(self.now)
        self.compare_all()
        assert sweeps.reroute().done == 0
        for row in self.model.rows.values():
            assert row.status != "pending" or self.model.somebody_or_something_will_wake(row, self.now)

    def compare_all(self) -> None:
        self.tally["steps"] += 1
        for key in self.model.rows:
            self.compare(key)

    @rule(email=st.sampled_from(OTHERS), group=GROUPS)
    def joins_or_leaves_a_group(self, email: str, group: str) -> None:
        self.directory.people[email].groups ^= {group}
        members = Group.objects.for_tenant(self.world.acme).get(slug=group).members
        joined = group in self.directory.people[email].groups
        (members.add if joined else members.remove)(self.world.membership(email))

    @rule(email=st.sampled_from(OTHERS), role=st.sampled_from(["approver", "tenant_admin"]))
    def gets_or_loses_a_role(self, email: str, role: str) -> None:
        self.directory.people[email].roles ^= {role}
        roles = self.world.membership(email).roles
        held = role in self.directory.people[email].roles
        (roles.add if held else roles.remove)(Role.objects.for_tenant(self.world.acme).get(name=role))

    @rule(email=st.sampled_from(OTHERS))
    def account_is_switched(self, email: str) -> None:
        person = self.directory.people[email]
        person.account = not person.account
        User.objects.filter(email=email).update(is_active=person.account)
        self.renew(email)

    @rule(email=st.sampled_from(OTHERS))
    def membership_is_switched(self, email: str) -> None:
        person = self.directory.people[email]
        person.membership = not person.membership
        membership = self.world.membership(email)
        Membership.objects.filter(pk=membership.pk).update(is_active=person.membership)

    def renew(self, email: str) -> None:
        """Every request reads its user anew."""
        self.world.users[email].is_active = self.directory.people[email].account

    @rule(email=st.sampled_from(PEOPLE), minutes=st.sampled_from([None, 30, 300]))
    def core_is_delegated(self, email: str, minutes: int | None) -> None:
        self.traveller.shift(timedelta(seconds=1))
        ends = self.now + timedelta(minutes=minutes) if minutes else None
        self.directory.delegations.append((email, ends))
        Delegation.objects.create(
            tenant=self.world.acme,
            core=self.world.core,
            delegate=self.world.membership(email),
            starts_at=self.now,
            ends_at=ends,
        )


PHASES = (Phase.generate, Phase.shrink)


def test_random_lives_are_as_the_contract_says(db: None) -> None:
    started = time.perf_counter()
    tally: Counter[str] = Counter()
    world_made = World()

    class LivesHere(Lives):
        world = world_made

        def __init__(self) -> None:
            for user in world_made.users.values():
                user.is_active = True
            super().__init__()

    LivesHere.tally = tally
    run_state_machine_as_test(
        LivesHere,
        settings=settings(
            max_examples=SIZES.lives,
            stateful_step_count=SIZES.steps,
            # The same lives in every ordinary run; new ones each time under make test-heavy.
            derandomize=not IS_FULL,
            database=None,
            deadline=None,
            suppress_health_check=list(HealthCheck),
            report_multiple_bugs=False,
            phases=PHASES,
        ),
    )
    # A machine that only ever meets refusals proves nothing.
    assert tally["done"] > tally["lives"]
    assert tally["refused"] > tally["lives"]
    figures.report(
        12,
        f"{tally['lives']:,} random lives of checkpoints, {tally['steps']:,} commands and sweeps "
        f"({tally['refused']:,} refused) as the contract says, 0 otherwise",
        started=started,
    )
