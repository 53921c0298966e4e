"""What leads to nobody any more is found from the side of the directory, however many rows wait (semantics §2)."""

from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from checkpoints import sweeps
from tenants import setup
from tenants.models import Delegation, Membership
from tests.checkpoints.stories import again

pytestmark = [pytest.mark.both_databases, pytest.mark.django_db]


@pytest.fixture
def delegated(acme, core, approver):
    delegate = Membership.objects.for_tenant(acme).get(user=approver)
    return Delegation.objects.create(
        tenant=acme, core=core, delegate=delegate, starts_at=timezone.now() - timedelta(days=1)
    )


def test_a_user_id_that_nobody_has_any_more_leads_to_the_queue(ask, acme, approver, colleague):
    theirs, others = ask(assignee=f"user:{approver.pk}"), ask(assignee=str(colleague.pk).upper())
    Membership.objects.for_tenant(acme).get(user=approver).delete()
    assert sweeps.reroute().done == 1
    assert again(theirs).unrouted_reason == f"No member of Acme has the id “{approver.pk}”."
    assert not again(others).is_unrouted


def test_a_member_of_two_tenants_is_missed_only_where_they_were_switched_off(
    ask, acme, globex, approver, foreign_program
):
    setup.add_person(globex, approver.email)
    rows = {
        name: [ask(assignee=raw, **actor) for raw in (approver.email, str(approver.pk))]
        for name, actor in (("acme", {}), ("globex", {"actor": foreign_program}))
    }
    Membership.objects.for_tenant(acme).filter(user=approver).update(is_active=False)
    assert sweeps.reroute().done == 2
    assert [again(row).is_unrouted for row in rows["acme"] + rows["globex"]] == [True, True, False, False]


def test_somebody_asked_by_address_who_turns_out_to_have_asked_goes_to_the_queue(ask, acme, outsider, approver):
    mine = ask(assignee=outsider.email, requested_by=str(outsider.pk), forbid_requester=True)
    other = ask(assignee=str(approver.pk), requested_by=outsider.email, forbid_requester=True)
    assert not mine.is_unrouted
    setup.add_person(acme, outsider.email)
    assert sweeps.reroute().done == 1
    assert "four eyes" in again(mine).unrouted_reason
    assert not again(other).is_unrouted


def test_a_rejection_that_was_allowed_may_put_the_number_out_of_reach(ask, decide, finance, acme, approver, colleague):
    rows = [ask(assignee="group:finance", required_approvals=2, rejections_allowed=1) for _ in range(2)]
    assert sweeps.reroute().done == 0
    decide(rows[0], approver, "reject", comment="No.")
    assert sweeps.reroute().done == 1
    assert [again(row).is_unrouted for row in rows] == [True, False]


def test_nothing_to_reroute_is_a_handful_of_queries_whatever_waits(
    ask, acme, finance, approver, colleague, tenant_admin, delegated, foreign_program
):
    def cost():
        with CaptureQueriesContext(connection) as queries:
            assert sweeps.reroute().done == 0
        return len(queries)

    def crowd(number):
        guest = f"guest-{number}@elsewhere.example"
        for raw in ("group:finance", "role:approver", approver.email, str(colleague.pk), guest, "delegated_user"):
            for actor in ({}, {"actor": foreign_program}):
                ask(assignee=raw, **actor)
            ask(assignee=raw, requested_by=guest, forbid_requester=raw != guest)
            ask(assignee=raw, requested_by=str(tenant_admin.pk), forbid_requester=True)
        ask(assignee="group:finance", required_approvals=2)
        ask(assignee="group:finance", required_approvals=2, rejections_allowed=2)

    setup.add_person(acme, "third@acme.example", groups=["finance"])
    crowd(1)
    few = cost()
    for number in range(2, 12):
        crowd(number)
    assert cost() <= few
    # The last two look closer: at the quorum that a third rejection would put out of reach.
    assert few <= 8 + 2
