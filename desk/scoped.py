"""The admin base of every tenant model: nobody reads, chooses or writes a row of a tenant that is not theirs.

``tests/desk/test_scoping.py`` fails when an admin of a tenant model does not use it.
"""

from collections.abc import Callable
from typing import Any, cast

from django import forms
from django.contrib import admin
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.contrib.admin.utils import unquote
from django.contrib.admin.widgets import AutocompleteSelect, AutocompleteSelectMultiple
from django.db.models import DateTimeField, ForeignKey, ManyToManyField, Model, QuerySet
from django.http import Http404, HttpRequest
from unfold.admin import ModelAdmin

from desk.commands import as_identity
from desk.listing import UncountedChangeList
from tenants.models import Membership, Tenant, User
from tenants.scoping import TenantOwned


def looked_after(request: HttpRequest) -> list[Tenant]:
    """The tenants this person administers or audits; asked once per request."""
    return _once(request, "_desk_tenants", Tenant.objects.on_the_desk_of)


def administered(request: HttpRequest) -> list[Tenant]:
    return _once(request, "_desk_administered", Tenant.objects.administered_by)


def _once(request: HttpRequest, name: str, look_up: Callable[[User], QuerySet[Tenant]]) -> list[Tenant]:
    if not hasattr(request, name):
        setattr(request, name, list(look_up(request.user)) if isinstance(request.user, User) else [])
    return cast(list[Tenant], getattr(request, name))


class OneChoice(forms.ModelChoiceField):
    """Says of a mangled id what it says of an unknown one; Django's own speaks of UUIDs."""

    def to_python(self, value: Any) -> Any:
        if value in self.empty_values or isinstance(value, Model) or as_identity(str(value)):
            return super().to_python(value)
        raise forms.ValidationError(
            self.error_messages["invalid_choice"], code="invalid_choice", params={"value": value}
        )


class SeveralChoices(forms.ModelMultipleChoiceField):
    def _check_values(self, value: Any) -> Any:
        for given in value:
            if as_identity(str(getattr(given, "pk", given))) is None:
                raise forms.ValidationError(
                    self.error_messages["invalid_choice"], code="invalid_choice", params={"value": given}
                )
        return super()._check_values(value)  # type: ignore[misc]


class KnownIds:
    """Looks up what was sent in order to show it again; a mangled id would end in a failure there."""

    def optgroups(self, name: str, value: Any, attr: Any = None) -> Any:
        return super().optgroups(name, [given for given in value if as_identity(str(given))], attr)  # type: ignore[misc]


class OneFound(KnownIds, AutocompleteSelect):
    pass


class SeveralFound(KnownIds, AutocompleteSelectMultiple):
    pass


class TenantForm(forms.ModelForm):
    """Rows that point at each other belong to one tenant, also when a person administers several."""

    def _get_validation_exclusions(self) -> set[str]:
        # A tenant that the form does not show still counts for "once per tenant".
        hidden: set[str] = super()._get_validation_exclusions()  # type: ignore[misc]
        return hidden - {"tenant"} if getattr(self.instance, "tenant_id", None) else hidden

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or {}
        if self.instance._state.adding and cleaned.get("tenant"):
            self.instance.tenant = cleaned["tenant"]
        tenant = getattr(self.instance, "tenant_id", None)
        for name, value in cleaned.items():
            related = list(value) if isinstance(value, QuerySet | list) else [value]
            if any(isinstance(row, TenantOwned) and row.tenant_id != tenant for row in related):
                self.add_error(name, "Choose rows of the same tenant.")
        return cleaned


class DeskAdmin(ModelAdmin):
    """A row outside ``get_queryset`` is not there: 404 before anybody asks what may be done to it."""

    list_per_page = 50
    show_full_result_count = False
    show_facets = admin.ShowFacets.NEVER
    sortable_by: Any = ()

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> Any:
        return UncountedChangeList

    def lookup_allowed(self, lookup: str, value: str, request: HttpRequest | None = None) -> bool:
        # Django would let an address ask for any column in any way, with a regular expression too.
        filters = self.get_list_filter(request) if request is not None else ()
        return lookup in {offered.parameter_name for offered in filters}

    def get_changeform_initial_data(self, request: HttpRequest) -> dict[str, Any]:
        # Django would fill a new form from the address, unread: a mangled time there would fail.
        return {}

    def changelist_view(self, request: HttpRequest, extra_context: Any = None) -> Any:
        given = request.POST.getlist(ACTION_CHECKBOX_NAME)
        known = [identity for identity in given if as_identity(identity)]
        if known != given:
            # Django would hand a mangled id to the database.
            form = request.POST.copy()
            form.setlist(ACTION_CHECKBOX_NAME, known)
            if not known:
                # As the list itself sends it; only then does Django say that nothing was chosen.
                form["index"] = "0"
            request.POST = form  # type: ignore[assignment]
        return super().changelist_view(request, extra_context)

    def render_change_form(self, request: HttpRequest, context: dict[str, Any], *args: Any, **kwargs: Any) -> Any:
        # One way on from a form; a new key's page would have no use for the others.
        one = {"show_save_and_add_another": False, "show_save_and_continue": False}
        return super().render_change_form(request, context | one, *args, **kwargs)

    def changeform_view(self, request: HttpRequest, object_id: str | None = None, *args: Any, **kwargs: Any) -> Any:
        if object_id is not None:
            self._own(request, object_id)
        return super().changeform_view(request, object_id, *args, **kwargs)

    def delete_view(self, request: HttpRequest, object_id: str, extra_context: Any = None) -> Any:
        self._own(request, object_id)
        return super().delete_view(request, object_id, extra_context)

    def history_view(self, request: HttpRequest, object_id: str, extra_context: Any = None) -> Any:
        self._own(request, object_id)
        return super().history_view(request, object_id, extra_context)

    def _own(self, request: HttpRequest, object_id: str) -> None:
        if self.get_object(request, unquote(object_id)) is None:
            raise Http404


