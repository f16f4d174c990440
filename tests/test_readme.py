"""The README does not rot: its commands are run or held against the real options, its settings against the code."""

from __future__ import annotations

import dataclasses
import re
import shlex
import subprocess
from collections.abc import Callable
from pathlib import Path

import click
import pytest
from conftest import PROGRAM, box
from ucc_path_cli.main import COMMANDS
from ucc_path_cli.main import ucc_path as group

from ucc_path.settings import PRESETS, TABLES

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def commands(word: str) -> list[str]:
    blocks = re.findall(r"```bash\n(.*?)```", README, re.DOTALL)
    lines = [line.split("#")[0].strip() for block in blocks for line in block.splitlines()]
    return [line for line in lines if line.startswith(word + " ")]


def test_the_readme_shows_commands() -> None:
    assert len(commands("ucc-path")) >= 5
    assert commands("make") == ["make demo", "make test"]


@pytest.mark.parametrize("line", commands("make"))
def test_every_make_target_named_is_there(line: str) -> None:
    assert re.search(rf"^{line.split()[1]}:", (ROOT / "Makefile").read_text(), re.MULTILINE)


@pytest.mark.parametrize("line", commands("ucc-path"))
def test_every_command_named_is_understood(line: str) -> None:
    name, *arguments = shlex.split(line)[1:]
    command = group.get_command(click.Context(group), name)
    assert command is not None
    command.make_context(name, list(arguments))  # raises on an unknown option or a bad value


def test_every_option_named_exists() -> None:
    known = {"--help", "--version", "--nproc-per-node", "--nnodes"}  # the last two are of torchrun
    for name in COMMANDS:
        command = group.get_command(click.Context(group), name)
        assert command is not None
        known |= {flag for option in command.params for flag in (*option.opts, *option.secondary_opts)}
    named = set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", README))
    assert named - known == set()


def test_the_commands_for_own_slides_run_as_they_stand(
    tmp_path: Path, make_slide: Callable[..., Path], make_xml: Callable[..., Path]
) -> None:
    for number in range(3):
        slide = make_slide(f"slide_{number}", seed=number, folder=tmp_path / "slides")
        make_xml(slide, [box(300, 0, 1200, 2048)])
    block = next(block for block in re.findall(r"```bash\n(.*?)```", README, re.DOTALL) if "ucc-path doctor" in block)
    for line in block.splitlines():
        done = subprocess.run([PROGRAM, *shlex.split(line)[1:]], cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
    assert (tmp_path / "dataset" / "tiles.csv").is_file()


def shown(value: object) -> str:
    if isinstance(value, tuple):
        return ", ".join(map(str, value)) or "–"
    return f"{value:g}" if isinstance(value, float) else str(value)


@pytest.mark.parametrize("table", TABLES)
def test_every_setting_is_in_the_table_with_its_default_and_meaning(table: str) -> None:
    for field in dataclasses.fields(TABLES[table]):
        assert f"| `{table}` | `{field.name}` | {shown(field.default)} | {field.metadata['help']} |" in README


@pytest.mark.parametrize("table", PRESETS["paper"])
def test_what_the_presets_differ_in_is_said(table: str) -> None:
    assert PRESETS["fast"][table] == TABLES[table]()
    sentence = README[README.index("`paper` has ") :].partition("\n\n")[0].replace("\n", " ")
    for field in dataclasses.fields(TABLES[table]):
        ours, paper = (getattr(PRESETS[name][table], field.name) for name in ("fast", "paper"))
        assert (f"`{field.name}` {shown(paper)}" in sentence) == (ours != paper)
