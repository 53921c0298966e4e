"""The list of checkpoints: what an admin sees first."""

import re
from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from checkpoints import lifecycle
from checkpoints.answers import Answer
from checkpoints.models import Checkpoint
from tenants import setup
from tenants.actors import Actor
from tenants.fields import new_id
from tenants.models import Tenant, User

LIST = "/admin/checkpoints/checkpoint/"
Ask = Callable[..., Checkpoint]


def text(response: Any) -> str:
    return str(response.content.decode())


def rows(response: Any) -> list[Checkpoint]:
    return list(response.context["cl"].result_list)


def test_the_desk_opens_with_the_queue(desk: Client) -> None:
    assert desk.get("/", follow=True).redirect_chain[-1][0] == LIST


def test_the_queue_shows_what_nobody_has_and_why(desk: Client, unrouted: Checkpoint, refund: Checkpoint) -> None:
    response = desk.get(LIST)
    assert rows(response) == [unrouted]
    assert "Nobody knows the prefix “team:”." in text(response)


def test_what_somebody_outside_resumes_is_not_in_the_queue(desk: Client, ask: Ask) -> None:
    ask(routing="external")
    assert rows(desk.get(LIST)) == []


def test_the_most_urgent_comes_first_and_the_oldest_of_equals(desk: Client, ask: Ask) -> None:
    for prompt, priority in (("a", "low"), ("b", "normal"), ("c", "critical"), ("d", "normal"), ("e", "high")):
        ask(prompt=prompt, priority=priority)
    assert [row.prompt for row in rows(desk.get(LIST))] == ["c", "e", "b", "d", "a"]


def test_each_tab_holds_its_own(
    desk: Client, ask: Ask, unrouted: Checkpoint, refund: Checkpoint, as_person: Callable[[User], Actor], approver: User
) -> None:
    done = ask(assignee="group:finance")
    lifecycle.resolve(done, actor=as_person(approver), answer=Answer(decision="approve"))
    assert set(rows(desk.get(f"{LIST}?show=waiting"))) == {refund, unrouted}
    assert rows(desk.get(f"{LIST}?show=ended")) == [done]
    assert len(rows(desk.get(f"{LIST}?show=all"))) == 3
    assert "“approve” by approver@acme.example" in text(desk.get(f"{LIST}?show=ended"))


def test_an_empty_queue_says_what_that_means(desk: Client) -> None:
    assert "Nothing waits for you" in text(desk.get(LIST))


def test_search_finds_an_id_and_the_start_of_an_execution(desk: Client, ask: Ask) -> None:
    wanted, other = ask(execution_id="exec-81f2"), ask(execution_id="exec-9")
    assert rows(desk.get(f"{LIST}?q={wanted.pk}")) == [wanted]
    assert rows(desk.get(f"{LIST}?q=exec-8")) == [wanted]
    assert set(rows(desk.get(f"{LIST}?q=exec"))) == {wanted, other}
    assert "Nothing matches" in text(desk.get(f"{LIST}?q=nothing"))


@pytest.mark.parametrize(
    "query",
    [
        "q=%00",
        "q=%F0%9F%98%80",
        "q=%25",
        "p=0",
        "p=-4",
        "p=99999999999999",
        "p=x",
        "show=x",
        "priority=x",
        "o=9.9",
        "all=",
        "e=1",
        "nonsense=1",
        "_to_field=prompt",
        "tenant=x",
        "id=x",
        "created_at__gt=x",
        "prompt__regex=(",
        "tenant__slug__regex=(",
    ],
)
def test_odd_questions_get_an_answer(desk: Client, unrouted: Checkpoint, query: str) -> None:
    assert desk.get(f"{LIST}?{query}", follow=True).status_code in {200, 400}


def test_the_priority_filter_filters(desk: Client, ask: Ask) -> None:
    ask(priority="low")
    urgent = ask(priority="critical")
    assert rows(desk.get(f"{LIST}?priority=critical")) == [urgent]


def test_one_click_in_the_list_claims(desk: Client, unrouted: Checkpoint, tenant_admin: User) -> None:
    assert f'formaction="{LIST}{unrouted.pk}/do/claim/"' in text(desk.get(LIST))
    response = desk.post(f"{LIST}{unrouted.pk}/do/claim/", follow=True)
    assert "It is yours now." in text(response)
    unrouted.refresh_from_db()
    assert (unrouted.assignee_type, unrouted.assignee_value) == ("user", tenant_admin.email)


def test_several_are_claimed_at_once(desk: Client, ask: Ask, tenant_admin: User) -> None:
    asked = [ask() for _ in range(3)]
    chosen = {"action": "claim_selected", "_selected_action": [str(row.pk) for row in asked[:2]]}
    response = desk.post(LIST, chosen, follow=True)
    assert "You have claimed 2 checkpoints." in text(response)
    assert rows(response) == [asked[2]]
    assert Checkpoint.objects.filter(assignee_value=tenant_admin.email).count() == 2


