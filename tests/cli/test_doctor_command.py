"""`ucc-path doctor` looks at the real machine."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from conftest import PROGRAM


@pytest.fixture(scope="module")
def examined() -> subprocess.CompletedProcess[str]:
    return subprocess.run([PROGRAM, "doctor", "--verbose"], capture_output=True, text=True)


def test_a_machine_that_runs_the_tests_passes(examined: subprocess.CompletedProcess[str]) -> None:
    assert examined.returncode == 0, examined.stdout
    assert "FAIL" not in examined.stdout
    for part in ("Python", "OpenSlide", "PyTorch", "GPU", "Compiler", "Ray", "Memory", "Disk"):
        assert f"  {part}: " in examined.stdout


def test_everything_that_needs_attention_comes_with_a_fix(examined: subprocess.CompletedProcess[str]) -> None:
    lines = examined.stdout.splitlines()
    for line, following in zip(lines, [*lines[1:], ""], strict=True):
        if line.startswith(("WARN", "FAIL")):
            assert following.strip().startswith("fix: ")


def test_verbose_tells_the_versions_that_results_depend_on(examined: subprocess.CompletedProcess[str]) -> None:
    for package in ("ucc-path", "numpy", "openslide-python", "imagecodecs"):
        assert f"\n      {package} " in examined.stdout
    assert "not installed" not in examined.stdout


def test_a_missing_package_fails_with_its_fix(tmp_path: Path) -> None:
    (tmp_path / "openslide").mkdir()
    (tmp_path / "openslide" / "__init__.py").write_text("raise ImportError('libopenslide is gone')")
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run([PROGRAM, "doctor", "-q"], capture_output=True, text=True, env=environment)
    assert done.returncode == 1
    assert "FAIL  OpenSlide: cannot be loaded (libopenslide is gone)" in done.stdout
    assert "fix: pip install --upgrade openslide-python openslide-bin" in done.stdout
    assert "PASS" not in done.stdout  # quiet


def test_without_a_compiler_it_says_what_that_costs_and_fails_nothing(tmp_path: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if name not in ("CC", "CXX")}
    done = subprocess.run(
        [PROGRAM, "doctor", "-q"], capture_output=True, text=True, env={**environment, "PATH": str(tmp_path)}
    )
    assert done.returncode == 0
    assert "WARN  Compiler: no C compiler, no C++ compiler, no openssl" in done.stdout
    assert "segment on a GPU uses PyTorch uncompiled, more slowly\n      fix: on Debian" in done.stdout


def test_a_compiler_that_is_named_and_not_there_is_missed() -> None:
    done = subprocess.run(
        [PROGRAM, "doctor", "-q"], capture_output=True, text=True, env={**os.environ, "CC": "no-such-compiler"}
    )
    assert done.returncode == 0
    assert "WARN  Compiler: no C compiler" in done.stdout
