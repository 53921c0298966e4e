"""The rooms of the house: who may import whom, and who may write the checkpoint row."""

import ast
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
ROOMS = ["config", "tenants", "checkpoints", "notifications", "desk"]
# Imports point one way. Whoever reads the environment may ask what was wrong with it.
MAY_IMPORT = {
    "config": set(),
    # The addresses are where the rooms' doors are put together.
    "config/urls.py": {"config", "tenants", "checkpoints", "notifications"},
    "tenants": {"config.environment"},
    "checkpoints": {"tenants"},
    "notifications": {"tenants", "checkpoints"},
    "desk": {"tenants", "checkpoints", "notifications"},
}
LONGEST_FILE = 400

WRITES = {
    "save",
    "update",
    "delete",
    "create",
    "get_or_create",
    "update_or_create",
    "bulk_create",
    "bulk_update",
    "acreate",
    "aupdate",
    "asave",
    "adelete",
}
LIFECYCLE = ROOT / "checkpoints" / "lifecycle"


def product_files() -> list[Path]:
    """Everything that is shipped: what git knows or will know, without migrations."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "--", *ROOMS],  # noqa: S607
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    ).stdout.split()
    found = [ROOT / name for name in listed] or [path for room in ROOMS for path in (ROOT / room).rglob("*.py")]
    return sorted(path for path in found if path.suffix == ".py" and path.exists() and "migrations" not in path.parts)


def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(), filename=str(path))


def imports_in(path: Path) -> Iterator[str]:
    """Full names, also of what is imported inside a function."""
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            package = ".".join(path.relative_to(ROOT).parent.parts[: len(path.relative_to(ROOT).parts) - node.level])
            base = ".".join(filter(None, [package if node.level else "", node.module or ""]))
            yield from (f"{base}.{alias.name}" for alias in node.names)


def within(name: str, allowed: set[str]) -> bool:
    return any(name == one or name.startswith(f"{one}.") for one in allowed)


def test_there_is_a_product_to_look_at():
    assert {path.relative_to(ROOT).parts[0] for path in product_files()} == set(ROOMS)


@pytest.mark.parametrize("room", ROOMS)
def test_imports_point_one_way(room):
    wrong = [
        f"{path.relative_to(ROOT)} imports {name}"
        for path in product_files()
        if path.relative_to(ROOT).parts[0] == room
        for name in imports_in(path)
        if name.partition(".")[0] in ROOMS
        and not within(name, MAY_IMPORT.get(str(path.relative_to(ROOT)), {room} | MAY_IMPORT[room]))
    ]
    assert wrong == []


def test_nothing_of_the_product_imports_tests_or_tools():
    wrong = [
        f"{path.relative_to(ROOT)} imports {name}"
        for path in product_files()
        for name in imports_in(path)
        if name.partition(".")[0] in {"tests", "tools", "bench"}
    ]
    assert wrong == []


def speaks_of_checkpoints(node: ast.expr) -> bool:
    """Does a chain such as ``Checkpoint.objects.filter(…)`` start at the model, or at a row by its usual name?"""
    while isinstance(node, ast.Attribute | ast.Call | ast.Subscript):
        node = node.func if isinstance(node, ast.Call) else node.value
    return isinstance(node, ast.Name) and node.id in {"Checkpoint", "checkpoint", "row", "rows", "queryset"}


def writes_of_the_row(path: Path) -> Iterator[str]:
    if not any(name.startswith("checkpoints.models") for name in imports_in(path)):
        return
    by_statement = any(name.startswith("tenants.statements") for name in imports_in(path))
    for node in ast.walk(tree_of(path)):
        place = f"{path.relative_to(ROOT)}:{getattr(node, 'lineno', 0)}"
        call = node.func if isinstance(node, ast.Call) else None
        if isinstance(call, ast.Name) and call.id == "insert" and by_statement:
            yield f"{place} calls insert()"
        if isinstance(call, ast.Attribute) and call.attr in WRITES and speaks_of_checkpoints(call.value):
            yield f"{place} calls {call.attr}()"
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        for target in targets:
            if isinstance(target, ast.Attribute) and target.attr == "status":
                yield f"{place} assigns .status"


def test_only_lifecycle_writes_the_checkpoint_row():
    wrong = [found for path in product_files() if LIFECYCLE not in path.parents for found in writes_of_the_row(path)]
    assert wrong == []


def test_the_search_for_writers_finds_the_one_there_is():
    """A rule that matches nothing would hold for ever."""
    found = [write for path in product_files() if LIFECYCLE in path.parents for write in writes_of_the_row(path)]
    assert any("calls update()" in write for write in found)
    assert any("calls insert()" in write for write in found)


def test_no_file_grows_beyond_what_one_can_read_in_one_go():
    long = {
        str(path.relative_to(ROOT)): lines
        for path in product_files()
        if (lines := len(path.read_text().splitlines())) > LONGEST_FILE
    }
    assert long == {}
