"""Mails in a real browser: on a phone and beside other windows, light and dark."""

import re

import pytest
from playwright.sync_api import Browser

from checkpoints.models import Checkpoint, Priority
from notifications.messages import compose
from notifications.models import Delivery, Kind, Occasion
from tenants.models import Core, Tenant

pytestmark = pytest.mark.browser
TABLE = f"| {' | '.join('wide' * 9 for _ in range(9))} |\n{'|---' * 9}|"


def unwieldy_mail() -> str:
    """Nothing in it wants to be narrow. Not in the database: it is only looked at."""
    acme = Tenant(slug="acme", name="Acme")
    checkpoint = Checkpoint(
        tenant=acme,
        core=Core(tenant=acme, slug="refund-agent"),
        prompt=f"# Refund\n\n`{'x' * 300}`\n\n{TABLE}\n\n{'w' * 400}\n\n```\n{'c' * 300}\n```",
        context={"k" * 200: "v" * 200, "page": "https://evil.example/" + "a" * 200},
        options=["o" * 90],
        priority=Priority.HIGH,
        assignee_type="group",
        assignee_value="finance",
    )
    delivery = Delivery(
        tenant=acme,
        checkpoint=checkpoint,
        occasion=Occasion.CREATED,
        kind=Kind.EMAIL,
        recipient="approver@acme.example",
    )
    return compose(delivery).html


@pytest.mark.parametrize("width", [390, 700])
@pytest.mark.parametrize("colours", ["light", "dark"])
def test_a_mail_fits_its_window_and_asks_nothing_from_elsewhere(browser: Browser, width, colours):
    context = browser.new_context(viewport={"width": width, "height": 800}, color_scheme=colours)
    page = context.new_page()
    requests: list[str] = []
    page.on("request", lambda request: requests.append(request.url))
    page.set_content(unwieldy_mail())
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert requests == []
    button = page.get_by_role("link")
    assert button.count() == 1
    assert contrast(*button.evaluate("e => [getComputedStyle(e).color, getComputedStyle(e).backgroundColor]")) >= 4.5
    context.close()


def contrast(one: str, other: str) -> float:
    """As the accessibility guidelines count it."""

    def brightness(shade: str) -> float:
        parts = [int(part) / 255 for part in re.findall(r"\d+", shade)[:3]]
        linear = [part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    dark, bright = sorted([brightness(one), brightness(other)])
    return (bright + 0.05) / (dark + 0.05)
