import pytest

from tools import system

# Fails as long as the file "broken" has lines left, taking one each time.
APT_GET = """#!/bin/sh
echo "$*" >> calls
case "$*" in *update*) exit 0;; esac
[ -s broken ] || exit 0
sed -i 1d broken
echo "E: Could not connect to the mirror"
exit 100
"""


@pytest.fixture
def debian_without_chromium(tmp_path, monkeypatch):
    (tmp_path / "apt-get").write_text(APT_GET)
    (tmp_path / "apt-get").chmod(0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    monkeypatch.setattr(system, "may_install", lambda: True)
    monkeypatch.setattr(system, "missing_packages", lambda: ["chromium"])
    return tmp_path


def test_missing_packages_are_installed(debian_without_chromium, capsys):
    system.main()
    _update, install = (debian_without_chromium / "calls").read_text().splitlines()
    assert install.endswith("install --yes --no-install-recommends chromium")
    assert capsys.readouterr().err == ""


def test_a_mirror_that_fails_once_is_tried_again(debian_without_chromium, capsys):
    (debian_without_chromium / "broken").write_text("once\n")
    system.main()
    assert (debian_without_chromium / "calls").read_text().count("install --yes") == 2
    assert "On Debian: apt-get install" not in capsys.readouterr().err


def test_a_mirror_that_keeps_failing_is_quoted_and_the_tests_go_on(debian_without_chromium, capsys):
    (debian_without_chromium / "broken").write_text("once\n" * 9)
    system.main()
    assert (debian_without_chromium / "calls").read_text().count("install --yes") == 2
    said = capsys.readouterr().err
    assert "E: Could not connect to the mirror" in said
    assert said.endswith("On Debian: apt-get install chromium\n")


def test_without_the_right_to_install_the_packages_are_only_named(debian_without_chromium, monkeypatch, capsys):
    monkeypatch.setattr(system, "may_install", lambda: False)
    system.main()
    assert not (debian_without_chromium / "calls").exists()
    assert capsys.readouterr().err.endswith("On Debian: apt-get install chromium\n")


def test_a_bare_debian_gets_everything(monkeypatch, tmp_path):
    monkeypatch.setattr(system, "find_program", lambda *names: None)
    monkeypatch.setattr(system, "can_build_mysqlclient", lambda: False)
    monkeypatch.setattr(system, "find_spec", lambda name: None)
    monkeypatch.setattr(system, "FONTS", tmp_path)
    monkeypatch.setattr("sys.base_prefix", "/usr")
    assert set(system.missing_packages()) == {
        *("mariadb-server-core", "mariadb-client-core"),
        *("build-essential", "libmariadb-dev", "pkg-config", "python3-dev", "python3-venv"),
        *("chromium", "fonts-dejavu-core"),
    }
