"""A query that is written once finds what the same query written anew finds."""

import threading

import pytest
from django.db import connection

from tenants import keys
from tenants.models import ApiKey, Tenant
from tenants.statements import ANY_TEXT, Prepared

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]

by_name: Prepared[ApiKey] = Prepared(lambda: ApiKey.objects.select_related("tenant").filter(name=ANY_TEXT))


def test_the_row_has_every_value_the_usual_query_gives(acme: Tenant) -> None:
    made = keys.create(acme, name="nightly", scopes=["checkpoints:read"])
    usual = ApiKey.objects.select_related("tenant").get(pk=made.row.pk)

    for _ in range(2):
        found = by_name.one("nightly")
        assert found is not None
        for field in ApiKey._meta.concrete_fields:
            assert getattr(found, field.attname) == getattr(usual, field.attname), field.attname
        assert found.tenant.time_zone == acme.time_zone


def test_the_tenant_comes_along_without_another_query(acme: Tenant, django_assert_num_queries) -> None:
    keys.create(acme, name="nightly")
    with django_assert_num_queries(1):
        found = by_name.one("nightly")
        assert found is not None
        assert found.tenant == acme


def test_nothing_is_found_for_another_value_than_the_first(acme: Tenant) -> None:
    keys.create(acme, name="nightly")
    assert by_name.one("nightly") is not None
    assert by_name.one("weekly") is None


@pytest.mark.django_db(transaction=True)
def test_each_thread_asks_on_its_own_connection(acme: Tenant) -> None:
    keys.create(acme, name="nightly")
    found: list[ApiKey | None] = []

    def look() -> None:
        found.append(by_name.one("nightly"))
        connection.close()

    by_name.one("nightly")
    other = threading.Thread(target=look)
    other.start()
    other.join()
    assert [row.name for row in found if row] == ["nightly"]


@pytest.mark.django_db(transaction=True)
def test_it_goes_on_after_the_connection_was_closed(acme: Tenant) -> None:
    keys.create(acme, name="nightly")
    assert by_name.one("nightly") is not None
    connection.close()
    assert by_name.one("nightly") is not None
