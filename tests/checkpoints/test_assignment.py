"""One raw string → who is asked (semantics §2)."""

from datetime import timedelta

import pytest
from django.utils import timezone

from checkpoints import assignment, lifecycle
from checkpoints.assignment import parse
from checkpoints.models import AssigneeType
from tenants import setup
from tenants.models import Core, Delegation, Group, Membership
from tests.checkpoints.stories import again, events_of

USER_ID = "0190b5d2-7c1e-7a44-9c8f-3f6f5a1d2e3b"


@pytest.fixture
def look_up(acme, core):
    return lambda raw: assignment.resolve(raw, tenant=acme, core=core, at=timezone.now())


@pytest.fixture
def delegate(acme, core):
    """Delegates the core to a person, from and until so many hours from now."""

    def create(user, *, starts=-1, ends=None):
        now = timezone.now()
        return Delegation.objects.create(
            tenant=acme,
            core=core,
            delegate=Membership.objects.get(tenant=acme, user=user),
            starts_at=now + timedelta(hours=starts),
            ends_at=None if ends is None else now + timedelta(hours=ends),
        )

    return create


@pytest.mark.parametrize(
    ("raw", "kind", "value"),
    [
        ("user:approver@acme", "user", "approver@acme"),
        ("group:approvers", "group", "approvers"),
        ("role:tenant_admin", "role", "tenant_admin"),
        ("delegated_user", "delegated_user", ""),
        ("delegated_user:", "delegated_user", ""),
        ("approver@acme", "user", "approver@acme"),
        (USER_ID, "user", USER_ID),
        (f"user:{USER_ID}", "user", USER_ID),
        ("", "unrouted", ""),
        ("   \t\n", "unrouted", ""),
        (None, "unrouted", ""),
        ("team:blue", "unrouted", ""),
    ],
)
def test_every_form_of_the_contract_is_read(raw, kind, value):
    parsed = parse(raw)
    assert (parsed.type, parsed.value) == (kind, value)


@pytest.mark.parametrize(
    ("raw", "kind", "value"),
    [
        ("GROUP:finance", "group", "finance"),
        ("Role:Tenant_Admin", "role", "tenant_admin"),
        ("Delegated_User", "delegated_user", ""),
        ("  user  :  approver@acme  ", "user", "approver@acme"),
        ("\tgroup:finance\n", "group", "finance"),
        ("Approver@ACME.example", "user", "approver@acme.example"),
        (f"user:{USER_ID.upper()}", "user", USER_ID),
        (f"user:{USER_ID.replace('-', '')}", "user", USER_ID),
    ],
)
def test_case_and_blanks_make_no_difference(raw, kind, value):
    parsed = parse(raw)
    assert (parsed.type, parsed.value) == (kind, value)


@pytest.mark.parametrize(
    ("raw", "kind", "value"),
    [
        ("group:emea:finance", "group", "emea:finance"),
        ("user:a:b@c", "user", "a:b@c"),
        ("group::finance", "group", ":finance"),
    ],
)
def test_only_the_first_colon_splits(raw, kind, value):
    parsed = parse(raw)
    assert (parsed.type, parsed.value) == (kind, value)


@pytest.mark.parametrize("prefix", ["user", "group", "role"])
def test_a_prefix_without_a_name_leads_to_nobody_and_says_so(prefix):
    parsed = parse(f"{prefix}: ")
    assert parsed.type == AssigneeType.UNROUTED
    assert parsed.reason == f"“{prefix}:” names no {prefix}."


def test_an_unknown_prefix_is_named_in_the_reason():
    assert parse("team:blue").reason == "Nobody knows the prefix “team:”. Use user:, group:, role: or delegated_user."


@pytest.mark.parametrize(
    "raw",
    [
        ":",
        ":::::",
        "::user:x",
        "user:" * 2000,
        "x" * 100_000,
        "групппа:финансы",
        "user:\U0001f600@\U0001f680",
        "\x00",
        "user:\x00",
        "\ud800",
        "user:\udfff@x",
        "\u202euser:x",
        "user\u00a0:a@b",
        "İ" * 300,
        "user:" + "İ" * 290 + "@x",
        "{{customer}}",
        "None",
        "-1",
        "' OR 1=1 --",
    ],
)
def test_the_parser_takes_anything_and_fits_its_columns(raw):
    parsed = parse(raw)
    assert parsed.raw == raw
    assert parsed.type in AssigneeType.values
    assert len(parsed.value) <= assignment.RAW_LENGTH
    assert bool(parsed.reason) == (parsed.type == AssigneeType.UNROUTED)


def test_a_value_that_grows_beyond_its_column_waits_in_the_queue(ask):
    """Lower case of “İ” is two characters: 300 given ones can become 600."""
    row = again(ask(assignee="İ" * 290 + "@x"))
    assert row.is_unrouted
    assert "too long" in row.unrouted_reason


def test_an_email_that_no_account_has_passes_straight_through(look_up):
    found = look_up("Stranger@Elsewhere.example")
    assert (found.type, found.value, found.reason) == ("user", "stranger@elsewhere.example", "")


def test_a_member_is_found_by_email_and_by_id(look_up, approver):
    assert look_up("user:approver@acme.example").value == "approver@acme.example"
    assert look_up(f"user:{approver.pk}").value == str(approver.pk)


