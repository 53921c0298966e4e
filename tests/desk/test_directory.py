"""People, groups, roles, cores, delegations, keys and tenants on the desk."""

import re
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from django.test import Client

from tenants import keys, setup
from tenants.models import ApiKey, Core, Delegation, Group, Membership, Role, Tenant, User

PEOPLE = "/admin/tenants/membership/"
KEYS = "/admin/tenants/apikey/"


def text(response: Any) -> str:
    return str(response.content.decode())


def role(tenant: Tenant, name: str) -> str:
    return str(Role.objects.for_tenant(tenant).get(name=name).pk)


def test_adding_a_person_gives_them_roles_and_groups(desk: Client, acme: Tenant, finance: Group) -> None:
    form = {"email": "New@Acme.example ", "name": "New", "roles": [role(acme, "approver")], "groups": [str(finance.pk)]}
    assert desk.post(f"{PEOPLE}add/", form).status_code == 302
    member = Membership.objects.for_tenant(acme).get(user__email="new@acme.example")
    assert [held.name for held in member.roles.all()] == ["approver"]
    assert list(member.groups.all()) == [finance]
    assert not member.user.has_usable_password()


def test_somebody_who_is_in_already_is_not_added_twice(desk: Client, approver: User) -> None:
    response = desk.post(f"{PEOPLE}add/", {"email": "APPROVER@acme.example"})
    assert "approver@acme.example is in Acme already." in text(response)


@pytest.mark.parametrize("email", ["", "nobody", "a b@c", "@x", "a@@b", "x" * 255 + "@a"])
def test_an_address_that_is_none_is_refused(desk: Client, email: str) -> None:
    before = User.objects.count()
    assert desk.post(f"{PEOPLE}add/", {"email": email}).status_code == 200
    assert User.objects.count() == before


def test_a_person_is_switched_off_and_on_again_but_never_deleted(desk: Client, acme: Tenant, approver: User) -> None:
    member = Membership.objects.for_tenant(acme).get(user=approver)
    assert desk.post(f"{PEOPLE}{member.pk}/change/", {"roles": [role(acme, "approver")]}).status_code == 302
    member.refresh_from_db()
    assert not member.is_active
    assert list(member.groups.all()) == []
    assert desk.post(f"{PEOPLE}{member.pk}/delete/", {"post": "yes"}).status_code == 403
    desk.post(f"{PEOPLE}add/", {"email": approver.email, "roles": [role(acme, "auditor")]})
    member.refresh_from_db()
    assert member.is_active
    assert [held.name for held in member.roles.all()] == ["auditor"]


def test_the_last_admin_cannot_lock_everybody_out(
    desk: Client, acme: Tenant, tenant_admin: User, second_admin: User
) -> None:
    own = Membership.objects.for_tenant(acme).get(user=tenant_admin)
    other = Membership.objects.for_tenant(acme).get(user=second_admin)
    assert desk.post(f"{PEOPLE}{other.pk}/change/", {"is_active": "on", "roles": []}).status_code == 302
    for form in ({"is_active": "on", "roles": []}, {"roles": [role(acme, "tenant_admin")]}):
        response = desk.post(f"{PEOPLE}{own.pk}/change/", form)
        assert "Nobody else is tenant admin here." in text(response)
    own.refresh_from_db()
    assert own.is_active


def test_a_group_gets_its_members(desk: Client, acme: Tenant, approver: User) -> None:
    member = Membership.objects.for_tenant(acme).get(user=approver)
    desk.post("/admin/tenants/group/add/", {"slug": "legal", "name": "Legal", "members": [str(member.pk)]})
    group = Group.objects.for_tenant(acme).get(slug="legal")
    assert list(group.members.all()) == [member]
    # Programs name the slug: it stays.
    desk.post(f"/admin/tenants/group/{group.pk}/change/", {"slug": "other", "name": "L", "members": []})
    group.refresh_from_db()
    assert (group.slug, group.name, group.members.count()) == ("legal", "L", 0)


@pytest.mark.parametrize(("slug", "sentence"), [("Le gal", "Use lower-case letters"), ("finance", "exists")])
def test_a_bad_or_taken_group_name_is_refused_with_words(
    desk: Client, acme: Tenant, finance: Group, slug: str, sentence: str
) -> None:
    response = desk.post("/admin/tenants/group/add/", {"slug": slug})
    assert response.status_code == 200
    assert sentence in text(response)
    assert Group.objects.for_tenant(acme).count() == 1


def test_standard_roles_stay_and_others_may_go(desk: Client, acme: Tenant) -> None:
    desk.post("/admin/tenants/role/add/", {"name": "cfo"})
    assert desk.post(f"/admin/tenants/role/{role(acme, 'cfo')}/delete/", {"post": "yes"}).status_code == 302
    assert desk.post(f"/admin/tenants/role/{role(acme, 'approver')}/delete/", {"post": "yes"}).status_code == 403
    assert {row.name for row in Role.objects.for_tenant(acme)} == {"tenant_admin", "approver", "auditor"}


