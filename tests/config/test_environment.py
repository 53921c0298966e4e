"""Settings from the environment: what can be read is read, and what cannot is a problem and never a crash."""

from pathlib import Path
from typing import Any

import pytest

from config import environment
from config.environment import Problem

NAME = "HOLDPOINT_TEST_VALUE"


@pytest.fixture(autouse=True)
def problems(monkeypatch: pytest.MonkeyPatch) -> list[Problem]:
    """Those of this test alone: the real list belongs to the settings of this run."""
    found: list[Problem] = []
    monkeypatch.setattr(environment, "problems", found)
    monkeypatch.delenv(NAME, raising=False)
    return found


@pytest.mark.parametrize("value", ["1", "true", "YES", " on "])
def test_a_flag_is_set_by_these(monkeypatch: pytest.MonkeyPatch, value: str, problems: list[Problem]) -> None:
    monkeypatch.setenv(NAME, value)

    assert environment.flag(NAME) is True
    assert not problems


@pytest.mark.parametrize("value", ["0", "False", "no", "OFF", "", "  "])
def test_a_flag_is_cleared_by_these(monkeypatch: pytest.MonkeyPatch, value: str, problems: list[Problem]) -> None:
    monkeypatch.setenv(NAME, value)

    assert environment.flag(NAME, default=True) is False
    assert not problems


@pytest.mark.parametrize("default", [True, False])
def test_a_flag_has_its_default(default: bool) -> None:
    assert environment.flag(NAME, default) is default


@pytest.mark.parametrize("default", [True, False])
@pytest.mark.parametrize("value", ["maybe", "2", "tru"])
def test_a_flag_that_is_neither_is_a_problem_and_keeps_its_default(
    monkeypatch: pytest.MonkeyPatch, problems: list[Problem], value: str, default: bool
) -> None:
    monkeypatch.setenv(NAME, value)

    assert environment.flag(NAME, default) is default
    (problem,) = problems
    assert problem.name == NAME
    assert value in problem.message
    assert f"{NAME}=1" in problem.hint


@pytest.mark.parametrize(("value", "number"), [("5", 5), (" 7 ", 7), ("0", 0), ("10", 10)])
def test_a_number_in_range_is_read(
    monkeypatch: pytest.MonkeyPatch, problems: list[Problem], value: str, number: int
) -> None:
    monkeypatch.setenv(NAME, value)

    assert environment.number(NAME, 3, least=0, most=10) == number
    assert not problems


@pytest.mark.parametrize("value", ["", "x", "1.5", "1e3", "-1", "11", "99999999999999999999"])
def test_a_number_that_is_none_or_out_of_range_is_a_problem_and_keeps_its_default(
    monkeypatch: pytest.MonkeyPatch, problems: list[Problem], value: str
) -> None:
    monkeypatch.setenv(NAME, value)

    assert environment.number(NAME, 3, least=0, most=10) == 3
    (problem,) = problems
    assert problem.name == NAME
    assert problem.hint


def test_a_word_of_a_list_is_read_in_any_case(monkeypatch: pytest.MonkeyPatch, problems: list[Problem]) -> None:
    monkeypatch.setenv(NAME, "debug")

    assert environment.one_of(NAME, ("DEBUG", "INFO"), "INFO") == "DEBUG"
    assert not problems


@pytest.mark.parametrize("value", ["", "LOUD", "10"])
def test_a_word_that_is_not_on_the_list_is_a_problem(
    monkeypatch: pytest.MonkeyPatch, problems: list[Problem], value: str
) -> None:
    monkeypatch.setenv(NAME, value)

    assert environment.one_of(NAME, ("DEBUG", "INFO"), "INFO") == "INFO"
    assert "DEBUG, INFO" in problems[0].hint


def test_words_are_separated_by_commas(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(NAME, " a.example, ,b.example,")

    assert environment.words(NAME) == ["a.example", "b.example"]
    monkeypatch.delenv(NAME)
    assert environment.words(NAME) == []
    assert environment.words(NAME, "x,y") == ["x", "y"]


@pytest.mark.parametrize(
    ("url", "host"),
    [
        ("https://a.example:8000", "a.example"),
        ("http://[::1]:1", "::1"),
        ("a.example", ""),
        ("", ""),
        ("http://[x", ""),
    ],
)
def test_the_host_of_an_address_is_empty_where_there_is_none(url: str, host: str) -> None:
    assert environment.host_of(url) == host


# --- Databases ----------------------------------------------------------------------------------------------------


def test_a_sqlite_file_is_absolute_with_four_slashes_and_its_folder_is_made(
    tmp_path: Path, problems: list[Problem]
) -> None:
    found = environment.database(f"sqlite:///{tmp_path}/new/holdpoint.sqlite3")

    assert found["ENGINE"] == "config.sqlite"
    assert found["NAME"] == f"{tmp_path}/new/holdpoint.sqlite3"
    assert (tmp_path / "new").is_dir()
    assert not problems


def test_a_sqlite_file_is_relative_with_three_slashes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)

    assert environment.database("sqlite:///var/holdpoint.sqlite3")["NAME"] == "var/holdpoint.sqlite3"
    assert environment.database("sqlite:///:memory:")["NAME"] == ":memory:"