def test_an_id_in_another_spelling_is_still_that_person(ask, approver, as_person):
    row = ask(assignee=f"user:{approver.pk.hex.upper()}")
    assert lifecycle.comment(row, actor=as_person(approver), text="Mine.").event_count == 2


def test_a_group_with_members_a_held_role_and_a_delegation_lead_somewhere(look_up, finance, tenant_admin, delegate):
    delegate(tenant_admin)
    assert look_up("group:Finance").type == AssigneeType.GROUP
    assert look_up("role:tenant_admin").type == AssigneeType.ROLE
    found = look_up("delegated_user")
    assert (found.type, found.value) == ("delegated_user", "admin@acme.example")


def expect_nobody(found, reason):
    assert (found.type, found.value, found.reason) == ("unrouted", "", reason)
    assert found.resolved == {"type": "unrouted", "value": "", "reason": reason}


def test_an_id_that_nobody_has(look_up):
    expect_nobody(look_up(f"user:{USER_ID}"), f"No member of Acme has the id “{USER_ID}”.")
    expect_nobody(look_up("bob"), "No member of Acme has the id “bob”.")


def test_the_id_of_an_outsider_is_an_id_that_nobody_has(look_up, outsider):
    expect_nobody(look_up(f"user:{outsider.pk}"), f"No member of Acme has the id “{outsider.pk}”.")


def test_a_missing_group(look_up):
    expect_nobody(look_up("group:finance"), "There is no group “finance” in Acme.")


def test_another_tenants_group_is_a_missing_group(look_up, globex):
    setup.add_person(globex, "someone@globex.example", groups=["traders"])
    expect_nobody(look_up("group:traders"), "There is no group “traders” in Acme.")


def test_an_empty_group(look_up, acme):
    Group.objects.create(tenant=acme, slug="legal")
    expect_nobody(look_up("group:legal"), "The group “legal” has no active members.")


def test_a_group_whose_only_member_is_disabled_is_empty(look_up, approver):
    approver.is_active = False
    approver.save()
    expect_nobody(look_up("group:finance"), "The group “finance” has no active members.")


def test_a_role_that_nobody_holds(look_up, approver):
    expect_nobody(look_up("role:auditor"), "Nobody in Acme holds the role “auditor”.")
    expect_nobody(look_up("role:wizard"), "Nobody in Acme holds the role “wizard”.")


NOT_DELEGATED = "The core “refund-agent” is not delegated to anybody active at the moment."


def test_no_delegation_at_all(look_up):
    expect_nobody(look_up("delegated_user"), NOT_DELEGATED)


def test_a_delegation_that_has_ended(look_up, approver, delegate):
    delegate(approver, starts=-5, ends=-1)
    expect_nobody(look_up("delegated_user"), NOT_DELEGATED)


def test_a_delegation_that_has_not_started(look_up, approver, delegate):
    delegate(approver, starts=1)
    expect_nobody(look_up("delegated_user"), NOT_DELEGATED)


def test_a_delegation_to_somebody_disabled(look_up, approver, delegate):
    delegate(approver)
    approver.is_active = False
    approver.save()
    expect_nobody(look_up("delegated_user"), NOT_DELEGATED)


def test_a_delegation_of_another_core_does_not_count(acme, look_up, approver, delegate):
    delegate(approver)
    other = Core.objects.create(tenant=acme, slug="other")
    found = assignment.resolve("delegated_user", tenant=acme, core=other, at=timezone.now())
    expect_nobody(found, "The core “other” is not delegated to anybody active at the moment.")


def test_where_two_delegations_overlap_the_later_start_wins(look_up, approver, colleague, delegate):
    delegate(approver, starts=-5)
    delegate(colleague, starts=-1, ends=1)
    assert look_up("delegated_user").value == "colleague@acme.example"


def test_a_disabled_account(look_up, approver):
    approver.is_active = False
    approver.save()
    expect_nobody(look_up("approver@acme.example"), "The account of approver@acme.example is disabled.")


def test_a_removed_member(look_up, acme, approver):
    Membership.objects.filter(tenant=acme, user=approver).update(is_active=False)
    expect_nobody(look_up("approver@acme.example"), "approver@acme.example is no longer a member of Acme.")


def test_the_created_event_keeps_the_original_string_after_a_reassignment(ask, finance, approver, program):
    row = ask(assignee=" Group:Finance ")
    lifecycle.reassign(row, actor=program, assignee="user:approver@acme.example")
    row = again(row)
    assert (row.assignee_raw, row.assignee_type) == ("user:approver@acme.example", "user")
    assert events_of(row)[0].data["detail"]["assignee_raw"] == " Group:Finance "


def test_the_preview_names_everybody_an_assignment_reaches(look_up, acme, finance, tenant_admin, approver, delegate):
    delegate(approver)

    def reached(raw):
        return assignment.people(look_up(raw), tenant=acme)

    assert reached("group:finance") == ["approver@acme.example", "colleague@acme.example"]
    assert reached("role:tenant_admin") == ["admin@acme.example"]
    assert reached(f"user:{approver.pk}") == ["approver@acme.example"]
    assert reached("stranger@elsewhere.example") == ["stranger@elsewhere.example"]
    assert reached("delegated_user") == ["approver@acme.example"]
    assert reached("team:blue") == []
