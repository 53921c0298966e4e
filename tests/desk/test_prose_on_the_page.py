"""What programs write is shown as Markdown that can do no harm, and what looks secret is not shown."""

from collections.abc import Callable

from django.test import Client

from checkpoints.models import Checkpoint
from tenants.models import User

Ask = Callable[..., Checkpoint]


def page(browser: Client, row: Checkpoint) -> str:
    return browser.get(f"/admin/checkpoints/checkpoint/{row.pk}/change/").content.decode()


def test_the_question_is_shown_as_markdown(ask: Ask, tenant_admin: User, signed_in: Callable[[User], Client]) -> None:
    html = page(signed_in(tenant_admin), ask(prompt="Refund **EUR 12**?\n\n- quickly\n- now"))

    assert "<strong>EUR 12</strong>" in html
    assert "<li>\nquickly\n</li>" in html


def test_a_hostile_question_is_words(ask: Ask, tenant_admin: User, signed_in: Callable[[User], Client]) -> None:
    hostile = (
        '<img src=x onerror=alert(1)> <div x-init="alert(1)" @click="x"> [go](javascript:alert(1)) ![i](http://x/y)'
    )
    html = page(signed_in(tenant_admin), ask(prompt=hostile))
    asked = html.partition('<div class="hp-prompt">')[2].partition("</div>")[0]

    assert "&lt;img src=x onerror=alert(1)&gt;" in asked
    assert "<img" not in asked
    assert "<div" not in asked
    assert 'href="javascript' not in asked


def test_secrets_in_the_context_are_masked(ask: Ask, tenant_admin: User, signed_in: Callable[[User], Client]) -> None:
    html = page(signed_in(tenant_admin), ask(context={"order": 991, "api_key": "very-secret-value"}))

    assert "991" in html
    assert "very-secret-value" not in html
