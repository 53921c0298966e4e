"""Where people go to decide."""

from django.conf import settings

from checkpoints.models import Checkpoint


def decide_url(checkpoint: Checkpoint) -> str:
    return f"{settings.BASE_URL}/decide/{checkpoint.pk}"
