"""`ucc-path doctor` looks at the real machine."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

PROGRAM = Path(sys.executable).with_name("ucc-path")


def test_a_machine_that_runs_the_tests_passes() -> None:
    done = subprocess.run([PROGRAM, "doctor"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
    assert "FAIL" not in done.stdout
    for part in ("Python", "OpenSlide", "PyTorch", "GPU", "Memory", "Disk"):
        assert f"  {part}: " in done.stdout


def test_everything_that_needs_attention_comes_with_a_fix() -> None:
    done = subprocess.run([PROGRAM, "doctor"], capture_output=True, text=True)
    lines = done.stdout.splitlines()
    for line, following in zip(lines, [*lines[1:], ""], strict=True):
        if line.startswith(("WARN", "FAIL")):
            assert following.strip().startswith("fix: ")


def test_a_missing_package_fails_with_its_fix(tmp_path: Path) -> None:
    (tmp_path / "openslide").mkdir()
    (tmp_path / "openslide" / "__init__.py").write_text("raise ImportError('libopenslide is gone')")
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run([PROGRAM, "doctor"], capture_output=True, text=True, env=environment)
    assert done.returncode == 1
    assert "FAIL  OpenSlide: cannot be loaded (libopenslide is gone)" in done.stdout
    assert "fix: pip install --upgrade openslide-python openslide-bin" in done.stdout
