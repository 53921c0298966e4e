"""The admin site of the desk: who may enter, and where they land."""

from typing import Any

from django.contrib.auth.forms import SetPasswordForm
from django.contrib.auth.views import PasswordChangeView
from django.core.paginator import InvalidPage
from django.http import Http404, HttpRequest
from django.shortcuts import redirect
from django.urls import reverse_lazy
from unfold.forms import AuthenticationForm
from unfold.sites import UnfoldAdminSite

from tenants.models import User


class SignIn(AuthenticationForm):
    error_messages = AuthenticationForm.error_messages | {
        "invalid_login": "There is no account with this email and password."
    }

    def confirm_login_allowed(self, user: Any) -> None:
        """Also people who have no desk: they are told so on their own page, and decide through the API."""


class Desk(UnfoldAdminSite):
    """For tenant admins, for auditors who only look, and for operators. What they see is scoped by ``TenantAdmin``."""

    login_form = SignIn
    login_template = "desk/login.html"

    def login(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> Any:
        if request.method == "GET" and request.user.is_authenticated and not self.has_permission(request):
            # A second form would not say why the first sign-in does not open this page.
            return redirect("home")
        return super().login(request, extra_context)

    def index(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> Any:
        return redirect("admin:checkpoints_checkpoint_changelist")

    def app_index(self, request: HttpRequest, app_label: str, extra_context: dict[str, Any] | None = None) -> Any:
        # Rooms of the house are no places for people; the sidebar is.
        return redirect("admin:index")

    def search(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> Any:
        try:
            return super().search(request, extra_context)
        except (ValueError, InvalidPage) as error:
            raise Http404 from error

    def password_change(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> Any:
        if not isinstance(request.user, User) or request.user.has_usable_password():
            return super().password_change(request, extra_context)
        # Came by a sign-in link: there is no old password to ask for.
        view = PasswordChangeView.as_view(
            form_class=SetPasswordForm,
            template_name="desk/first_password.html",
            success_url=reverse_lazy("admin:password_change_done"),
            extra_context={**self.each_context(request), **(extra_context or {})},
        )
        return view(request)
