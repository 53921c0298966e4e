"""Checkpoints on the desk: the queue, the lists beside it, and one checkpoint's page."""

from typing import Any, cast

from django.contrib import admin, messages
from django.contrib.admin import helpers
from django.db.models import QuerySet
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import path, reverse
from django.utils.html import format_html
from unfold.decorators import action, display

from checkpoints import quorum
from checkpoints.api.parsing import trouble_with
from checkpoints.models import Checkpoint, CheckpointSet, Event, Priority, Status
from desk import commands, stories, told
from desk.listing import UncountedChangeList
from desk.scoped import TenantAdmin, administered, looked_after
from desk.templatetags.desk import moment

TABS = {
    "unrouted": "Unrouted",
    "waiting": "Waiting",
    "ended": "Ended",
    "all": "All",
}
TAB = "show"
COLUMNS = {
    "unrouted": ("question", "reason", "urgency", "since", "deadline", "take"),
    "waiting": ("question", "assignee", "urgency", "since", "deadline"),
    "ended": ("question", "outcome", "ended"),
    "all": ("question", "state", "assignee", "urgency", "since"),
}
EMPTY = {
    "unrouted": (
        "Nothing waits for you",
        "Every checkpoint has found somebody. One for whom nobody is found shows up here.",
    ),
    "waiting": (
        "Nobody is waiting",
        "Checkpoints that wait for a decision are listed here. Programs create them.",
    ),
    "ended": ("Nothing has been decided yet", "Decided, expired and cancelled checkpoints are listed here."),
    "all": ("No checkpoints yet", "Make an API key, and let a program ask its first question."),
}
# What the lists show, by name: a program may attach megabytes to a row that nobody looks at here.
READ = (
    "tenant",
    "core",
    "flow_name",
    "execution_id",
    "checkpoint_type",
    "prompt",
    "assignee_type",
    "assignee_value",
    "assignee_resolved",
    "status",
    "priority",
    "created_at",
    "expires_at",
)
READ_OF_ENDED = ("resolution", "resolved_by", "resolved_at", "close_reason", "closed_by", "closed_at")
HISTORY_LENGTH = 200
MOST_SELECTED = 50
MOST_FOUND = 1000
LAST_CHARACTER = "\U0010ffff"


class Tabs(UncountedChangeList):
    """One list per question an admin has; the rows of each come sorted off an index."""

    def __init__(self, request: HttpRequest, *args: Any) -> None:
        self.tab = tab_of(request)
        super().__init__(request, *args)
        self.title = "Checkpoints"

    def get_filters_params(self, params: Any = None) -> dict[str, Any]:
        return {name: value for name, value in super().get_filters_params(params).items() if name != TAB}

    def get_queryset(self, request: HttpRequest, exclude_parameters: Any = None) -> QuerySet[Any]:
        self.root_queryset = rows_of(self.tab, self.root_queryset)
        rows = super().get_queryset(request, exclude_parameters)
        rows = rows.only(*READ, *(READ_OF_ENDED if self.tab == "ended" else ()))
        return cast(QuerySet[Any], rows.most_urgent_first() if self.tab == "unrouted" else rows.newest_first())

    def get_results(self, request: HttpRequest) -> None:
        super().get_results(request)
        told.mark_unreachable(self.result_list)

    def get_ordering(self, request: HttpRequest, queryset: QuerySet[Any]) -> list[str]:
        # get_queryset has the last word; columns cannot be sorted by.
        return []

    def tabs(self) -> list[dict[str, Any]]:
        return [
            {"label": label, "url": f"?{TAB}={name}" if name != "unrouted" else "?", "active": name == self.tab}
            for name, label in TABS.items()
        ]

    def empty(self) -> tuple[str, str]:
        if self.query or self.has_active_filters:
            return "Nothing matches", "Search takes an id, or the start of an execution id."
        return EMPTY[self.tab]


def tab_of(request: HttpRequest) -> str:
    wanted = request.GET.get(TAB, "unrouted")
    return wanted if wanted in TABS else "unrouted"


def rows_of(tab: str, rows: Any) -> Any:
    if tab == "unrouted":
        return rows.unrouted()
    if tab == "waiting":
        return rows.pending()
    if tab == "ended":
        return rows.filter(status__in=[Status.RESOLVED, Status.EXPIRED, Status.CANCELLED])
    return rows


class PriorityFilter(admin.SimpleListFilter):
    title = "priority"
    parameter_name = "priority"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [(priority.word, priority.word.title()) for priority in Priority]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        if self.value() not in Priority.words():
            return queryset
        return queryset.filter(priority=Priority.named(str(self.value())))


