import os

import pytest

from config.environment import read_env_file
from tests.environment import names_the_settings_read
from tools.run import SHORTENED, lead_links_to, write_env_file


@pytest.fixture
def careless_umask():
    previous = os.umask(0)
    yield
    os.umask(previous)


def test_the_env_file_is_closed_to_everybody_else(tmp_path, careless_umask):
    write_env_file(tmp_path / ".env")
    assert (tmp_path / ".env").stat().st_mode & 0o777 == 0o600


def test_each_env_file_has_a_secret_of_its_own(tmp_path):
    secrets = set()
    for name in ("first", "second"):
        write_env_file(tmp_path / name)
        values = dict(line.split("=", 1) for line in (tmp_path / name).read_text().splitlines())
        assert values["DEBUG"] == "1"
        assert values["BASE_URL"] == "http://localhost:8000"
        assert values["SWEEP_EXPIRE_SECONDS"] == "60"
        secrets.add(values["SECRET_KEY"])
    assert len(secrets) == 2
    assert min(len(secret) for secret in secrets) >= 50


def test_an_env_file_that_exists_is_never_replaced(tmp_path):
    (tmp_path / ".env").write_text("SECRET_KEY=mine\n")
    with pytest.raises(FileExistsError):
        write_env_file(tmp_path / ".env")
    assert (tmp_path / ".env").read_text() == "SECRET_KEY=mine\n"


def test_links_lead_to_the_port_that_was_asked_for_whatever_the_env_file_says(tmp_path, monkeypatch):
    monkeypatch.setenv("BASE_URL", "")
    (tmp_path / ".env").write_text("BASE_URL=http://localhost:8000\n")
    lead_links_to(8123)
    read_env_file(tmp_path / ".env")
    assert os.environ["BASE_URL"] == "http://localhost:8123"


def test_what_the_env_file_shortens_are_settings_that_exist():
    assert set(SHORTENED) <= names_the_settings_read()