def test_what_a_colleague_took_in_the_meantime_is_named(
    desk: Client, ask: Ask, second_admin: User, as_person: Callable[[User], Actor]
) -> None:
    taken, free = ask(prompt="Taken?"), ask(prompt="Free?")
    lifecycle.claim(taken, actor=as_person(second_admin))
    chosen = {"action": "claim_selected", "_selected_action": [str(taken.pk), str(free.pk)]}
    response = desk.post(LIST, chosen, follow=True)
    assert "You have claimed 1 checkpoint." in text(response)
    assert "Taken?: second@acme.example is working on this." in text(response)


def test_an_admin_of_two_tenants_sees_both_and_whose_is_whose(
    desk: Client, unrouted: Checkpoint, globex: Tenant, tenant_admin: User, ask: Ask, foreign_program: Actor
) -> None:
    theirs = ask(actor=foreign_program, prompt="Theirs?")
    assert rows(desk.get(LIST)) == [unrouted]
    setup.add_person(globex, tenant_admin.email, roles=["tenant_admin"])
    response = desk.get(LIST)
    assert set(rows(response)) == {unrouted, theirs}
    assert "Globex" in text(response)
    assert rows(desk.get(f"{LIST}?tenant=globex")) == [theirs]


def test_an_auditor_looks_and_is_offered_nothing(
    auditor: User, signed_in: Callable[[User], Client], unrouted: Checkpoint
) -> None:
    browser = signed_in(auditor)
    response = browser.get(LIST)
    assert rows(response) == [unrouted]
    assert "formaction" not in text(response)
    browser.post(LIST, {"action": "claim_selected", "_selected_action": [str(unrouted.pk)]})
    assert browser.post(f"{LIST}{unrouted.pk}/do/claim/").status_code == 403
    unrouted.refresh_from_db()
    assert unrouted.is_unrouted


def test_somebody_who_is_only_an_approver_is_sent_to_sign_in(
    approver: User, signed_in: Callable[[User], Client]
) -> None:
    browser = signed_in(approver)
    assert browser.get(LIST).status_code == 302
    assert "You are signed in" in text(browser.get("/"))


def test_pages_go_forward_and_back_without_a_count(desk: Client, ask: Ask, acme: Tenant) -> None:
    made = [ask() for _ in range(53)]
    with CaptureQueriesContext(connection) as queries:
        first = desk.get(LIST)
    assert not [query["sql"] for query in queries if "COUNT(" in query["sql"].upper()]
    assert len(rows(first)) == 50
    assert 'rel="next"' in text(first)
    second = desk.get(f"{LIST}?p=2")
    assert len(rows(second)) == 3
    assert 'rel="prev"' in text(second)
    assert 'rel="next"' not in text(second)
    assert {row.pk for row in [*rows(first), *rows(second)]} == {row.pk for row in made}


@pytest.mark.parametrize("tab", ["unrouted", "waiting", "ended", "all"])
def test_the_number_of_queries_does_not_grow_with_the_list(
    desk: Client, ask: Ask, tab: str, tenant_admin: User, as_person: Callable[[User], Actor]
) -> None:
    def cost() -> int:
        with CaptureQueriesContext(connection) as queries:
            assert desk.get(f"{LIST}?show={tab}").status_code == 200
        return len(queries)

    def grow(core: str) -> None:
        ask(core_id=core)
        lifecycle.resolve(ask(core_id=core), actor=as_person(tenant_admin), answer=Answer(decision="approve"))
        lifecycle.cancel(ask(core_id=core), actor=as_person(tenant_admin), reason="Not needed")

    grow("a")
    few = cost()
    for number in range(6):
        grow(f"core-{number}")
    assert cost() == few


@pytest.mark.parametrize("tab", ["unrouted", "waiting", "ended", "all"])
def test_the_list_does_not_read_what_it_does_not_show(desk: Client, unrouted: Checkpoint, tab: str) -> None:
    with CaptureQueriesContext(connection) as queries:
        desk.get(f"{LIST}?show={tab}")
    listed = "".join(query["sql"] for query in queries if "prompt" in query["sql"])
    assert listed
    for column in ("context", "action", "options", "hitl_spec", "hitl_target", "escalation_chain"):
        assert not re.search(rf"[`\"]{column}[`\"]", listed), column


@pytest.mark.parametrize("tab", ["unrouted", "waiting", "ended", "all"])
def test_asking_whether_a_list_is_there_gets_an_answer(desk: Client, unrouted: Checkpoint, tab: str) -> None:
    response = desk.head(f"{LIST}?show={tab}")
    assert (response.status_code, response.content) == (200, b"")


def test_the_sidebar_counts_no_further_than_a_person_can_take_in(desk: Client, ask: Ask) -> None:
    row = ask()
    assert ">1<" in "".join(text(desk.get(LIST)).split())
    copies = []
    for _ in range(120):
        copy = Checkpoint.objects.get(pk=row.pk)
        copy.pk = new_id()
        copies.append(copy)
    Checkpoint.objects.bulk_create(copies)
    assert "99+" in text(desk.get(LIST))
