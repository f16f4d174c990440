"""A slide of 20 gigapixels is tiled in the memory that the README states."""

from __future__ import annotations

import resource
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from conftest import box
from numpy.typing import NDArray

from ucc_path.formats import asap_xml, pyramid_tiff, tiles_csv

PROGRAM = Path(sys.executable).with_name("ucc-path")
WIDTH, HEIGHT, TILE = 97_792, 221_184, 512
MAX_PROCESS_MB = 600


def tiles() -> Iterator[NDArray[np.uint8]]:
    """Glass, with a disc of tissue of 8 mm across; few distinct tiles, so that the file stays small."""
    rng = np.random.default_rng(0)
    glass = np.full((TILE, TILE, 3), 243, np.uint8)
    noise = rng.integers(-8, 9, (4, TILE, TILE, 3))
    tissue = [np.clip(np.array((205, 140, 190)) + part, 0, 255).astype(np.uint8) for part in noise]
    for row in range(HEIGHT // TILE):
        for col in range(WIDTH // TILE):
            is_tissue = (row - 200) ** 2 + (col - 95) ** 2 < 80**2
            yield tissue[(row * 7 + col) % 4] if is_tissue else glass


@pytest.mark.soak
def test_memory_does_not_grow_with_the_slide(tmp_path: Path) -> None:
    slide = tmp_path / "large.tif"
    pyramid_tiff.write(slide, tiles(), size_px=(WIDTH, HEIGHT), mpp=0.243, tile_px=TILE)
    asap_xml.write(slide.with_suffix(".xml"), [np.array(box(30_000, 80_000, 60_000, 120_000))])
    command = [PROGRAM, "tile", slide, "-o", tmp_path / "dataset", "--per-slide", "60", "--workers", "2"]
    subprocess.run(command, check=True)
    largest_mb = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1000
    assert len(tiles_csv.read(tmp_path / "dataset")) == 180
    assert largest_mb < MAX_PROCESS_MB
    print(f"largest process {largest_mb:.0f} MB")