def test_a_core_is_delegated_for_a_time(desk: Client, acme: Tenant, core: Core, approver: User) -> None:
    member = Membership.objects.for_tenant(acme).get(user=approver)
    form = {"core": str(core.pk), "delegate": str(member.pk), "starts_at_0": "2030-01-02", "starts_at_1": "08:00"}
    wrong = desk.post("/admin/tenants/delegation/add/", form | {"ends_at_0": "2030-01-01", "ends_at_1": "08:00"})
    assert wrong.status_code == 200
    desk.post("/admin/tenants/delegation/add/", form | {"ends_at_0": "2030-02-01", "ends_at_1": "08:00"})
    assert Delegation.objects.for_tenant(acme).get().delegate == member
    assert "not yet" in text(desk.get("/admin/tenants/delegation/"))


def test_a_key_is_shown_once_and_works(desk: Client, acme: Tenant) -> None:
    response = desk.post(f"{KEYS}add/", {"name": "agent", "scopes": ["checkpoints:read"]})
    assert "no-store" in response["Cache-Control"]
    secret = text(response).partition('id="secret">')[2].partition("<")[0]
    found = keys.find(secret)
    assert found is not None
    assert (found.tenant, found.name, found.scopes) == (acme, "agent", ["checkpoints:read"])
    assert secret not in text(desk.get(KEYS))
    assert secret not in text(desk.get(f"{KEYS}{found.pk}/change/"))


@pytest.mark.parametrize(
    "form",
    [
        {"name": "", "scopes": ["checkpoints:read"]},
        {"name": "x", "scopes": []},
        {"name": "x", "scopes": ["root"]},
        {"name": "x", "scopes": ["checkpoints:read"], "expires_at_0": "2001-01-01", "expires_at_1": "00:00"},
    ],
)
def test_a_key_that_makes_no_sense_is_not_made(desk: Client, form: dict[str, Any]) -> None:
    assert desk.post(f"{KEYS}add/", form).status_code == 200
    assert not ApiKey.objects.exists()


def test_the_page_of_a_key_tells_its_times_in_words_and_in_the_zone_of_the_tenant(desk: Client, acme: Tenant) -> None:
    expires_at = datetime(2030, 1, 2, 8, 30, tzinfo=UTC)
    made = keys.create(acme, name="agent", expires_at=expires_at, rate_per_minute=1200)
    shown = text(desk.get(f"{KEYS}{made.row.pk}/change/"))
    assert "just now" in shown
    assert "02 January 2030, 09:30 (Europe/Berlin)" in shown
    assert "1,200" in shown
    assert "never" in shown
    assert "p.m." not in shown
    assert "a.m." not in shown


def test_the_way_back_names_each_place_once_and_an_address_as_it_is(
    desk: Client, acme: Tenant, tenant_admin: User
) -> None:
    def header(address: str) -> list[str]:
        found = re.findall(r'tracking-tight">\s*(.*?)\s*</(?:a|span)', text(desk.get(address)))
        return [str(part) for part in found]

    own = Membership.objects.for_tenant(acme).get(user=tenant_admin)
    assert header("/admin/checkpoints/checkpoint/") == ["Checkpoints"]
    assert header(KEYS) == ["API keys"]
    assert header(f"{PEOPLE}{own.pk}/change/") == ["People", "admin@acme.example"]


def test_a_form_has_one_way_on(desk: Client) -> None:
    for model in ("apikey", "membership", "group"):
        shown = text(desk.get(f"/admin/tenants/{model}/add/"))
        assert 'name="_save"' in shown
        assert "Save and" not in shown


def test_a_key_is_rotated_and_revoked(desk: Client, acme: Tenant) -> None:
    made = keys.create(acme, name="agent")
    chosen = {"_selected_action": [str(made.row.pk)]}
    shown = text(desk.post(KEYS, chosen | {"action": "rotate"}))
    successor = keys.find(shown.partition('id="secret">')[2].partition("<")[0])
    assert successor is not None
    assert successor.family == made.row.family
    desk.post(KEYS, {"action": "revoke", "_selected_action": [str(successor.pk)]})
    successor.refresh_from_db()
    assert successor.revoked_at is not None
    assert "revoked" in text(desk.get(KEYS))
    again = desk.post(KEYS, {"action": "rotate", "_selected_action": [str(successor.pk)]}, follow=True)
    assert "Choose one live key" in text(again)


def test_a_tenant_admin_sets_zone_and_claim_time_but_not_the_slug(desk: Client, acme: Tenant) -> None:
    form = {"slug": "other", "name": "Acme Ltd", "time_zone": "Asia/Tokyo", "claim_minutes": "15"}
    assert desk.post(f"/admin/tenants/tenant/{acme.pk}/change/", form).status_code == 302
    acme.refresh_from_db()
    assert (acme.slug, acme.name, acme.time_zone, acme.claim_minutes) == ("acme", "Acme Ltd", "Asia/Tokyo", 15)
    assert desk.get("/admin/tenants/tenant/add/").status_code == 403


