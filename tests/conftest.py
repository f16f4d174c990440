"""Makers of small slides and annotations whose truth is known by construction."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
import tifffile
from hypothesis import settings
from numpy.typing import NDArray

# The same cases in every run, however busy the machine is.
settings.register_profile("repeatable", derandomize=True, deadline=None, database=None)
settings.load_profile("repeatable")

PROGRAM = Path(sys.executable).with_name("ucc-path")
SHARED_DATA = Path(__file__).parents[2] / "shared" / "data"

GLASS = (243, 243, 243)
TISSUE = (205, 140, 190)


@pytest.fixture
def shared_data() -> Path:
    """Real slides, where they are at hand."""
    if not SHARED_DATA.is_dir():
        pytest.skip(f"the real slides are not at {SHARED_DATA}")
    return SHARED_DATA


def write_tiff(path: Path, rgb: NDArray[np.uint8], *, mpp: float | None, levels: int = 3, tile_px: int = 256) -> Path:
    """A lossless pyramidal TIFF as OpenSlide reads it, each level the average of 2 x 2 pixels of the one below."""
    per_cm = None if mpp is None else (10_000 / mpp, 10_000 / mpp)
    with tifffile.TiffWriter(path) as tiff:
        for level in range(levels):
            tiff.write(
                rgb,
                tile=(tile_px, tile_px),
                photometric="rgb",
                compression="zlib",
                resolution=per_cm,
                resolutionunit=None if mpp is None else "CENTIMETER",
                subfiletype=int(level > 0),
                metadata=None,
            )
            rgb = halved(rgb)
    return path


def halved(rgb: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """The mean of each 2 x 2 pixels; an odd last row or column is left out."""
    rows, cols = rgb.shape[0] // 2, rgb.shape[1] // 2
    blocks = rgb[: rows * 2, : cols * 2].reshape(rows, 2, cols, 2, 3)
    return np.rint(blocks.mean(axis=(1, 3))).astype(np.uint8)


def open_files() -> int:
    """How many files this process has open."""
    return len(list(Path("/proc/self/fd").iterdir()))


@pytest.fixture(scope="session")
def slides_made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where `make_slide` keeps what it has made: making takes longer than copying."""
    return tmp_path_factory.mktemp("slides_made")


@pytest.fixture
def make_slide(tmp_path: Path, slides_made: Path) -> Callable[..., Path]:
    """`make_slide("a", tissue_px=(left, top, right, bottom))`: a slide of stained tissue in a box, glass around it."""

    def make(
        name: str = "slide",
        *,
        size_px: tuple[int, int] = (2048, 2048),
        tissue_px: tuple[int, int, int, int] = (128, 128, 1920, 1920),
        mpp: float | None = 0.5,
        seed: int = 0,
        folder: Path | None = None,
    ) -> Path:
        made = slides_made / f"{size_px}_{tissue_px}_{mpp}_{seed}.tif"
        if not made.exists():
            rng = np.random.default_rng(seed)
            rgb = np.full((size_px[1], size_px[0], 3), GLASS, np.int16)
            left, top, right, bottom = tissue_px
            rgb[top:bottom, left:right] = TISSUE
            rgb += rng.integers(-6, 7, rgb.shape, np.int16)
            write_tiff(made, np.clip(rgb, 0, 255).astype(np.uint8), mpp=mpp)
        folder = folder or tmp_path / "slides"
        folder.mkdir(parents=True, exist_ok=True)
        return Path(shutil.copyfile(made, folder / f"{name}.tif"))

    return make


@pytest.fixture
def make_xml() -> Callable[..., Path]:
    """`make_xml(slide, [ring, ...], [hole, ...])` writes ASAP XML beside a slide; rings are lists of (x, y)."""
    from ucc_path.formats import asap_xml

    def make(
        slide: Path,
        tumour: Sequence[Sequence[tuple[float, float]]],
        excluded: Sequence[Sequence[tuple[float, float]]] = (),
    ) -> Path:
        path = slide.with_suffix(".xml")
        asap_xml.write(path, [np.array(ring, float) for ring in tumour], [np.array(ring, float) for ring in excluded])
        return path

    return make


def box(left: float, top: float, right: float, bottom: float) -> list[tuple[float, float]]:
    """A rectangle as a ring."""
    return [(left, top), (right, top), (right, bottom), (left, bottom)]
