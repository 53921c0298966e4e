import uuid

from django.contrib import admin
from django.contrib.auth.decorators import login_required
from django.contrib.auth.forms import PasswordChangeForm, SetPasswordForm
from django.contrib.auth.views import PasswordChangeView
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import redirect, render
from django.urls import include, path, re_path, reverse_lazy
from django.views.decorators.cache import never_cache
from django.views.decorators.csrf import csrf_exempt

from checkpoints.api.problems import not_found
from checkpoints.api.schema.pages import Docs, Document
from checkpoints.api.urls import ALIASES
from checkpoints.readiness import ready
from notifications.tracking import tracking
from tenants.signin import sign_in_by_link

handler400 = "checkpoints.api.problems.bad_request"
handler403 = "checkpoints.api.problems.forbidden"
handler404 = "checkpoints.api.problems.not_found"
handler500 = "checkpoints.api.problems.server_error"


def home(request: HttpRequest) -> HttpResponse:
    if _has_no_desk(request):
        return render(request, "tenants/signed_in.html")
    return redirect("admin:index")


def decide(request: HttpRequest, checkpoint_id: uuid.UUID) -> HttpResponse:
    if _has_no_desk(request):
        # The same for every id: whether there is such a checkpoint is not told here.
        return render(request, "tenants/signed_in.html", {"by_link": True})
    return redirect("admin:checkpoints_checkpoint_change", checkpoint_id)


def _has_no_desk(request: HttpRequest) -> bool:
    return request.user.is_authenticated and not request.user.is_staff


@never_cache
@login_required
def own_password(request: HttpRequest) -> HttpResponseBase:
    """For people who have no desk, too. Whoever came by a sign-in link has no old password to be asked for."""
    if not _has_no_desk(request):
        return redirect("admin:password_change")
    known = request.user.is_authenticated and request.user.has_usable_password()
    view = PasswordChangeView.as_view(
        form_class=PasswordChangeForm if known else SetPasswordForm,
        template_name="tenants/password.html",
        success_url=reverse_lazy("home"),
    )
    return view(request)


def health(request: HttpRequest) -> HttpResponse:
    return HttpResponse("ok\n", content_type="text/plain")


api = "checkpoints.api.urls"

urlpatterns = [
    path("", home, name="home"),
    path("healthz", health),
    path("readyz", ready),
    path("decide/<uuid:checkpoint_id>", decide, name="decide"),
    path("password/", own_password, name="own-password"),
    path("sign-in/<str:who>/<str:token>/", sign_in_by_link, name="sign-in-link"),
    path("anymail/<str:provider>/tracking/", tracking),
    path("admin/", admin.site.urls),
    path("v1/", include(api)),
    path("v1/", include("notifications.api.urls")),
    path("v1/schema", Document.as_view()),
    path("v1/docs", Docs.as_view()),
    *(path(prefix, include(api)) for prefix in ALIASES),
    # Programs get a problem they can read, also where Django in DEBUG would show its own page.
    re_path(r"^(?:v1|api)(?:/|\Z)", csrf_exempt(not_found)),
]
