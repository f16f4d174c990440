"""The layers of the house, read off the source: who may import whom, and what may not be there at all."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

# In the order in which values flow: a room imports only from rooms before it.
STAGES = (
    "errors",
    "geometry",
    "settings",
    "seeding",
    "ahead",
    "slide",
    "annotation",
    "coverage",
    "tissue",
    "stain",
    "tiles",
    "bags",
    "model",
    "features",
    "clusters",
    "mask",
    "evaluation",
    "report",
)
ABOVE_STAGES = ("formats", "engine", "synthetic", "workflows")
ROOMS = (*STAGES, *ABOVE_STAGES)

LIBRARY = sorted((ROOT / "ucc_path").rglob("*.py"))
COMMANDS = sorted((ROOT / "cli").glob("*.py"))


def room_of(path: Path) -> str:
    return path.relative_to(ROOT / "ucc_path").parts[0].removesuffix(".py")


def imports_of(path: Path) -> list[tuple[str, int]]:
    """Absolute names imported anywhere in a file, with their lines; `from a import b` counts as a.b."""
    found = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found += [(alias.name, node.lineno) for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            found += [(f"{node.module}.{alias.name}", node.lineno) for alias in node.names]
    return found


def rooms_imported(path: Path) -> list[tuple[str, int]]:
    parts = [(name.split("."), line) for name, line in imports_of(path)]
    return [(names[1], line) for names, line in parts if names[0] == "ucc_path" and len(names) > 1]


@pytest.mark.parametrize("path", LIBRARY, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_room_imports_only_from_rooms_before_it(path: Path) -> None:
    room = room_of(path)
    if room == "__init__":
        assert rooms_imported(path) == []
        return
    for imported, line in rooms_imported(path):
        if imported == "__version__" or imported == room:
            continue
        assert imported in ROOMS, f"{path}:{line} imports from {imported}, which is no room"
        assert ROOMS.index(imported) < ROOMS.index(room), f"{path}:{line}: {room} may not import {imported}"


def test_every_room_is_on_the_map() -> None:
    there = {room_of(path) for path in LIBRARY} - {"__init__"}
    assert there == set(ROOMS)
    words = (ROOT / "ucc_path" / "__init__.py").read_text(encoding="utf-8")
    assert [room for room in ROOMS if f"\n    {room} " not in words] == []


def test_openslide_is_imported_in_one_place() -> None:
    importers = [path.name for path in LIBRARY if any(n.split(".")[0] == "openslide" for n, _ in imports_of(path))]
    assert importers == ["reader.py"]


def test_ray_is_imported_only_where_a_cluster_is_reached_and_none_of_that_unasked() -> None:
    rays = {path.name for path in LIBRARY if any(n.split(".")[0] == "ray" for n, _ in imports_of(path))}
    assert rays == {"ray_cluster.py", "ray_connection.py"}
    asked = "ucc_path.engine.ray_cluster"
    importers = [path.name for path in LIBRARY for name, _ in imports_of(path) if name.startswith(asked)]
    assert importers == ["sites.py"]


@pytest.mark.parametrize("path", LIBRARY, ids=lambda path: str(path.relative_to(ROOT)))
def test_the_library_knows_no_command_line_and_prints_nothing(path: Path) -> None:
    assert not [name for name, _ in imports_of(path) if name.split(".")[0] in ("click", "tqdm", "ucc_path_cli")]
    calls = [node for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if isinstance(node, ast.Call)]
    assert not [call.lineno for call in calls if isinstance(call.func, ast.Name) and call.func.id == "print"]


@pytest.mark.parametrize("path", [*LIBRARY, *COMMANDS], ids=lambda path: str(path.relative_to(ROOT)))
def test_no_module_loads_pickles_or_unsafe_xml(path: Path) -> None:
    assert not [n for n, _ in imports_of(path) if n.split(".")[0] == "pickle" or n.startswith("xml.etree")]
    assert "torch.load(" not in path.read_text(encoding="utf-8")


@pytest.mark.parametrize("path", COMMANDS, ids=lambda path: path.name)
def test_a_command_does_no_arithmetic_on_arrays(path: Path) -> None:
    assert not [name for name, _ in imports_of(path) if name.split(".")[0] in ("numpy", "scipy", "torch", "openslide")]


@pytest.mark.parametrize("path", [*LIBRARY, *COMMANDS], ids=lambda path: str(path.relative_to(ROOT)))
def test_a_module_says_what_it_is_for_and_stays_readable(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert ast.get_docstring(ast.parse(text)), f"{path} has no docstring"
    assert len(text.splitlines()) <= 300, f"{path} has outgrown one idea: make it a package"


def test_only_the_standard_library_and_declared_packages_are_imported() -> None:
    declared = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    names = {n.split(".")[0] for path in [*LIBRARY, *COMMANDS] for n, _ in imports_of(path)}
    foreign = names - set(sys.stdlib_module_names) - {"tomllib", "ucc_path", "ucc_path_cli"}
    package_of = {
        "PIL": "pillow",
        "openslide": "openslide-python",
        "skimage": "scikit-image",
        "sklearn": "scikit-learn",
    }
    assert [name for name in foreign if f'"{package_of.get(name, name)}>=' not in declared] == []
