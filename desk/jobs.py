"""What runs by itself, for operators alone: jobs belong to no tenant, and a schedule names code that is executed."""

from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django_q.models import Failure, OrmQ, Schedule, Success
from unfold.decorators import display

from checkpoints.models import JobBeat
from desk.scoped import DeskAdmin

for model in (Failure, OrmQ, Schedule, Success):
    # The library's own pages would let anybody with Django's rights write any code into a schedule.
    if admin.site.is_registered(model):
        admin.site.unregister(model)


class OperatorAdmin(DeskAdmin):
    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        rows: QuerySet[Any] = super().get_queryset(request)
        return rows if request.user.is_superuser else rows.none()

    def has_module_permission(self, request: HttpRequest) -> bool:
        return bool(request.user.is_superuser)

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return bool(request.user.is_superuser)

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False


@admin.register(JobBeat)
class JobsAdmin(OperatorAdmin):
    list_display = ("name", "finished_at", "took_ms", "done", "failed", "last_error")
    fields = ("name", "started_at", "finished_at", "took_ms", "done", "failed", "error")
    ordering = ("name",)

    @display(description="Error")
    def last_error(self, row: JobBeat) -> str:
        return row.error[:100] or "none"


@admin.register(Schedule)
class SchedulesAdmin(OperatorAdmin):
    """How often, and when next: what is called stays as ``migrate`` wrote it, even for operators."""

    list_display = ("name", "minutes", "next_run")
    fields = ("name", "func", "args", "schedule_type", "minutes", "next_run")
    readonly_fields = ("name", "func", "args", "schedule_type")
    ordering = ("name",)

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return bool(request.user.is_superuser)


@admin.register(Failure)
class FailedTasksAdmin(OperatorAdmin):
    """Jobs that were ended for taking too long; what fails in any other way is told by the job's own row."""

    list_display = ("func", "group", "started", "stopped", "result_in_short")
    fields = ("func", "group", "cluster", "started", "stopped", "result_in_short")
    readonly_fields = fields
    ordering = ("-stopped",)

    @display(description="Result")
    def result_in_short(self, row: Failure) -> str:
        return str(row.result)[:2000]
