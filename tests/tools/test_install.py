import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from tools import install as installing
from tools.install import InstallationFailed, install, missing


class Checkout:
    """A checkout in which installing takes no time: it only notes what would be done."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.done: list[str] = []
        self.interruption: BaseException | None = None
        (root / "requirements").mkdir()
        for name in ("base", "dev"):
            self.require(name, "django==5.2")

    def require(self, name: str, text: str) -> None:
        (self.root / "requirements" / f"{name}.txt").write_text(text)

    def make_venv(self) -> None:
        self.done.append("environment")
        (self.root / ".venv" / "bin").mkdir(parents=True, exist_ok=True)
        (self.root / ".venv" / "bin" / "python").touch()

    def install_requirements(self, names: Sequence[str]) -> None:
        if self.interruption:
            raise self.interruption
        self.done += names

    def change_stamp(self, **values: object) -> None:
        stamp = self.root / ".venv" / "holdpoint-installed.json"
        stamp.write_text(json.dumps(json.loads(stamp.read_text()) | values))


@pytest.fixture
def checkout(tmp_path, monkeypatch):
    checkout = Checkout(tmp_path)
    monkeypatch.setattr(installing, "ROOT", tmp_path)
    monkeypatch.setattr(installing, "VENV", tmp_path / ".venv")
    monkeypatch.setattr(installing, "VENV_PYTHON", tmp_path / ".venv" / "bin" / "python")
    monkeypatch.setattr(installing, "STAMP", tmp_path / ".venv" / "holdpoint-installed.json")
    monkeypatch.setattr(installing, "make_venv", checkout.make_venv)
    monkeypatch.setattr(installing, "install_requirements", checkout.install_requirements)
    return checkout


def test_what_is_installed_is_not_installed_again(checkout):
    install(["base"])
    install(["base"])
    assert checkout.done == ["environment", "base"]


def test_more_is_added_to_the_environment_that_is_there(checkout):
    install(["base"])
    install(["base", "dev"])
    assert checkout.done == ["environment", "base", "dev"]
    assert missing(["base", "dev"]) == []


def test_a_changed_requirement_file_is_installed_again(checkout):
    install(["base", "dev"])
    checkout.require("base", "django==5.3")
    install(["base", "dev"])
    assert checkout.done == ["environment", "base", "dev", "base"]


def test_a_file_that_changed_unnoticed_stays_missing_when_another_is_installed(checkout):
    install(["base"])
    checkout.require("base", "django==5.3")
    install(["dev"])
    assert missing(["base", "dev"]) == ["base"]


@pytest.mark.parametrize("interruption", [KeyboardInterrupt(), InstallationFailed("no network")])
def test_an_interrupted_installation_starts_afresh(checkout, interruption):
    install(["base"])
    checkout.interruption = interruption
    with pytest.raises(type(interruption)):
        install(["dev"])
    assert missing(["base", "dev"]) == ["base", "dev"]
    checkout.interruption = None
    checkout.done.clear()
    install(["base", "dev"])
    assert checkout.done == ["environment", "base", "dev"]


def test_the_environment_of_another_python_is_replaced(checkout):
    install(["base"])
    checkout.change_stamp(python="3.10.0")
    install(["base"])
    assert checkout.done == ["environment", "base"] * 2


def test_an_environment_whose_python_has_gone_is_replaced(checkout):
    install(["base"])
    (checkout.root / ".venv" / "bin" / "python").unlink()
    install(["base"])
    assert checkout.done == ["environment", "base"] * 2


def test_a_stamp_that_cannot_be_read_counts_as_none(checkout):
    install(["base"])
    (checkout.root / ".venv" / "holdpoint-installed.json").write_text('{"python"')
    assert missing(["base"]) == ["base"]