def test_a_folder_of_any_name_can_be_written_with_percent_signs(tmp_path: Path) -> None:
    found = environment.database(f"sqlite:///{tmp_path}/what%3F%20%23%25/x.sqlite3")

    assert found["NAME"] == f"{tmp_path}/what? #%/x.sqlite3"


@pytest.mark.parametrize("scheme", ["mysql", "mariadb"])
def test_a_mariadb_has_each_part_of_its_address(problems: list[Problem], scheme: str) -> None:
    found = environment.database(f"{scheme}://us%40er:pass%2Fword@db.example:3307/hold?unix_socket=%2Frun%2Fdb.sock")

    assert found["ENGINE"] == "django.db.backends.mysql"
    assert (found["USER"], found["PASSWORD"]) == ("us@er", "pass/word")
    assert (found["HOST"], found["PORT"], found["NAME"]) == ("db.example", "3307", "hold")
    assert found["OPTIONS"]["unix_socket"] == "/run/db.sock"
    assert found["OPTIONS"]["isolation_level"] == "read committed"
    assert not problems


def test_timeouts_of_the_driver_are_numbers() -> None:
    assert environment.database("mysql://h/n?connect_timeout=5&read_timeout=7")["OPTIONS"] == {
        **environment.database("mysql://h/n")["OPTIONS"],
        "connect_timeout": 5,
        "read_timeout": 7,
    }


@pytest.mark.parametrize(
    "url",
    [
        *("", "nonsense", "sqlite:", "sqlite:///", "postgres://h/n", "mysql://h", "mysql://h/", "mysql://h:port/n"),
        *(
            "mysql://h:99999/n",
            "mysql://[half/n",
            "mysql://h/n?connect_timeout=soon",
            "sqlite:////dev/null/x/y.sqlite3",
        ),
        "sqlite:////tmp/%00/x.sqlite3",
    ],
)
def test_a_database_that_cannot_be_used_is_a_problem_and_no_crash(problems: list[Problem], url: str) -> None:
    assert environment.database(url)["NAME"] == ":memory:"
    (problem,) = problems
    assert problem.name == "DATABASE_URL"
    assert problem.hint


def test_a_problem_with_the_database_does_not_show_its_password(problems: list[Problem]) -> None:
    environment.database("mysql://user:hunter2@host:port/name")

    assert "hunter2" not in f"{problems}"


# --- Mail ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("console:", {"EMAIL_BACKEND": "console"}),
        ("memory:", {"EMAIL_BACKEND": "locmem"}),
        ("folder:///var/mail", {"EMAIL_BACKEND": "filebased", "EMAIL_FILE_PATH": "var/mail"}),
        ("folder:////var/a%20b", {"EMAIL_BACKEND": "filebased", "EMAIL_FILE_PATH": "/var/a b"}),
        ("smtp://h", {"EMAIL_HOST": "h", "EMAIL_PORT": 25, "EMAIL_USE_SSL": False, "EMAIL_USE_TLS": False}),
        ("smtps://h", {"EMAIL_PORT": 465, "EMAIL_USE_SSL": True, "EMAIL_USE_TLS": False}),
        ("smtp+tls://h", {"EMAIL_PORT": 587, "EMAIL_USE_SSL": False, "EMAIL_USE_TLS": True}),
        (
            "smtp://us%40er:p%3Aw@h:2525",
            {"EMAIL_PORT": 2525, "EMAIL_HOST_USER": "us@er", "EMAIL_HOST_PASSWORD": "p:w", "EMAIL_BACKEND": "smtp"},
        ),
    ],
)
def test_mail_goes_where_its_address_says(problems: list[Problem], url: str, expected: dict[str, Any]) -> None:
    if backend := expected.get("EMAIL_BACKEND"):
        expected = expected | {"EMAIL_BACKEND": f"django.core.mail.backends.{backend}.EmailBackend"}

    assert expected.items() <= environment.email(url).items()
    assert not problems


