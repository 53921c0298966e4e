"""The story of the first day, in a real browser: sign in, find it in the queue, claim, decide, read the history."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from checkpoints.models import Checkpoint
from tenants.models import User
from tests.browser import Watched

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]
SECRET = "correct-horse-battery"
PHONE = {"width": 390, "height": 844}
DESKTOP = {"width": 1280, "height": 850}


@pytest.fixture(params=[DESKTOP, PHONE], ids=["desktop", "phone"])
def watched(request: pytest.FixtureRequest, browser: Browser, live_server: Any) -> Iterator[Watched]:
    context = browser.new_context(viewport=request.param, base_url=live_server.url)
    context.set_default_timeout(15_000)
    yield Watched(context.new_page(), live_server.url)
    context.close()


def sign_in(page: Page, user: User) -> None:
    user.set_password(SECRET)
    user.save()
    page.goto("/")
    page.get_by_label("Email").fill(user.email.upper())
    page.get_by_label("Password").fill(SECRET)
    page.get_by_role("button", name="Log in").click()


def test_an_admin_finds_claims_and_decides_what_nobody_has(
    watched: Watched, tenant_admin: User, ask: Callable[..., Checkpoint]
) -> None:
    options = [{"id": "approve", "label": "Approve"}, {"id": "reject", "label": "Reject", "requires_comment": True}]
    row = ask(prompt="Send the newsletter to 18,000 people?", assignee="team:blue", options=options)
    page = watched.page
    sign_in(page, tenant_admin)

    expect(page.get_by_text("Nobody knows the prefix “team:”.")).to_be_visible()
    page.get_by_role("link", name="Send the newsletter").click()
    expect(page.get_by_text("Nobody has this.")).to_be_visible()
    page.get_by_role("button", name="Claim").click()
    expect(page.get_by_text("It is yours now.")).to_be_visible()

    page.get_by_label("Reject").check()
    page.get_by_role("button", name="Decide").click()
    expect(page.get_by_text("“Reject” needs a comment.")).to_be_visible()
    expect(page.get_by_label("Reject")).to_be_checked()
    page.locator("#decide").get_by_role("textbox", name="Comment").fill("Half of them did not ask for it.")
    page.get_by_role("button", name="Decide").click()

    history = page.locator("#history li")
    expect(history).to_have_count(3)
    expect(history.nth(0)).to_contain_text("decided “reject”.")
    expect(history.nth(0)).to_contain_text("Half of them did not ask for it.")
    expect(history.nth(1)).to_contain_text("claimed it.")
    expect(history.nth(2)).to_contain_text("asked “team:blue”.")
    row.refresh_from_db()
    assert (row.status, row.resolution["decision"]) == ("resolved", "reject")

    page.goto("/")
    expect(page.get_by_text("Nothing waits for you")).to_be_visible()
    assert watched.trouble == []


def test_several_are_claimed_with_the_list_itself(
    watched: Watched, tenant_admin: User, ask: Callable[..., Checkpoint]
) -> None:
    for number in range(3):
        ask(prompt=f"Question {number}?")
    page = watched.page
    sign_in(page, tenant_admin)
    boxes = page.locator("input.action-select[name=_selected_action]")
    expect(boxes).to_have_count(3)
    boxes.nth(0).check()
    boxes.nth(2).check()
    page.get_by_label("Select action to run").select_option(label="Claim")
    page.get_by_role("button", name="Run").click()
    expect(page.get_by_text("You have claimed 2 checkpoints.")).to_be_visible()
    assert Checkpoint.objects.filter(assignee_value=tenant_admin.email).count() == 2
    assert watched.trouble == []


def test_reassigning_shows_who_it_reaches_before_it_is_done(
    watched: Watched, tenant_admin: User, unrouted: Checkpoint, finance: Any
) -> None:
    page = watched.page
    sign_in(page, tenant_admin)
    page.goto(f"/decide/{unrouted.pk}")
    page.get_by_role("link", name="Reassign").click()
    page.get_by_label("Assignee").fill("group:finance")
    page.get_by_role("button", name="Show who that is").click()
    expect(page.locator("#preview")).to_contain_text("approver@acme.example")
    page.get_by_role("button", name="Reassign").click()
    expect(page.get_by_text("Reassigned 1 checkpoint.")).to_be_visible()
    unrouted.refresh_from_db()
    assert unrouted.assignee_value == "finance"
    assert watched.trouble == []
