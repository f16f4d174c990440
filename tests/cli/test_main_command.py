"""The group of commands: help at once, errors as one line, exit statuses that tell the truth."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import click
import pytest
from conftest import PROGRAM
from ucc_path_cli.main import COMMANDS
from ucc_path_cli.main import ucc_path as group


def run(*arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run([PROGRAM, *arguments], capture_output=True, text=True, cwd=cwd)


@pytest.mark.parametrize("command", ["", *COMMANDS])
def test_help_needs_neither_torch_nor_anything_heavy(command: str) -> None:
    script = (
        "import sys\n"
        "from ucc_path_cli.main import ucc_path\n"
        f"ucc_path.main({[command, '--help'] if command else ['--help']!r}, standalone_mode=False)\n"
        "heavy = {'torch', 'openslide', 'shapely', 'scipy', 'skimage', 'tifffile', 'numpy'} & set(sys.modules)\n"
        "sys.exit('imported ' + ', '.join(sorted(heavy)) if heavy else 0)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "Usage:" in done.stdout


def test_help_lists_every_command_in_the_order_of_use() -> None:
    text = run("--help").stdout
    places = [text.index(f"\n  {name} ") for name in COMMANDS]
    assert places == sorted(places)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_can_be_quiet_verbose_and_debugged(name: str) -> None:
    command = group.get_command(click.Context(group), name)
    assert command is not None
    flags = {flag for option in command.params for flag in option.opts}
    assert {"--quiet", "--verbose", "--debug"} <= flags


def test_a_mistyped_command_is_answered_with_the_near_one() -> None:
    done = run("tyle")
    assert done.returncode == 2
    assert "did you mean 'tile'?" in done.stderr


def test_a_mistyped_option_is_answered_with_the_near_one() -> None:
    done = run("tile", "a.tif", "-o", "x", "--per-slides", "3")
    assert done.returncode == 2
    assert "--per-slide" in done.stderr.splitlines()[-1]


def test_an_error_is_one_line_and_a_traceback_only_when_asked_for(tmp_path: Path) -> None:
    arguments = ("tile", "absent.tif", "-o", "dataset", "--unlabelled")
    plain = run(*arguments, "-q", cwd=tmp_path)
    assert plain.returncode == 2
    assert plain.stderr.splitlines() == [
        "Error: absent.tif cannot be opened (No such file or directory); check the path and its permissions"
    ]
    assert "Traceback" in run(*arguments, "--debug", cwd=tmp_path).stderr


def test_the_version_is_told() -> None:
    assert run("--version").stdout.startswith("ucc-path, version ")


def test_the_shell_completes_commands_and_options() -> None:
    def completed(words: str) -> list[str]:
        asked = {"COMP_WORDS": words, "COMP_CWORD": str(len(words.split()) - 1), "_UCC_PATH_COMPLETE": "bash_complete"}
        done = subprocess.run([PROGRAM], capture_output=True, text=True, env=os.environ | asked)
        return [line.split(",")[1] for line in done.stdout.splitlines()]

    assert completed("ucc-path seg") == ["segment"]
    assert completed("ucc-path segment --stri") == ["--stride-px", "--strict"]
