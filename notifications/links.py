"""Where the one link of a message leads: said here and nowhere else."""

from django.conf import settings
from django.urls import NoReverseMatch, reverse

from checkpoints.links import decide_url
from notifications.models import Delivery, Occasion

PAGES = {
    Occasion.UNROUTED: "admin:checkpoints_checkpoint_changelist",
    Occasion.WEBHOOK_DISABLED: "admin:notifications_webhook_changelist",
}


def decide_link(delivery: Delivery) -> str:
    """To the checkpoint; for what is about none, to the page of the desk where something can be done about it."""
    if delivery.checkpoint is not None and delivery.occasion not in PAGES:
        return decide_url(delivery.checkpoint)
    try:
        page = reverse(PAGES.get(Occasion(delivery.occasion), "admin:index"))
    except NoReverseMatch:
        page = reverse("admin:index")
    return f"{settings.BASE_URL}{page}"