class TenantAdmin(DeskAdmin):
    form = TenantForm
    warn_unsaved_form = True

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        rows: QuerySet[Any] = super().get_queryset(request)
        return rows.filter(tenant__in=[tenant.pk for tenant in looked_after(request)]).select_related("tenant")

    # --- Who may do what ------------------------------------------------------------------------------------------

    def has_module_permission(self, request: HttpRequest) -> bool:
        return bool(looked_after(request))

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return self._within(looked_after(request), obj)

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return self._within(administered(request), obj)

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return self._within(administered(request), obj)

    def has_add_permission(self, request: HttpRequest) -> bool:
        return bool(administered(request))

    def _within(self, tenants: list[Tenant], obj: Any) -> bool:
        if obj is None:
            return bool(tenants)
        return obj.tenant_id in {tenant.pk for tenant in tenants}

    # --- The tenant itself ----------------------------------------------------------------------------------------

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        fixed = list(super().get_readonly_fields(request, obj))
        return [*fixed, "tenant"] if obj is not None else fixed

    def get_exclude(self, request: HttpRequest, obj: Any = None) -> Any:
        hidden = list(super().get_exclude(request, obj) or [])
        # With one tenant there is nothing to choose.
        return [*hidden, "tenant"] if len(administered(request)) == 1 and obj is None else hidden

    def get_list_display(self, request: HttpRequest) -> Any:
        columns = list(super().get_list_display(request))
        return [*columns, "tenant"] if len(looked_after(request)) > 1 else columns

    def get_list_filter(self, request: HttpRequest) -> Any:
        filters = list(super().get_list_filter(request))
        return [OwnTenants, *filters] if len(looked_after(request)) > 1 else filters

    def get_form(self, request: HttpRequest, obj: Any = None, change: bool = False, **kwargs: Any) -> Any:
        request._desk_row = obj  # type: ignore[attr-defined]
        form = super().get_form(request, obj, change, **kwargs)
        if obj is None and len(administered(request)) == 1:
            only = administered(request)[0]

            class Preset(form):  # type: ignore[misc, valid-type]
                def __init__(self, *args: Any, **options: Any) -> None:
                    super().__init__(*args, **options)
                    self.instance.tenant = only

            return Preset
        return form

    # --- What can be chosen ---------------------------------------------------------------------------------------

    def formfield_for_foreignkey(self, db_field: ForeignKey, request: HttpRequest, **kwargs: Any) -> Any:
        kwargs |= {"queryset": self.choices(db_field.related_model, request), "form_class": OneChoice}
        if db_field.name in self.get_autocomplete_fields(request):
            kwargs["widget"] = OneFound(db_field, self.admin_site)
        return self._spelt_out(super().formfield_for_foreignkey(db_field, request, **kwargs), request)

    def formfield_for_manytomany(self, db_field: ManyToManyField, request: HttpRequest, **kwargs: Any) -> Any:
        kwargs |= {"queryset": self.choices(db_field.related_model, request), "form_class": SeveralChoices}
        if db_field.name in self.get_autocomplete_fields(request):
            kwargs["widget"] = SeveralFound(db_field, self.admin_site)
        return self._spelt_out(super().formfield_for_manytomany(db_field, request, **kwargs), request)

    def formfield_for_dbfield(self, db_field: Any, request: HttpRequest, **kwargs: Any) -> Any:
        field = super().formfield_for_dbfield(db_field, request, **kwargs)
        if field is not None and isinstance(db_field, DateTimeField):
            field.help_text = "In UTC."
        # No pop-ups to add or change the other row: one page, one thing.
        for name in ("can_add_related", "can_change_related", "can_delete_related", "can_view_related"):
            if field is not None and hasattr(field.widget, name):
                setattr(field.widget, name, False)
        return field

    def choices(self, model: type[Model], request: HttpRequest) -> QuerySet[Any]:
        row = getattr(request, "_desk_row", None)
        tenants = [tenant.pk for tenant in administered(request) if row is None or tenant.pk == row.tenant_id]
        if model is Tenant:
            return Tenant.objects.filter(pk__in=tenants)
        if not issubclass(model, TenantOwned):
            raise TypeError(f"{model.__name__} belongs to no tenant, so {type(self).__name__} cannot offer it")
        rows: QuerySet[Any] = model.objects.filter(tenant__in=tenants)
        return rows.select_related("tenant", *(["user"] if model is Membership else []))

    def _spelt_out(self, field: Any, request: HttpRequest) -> Any:
        if field is not None and field.queryset.model is not Tenant and len(administered(request)) > 1:
            # Every tenant has a role "approver": say whose.
            field.label_from_instance = lambda row: f"{row} · {row.tenant.slug}"
        return field


class OwnTenants(admin.SimpleListFilter):
    title = "tenant"
    parameter_name = "tenant"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [(tenant.slug, tenant.name) for tenant in looked_after(request)]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        if not self.value():
            return queryset
        # Within what get_queryset allows: a foreign slug finds nothing.
        return queryset.filter(tenant__slug=self.value())
