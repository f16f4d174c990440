"""The tiles that are judged: read when they are needed, a few at a time, those of one slide together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from ucc_path.ahead import in_order
from ucc_path.bags import cell_px, patches_of_tissue, pixels_of_cells, tissue_cells
from ucc_path.formats import tile_png
from ucc_path.formats.tiles_csv import TileRow
from ucc_path.settings import TissueSettings
from ucc_path.stain import Change, count_levels, standard_of

Bools = NDArray[np.bool_]
T = TypeVar("T", bound=np.generic)


@dataclass(frozen=True, slots=True)
class Reading:
    """How tiles are read: the same for all models, so that all are judged on the same patches."""

    dataset: Path
    patch_px: int
    min_tissue: float  # share of a patch; what has less is background
    tissue: TissueSettings

    def patch_side(self, row: TileRow) -> int:
        """Patches along the side of a tile."""
        return row.tile_px // self.patch_px


@dataclass(frozen=True, slots=True, eq=False)
class Tile:
    """A tile, its truth, and which of its patches are judged."""

    row: TileRow
    image: NDArray[np.uint8]  # (side, side, 3)
    tumour: Bools  # (side, side)
    tissue: Bools  # (side // cell_px, side // cell_px)
    is_judged: Bools  # (rows, cols) of patches
    patch_px: int

    @property
    def is_tissue(self) -> Bools:
        """Of each pixel; what is left beside the last whole cell is none."""
        return _on_pixels(self.tissue, cell_px(self.patch_px), len(self.image))

    @property
    def patches(self) -> NDArray[np.uint8]:
        """Those that are judged, row by row: (n, patch_px, patch_px, 3)."""
        return _squares(self.image, self.patch_px)[self.is_judged]

    @property
    def is_tumour_patch(self) -> Bools:
        """Which patches (rows, cols) are tumour on at least half of their area: the best that a grid can say."""
        return np.asarray(_squares(self.tumour, self.patch_px).mean(axis=(2, 3)) >= 0.5)

    def on_pixels(self, labels: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """Labels of patches (rows, cols) as labels of pixels (side, side); beyond the last patch it is background."""
        return _on_pixels(labels, self.patch_px, len(self.image))


def read_tile(row: TileRow, reading: Reading) -> Tile:
    image = tile_png.read_image(reading.dataset, row)
    tissue = tissue_cells(image, row.mpp, reading.patch_px, reading.tissue)
    is_judged = patches_of_tissue(tissue[None], reading.min_tissue)[0]
    return Tile(row, image, tile_png.read_mask(reading.dataset, row), tissue, is_judged, reading.patch_px)


def read_patches(row: TileRow, reading: Reading) -> NDArray[np.uint8]:
    """The patches of a tile that are tissue, (n, patch_px, patch_px, 3); its truth is not looked at."""
    image = tile_png.read_image(reading.dataset, row)
    tissue = tissue_cells(image, row.mpp, reading.patch_px, reading.tissue)
    is_judged = patches_of_tissue(tissue[None], reading.min_tissue)[0]
    patches: NDArray[np.uint8] = _squares(image, reading.patch_px)[is_judged]
    return patches


def chunks(rows: Sequence[TileRow], most: int) -> Iterator[list[TileRow]]:
    """At most so many tiles at a time, all of one slide."""
    for _, group in groupby(rows, key=lambda row: row.slide):
        of_slide = list(group)
        yield from (of_slide[first : first + most] for first in range(0, len(of_slide), most))


def standards(rows: Sequence[TileRow], reading: Reading, threads: int) -> Iterator[tuple[str, Change]]:
    """The standard of each slide's stain, from the tissue of its tiles, as in training; yields (slide, standard)."""

    def levels(row: TileRow) -> NDArray[np.int64]:
        image = tile_png.read_image(reading.dataset, row)
        is_tissue = tissue_cells(image, row.mpp, reading.patch_px, reading.tissue)
        return count_levels(pixels_of_cells(image, is_tissue, cell_px(reading.patch_px)))

    counted = zip(rows, in_order(levels, rows, threads), strict=True)
    for slide, group in groupby(counted, key=lambda pair: pair[0].slide):
        total = np.zeros((3, 256), np.int64)
        for _, counts in group:
            total += counts
        yield slide, standard_of(total)


def _squares(picture: NDArray[T], side_px: int) -> NDArray[T]:
    """A view (rows, cols, side_px, side_px, ...) of the whole squares of a picture (side, side, ...)."""
    count = len(picture) // side_px
    whole = picture[: count * side_px, : count * side_px]
    squares: NDArray[T] = whole.reshape(count, side_px, count, side_px, *picture.shape[2:]).swapaxes(1, 2)
    return squares


def _on_pixels(cells: NDArray[T], cell: int, side: int) -> NDArray[T]:
    found = np.zeros((side, side), cells.dtype)
    rows, cols = cells.shape[0] * cell, cells.shape[1] * cell
    found[:rows, :cols] = cells.repeat(cell, axis=0).repeat(cell, axis=1)
    return found
