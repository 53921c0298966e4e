"""What ``make run`` loads."""

import json
import shlex
from io import StringIO

import pytest
from django.core.management import call_command
from django.test import Client

from checkpoints import events
from checkpoints.models import Checkpoint, Event, Status
from notifications.models import Channel, Webhook
from tenants.models import Group, Tenant, User

pytestmark = pytest.mark.django_db


def load() -> str:
    printed = StringIO()
    call_command("load_demo", stdout=printed)
    return printed.getvalue()


def test_the_demo_has_two_tenants_their_people_and_every_state() -> None:
    load()
    assert [tenant.slug for tenant in Tenant.objects.all()] == ["acme", "globex"]
    finance = Group.objects.get(tenant__slug="acme", slug="finance")
    assert [member.user.email for member in finance.members.order_by("user__email")] == [
        "ann@acme.example",
        "bob@acme.example",
    ]
    acme = Checkpoint.objects.filter(tenant__slug="acme")
    assert acme.count() >= 12
    assert {row.status for row in acme} == set(Status.values)
    assert {row.assignee_type for row in acme} == {"user", "group", "delegated_user", "unrouted"}
    assert acme.filter(claimed_by="ann@acme.example").exists()


def test_the_demo_calls_nobody() -> None:
    load()
    assert not Webhook.objects.filter(is_active=True).exists()
    assert not Channel.objects.filter(kind="chat", is_active=True).exists()
    assert (Webhook.objects.count(), Channel.objects.filter(kind="chat").count()) == (1, 1)


def test_loading_it_again_changes_nothing() -> None:
    first = load()
    before = (Checkpoint.objects.count(), Event.objects.count(), User.objects.count())
    assert load() == first
    assert (Checkpoint.objects.count(), Event.objects.count(), User.objects.count()) == before


def test_its_histories_hold_together() -> None:
    load()
    for row in Checkpoint.objects.all():
        chain = list(Event.objects.filter(subject_id=row.pk).order_by("sequence"))
        assert events.first_broken(chain) is None
        assert (len(chain), chain[-1].digest) == (row.event_count, row.event_head)


def test_the_printed_line_creates_a_checkpoint() -> None:
    words = shlex.split(next(line for line in load().splitlines() if line.startswith("curl")))
    headers = [words[place + 1] for place, word in enumerate(words) if word == "-H"]
    names = dict(header.split(": ", 1) for header in headers)
    body = words[words.index("-d") + 1]
    address = next(word for word in words if word.startswith("http")).removeprefix("http://testserver")
    response = Client().post(address, json.loads(body), content_type=names.pop("Content-Type"), headers=names)
    assert response.status_code == 201
    made = response.json()
    assert (made["assignee_type"], made["execution_id"]) == ("unrouted", "exec-1")
    assert made["options"] == ["approve", "reject"]


def test_the_printed_sign_in_opens_the_queue() -> None:
    words = load().split()
    password = words[words.index("password") + 1]
    browser = Client()
    form = {"username": "admin@acme.example", "password": password, "next": "/admin/"}
    response = browser.post("/admin/login/", form, follow=True)
    assert response.redirect_chain[-1][0] == "/admin/checkpoints/checkpoint/"
    assert "There is no group “payroll” in Acme." in response.content.decode()
