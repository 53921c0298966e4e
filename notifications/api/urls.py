"""The webhook routes; ``config/urls.py`` mounts them under /v1/."""

from django.urls import path

from checkpoints.api.urls import AnyCaseUUID  # noqa: F401 (it registers the converter "id")
from notifications.api import views

urlpatterns = [
    path("webhooks", views.Webhooks.as_view()),
    path("webhooks/<id:webhook_id>", views.OneWebhook.as_view()),
    path("webhooks/<id:webhook_id>/test", views.SendTest.as_view()),
    path("webhooks/<id:webhook_id>/rotate-secret", views.RotateSecret.as_view()),
    path("webhooks/<id:webhook_id>/deliveries", views.Deliveries.as_view()),
    path("webhooks/<id:webhook_id>/deliveries/<id:delivery_id>/redeliver", views.Redeliver.as_view()),
]