def test_an_operator_makes_tenants_and_accounts(db: None, signed_in: Callable[[User], Client]) -> None:
    operator = User.objects.create_superuser("op@example.com")
    browser = signed_in(operator)
    form = {"slug": "initech", "name": "Initech", "time_zone": "UTC", "claim_minutes": "60"}
    assert browser.post("/admin/tenants/tenant/add/", form).status_code == 302
    tenant = Tenant.objects.get(slug="initech")
    assert Role.objects.for_tenant(tenant).count() == 3
    assert browser.post("/admin/tenants/user/add/", {"email": "Zed@Example.com", "is_active": "on"}).status_code == 302
    assert not User.objects.get(email="zed@example.com").has_usable_password()
    assert "initech" in text(browser.get("/admin/tenants/tenant/"))


def test_accounts_are_for_operators_alone(desk: Client) -> None:
    assert desk.get("/admin/tenants/user/").status_code == 403
    assert "Accounts" not in text(desk.get("/admin/tenants/group/"))


def test_whoever_came_by_a_link_chooses_a_password_without_an_old_one(desk: Client, tenant_admin: User) -> None:
    assert "Choose a password" in text(desk.get("/admin/password_change/"))
    secret = "correct-horse-battery"
    desk.post("/admin/password_change/", {"new_password1": secret, "new_password2": secret})
    tenant_admin.refresh_from_db()
    assert tenant_admin.check_password(secret)
    assert 'name="old_password"' in text(desk.get("/admin/password_change/"))


def test_the_sign_in_page_says_what_is_wrong(approver: User) -> None:
    approver.set_password("correct-horse-battery")
    approver.save()
    form = {"username": approver.email, "password": "wrong", "next": "/admin/"}
    refused = text(Client().post("/admin/login/", form))
    assert "There is no account with this email and password." in refused
    assert refused.count("errornote") == 1
    form["password"] = "correct-horse-battery"
    assert "The desk is for tenant admins and auditors." in text(Client().post("/admin/login/", form, follow=True))


def test_the_sign_in_page_names_what_is_empty_in_one_box(db: None) -> None:
    shown = text(Client().post("/admin/login/", {"username": "", "password": ""}))
    assert shown.count("errornote") == 1
    assert "This field is required." in shown


def test_signing_in_leads_to_the_desk_also_from_the_plain_address(tenant_admin: User) -> None:
    tenant_admin.set_password("correct-horse-battery")
    tenant_admin.save()
    browser = Client()
    wanted = text(browser.get("/admin/login/")).partition('name="next" value="')[2].partition('"')[0]
    form = {"username": tenant_admin.email, "password": "correct-horse-battery", "next": wanted}
    assert browser.post("/admin/login/", form, follow=True).status_code == 200


@pytest.mark.parametrize("address", ["search/?s=x&page=x", "search/?s=x&page=9", "search/", "autocomplete/?term=x"])
def test_helpers_of_the_admin_answer_odd_questions(desk: Client, address: str) -> None:
    assert desk.get(f"/admin/{address}").status_code in {200, 403, 404}


def test_each_list_costs_the_same_however_long_it_is(desk: Client, acme: Tenant) -> None:
    from django.db import connection
    from django.test.utils import CaptureQueriesContext

    def cost(model: str) -> int:
        with CaptureQueriesContext(connection) as queries:
            assert desk.get(f"/admin/tenants/{model}/").status_code == 200
        assert not [query for query in queries if "COUNT(" in query["sql"].upper()]
        return len(queries)

    def grow(number: int) -> None:
        person = setup.add_person(acme, f"p{number}@acme.example", roles=[f"r{number}"], groups=[f"g{number}"])
        core = Core.objects.create(tenant=acme, slug=f"c{number}")
        member = Membership.objects.for_tenant(acme).get(user=person)
        Delegation.objects.create(tenant=acme, core=core, delegate=member)
        keys.create(acme, name=f"k{number}")

    models = ("membership", "group", "role", "core", "delegation", "apikey", "tenant")
    grow(0)
    few = {model: cost(model) for model in models}
    for number in range(1, 8):
        grow(number)
    assert {model: cost(model) for model in models} == few


def test_what_another_tenant_calls_somebody_is_not_shown(desk: Client, acme: Tenant, globex: Tenant) -> None:
    setup.add_person(globex, "shared@example.com", name="Their Secret Name")
    desk.post(f"{PEOPLE}add/", {"email": "shared@example.com", "name": "Our Name"})
    shown = text(desk.get(PEOPLE))
    assert "Our Name" in shown
    member = Membership.objects.for_tenant(acme).get(user__email="shared@example.com")
    assert "Their Secret Name" not in shown + text(desk.get(f"{PEOPLE}{member.pk}/change/"))
