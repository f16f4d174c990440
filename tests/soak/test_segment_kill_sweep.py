"""Killed at any moment, `segment` leaves nothing that looks finished and is not, and the next run makes up for it."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

import numpy as np
import pytest
from conftest import PROGRAM, paint_slide

from ucc_path.formats import segmentation_json

MOMENTS = 25


def masks(folder: Path, name: str = "") -> dict[str, bytes]:
    endings = (".tif", ".png", ".gz")
    return {path.name: path.read_bytes() for path in folder.glob(f"{name}*") if path.suffix in endings}


@pytest.mark.soak
def test_a_cohort_killed_at_many_moments_ends_with_the_bytes_of_an_undisturbed_one(
    whole_run: Path, tmp_path: Path
) -> None:
    shutil.copytree(whole_run, tmp_path / "run")
    for number in range(6):
        paint_slide(tmp_path / "slides" / f"case{number}.tif", seed=number)
    command = [PROGRAM, "segment", "slides", "--full-size", "--workers", "2", "-q"]
    began_s = time.monotonic()
    subprocess.run([*command, "-o", "whole"], cwd=tmp_path, check=True)
    whole_s = time.monotonic() - began_s
    expected = masks(tmp_path / "whole")
    for moment in np.linspace(0.3, 1.0, MOMENTS):
        process = subprocess.Popen(command, cwd=tmp_path, start_new_session=True)
        time.sleep(moment * whole_s)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        folder = tmp_path / "segmented"
        for name in segmentation_json.all_in(folder) if folder.exists() else ():
            assert masks(folder, name) == masks(tmp_path / "whole", name), f"{name} after {moment:.0%}"
        if moment < 0.6:  # start over, so that the early moments are met again
            shutil.rmtree(folder, ignore_errors=True)
    subprocess.run(command, cwd=tmp_path, check=True)
    assert masks(tmp_path / "segmented") == expected
    assert not list((tmp_path / "segmented").glob("*.partial"))
