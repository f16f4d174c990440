"""The workflow on slides it makes itself, offline: the work of `ucc-path demo`."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, replace
from pathlib import Path

from ucc_path.formats.atomic import explaining
from ucc_path.settings import TilingSettings
from ucc_path.synthetic import make_slide
from ucc_path.workflows.events import Event, Progress, Step
from ucc_path.workflows.tile import CONTACT_SHEET, TileReport, TileRequest, tile

SLIDE_PX = (6000, 6000)
SLIDE_MPP = 0.5
TUMOUR_SHARES = (0.5, 0.4, 0.6, 0.45, 0.55)  # of the tissue of each slide
TILING = replace(TilingSettings(), tile_px=256, per_slide=12)


@dataclass(frozen=True, slots=True)
class DemoReport:
    """Where everything is, and what came of tiling."""

    slides: tuple[Path, ...]
    tiles: TileReport
    contact_sheet: Path


def demo(output: Path, *, workers: int, overwrite: bool) -> Generator[Event, None, DemoReport]:
    """Makes slides with known tumour and a data set of them; slides that are there from an earlier run are kept."""
    folder = output / "slides"
    with explaining(folder):
        folder.mkdir(parents=True, exist_ok=True)
    yield Step(f"Making {len(TUMOUR_SHARES)} slides with known tumour in {folder}")
    slides = []
    for number, tumour_share in enumerate(TUMOUR_SHARES, start=1):
        path = folder / f"case_{number}.tif"
        yield Progress("making slides", number - 1, len(TUMOUR_SHARES), "slides")
        if overwrite or not (path.exists() and path.with_suffix(".xml").exists()):
            make_slide(path, seed=number, size_px=SLIDE_PX, mpp=SLIDE_MPP, tumour_share=tumour_share, workers=workers)
        slides.append(path)
    yield Progress("making slides", len(slides), len(slides), "slides")
    dataset = output / "dataset"
    yield Step(
        "Cropping labelled tiles. On your own slides you would type:\n"
        f"  ucc-path tile {folder} --tile-px {TILING.tile_px} --per-slide {TILING.per_slide} -o {dataset}"
    )
    request = TileRequest(slides=tuple(slides), output=dataset, workers=workers, overwrite=overwrite, tiling=TILING)
    report = yield from tile(request)
    return DemoReport(tuple(slides), report, dataset / CONTACT_SHEET)
