"""The pictures in the documentation, made anew from the demonstration data: ``make screenshots``."""

import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager

from playwright.sync_api import Browser, Page, ViewportSize, sync_playwright

from config.supervisor import web_command
from tools.install import ROOT
from tools.system import chromium

IMAGES = ROOT / "docs" / "images"
DESKTOP: ViewportSize = {"width": 1280, "height": 800}
PHONE: ViewportSize = {"width": 390, "height": 844}
QUEUE = "/admin/checkpoints/checkpoint/"


@contextmanager
def demonstration() -> Iterator[str]:
    with tempfile.TemporaryDirectory(prefix="holdpoint-pictures-") as directory, socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
        probe.close()
        home = f"http://localhost:{port}"
        own = {"HOLDPOINT_ENV_FILE": "", "DEBUG": "1", "BASE_URL": home, "EMAIL_URL": f"folder:///{directory}/mail"}
        environment = os.environ | own | {"DATABASE_URL": f"sqlite:///{directory}/holdpoint.sqlite3"}
        for command in (["migrate", "--verbosity", "0"], ["load_demo"], ["sweep", "--once"]):
            subprocess.run(
                [sys.executable, "manage.py", *command],
                cwd=ROOT,
                env=environment,
                check=True,
                stdout=subprocess.DEVNULL,
            )
        server = subprocess.Popen(web_command("127.0.0.1", port), cwd=ROOT, env=environment)
        try:
            wait_for(f"{home}/healthz")
            yield home
        finally:
            server.terminate()
            server.wait()


def wait_for(address: str) -> None:
    for _ in range(100):
        try:
            urllib.request.urlopen(address, timeout=1).close()  # noqa: S310 (our own server)
            return
        except OSError:
            time.sleep(0.1)
    sys.exit("The server did not start.")


def open_desk(browser: Browser, home: str, viewport: ViewportSize, *, dark: bool = False) -> Page:
    context = browser.new_context(
        base_url=home,
        viewport=viewport,
        color_scheme="dark" if dark else "light",
    )
    page = context.new_page()
    page.goto("/")
    page.get_by_label("Email").fill("admin@acme.example")
    page.get_by_label("Password").fill("holdpoint-demo")
    page.get_by_role("button", name="Log in").click()
    page.wait_for_url(f"**{QUEUE}")
    return page


def take(page: Page, name: str, *, only: str = "") -> None:
    """The window, or one part of the page."""
    page.wait_for_load_state("networkidle")
    target = IMAGES / f"{name}.png"
    if only:
        page.locator(only).screenshot(path=target)
    else:
        page.screenshot(path=target)
    if shrink := shutil.which("optipng"):
        subprocess.run([shrink, "-quiet", "-o4", "-strip", "all", target], check=True)
    print(target.relative_to(ROOT))


def main() -> None:
    program = chromium()
    if program is None:
        sys.exit("Chromium is needed. On Debian: apt-get install chromium")
    IMAGES.mkdir(parents=True, exist_ok=True)
    with demonstration() as home, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        desk = open_desk(browser, home, DESKTOP)
        take(desk, "queue")
        desk.get_by_role("link", name="Pay run for November").click()
        take(desk, "checkpoint")
        desk.get_by_role("link", name="Reassign").click()
        desk.get_by_label("Assignee").fill("group:finance")
        desk.get_by_role("button", name="Show who that is").click()
        take(desk, "reassign")
        desk.goto(f"{QUEUE}?show=waiting")
        desk.get_by_role("link", name="Book the trip").click()
        take(desk, "told", only="#told")
        phone = open_desk(browser, home, PHONE, dark=True)
        phone.get_by_role("link", name="Pay run for November").click()
        take(phone, "phone")
        browser.close()


if __name__ == "__main__":
    main()