@pytest.mark.parametrize(
    "url", ["", "nonsense", "smtp:", "smtp://", "smtp://h:port", "smtp://[x", "imap://h", "folder:"]
)
def test_mail_that_leads_nowhere_is_a_problem_and_goes_to_the_console(problems: list[Problem], url: str) -> None:
    assert environment.email(url) == {"EMAIL_BACKEND": "django.core.mail.backends.console.EmailBackend"}
    assert [problem.name for problem in problems] == ["EMAIL_URL"]


@pytest.mark.parametrize("provider", ["postmark", "mailgun", "amazon_ses", "brevo", "resend"])
def test_mail_can_go_to_any_provider_that_anymail_has(problems: list[Problem], provider: str) -> None:
    assert environment.email(f"anymail://{provider}") == {"EMAIL_BACKEND": f"anymail.backends.{provider}.EmailBackend"}
    assert not problems


@pytest.mark.parametrize("provider", ["", "pigeon", "base", "test", "postmark.x", "user@postmark"])
def test_a_provider_that_nobody_knows_is_a_problem_that_names_those_known(
    problems: list[Problem], provider: str
) -> None:
    assert environment.email(f"anymail://{provider}") == {
        "EMAIL_BACKEND": "django.core.mail.backends.console.EmailBackend"
    }
    (problem,) = problems
    assert problem.name == "EMAIL_URL"
    assert "mailgun, " in problem.hint


def test_a_family_of_settings_is_read_by_the_beginning_of_its_names(
    monkeypatch: pytest.MonkeyPatch, problems: list[Problem]
) -> None:
    for name, value in {
        "KEY": "s3cret",
        "DIGITS": "123",
        "EMPTY": " ",
        "STRICT": "False",
        "LIST": '["a:b", "c:d"]',
        "SLOW_TIMEOUT": "7",
    }.items():
        monkeypatch.setenv(f"HP_FAMILY_{name}", value)

    assert environment.family("HP_FAMILY_", KEY="none", OTHER=1) == {
        "KEY": "s3cret",
        "DIGITS": "123",
        "STRICT": False,
        "LIST": ["a:b", "c:d"],
        "SLOW_TIMEOUT": 7,
        "OTHER": 1,
    }
    assert not problems


def test_a_member_of_a_family_that_is_half_json_is_a_problem_without_its_value(
    monkeypatch: pytest.MonkeyPatch, problems: list[Problem]
) -> None:
    monkeypatch.setenv("HP_FAMILY_LIST", '["hunter2"')

    environment.family("HP_FAMILY_")

    assert [problem.name for problem in problems] == ["HP_FAMILY_LIST"]
    assert "hunter2" not in f"{problems}"


# --- The file -----------------------------------------------------------------------------------------------------


def test_a_file_gives_what_the_environment_does_not(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    names = ["HP_PLAIN", "HP_QUOTED", "HP_SINGLE", "HP_EXPORTED", "HP_EQUALS", "HP_EMPTY", "HP_HALF"]
    for name in names:
        # Set and deleted, so that it is taken back after the test.
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    monkeypatch.setenv("HP_GIVEN", "from outside")
    file = tmp_path / ".env"
    file.write_text(
        "# a comment\n\nHP_PLAIN = plain value \nHP_QUOTED=\" quoted \"\nHP_SINGLE='single'\nexport HP_EXPORTED=1\n"
        'HP_EQUALS=a=b=c\nHP_EMPTY=\nHP_HALF="half\nHP_GIVEN=from the file\nno separator\n=no name\n#HP_OFF=1\n'
    )

    environment.read_env_file(file)

    read = {name: environment.os.environ[name] for name in names}
    assert read == {
        "HP_PLAIN": "plain value",
        "HP_QUOTED": " quoted ",
        "HP_SINGLE": "single",
        "HP_EXPORTED": "1",
        "HP_EQUALS": "a=b=c",
        "HP_EMPTY": "",
        "HP_HALF": '"half',
    }
    assert environment.os.environ["HP_GIVEN"] == "from outside"
    assert "HP_OFF" not in environment.os.environ


def test_a_file_that_is_not_there_is_no_problem(tmp_path: Path) -> None:
    environment.read_env_file(tmp_path / "missing")
    environment.read_env_file(tmp_path)


def test_a_file_that_cannot_be_read_is_a_problem_and_no_crash(tmp_path: Path, problems: list[Problem]) -> None:
    file = tmp_path / ".env"
    file.write_bytes(b"NAME=\xff\n")

    environment.read_env_file(file)

    assert [problem.message for problem in problems] == [".env cannot be read."]
