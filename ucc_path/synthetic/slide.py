"""Making a synthetic slide: plan it, render its tiles in worker processes, write the pyramid and the annotation."""

from __future__ import annotations

import multiprocessing
import os
from collections import deque
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from shapely import MultiPolygon

from ucc_path.engine.local import enter_worker
from ucc_path.errors import SettingsError
from ucc_path.formats import asap_xml, pyramid_tiff
from ucc_path.synthetic import layout, outlines
from ucc_path.synthetic.render import Renderer
from ucc_path.synthetic.scene import Scene, Window

TILE_PX = 512
TILES_AHEAD = 3  # per worker; bounds what waits to be written

_renderer: Renderer | None = None  # of a worker process, set once when it starts


@dataclass(frozen=True, slots=True)
class SyntheticSlide:
    """A slide and all that is true of it; polygons in level-0 pixels, disjoint but for tumour, which lies in tissue."""

    path: Path
    xml: Path
    seed: int
    size_px: tuple[int, int]
    mpp: float
    tissue: MultiPolygon
    tumour: MultiPolygon
    ink: MultiPolygon

    @property
    def tumour_share(self) -> float:
        """Share of the tissue that is tumour."""
        return float(self.tumour.area / self.tissue.area)


def make_slide(
    path_tif: Path,
    *,
    seed: int,
    size_px: tuple[int, int] = (6000, 6000),
    mpp: float = 0.5,
    tumour_share: float = 0.5,
    tissue_share: float = 0.55,
    ink: bool = True,
    workers: int = 1,
    tile_px: int = TILE_PX,
    quality: int = 85,
    on_tile: Callable[[int, int], None] | None = None,
) -> SyntheticSlide:
    """Write a slide and its annotation (ASAP XML, same stem); the same bytes for any number of workers.

    `tumour_share` of the tissue is tumour, to within 0.05; with 0 the annotation has no polygons. `on_tile` is told
    how many level-0 tiles are rendered, of how many. Memory does not grow with the slide but for one band of tiles.
    """
    path = Path(path_tif)
    _check(path, size_px, mpp, tumour_share=tumour_share, tissue_share=tissue_share, workers=workers)
    pyramid_tiff.check(size_px=size_px, mpp=mpp, tile_px=tile_px, quality=quality)
    planned = layout.plan(
        seed=seed, size_px=size_px, mpp=mpp, tissue_share=tissue_share, tumour_share=tumour_share, ink=ink
    )
    windows = _windows(size_px, tile_px)
    xml = path.with_suffix(".xml")
    with closing(_rendered(planned.scene, windows, workers)) as rendered:  # a writer that gives up stops the workers
        tiles = _counted(rendered, len(windows), on_tile)
        pyramid_tiff.write(path, tiles, size_px=size_px, mpp=mpp, tile_px=tile_px, quality=quality)
    asap_xml.write(xml, *outlines.rings(planned.tumour))
    return SyntheticSlide(path, xml, seed, size_px, mpp, planned.tissue, planned.tumour, planned.ink)


def _check(
    path: Path, size_px: tuple[int, int], mpp: float, *, tumour_share: float, tissue_share: float, workers: int
) -> None:
    if path.suffix not in (".tif", ".tiff"):
        raise SettingsError(f"{path} is not named as a TIFF; end it in .tif")
    if not 0.1 <= mpp <= 2:
        raise SettingsError(f"mpp is {mpp}; cells can be drawn at 0.1 to 2 um/px, usually 0.5")
    if min(size_px) * mpp < 250:
        raise SettingsError(f"size_px {size_px} at {mpp} um/px is under 250 um; there is no room for tissue, give more")
    if not 0 <= tumour_share <= 0.85:
        raise SettingsError(f"tumour_share is {tumour_share}; give the share of tissue that is tumour, 0 to 0.85")
    if not 0.1 <= tissue_share <= 0.75:
        raise SettingsError(f"tissue_share is {tissue_share}; give the share of glass under tissue, 0.1 to 0.75")
    if workers < 1:
        raise SettingsError(f"workers is {workers}; give 1 or more")


def _windows(size_px: tuple[int, int], tile_px: int) -> list[Window]:
    width, height = size_px
    return [
        Window(x, y, min(tile_px, width - x), min(tile_px, height - y))
        for y in range(0, height, tile_px)
        for x in range(0, width, tile_px)
    ]


def _rendered(scene: Scene, windows: list[Window], workers: int) -> Generator[NDArray[np.uint8], None, None]:
    """The tiles in order; with one worker in this process, else in spawned ones, never far ahead of the reader."""
    if workers == 1:
        renderer = Renderer(scene)
        yield from map(renderer.region, windows)
        return
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(workers, context, initializer=_start_worker, initargs=(scene, os.getpid())) as pool:
        ahead: deque[Future[NDArray[np.uint8]]] = deque()
        try:
            for window in windows:
                ahead.append(pool.submit(_render_in_worker, window))
                if len(ahead) > TILES_AHEAD * workers:
                    yield ahead.popleft().result()
            while ahead:
                yield ahead.popleft().result()
        finally:
            for waiting in ahead:
                waiting.cancel()


def _start_worker(scene: Scene, parent: int) -> None:
    global _renderer
    enter_worker(parent)
    _renderer = Renderer(scene)


def _render_in_worker(window: Window) -> NDArray[np.uint8]:
    if _renderer is None:
        raise RuntimeError("the worker was not started with a scene")
    return _renderer.region(window)


def _counted(
    tiles: Iterator[NDArray[np.uint8]], total: int, on_tile: Callable[[int, int], None] | None
) -> Iterator[NDArray[np.uint8]]:
    for done, tile in enumerate(tiles, 1):
        if on_tile is not None:
            on_tile(done, total)
        yield tile
