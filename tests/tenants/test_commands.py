"""The operators' commands: create_tenant, create_user, create_api_key."""

from io import StringIO
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.test import Client

from tenants import scopes, setup
from tenants.models import ApiKey, Group, Membership, Role, Tenant, User
from tests.api_client import ApiClient

pytestmark = pytest.mark.django_db


def run(command: str, *arguments: str, **options: Any) -> tuple[str, str]:
    out, err = StringIO(), StringIO()
    call_command(command, *arguments, stdout=out, stderr=err, **options)
    return out.getvalue(), err.getvalue()


def test_a_tenant_is_made_with_its_standard_roles() -> None:
    out, _ = run("create_tenant", "acme", "--name", "Acme", "--time-zone", "Europe/Berlin")

    assert "acme" in out
    tenant = Tenant.objects.get()
    assert (tenant.slug, tenant.name, tenant.time_zone) == ("acme", "Acme", "Europe/Berlin")
    roles = Role.objects.for_tenant(tenant).values_list("name", flat=True)
    assert sorted(roles) == ["approver", "auditor", "tenant_admin"]


def test_a_tenant_is_called_by_its_slug_unless_it_has_a_name() -> None:
    run("create_tenant", "acme")

    assert str(Tenant.objects.get()) == "acme"


@pytest.mark.parametrize("slug", ["", "Acme", "a b", ".a", "ä", "a" * 64, "a\n"])
def test_a_tenants_slug_is_plain(slug: str) -> None:
    with pytest.raises(CommandError, match=r"lower-case letters|at most 63|cannot be blank"):
        run("create_tenant", slug)
    assert not Tenant.objects.exists()


def test_a_tenant_is_not_made_twice(acme: Tenant) -> None:
    with pytest.raises(CommandError, match="already exists"):
        run("create_tenant", "acme")


def test_a_time_zone_that_does_not_exist_is_refused() -> None:
    with pytest.raises(CommandError, match="“Berlin” is not a time zone"):
        run("create_tenant", "acme", "--time-zone", "Berlin")


def test_a_person_is_made_with_roles_and_groups_and_gets_a_link_that_signs_in(acme: Tenant) -> None:
    roles = ("--role", "tenant_admin", "--role", "Treasurer")
    out, err = run("create_user", " Admin@Acme.Example ", "--tenant", "acme", *roles, "--group", "finance")

    user = User.objects.get()
    assert user.email == "admin@acme.example"
    assert not user.has_usable_password()
    membership = Membership.objects.get()
    assert (membership.user, membership.tenant) == (user, acme)
    assert sorted(membership.roles.values_list("name", flat=True)) == ["tenant_admin", "treasurer"]
    assert list(membership.groups.all()) == [Group.objects.get(slug="finance")]
    # The link alone is on standard output, so that it can be piped.
    (link,) = out.split()
    assert "admin@acme.example" in err
    browser = Client()
    assert browser.post(link).status_code == 302
    assert browser.session["_auth_user_id"] == str(user.pk)


def test_a_known_person_keeps_what_they_have_and_gets_the_rest_on_top(acme: Tenant, approver: User) -> None:
    run("create_user", approver.email.upper(), "--tenant", "acme", "--role", "auditor")

    assert User.objects.count() == 1
    membership = Membership.objects.get()
    assert sorted(membership.roles.values_list("name", flat=True)) == ["approver", "auditor"]
    assert [group.slug for group in membership.groups.all()] == ["finance"]


def test_a_person_may_belong_to_two_tenants(acme: Tenant, globex: Tenant, approver: User) -> None:
    run("create_user", approver.email, "--tenant", "globex", "--role", "approver")

    assert set(Tenant.objects.filter(pk__in=Membership.objects.values("tenant"))) == {acme, globex}
    assert all(role.tenant == row.tenant for row in Membership.objects.all() for role in row.roles.all())


def test_a_removed_person_is_a_member_again(acme: Tenant, approver: User) -> None:
    Membership.objects.update(is_active=False)
    run("create_user", approver.email, "--tenant", "acme")

    assert Membership.objects.get().is_active


@pytest.mark.parametrize(
    "email",
    ["", "nobody", "@acme", "a@", "a b@acme.example", "a@b@c", "x" * 250 + "@acme.example", "a\x00@acme.example"],
)
def test_an_address_that_is_none_is_refused(acme: Tenant, email: str) -> None:
    with pytest.raises(CommandError):
        run("create_user", email, "--tenant", "acme")
    assert not User.objects.exists()


@pytest.mark.parametrize("option", ["--role", "--group"])
@pytest.mark.parametrize("name", ["", "a b", "ä", "x" * 64])
def test_a_role_or_group_of_an_odd_name_is_refused_and_nothing_is_made(acme: Tenant, option: str, name: str) -> None:
    with pytest.raises(CommandError):
        run("create_user", "a@acme.example", "--tenant", "acme", option, name)
    assert not User.objects.exists()


def test_a_person_needs_a_tenant_that_exists(acme: Tenant) -> None:
    with pytest.raises(CommandError, match=r"no tenant 'nowhere'. Known: acme"):
        run("create_user", "a@acme.example", "--tenant", "nowhere")
    with pytest.raises(CommandError, match="--tenant"):
        run("create_user", "a@acme.example")


def test_a_disabled_account_gets_no_link(acme: Tenant, approver: User) -> None:
    User.objects.update(is_active=False)

    with pytest.raises(CommandError, match="disabled"):
        run("create_user", approver.email, "--tenant", "acme")


def test_a_key_is_alone_on_standard_output_and_works(acme: Tenant) -> None:
    out, err = run("create_api_key", "acme", "refund-agent")

    assert out.endswith("\n")
    assert out.split() == [out.strip()]
    assert err == ""
    assert ApiClient(secret=out.strip()).create().json()["created_by"] == "key:refund-agent"
    assert ApiKey.objects.get().scopes == list(scopes.ALL)


def test_a_key_has_the_scopes_that_are_named(acme: Tenant) -> None:
    run("create_api_key", "acme", "ci", "--scope", "checkpoints:read", "--scope", "scaicore:checkpoint_resolve")

    assert ApiKey.objects.get().scopes == ["checkpoints:read", "scaicore:checkpoint_resolve"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("nowhere", "ci"), "no tenant 'nowhere'"),
        (("acme", ""), "1 to 100"),
        (("acme", "  "), "1 to 100"),
        (("acme", "x" * 101), "1 to 100"),
        (("acme", "a\nb"), "printable"),
        (("acme", "\udcff"), "printable"),
        (("acme", "ci", "--scope", "everything"), "Unknown scope: everything"),
    ],
)
def test_a_key_that_cannot_be_made_says_why(acme: Tenant, arguments: tuple[str, ...], message: str) -> None:
    with pytest.raises(CommandError, match=message):
        run("create_api_key", *arguments)
    assert not ApiKey.objects.exists()


def test_the_same_group_name_in_two_tenants_means_two_groups(acme: Tenant, globex: Tenant) -> None:
    setup.add_person(acme, "a@acme.example", groups=["Finance"])
    setup.add_person(globex, "b@globex.example", groups=["finance"])

    assert sorted(Group.objects.filter(slug="finance").values_list("tenant__slug", flat=True)) == ["acme", "globex"]
