"""What a body may look like: names and types. What they mean is checked by ``webhooks``."""

from checkpoints.api.shapes import Flag, Shape, Text, Texts, Word
from notifications import webhooks
from tenants import egress


class CreateWebhook(Shape):
    url = Text(max_length=egress.LONGEST_URL)
    description = Text(required=False, max_length=webhooks.DESCRIPTION_LENGTH)
    events = Texts(child=Word(webhooks.TYPES), required=False, max_length=len(webhooks.TYPES))


class ChangeWebhook(Shape):
    url = Text(required=False, max_length=egress.LONGEST_URL)
    description = Text(required=False, max_length=webhooks.DESCRIPTION_LENGTH)
    events = Texts(child=Word(webhooks.TYPES), required=False, max_length=len(webhooks.TYPES))
    is_active = Flag(required=False)


class Nothing(Shape):
    pass
