"""Signing in: by password, or by a link that works once."""

import uuid
from typing import Any

from django.conf import settings
from django.contrib.auth import login
from django.contrib.auth.backends import ModelBackend
from django.contrib.auth.tokens import PasswordResetTokenGenerator
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.utils.http import urlsafe_base64_decode, urlsafe_base64_encode
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods

from tenants.models import User, normal_email


class EmailBackend(ModelBackend):
    """Addresses are stored in lower case; people type them as they like."""

    def authenticate(
        self, request: HttpRequest | None, username: str | None = None, password: str | None = None, **extra: Any
    ) -> Any:
        email = username or extra.get("email")
        return super().authenticate(request, username=normal_email(email) if email else None, password=password)


class SignInTokens(PasswordResetTokenGenerator):
    key_salt = "tenants.signin.SignInTokens"

    def _make_hash_value(self, user: Any, timestamp: int) -> str:
        # The token covers the last sign-in: using it makes it invalid. Django's own leaves out the fraction of the
        # second, within which a link could work twice.
        return f"{super()._make_hash_value(user, timestamp)}{user.last_login}"


tokens = SignInTokens()


def link_for(user: User) -> str:
    path = reverse("sign-in-link", args=[urlsafe_base64_encode(user.pk.bytes), tokens.make_token(user)])
    return f"{settings.BASE_URL}{path}"


@never_cache
@require_http_methods(["GET", "POST"])
def sign_in_by_link(request: HttpRequest, who: str, token: str) -> HttpResponse:
    """Opening the link shows a button; only pressing it signs in, so that a mail scanner does not use it up."""
    user = _user(who)
    if user is None or not user.is_active or not tokens.check_token(user, token):
        return render(request, "tenants/sign_in_dead.html", status=410)
    if request.method == "GET":
        return render(request, "tenants/sign_in_link.html", {"person": user})
    if not _use_up(user):
        return render(request, "tenants/sign_in_dead.html", status=410)
    login(request, user, backend="tenants.signin.EmailBackend")
    return redirect("home")


def _use_up(user: User) -> bool:
    """Of two presses at the same moment one wins: the sign-in that the token was made for guards the update."""
    before = User.objects.filter(pk=user.pk, last_login=user.last_login)
    return bool(before.update(last_login=timezone.now()))


def _user(who: str) -> User | None:
    try:
        return User.objects.filter(pk=uuid.UUID(bytes=urlsafe_base64_decode(who))).first()
    except ValueError:
        return None
