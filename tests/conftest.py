"""The cast, the same in every test: two tenants, and one person for each way of standing in them."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.db.backends.base.operations import BaseDatabaseOperations
from django.test import Client

from checkpoints import lifecycle
from checkpoints.models import Checkpoint
from tenants import actors, keys, limits, setup
from tenants.actors import Actor
from tenants.models import Core, Group, Tenant, User
from tests import tampering
from tests.api_client import ApiClient


@pytest.fixture(scope="session", autouse=True)
def tables_can_be_emptied_between_tests() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        flush = BaseDatabaseOperations.execute_sql_flush
        patch.setattr(BaseDatabaseOperations, "execute_sql_flush", tampering.emptying(flush))
        yield


@pytest.fixture
def intruder(transactional_db: None) -> Iterator[None]:
    """Somebody with every right on the database has taken the triggers away; the test plays what they do next."""
    with tampering.unguarded():
        yield


@pytest.fixture(autouse=True)
def counts_start_anew() -> None:
    """What earlier tests have sent counts for nobody."""
    limits.counter.forget()


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """One for all tests of a run: Playwright keeps one event loop in its thread, and suffers no second."""
    # Imported when asked for: most runs never need it.
    from tests.browser import started_browser

    with started_browser() as started:
        yield started


@pytest.fixture
def acme(db: None) -> Tenant:
    return setup.create_tenant("acme", name="Acme", time_zone="Europe/Berlin")


@pytest.fixture
def globex(db: None) -> Tenant:
    return setup.create_tenant("globex", name="Globex")


@pytest.fixture
def approver(acme: Tenant) -> User:
    """In the group finance, with no other standing."""
    return setup.add_person(acme, "approver@acme.example", roles=["approver"], groups=["finance"])


@pytest.fixture
def colleague(acme: Tenant) -> User:
    """A second member of finance."""
    return setup.add_person(acme, "colleague@acme.example", roles=["approver"], groups=["finance"])


@pytest.fixture
def bystander(acme: Tenant) -> User:
    """A member of acme who is in no group."""
    return setup.add_person(acme, "bystander@acme.example", roles=["approver"])


@pytest.fixture
def tenant_admin(acme: Tenant) -> User:
    return setup.add_person(acme, "admin@acme.example", roles=["tenant_admin"])


@pytest.fixture
def second_admin(acme: Tenant) -> User:
    return setup.add_person(acme, "second@acme.example", roles=["tenant_admin"])


@pytest.fixture
def auditor(acme: Tenant) -> User:
    return setup.add_person(acme, "auditor@acme.example", roles=["auditor"])


@pytest.fixture
def outsider(globex: Tenant) -> User:
    """The admin of another tenant: as powerful as anybody can be over there."""
    return setup.add_person(globex, "outsider@globex.example", roles=["tenant_admin"])


@pytest.fixture
def finance(acme: Tenant, approver: User, colleague: User) -> Group:
    return Group.objects.for_tenant(acme).get(slug="finance")


@pytest.fixture
def core(acme: Tenant) -> Core:
    return Core.objects.create(tenant=acme, slug="refund-agent")


@pytest.fixture
def program(acme: Tenant) -> Actor:
    """An API key of acme with every scope."""
    return actors.program(keys.create(acme, name="refund-agent").row)


@pytest.fixture
def foreign_program(globex: Tenant) -> Actor:
    return actors.program(keys.create(globex, name="spy").row)


@pytest.fixture
def as_person(acme: Tenant) -> Callable[[User], Actor]:
    """A member of acme, as the desk would present them to lifecycle."""
    return lambda user: actors.person(user, acme, via="admin")


@pytest.fixture
def ask(program: Actor) -> Callable[..., Checkpoint]:
    """Creates a checkpoint as a program would: ``ask(assignee="group:finance")``."""

    def create(*, actor: Actor = program, **fields: Any) -> Checkpoint:
        draft = {"core_id": "refund-agent", "prompt": "Refund EUR 1,240 to Acme?"} | fields
        return lifecycle.create(lifecycle.Draft(**draft), actor=actor)

    return create


@pytest.fixture
def refund(ask: Callable[..., Checkpoint], finance: Group) -> Checkpoint:
    """Waits for the group finance."""
    return ask(assignee="group:finance", options=["approve", "reject"])


@pytest.fixture
def unrouted(ask: Callable[..., Checkpoint]) -> Checkpoint:
    """Waits in the queue: the program named a team that nobody knows."""
    return ask(assignee="team:blue", options=["approve", "reject"])


@pytest.fixture
def api(acme: Tenant) -> ApiClient:
    """Acme's program over HTTP, with every scope."""
    return ApiClient(secret=keys.create(acme, name="ci").secret)


@pytest.fixture
def outsider_api(globex: Tenant) -> ApiClient:
    return ApiClient(secret=keys.create(globex, name="spy").secret)


@pytest.fixture
def with_scopes(acme: Tenant) -> Callable[..., ApiClient]:
    """A key of acme with just these scopes."""
    return lambda *scopes: ApiClient(secret=keys.create(acme, name="narrow", scopes=scopes).secret)


@pytest.fixture
def signed_in() -> Callable[[User], Client]:
    """A browser in which this person has signed in."""

    def browser(user: User) -> Client:
        client = Client()
        client.force_login(user, backend="tenants.signin.EmailBackend")
        return client

    return browser


@pytest.fixture
def api_of(signed_in: Callable[[User], Client]) -> Callable[[User], ApiClient]:
    """The API through a signed-in browser session."""
    return lambda user: ApiClient(browser=signed_in(user))
