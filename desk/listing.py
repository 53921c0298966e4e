"""Lists that never count: one page and one row more, read off the index."""

from typing import Any

from django.core.paginator import Paginator
from django.http import HttpRequest
from unfold.views import ChangeList

LAST_PAGE = 1000


class Window(Paginator):
    """Stands in where templates ask for a paginator; knows only the page at hand."""

    template_name = "desk/pages.html"

    def __init__(self, found: list[Any], per_page: int) -> None:
        super().__init__(found, per_page)
        self.count = len(found)


class UncountedChangeList(ChangeList):
    page_num: int
    root_queryset: Any
    has_next = False

    def get_results(self, request: HttpRequest) -> None:
        number = min(max(self.page_num, 1), LAST_PAGE)
        start = (number - 1) * self.list_per_page
        found = list(self.queryset[start : start + self.list_per_page + 1])
        self.page_num = number
        self.has_next = len(found) > self.list_per_page
        self.result_list = found[: self.list_per_page]
        self.result_count = len(self.result_list)
        # Equal, so that no template speaks of a total nobody has counted.
        self.full_result_count = self.result_count
        self.show_full_result_count = False
        self.can_show_all = False
        self.multi_page = False
        self.paginator = Window(self.result_list, self.list_per_page)
