"""What is shipped is what is here."""

from __future__ import annotations

import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import ucc_path

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


def packages_here() -> set[str]:
    library = {".".join(file.parent.relative_to(ROOT).parts) for file in (ROOT / "ucc_path").rglob("__init__.py")}
    return library | {"ucc_path_cli"}


def test_the_list_of_packages_names_every_folder() -> None:
    listed = PROJECT["tool"]["setuptools"]["packages"]
    assert sorted(listed) == sorted(packages_here())
    assert len(listed) == len(set(listed))


def test_the_version_is_the_same_everywhere() -> None:
    version = PROJECT["project"]["version"]
    assert ucc_path.__version__ == version
    assert f"version: {version}" in (ROOT / "CITATION.cff").read_text()
    assert f"## {version}" in (ROOT / "CHANGELOG.md").read_text()


def test_every_requirement_is_pinned_for_make() -> None:
    pinned = {line.split("==")[0].lower() for line in (ROOT / "constraints.txt").read_text().splitlines()}
    wanted = [*PROJECT["project"]["dependencies"], *PROJECT["project"]["optional-dependencies"]["dev"]]
    for extra in ("cluster", "openvino", "tensorboard"):
        wanted += PROJECT["project"]["optional-dependencies"][extra]
    names = {re.split(r"[=>\[]", requirement)[0].lower() for requirement in wanted} - {PROJECT["project"]["name"]}
    assert names - pinned == set()


def test_the_command_line_refuses_its_folder_name() -> None:
    done = subprocess.run([sys.executable, "-c", "import cli"], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode != 0
    assert "ucc_path_cli" in done.stderr


@pytest.mark.soak
def test_the_wheel_holds_every_module(tmp_path: Path) -> None:
    subprocess.run(
        [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "-w", str(tmp_path), str(ROOT)], check=True
    )
    (wheel,) = tmp_path.glob("*.whl")
    shipped = set(zipfile.ZipFile(wheel).namelist())
    here = {str(path.relative_to(ROOT)) for path in (ROOT / "ucc_path").rglob("*.py")}
    here |= {f"ucc_path_cli/{path.name}" for path in (ROOT / "cli").glob("*.py")}
    assert here - shipped == set()
