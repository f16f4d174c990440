"""Killed at any moment, a run leaves no data set that looks whole, and the next one is undisturbed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from conftest import box

PROGRAM = Path(sys.executable).with_name("ucc-path")
MOMENTS = 40


def every_file(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.soak
def test_a_run_killed_at_any_moment_and_run_again_gives_the_same_bytes(
    make_slide: Callable[..., Path], make_xml: Callable[..., Path], tmp_path: Path
) -> None:
    for number in range(3):
        make_xml(make_slide(f"case_{number}", seed=number), [box(256, 256, 1200, 1800)])
    command = [PROGRAM, "tile", tmp_path / "slides", "--tile-px", "64", "--per-slide", "40", "--workers", "2", "-q"]
    began = time.monotonic()
    subprocess.run([*command, "-o", tmp_path / "undisturbed"], check=True)
    whole_s = time.monotonic() - began
    expected = every_file(tmp_path / "undisturbed")
    output = tmp_path / "dataset"
    for moment in np.linspace(0.05, 1.0, MOMENTS):
        process = subprocess.Popen([*command, "-o", output, "--overwrite"], start_new_session=True)
        time.sleep(moment * whole_s)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        assert not output.exists() or every_file(output) == expected, f"after {moment:.0%} of a run"
    subprocess.run([*command, "-o", output, "--overwrite"], check=True)
    assert every_file(output) == expected
    assert sorted(path.name for path in tmp_path.glob("dataset*")) == ["dataset"]
