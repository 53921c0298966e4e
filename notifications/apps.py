from django.apps import AppConfig


class NotificationsConfig(AppConfig):
    name = "notifications"
    verbose_name = "Notifications"

    def ready(self) -> None:
        from anymail.signals import tracking

        from checkpoints import distribution, jobs
        from notifications import checks, deliveries, digests, distributing, receipts, reminders  # noqa: F401
        from notifications.api import description

        distribution.register(distributing.take)
        jobs.register("send_checkpoint_reminders", reminders.send_checkpoint_reminders, every="SWEEP_REMIND_SECONDS")
        jobs.register("tell_of_unrouted", digests.tell_of_unrouted, every="SWEEP_DIGEST_SECONDS")
        jobs.register("send_deliveries", deliveries.send_deliveries, every="SWEEP_DELIVER_SECONDS", nudged=True)
        jobs.register("forget_deliveries", deliveries.forget_deliveries, every="SWEEP_FORGET_SECONDS")
        description.register()
        tracking.connect(receipts.take, dispatch_uid="receipts")
