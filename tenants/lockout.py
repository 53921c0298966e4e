"""After too many wrong passwords: nobody signs in from there for a while. django-axes counts, in the database."""

import math
from datetime import timedelta
from typing import Any

from axes.backends import AxesStandaloneBackend
from axes.handlers.database import AxesDatabaseHandler
from axes.models import AccessAttempt
from django.conf import settings
from django.db.models import Max, QuerySet, Sum
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone

from tenants.addresses import address_of, client_of, is_this_machine
from tenants.models import normal_email
from tenants.transactions import insistently

NO_ADDRESS = "::"


class LockoutBackend(AxesStandaloneBackend):
    """First of the backends. Without a request there is no address to lock out."""

    def authenticate(self, request: HttpRequest | None, **credentials: Any) -> None:
        if request is not None:
            super().authenticate(request, **credentials)


class Tries(AxesDatabaseHandler):
    """Wrong passwords are counted per account and address; all accounts of one address share a second, larger limit."""

    def get_failures(self, request: Any, credentials: dict[str, Any] | None = None) -> int:
        failures: int = super().get_failures(request, credentials)
        if self._from_address(request) >= settings.SIGN_IN_TRIES_PER_ADDRESS:
            return max(failures, settings.AXES_FAILURE_LIMIT)
        return failures

    def _from_address(self, request: Any) -> int:
        address = request.axes_ip_address
        # A proxy on this machine that is not trusted stands for everybody: one guesser must not lock them all out.
        if address == NO_ADDRESS or is_this_machine(address):
            return 0
        recent = timezone.now() - cool_off()
        return failures_in(AccessAttempt.objects.filter(ip_address=address, attempt_time__gt=recent))

    def user_login_failed(self, sender: Any, credentials: Any, request: Any = None, **extra: Any) -> None:
        if request is not None:
            record = super().user_login_failed
            # Tries that fail together meet in one row, which MariaDB may answer with a deadlock: no reason for a 500.
            insistently(lambda: record(sender, credentials, request, **extra))

    def user_logged_in(self, sender: Any, request: Any, user: Any, **extra: Any) -> None:
        record = super().user_logged_in
        insistently(lambda: record(sender, request, user, **extra))


def cool_off(request: Any = None) -> timedelta:
    return timedelta(minutes=settings.SIGN_IN_LOCK_MINUTES)


def failures_in(tries: QuerySet[AccessAttempt]) -> int:
    return tries.aggregate(total=Sum("failures_since_start"))["total"] or 0


def account_of(request: Any, credentials: dict[str, Any] | None) -> str:
    """As the account is looked up, so that another spelling is no other account."""
    given = credentials or {}
    return normal_email(str(given.get("username") or given.get("email") or ""))


def address_for_tries(request: Any) -> str:
    # Never empty: axes keeps one row per account and address, and the database holds no two empty ones for equal.
    return client_of(address_of(request)) or NO_ADDRESS


def page(request: HttpRequest, response: HttpResponse, credentials: dict[str, Any] | None) -> HttpResponse:
    wait = seconds_locked(address_for_tries(request), account_of(request, credentials))
    context = {"minutes": math.ceil(wait / 60)}
    closed = render(request, "tenants/locked_out.html", context, status=429)
    closed["Retry-After"] = str(wait)
    return closed


def seconds_locked(address: str, account: str) -> int:
    """Until the last counted try is old enough; tries during the lock are not counted and do not prolong it."""
    at = timezone.now()
    from_there = AccessAttempt.objects.filter(attempt_time__gt=at - cool_off(), ip_address=address)
    by_account = from_there.filter(username=account)
    locked = by_account if failures_in(by_account) >= settings.AXES_FAILURE_LIMIT else from_there
    last = locked.aggregate(last=Max("attempt_time"))["last"] or at
    return max(1, math.ceil((last + cool_off() - at).total_seconds()))


def remove_old_tries() -> int:
    return int(AccessAttempt.objects.filter(attempt_time__lt=timezone.now() - cool_off()).delete()[0])
