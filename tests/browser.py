"""A real Chromium for tests marked ``browser``."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from tools.system import chromium


@contextmanager
def started_browser() -> Iterator[Browser]:
    program = chromium()
    if program is None:
        pytest.skip("Chromium is not installed.")
    with sync_playwright() as playwright:
        # Chromium's own sandbox refuses to run as root; everything it opens here is ours.
        started = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield started
        started.close()


class Watched:
    """A page that remembers what a person would not see: script errors, failed requests, calls to elsewhere."""

    def __init__(self, page: Page, home: str) -> None:
        self.page = page
        self.trouble: list[str] = []
        page.on("pageerror", lambda error: self.trouble.append(f"script: {error}"))
        page.on("requestfailed", lambda request: self.trouble.append(f"failed: {request.url}"))
        page.on("request", lambda request: self._note(request.url, home))

    def _note(self, url: str, home: str) -> None:
        if not url.startswith((home, "data:", "blob:")):
            self.trouble.append(f"elsewhere: {url}")
