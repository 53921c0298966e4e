from django.apps import AppConfig
from django.db.models.signals import post_migrate


class CheckpointsConfig(AppConfig):
    name = "checkpoints"
    verbose_name = "Checkpoints"

    def ready(self) -> None:
        from checkpoints import checks, schedules  # noqa: F401

        post_migrate.connect(schedules.after_migrate, sender=self)
