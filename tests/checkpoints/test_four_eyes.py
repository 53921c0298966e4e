"""Four eyes and whoever is left: what only the requester could decide waits in the queue (semantics §2, §3)."""

import pytest

from checkpoints import errors, lifecycle, sweeps
from tenants import actors, keys, setup
from tenants.models import Delegation, Group, Membership
from tests.checkpoints.stories import again, story

pytestmark = [pytest.mark.both_databases, pytest.mark.django_db]


@pytest.fixture
def alone(acme, approver):
    """A group with one member."""
    setup.add_person(acme, approver.email, groups=["alone"])
    return Group.objects.for_tenant(acme).get(slug="alone")


@pytest.mark.parametrize("assignee", ["user:approver@acme.example", "group:alone", "delegated_user"])
def test_a_question_only_its_requester_could_answer_waits_in_the_queue(assignee, ask, acme, core, alone, approver):
    delegate = Membership.objects.for_tenant(acme).get(user=approver)
    Delegation.objects.create(tenant=acme, core=core, delegate=delegate)
    for requester in (approver.email, str(approver.pk)):
        row = ask(assignee=assignee, requested_by=requester, forbid_requester=True)
        assert row.is_unrouted
        assert "four eyes" in row.unrouted_reason
        assert not ask(assignee=assignee, requested_by=requester).is_unrouted


def test_somebody_without_an_account_does_not_decide_their_own_either(ask):
    for requester, unrouted in (("guest@elsewhere.example", True), ("host@elsewhere.example", False)):
        row = ask(assignee="user:guest@elsewhere.example", requested_by=requester, forbid_requester=True)
        assert row.is_unrouted == unrouted


def test_when_everybody_but_the_requester_has_left_it_goes_to_the_queue(ask, acme, finance, approver, colleague):
    others = ask(assignee="group:finance", requested_by="somebody@acme.example", forbid_requester=True)
    theirs = ask(assignee="group:finance", requested_by=approver.email, forbid_requester=True)
    plain = ask(assignee="group:finance")
    finance.members.remove(Membership.objects.for_tenant(acme).get(user=colleague))
    assert sweeps.reroute().done == 1
    assert again(theirs).is_unrouted
    assert story(theirs) == ["created", "rerouted"]
    assert not again(others).is_unrouted
    assert not again(plain).is_unrouted


def test_an_escalation_to_the_requester_alone_goes_to_the_queue(ask, alone, approver, colleague, finance):
    fields = {"timeout": "1h", "expiry_action": "escalate", "escalation_target": "group:alone"}
    rows = [
        ask(assignee="group:finance", requested_by=requester, forbid_requester=True, **fields)
        for requester in (approver.email, colleague.email)
    ]
    assert sweeps.expire_checkpoints(now=rows[-1].expires_at).done == 2
    assert [again(row).is_unrouted for row in rows] == [True, False]


def test_an_admin_who_reassigns_it_to_the_requester_finds_it_in_the_queue(ask, tenant_admin, approver, as_person):
    row = ask(requested_by=approver.email, forbid_requester=True)
    row = lifecycle.reassign(row, actor=as_person(tenant_admin), assignee=approver.email)
    assert row.is_unrouted
    assert "four eyes" in row.unrouted_reason


def test_to_another_tenant_a_checkpoint_that_has_ended_does_not_exist_either(refund, program, globex, decide, outsider):
    decide(refund, program, "approve")
    # A key of the same name is another key: its repeat is nobody's repeat.
    namesake = actors.program(keys.create(globex, name=program.key.name).row)
    for stranger in (namesake, actors.person(outsider, globex, via="admin")):
        with pytest.raises(errors.NotFound) as refusal:
            decide(again(refund), stranger, "approve")
        assert refusal.value.checkpoint is None
