"""API keys: shown once, stored hashed, narrow, and gone when they should be."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from io import StringIO

import pytest
import time_machine
from django.core.management import call_command
from django.utils import timezone

from tenants import keys, scopes
from tenants.models import ApiKey, Tenant
from tests.api_client import ApiClient

pytestmark = pytest.mark.django_db

NOON = datetime(2030, 1, 31, 12, tzinfo=UTC)


def works(secret: str) -> bool:
    return ApiClient(secret=secret).list().status_code == 200


def test_a_key_has_a_prefix_to_tell_it_by_and_256_random_bits(acme: Tenant) -> None:
    made = keys.create(acme, name="ci")

    start, prefix, secret = made.secret.split("_")
    assert start == "hp"
    assert made.row.prefix == f"hp_{prefix}"
    assert len(bytes.fromhex(secret)) == 32
    assert keys.create(acme, name="ci").secret != made.secret


def test_the_secret_is_nowhere_in_the_database(acme: Tenant) -> None:
    made = keys.create(acme, name="ci")
    assert works(made.secret)

    everything = StringIO()
    call_command("dumpdata", stdout=everything)
    assert made.row.prefix in everything.getvalue()
    assert made.secret.rpartition("_")[2] not in everything.getvalue()


def test_a_key_is_found_by_its_exact_secret_only(acme: Tenant) -> None:
    made = keys.create(acme, name="ci")

    assert keys.find(made.secret) == made.row
    for wrong in (made.secret.upper(), made.secret[:-1], made.secret + " ", made.row.secret_hash, "", "\ud800", "\x00"):
        assert keys.find(wrong) is None


def test_a_key_named_no_scope_has_all_of_them(acme: Tenant) -> None:
    row = keys.create(acme, name="ci").row

    assert all(row.has_scope(scope) for scope in scopes.ALL)


def test_a_key_has_the_scopes_it_was_given_and_no_other(acme: Tenant) -> None:
    row = keys.create(acme, name="ci", scopes=["checkpoints:read"]).row

    assert [scope for scope in scopes.ALL if row.has_scope(scope)] == ["checkpoints:read"]


@pytest.mark.parametrize(
    ("older", "stands_for"),
    [
        ("scaicore:checkpoint_resolve", {"checkpoints:read", "checkpoints:resolve"}),
        (
            "scaicore:manage",
            {
                "checkpoints:create",
                "checkpoints:read",
                "checkpoints:resolve",
                "checkpoints:manage",
                "checkpoints:resume",
            },
        ),
    ],
)
def test_an_older_name_stands_for_several_scopes(acme: Tenant, older: str, stands_for: set[str]) -> None:
    row = keys.create(acme, name="ci", scopes=[older]).row

    assert {scope for scope in scopes.ALL if row.has_scope(scope)} == stands_for


def test_an_older_name_opens_the_routes_it_stands_for(with_scopes: Callable[..., ApiClient]) -> None:
    resolver, manager = with_scopes("scaicore:checkpoint_resolve"), with_scopes("scaicore:manage")

    assert resolver.create().status_code == 403
    row = manager.create().json()["id"]
    assert resolver.get(row).status_code == 200
    assert resolver.command(row, "cancel").status_code == 403
    assert resolver.resolve(row).status_code == 200


@pytest.mark.parametrize("wrong", ["checkpoints:*", "", "CHECKPOINTS:READ", "scaicore:everything"])
def test_an_unknown_scope_is_refused_with_the_known_ones(acme: Tenant, wrong: str) -> None:
    with pytest.raises(keys.UnknownScope, match="checkpoints:create"):
        keys.create(acme, name="ci", scopes=["checkpoints:read", wrong])
    assert not ApiKey.objects.exists()


def test_a_key_ends_when_it_expires(acme: Tenant) -> None:
    secret = keys.create(acme, name="ci", expires_at=NOON).secret

    with time_machine.travel(NOON - timedelta(seconds=1), tick=False):
        assert works(secret)
    with time_machine.travel(NOON, tick=False):
        assert not works(secret)


def test_a_revoked_key_ends_at_once_and_stays_revoked(acme: Tenant) -> None:
    made = keys.create(acme, name="ci")
    with time_machine.travel(NOON, tick=False):
        keys.revoke(made.row)
        assert not works(made.secret)
    keys.revoke(made.row)

    made.row.refresh_from_db()
    assert made.row.revoked_at == NOON


def test_live_keys_are_those_that_work(acme: Tenant) -> None:
    live = keys.create(acme, name="live", expires_at=NOON + timedelta(days=1)).row
    keys.create(acme, name="expired", expires_at=NOON)
    keys.revoke(keys.create(acme, name="revoked").row)

    assert list(ApiKey.objects.for_tenant(acme).live(NOON)) == [live]
    assert [row.name for row in ApiKey.objects.all() if row.is_live(at=NOON)] == ["live"]


def test_both_keys_work_during_the_overlap_and_only_the_new_one_afterwards(acme: Tenant) -> None:
    old = keys.create(acme, name="ci", scopes=["checkpoints:read"])
    with time_machine.travel(NOON, tick=False):
        new = keys.rotate(old.row, overlap=timedelta(hours=1))
        assert works(old.secret)
        assert works(new.secret)
    with time_machine.travel(NOON + timedelta(hours=1), tick=False):
        assert not works(old.secret)
        assert works(new.secret)

    new.row.refresh_from_db()
    assert (new.row.name, new.row.scopes) == ("ci", ["checkpoints:read"])
    assert new.row.family == old.row.family
    assert new.row.tenant == acme


def test_rotation_does_not_prolong_the_old_key(acme: Tenant) -> None:
    old = keys.create(acme, name="ci", expires_at=NOON + timedelta(minutes=5))
    with time_machine.travel(NOON, tick=False):
        keys.rotate(old.row)
    old.row.refresh_from_db()

    assert old.row.expires_at == NOON + timedelta(minutes=5)


def test_a_key_made_anew_is_a_family_of_its_own(acme: Tenant) -> None:
    assert keys.create(acme, name="ci").row.family != keys.create(acme, name="ci").row.family


def test_a_dead_key_cannot_be_brought_back_by_rotating_it(acme: Tenant) -> None:
    revoked, expired = keys.create(acme, name="a").row, keys.create(acme, name="b", expires_at=timezone.now()).row
    keys.revoke(revoked)
    revoked.refresh_from_db()

    for dead in (revoked, expired):
        with pytest.raises(keys.DeadKey):
            keys.rotate(dead)
    assert ApiKey.objects.count() == 2


def test_a_key_revoked_in_the_meantime_cannot_be_rotated_from_an_older_page(acme: Tenant) -> None:
    row = keys.create(acme, name="ci").row
    keys.revoke(ApiKey.objects.get(pk=row.pk))

    with pytest.raises(keys.DeadKey):
        keys.rotate(row)
    assert ApiKey.objects.count() == 1


def test_the_last_use_is_written_at_most_once_a_minute(acme: Tenant) -> None:
    made = keys.create(acme, name="ci")
    seen = []
    for seconds in (0, 1, 59, 60, 61, 120):
        with time_machine.travel(NOON + timedelta(seconds=seconds), tick=False):
            assert works(made.secret)
            made.row.refresh_from_db()
            seen.append((made.row.last_used_at - NOON).total_seconds())

    assert seen == [0, 0, 0, 60, 60, 120]


def test_a_refused_key_leaves_no_trace_of_use(acme: Tenant) -> None:
    made = keys.create(acme, name="ci", expires_at=timezone.now())
    assert not works(made.secret)

    made.row.refresh_from_db()
    assert made.row.last_used_at is None


def test_two_uses_at_the_same_moment_do_not_write_over_each_other(acme: Tenant) -> None:
    row = keys.create(acme, name="ci").row
    also = ApiKey.objects.get(pk=row.pk)

    keys.note_use(row, at=NOON + timedelta(seconds=2))
    keys.note_use(also, at=NOON)

    row.refresh_from_db()
    assert row.last_used_at == NOON + timedelta(seconds=2)


@pytest.mark.django_db
def test_two_keys_of_a_family_are_valid_and_not_more(acme: Tenant) -> None:
    first = keys.create(acme, name="agent")
    second = keys.rotate(first.row)
    third = keys.rotate(ApiKey.objects.get(pk=second.row.pk))
    live = ApiKey.objects.for_tenant(acme).live(timezone.now())
    assert {key.pk for key in live} == {second.row.pk, third.row.pk}
