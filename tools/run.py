"""``make run``: a Holdpoint with demonstration data on this machine, from nothing, in one step."""

import argparse
import io
import os
import secrets
import sys
from pathlib import Path

from config.supervisor import reason_it_cannot_listen
from tools.install import ROOT

DEFAULT_PORT = 8000
BANNER = ROOT / "var" / "banner.txt"
# Who tries out a deadline of a minute does not want to wait for five more.
DEMO_SECONDS = 60
SHORTENED = ("SWEEP_EXPIRE_SECONDS", "SWEEP_REROUTE_SECONDS", "SWEEP_REMIND_SECONDS", "SWEEP_DIGEST_SECONDS")


def write_env_file(path: Path) -> None:
    lines = ["DEBUG=1", f"SECRET_KEY={secrets.token_urlsafe(50)}", f"BASE_URL=http://localhost:{DEFAULT_PORT}"]
    # One process for the jobs of one person's trial: it is also their memory.
    lines += ["Q_WORKERS=1", *(f"{name}={DEMO_SECONDS}" for name in SHORTENED)]
    # Created closed: the secret must not be readable for the moment a later chmod would take.
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write("\n".join(lines) + "\n")


def lead_links_to(port: int) -> None:
    """To the server that runs, whatever .env says about the usual one: the environment wins over the file."""
    os.environ["BASE_URL"] = f"http://localhost:{port}"


def prepare_database() -> None:
    # One process for all commands: starting Django is what takes the time.
    import django
    from django.core.management import CommandError, call_command

    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
    django.setup()
    try:
        # First, or a setting that cannot be read would show as a worker that keeps ending.
        call_command("check", stdout=io.StringIO())
        call_command("migrate", verbosity=0)
        with BANNER.open("w") as banner:
            call_command("load_demo", stdout=banner)
    except CommandError as problem:
        sys.exit(str(problem))


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tools.run", description=__doc__)
    parser.add_argument("--port", type=int, help=f"{DEFAULT_PORT} unless given")
    options = parser.parse_args()
    port = DEFAULT_PORT if options.port is None else options.port

    # The supervisor asks again; asking first spares the wait for the database.
    problem = reason_it_cannot_listen("127.0.0.1", port)
    if problem:
        sys.exit(problem)
    (ROOT / "var").mkdir(mode=0o700, exist_ok=True)
    if "HOLDPOINT_ENV_FILE" not in os.environ and not (ROOT / ".env").exists():
        write_env_file(ROOT / ".env")
    if options.port is not None:
        lead_links_to(port)
    try:
        prepare_database()
    except KeyboardInterrupt:
        sys.exit(0)
    # In the place of this process: one fewer between Ctrl-C and the server.
    supervisor = [sys.executable, "-m", "config.supervisor", "--port", str(port), "--banner", str(BANNER)]
    os.execv(sys.executable, supervisor)  # noqa: S606


if __name__ == "__main__":
    main()
