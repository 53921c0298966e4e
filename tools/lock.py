"""Write requirements/*.txt anew from pyproject.toml: every version pinned, every file hashed, no index named.

Versions that still fit are kept; ``make lock ARGS=--upgrade`` takes the newest.
"""

import subprocess
import sys
from collections.abc import Sequence

from tools.install import ROOT, find_uv, requirement_file

OPTIONS = [
    *("--universal", "--python-version", "3.11", "--generate-hashes"),
    *("--no-emit-index-url", "--no-header", "--no-annotate", "--quiet"),
]
# One environment may hold several of these, so the extras agree with the base.
EXTRAS = ("mariadb", "redis", "s3", "dev")


def compile_requirements(uv: str, name: str, source: Sequence[str], given: str = "") -> None:
    command = [uv, "pip", "compile", *source, *OPTIONS, *sys.argv[1:], "-o", str(requirement_file(name))]
    subprocess.run(command, cwd=ROOT, input=given, text=True, stdout=subprocess.DEVNULL, check=True)
    print(f"requirements/{name}.txt")


def main() -> None:
    uv = find_uv()
    if uv is None:
        sys.exit("uv is needed to lock the requirements, and it could not be installed.")
    try:
        compile_requirements(uv, "installer", ["-"], given="uv")
        compile_requirements(uv, "base", ["pyproject.toml"])
        for extra in EXTRAS:
            compile_requirements(uv, extra, ["pyproject.toml", "--extra", extra, "-c", str(requirement_file("base"))])
    except subprocess.CalledProcessError as failure:
        sys.exit(failure.returncode)


if __name__ == "__main__":
    main()