@admin.register(Checkpoint)
class CheckpointAdmin(TenantAdmin):
    list_filter = (PriorityFilter,)
    list_filter_sheet = True
    search_fields = ("id",)
    search_help_text = "Search an id or the start of an execution id"
    list_before_template = "desk/tabs.html"
    change_list_template = "desk/checkpoints.html"
    actions = ("claim_selected", "reassign_selected")

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        return super().get_queryset(request).select_related("core", "tenant")

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> Any:
        return Tabs

    def get_list_display(self, request: HttpRequest) -> Any:
        columns = list(COLUMNS[tab_of(request)])
        if "take" in columns and not administered(request):
            columns.remove("take")
        return [*columns[:1], "tenant", *columns[1:]] if len(looked_after(request)) > 1 else columns

    def get_search_results(self, request: HttpRequest, queryset: Any, search_term: str) -> tuple[Any, bool]:
        term = search_term.strip()
        if not term or trouble_with(term):
            return queryset, False
        if (identity := commands.as_identity(term)) is not None:
            return queryset.filter(pk=identity), False
        # As a range, which an index answers: LIKE reads every row of the tenant. And not more of them than anybody
        # looks through: to sort all that a short word matches takes longer than reading them.
        matching = queryset.filter(execution_id__gte=term, execution_id__lt=f"{term}{LAST_CHARACTER}")
        found = matching.select_related(None).order_by("execution_id").values_list("pk", flat=True)
        return queryset.filter(pk__in=list(found[:MOST_FOUND])), False

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    # --- Columns --------------------------------------------------------------------------------------------------

    @display(description="Question")
    def question(self, row: Checkpoint) -> str:
        where = " · ".join(part for part in (row.core.slug, row.flow_name, row.execution_id) if part)
        return format_html('<span class="hp-question">{}</span><span class="hp-where">{}</span>', str(row), where)

    @display(description="Why nobody has it")
    def reason(self, row: Checkpoint) -> str:
        return format_html('<span class="hp-reason">{}</span>', row.unrouted_reason)

    @display(description="Asked")
    def assignee(self, row: Checkpoint) -> str:
        number = getattr(row, "cannot_be_reached", 0)
        if not number:
            return stories.asked(row)
        badge = "cannot be reached" if row.assignee_type in told.ONE_PERSON else f"{number} cannot be reached"
        return format_html('{} <span class="hp-label hp-unreachable">⚠ {}</span>', stories.asked(row), badge)

    @display(description="Priority")
    def urgency(self, row: Checkpoint) -> str:
        return format_html('<span class="hp-label hp-{}">{}</span>', row.priority_word, row.priority_word)

    @display(description="Waiting since")
    def since(self, row: Checkpoint) -> str:
        return moment(row.created_at, row.tenant)

    @display(description="Deadline")
    def deadline(self, row: Checkpoint) -> str:
        return moment(row.expires_at, row.tenant)

    @display(description="Outcome")
    def outcome(self, row: Checkpoint) -> str:
        return format_html('<span class="hp-label hp-{}">{}</span> {}', row.status, row.status, outcome_of(row))

    @display(description="When")
    def ended(self, row: Checkpoint) -> str:
        return moment(row.resolved_at or row.closed_at, row.tenant)

    @display(description="State")
    def state(self, row: Checkpoint) -> str:
        return format_html('<span class="hp-label hp-{}">{}</span>', row.status, row.status)

    @display(description="")
    def take(self, row: Checkpoint) -> str:
        address = reverse("admin:checkpoints_checkpoint_command", args=[row.pk, "claim"])
        # Within the list's own form: its token goes along, and no second form is needed.
        return format_html('<button class="hp-button" type="submit" formaction="{}">Claim</button>', address)

    # --- Several at once ------------------------------------------------------------------------------------------

    @action(description="Claim")
    def claim_selected(self, request: HttpRequest, queryset: Any) -> None:
        # Not the list's own rows: one that somebody else has just taken would be left out without a word.
        rows = self.selected(request, request.POST.getlist(helpers.ACTION_CHECKBOX_NAME))
        done, refused = commands.claim_several(request, rows)
        if done:
            messages.success(request, f"You have claimed {done} checkpoint{'s' if done != 1 else ''}.")
        for sentence in refused:
            messages.warning(request, sentence)

    @action(description="Reassign …")
    def reassign_selected(self, request: HttpRequest, queryset: Any) -> HttpResponse:
        chosen = request.POST.getlist(helpers.ACTION_CHECKBOX_NAME)[:MOST_SELECTED]
        query = "&".join(f"id={identity}" for identity in map(commands.as_identity, chosen) if identity)
        return redirect(f"{reverse('admin:checkpoints_checkpoint_reassign')}?{query}")

    def get_actions(self, request: HttpRequest) -> Any:
        return super().get_actions(request) if administered(request) and tab_of(request) == "unrouted" else {}

    def selected(self, request: HttpRequest, given: list[str]) -> list[Checkpoint]:
        identities = [identity for identity in map(commands.as_identity, given[:MOST_SELECTED]) if identity]
        rows = cast(CheckpointSet, self.get_queryset(request).filter(pk__in=identities))
        return list(rows.most_urgent_first())

    # --- Pages ----------------------------------------------------------------------------------------------------

    def get_urls(self) -> Any:
        own = [
            path("reassign/", self.admin_site.admin_view(self.reassign_view), name="checkpoints_checkpoint_reassign"),
            path(
                "<uuid:checkpoint_id>/do/<slug:command>/",
                self.admin_site.admin_view(self.command_view),
                name="checkpoints_checkpoint_command",
            ),
        ]
        return own + super().get_urls()

    def one(self, request: HttpRequest, identity: Any) -> Checkpoint:
        row = self.get_queryset(request).filter(pk=commands.as_identity(str(identity))).first()
        if row is None:
            raise Http404
        return cast(Checkpoint, row)

    def changeform_view(
        self, request: HttpRequest, object_id: str | None = None, form_url: str = "", extra_context: Any = None
    ) -> Any:
        if object_id is None or request.method not in {"GET", "HEAD"}:
            raise Http404
        return self.page(request, self.one(request, object_id))

    def history_view(self, request: HttpRequest, object_id: str, extra_context: Any = None) -> Any:
        # A checkpoint's history is its events, and they are on its page.
        return redirect("admin:checkpoints_checkpoint_change", self.one(request, object_id).pk)

    def page(
        self, request: HttpRequest, row: Checkpoint, *, given: Any = None, wrong: Any = None, status: int = 200
    ) -> HttpResponse:
        offers = commands.offers(request, row)
        boxes = commands.boxes(row, offers)
        story = Event.objects.for_tenant(row.tenant).filter(subject_id=row.pk).order_by("-sequence")[:HISTORY_LENGTH]
        context = {
            **self.admin_site.each_context(request),
            "title": "Checkpoint",
            "opts": None,
            "checkpoint": row,
            "outcome": outcome_of(row),
            "offers": offers,
            "boxes": boxes,
            "given": given or {},
            "wrong": wrong or {},
            "unplaced": [message for name, found in (wrong or {}).items() if name not in boxes for message in found],
            "quorum": quorum.picture(row),
            "told": told.told(row),
            "history": [
                {"event": event, "sentence": stories.sentence(event), "remark": stories.remark(event)}
                for event in story
            ],
        }
        return render(request, "desk/checkpoint.html", context, status=status)

    def command_view(self, request: HttpRequest, checkpoint_id: Any, command: str) -> HttpResponse:
        row = self.one(request, checkpoint_id)
        if command not in commands.COMMANDS:
            raise Http404
        if request.method != "POST":
            return redirect("admin:checkpoints_checkpoint_change", row.pk)
        outcome = commands.run(request, row, command)
        if outcome.refused is None:
            messages.success(request, outcome.sentence)
            return redirect("admin:checkpoints_checkpoint_change", row.pk)
        if not outcome.refused.errors:
            messages.error(request, outcome.refused.detail)
        # The row may have moved on while this person was reading.
        fresh = self.one(request, row.pk)
        return self.page(request, fresh, given=request.POST, wrong=outcome.refused.errors, status=outcome.status)

    def reassign_view(self, request: HttpRequest) -> HttpResponse:
        """First who it would go to, then the change itself."""
        rows = self.selected(request, (request.POST if request.method == "POST" else request.GET).getlist("id"))
        rows = [row for row in rows if self.has_change_permission(request, row)]
        tenants = {row.tenant_id for row in rows}
        if not rows:
            raise Http404
        if len(tenants) > 1:
            messages.error(request, "Choose checkpoints of one tenant: an assignee belongs to one.")
            return redirect("admin:checkpoints_checkpoint_changelist")
        wrong = commands.wrong_with_reassignment(request.POST)
        if request.method == "POST" and "confirm" in request.POST and not wrong:
            done, refused = commands.reassign_several(request, rows)
            if done:
                messages.success(request, f"Reassigned {done} checkpoint{'s' if done != 1 else ''}.")
            for sentence in refused:
                messages.error(request, sentence)
            if len(rows) == 1:
                return redirect("admin:checkpoints_checkpoint_change", rows[0].pk)
            return redirect("admin:checkpoints_checkpoint_changelist")
        previewed = "assignee" in request.POST and not wrong
        context = {
            **self.admin_site.each_context(request),
            "title": "Reassign",
            "opts": None,
            "rows": rows,
            "given": request.POST,
            "wrong": wrong,
            "previews": commands.previews(rows, request.POST["assignee"]) if previewed else None,
            "suggestions": commands.suggestions(rows[0].tenant),
        }
        return render(request, "desk/reassign.html", context, status=400 if wrong else 200)


def outcome_of(row: Checkpoint) -> str:
    if row.status == Status.RESOLVED:
        resolution = row.resolution or {}
        option = f" ({resolution['option']})" if resolution.get("option") else ""
        return f"“{resolution.get('decision')}”{option} by {stories.who(row.resolved_by)}"
    if row.status == Status.PENDING:
        return ""
    return f"{row.close_reason} (by {stories.who(row.closed_by)})"
