import uuid
from typing import Any, ClassVar

from django.db import models


class Row(models.Model):
    """What a create inserts and a decision updates."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4)
    prompt = models.TextField()
    body = models.JSONField()
    status = models.CharField(max_length=16, default="pending")
    resolution = models.JSONField(null=True)
    created_at = models.DateTimeField(auto_now_add=True)

    objects: ClassVar[Any] = models.Manager()

    class Meta:
        app_label = "floor"
        db_table = "bench_floor_rows"

    def __str__(self) -> str:
        return str(self.pk)


class Document(models.Model):
    """Answers of the product, kept so that they can be given again from one query."""

    position = models.PositiveIntegerField(primary_key=True)
    body = models.JSONField()

    objects: ClassVar[Any] = models.Manager()

    class Meta:
        app_label = "floor"
        db_table = "bench_floor_documents"

    def __str__(self) -> str:
        return str(self.pk)
