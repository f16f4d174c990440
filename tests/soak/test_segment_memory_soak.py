"""However large the slide, `segment` stays within the memory that it was given."""

from __future__ import annotations

import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from conftest import PROGRAM
from numpy.typing import NDArray

from ucc_path.formats import pyramid_tiff, segmentation_json

TILE = 512
MOST_MB = 1500  # for a slide of 102,400 px; for smaller ones segment accepts 1200


def tiles(side: int) -> Iterator[NDArray[np.uint8]]:
    """Glass, with a disc of pale and dark tissue over a fifth of it; few distinct tiles, or it could not be made."""
    rng = np.random.default_rng(0)
    glass = np.clip(243 + rng.integers(-3, 4, (TILE, TILE, 3)), 0, 255).astype(np.uint8)
    looks = []
    for colour in ((205, 140, 190), (120, 60, 140)):
        grain = rng.integers(-12, 13, (4, TILE // 16, TILE // 16, 3)).repeat(16, axis=1).repeat(16, axis=2)
        looks.append(np.clip(np.array(colour) + grain, 0, 255).astype(np.uint8))
    count = side // TILE
    for row in range(count):
        for col in range(count):
            is_tissue = (row - count / 2) ** 2 + (col - count / 2) ** 2 < (count / 4) ** 2
            yield looks[(row // 4 + col // 4) % 2][(row + col) % 4] if is_tissue else glass


def resident_mb(pid: int) -> float:
    """Of a process and all that it started."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
        own = next((int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS:")), 0) / 1000
        children = [Path(f"/proc/{pid}/task/{task.name}/children") for task in Path(f"/proc/{pid}/task").iterdir()]
        return own + sum(resident_mb(int(child)) for path in children for child in path.read_text().split())
    except OSError:  # it ended meanwhile
        return 0.0


@pytest.mark.soak
@pytest.mark.parametrize("side", [16_384, 32_768, 102_400])
def test_the_processes_together_stay_below_the_limit(whole_run: Path, tmp_path: Path, side: int) -> None:
    shutil.copytree(whole_run, tmp_path / "run")
    pyramid_tiff.write(tmp_path / "large.tif", tiles(side), size_px=(side, side), mpp=0.25, tile_px=TILE)
    command = [PROGRAM, "segment", "large.tif", "--max-memory", f"{MOST_MB}M", "-q"]
    process = subprocess.Popen(command, cwd=tmp_path)
    highest_mb = 0.0

    def watch() -> None:
        nonlocal highest_mb
        while process.poll() is None:
            highest_mb = max(highest_mb, resident_mb(process.pid))
            time.sleep(0.02)

    watcher = threading.Thread(target=watch)
    watcher.start()
    assert process.wait() == 0
    watcher.join()
    record = segmentation_json.read(tmp_path / "segmented", "large")
    assert record["patches"] > 0.9 * np.pi / 16 * (side * 0.25 / 32) ** 2
    assert {found["name"] for found in record["classes"] if found["patches"] > 1000} == {"normal", "metastases"}
    assert highest_mb < MOST_MB
    print(f"{side} px: {highest_mb:.0f} MB at most", file=sys.stderr)
