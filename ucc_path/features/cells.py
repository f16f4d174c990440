"""The cells of a slide's mask, which of them are tissue, and the patch that each is judged by.

A cell is a patch wide, or less where masks are to be finer; its patch lies around its middle. Cells are whole level-0
pixels wide, so that a mask lies exactly on its slide in every viewer; patches have exactly the model's scale. Where the
two do not divide evenly a patch begins at the working pixel nearest to its place.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ucc_path.coverage import Coverage
from ucc_path.errors import SlideError
from ucc_path.geometry import Cell, Grid, PointL0, SizeL0, scale_between

BLOCK_PX = 512  # side of what is read at once: that of most stored tiles
_ROUNDING = 1e-6  # of a share

Mask = NDArray[np.bool_]


def block_cells(patch_px: int, stride_px: int) -> int:
    """Cells along the side of a block: whole patches, as many as make up what is read at once."""
    cells_a_patch = max(1, round(patch_px / stride_px))
    return max(1, BLOCK_PX // (stride_px * cells_a_patch)) * cells_a_patch


@dataclass(frozen=True, slots=True)
class CellPlan:
    """The grid of cells over a slide, and how patches lie on it."""

    grid: Grid  # from the slide's corner, cell_l0 whole; what is left at the right and at the bottom has no cell
    patch_px: int
    stride_px: int  # a cell at the scale of the patches
    mpp: float  # of the patches
    pixel_l0: float  # level-0 pixels that one of their pixels spans

    @classmethod
    def of(cls, size_l0: SizeL0, slide_mpp: float, *, patch_px: int, stride_px: int, mpp: float, name: str) -> CellPlan:
        """The plan for a slide of this size; refuses one that is smaller than a patch, calling it `name`."""
        pixel_l0 = scale_between(mpp, slide_mpp)
        # A slide may be a little coarser than the model; no cell then has less than a pixel for each of the patch's.
        cell_l0, patch_l0 = (max(side_px, round(side_px * pixel_l0)) for side_px in (stride_px, patch_px))
        rows, cols = int(size_l0.height // cell_l0), int(size_l0.width // cell_l0)
        if min(size_l0) < patch_l0:
            raise SlideError(
                f"{name} is {size_l0.width:.0f} x {size_l0.height:.0f} px at {slide_mpp:.4g} um/px, smaller than a "
                f"patch of {patch_px} px at {mpp:.4g} um/px; give its true scale with --slide-mpp, or leave it out"
            )
        return cls(Grid(PointL0(0, 0), cell_l0, rows, cols), patch_px, stride_px, mpp, pixel_l0)

    @property
    def cells_a_patch(self) -> int:
        """Cells along the side of a patch: how far neighbouring patches that do not overlap are apart."""
        return max(1, round(self.patch_px / self.stride_px))

    @property
    def band_rows(self) -> int:
        """Rows of cells that are worked on together, and columns of a block."""
        return block_cells(self.patch_px, self.stride_px)

    def corner(self, cell: Cell) -> PointL0:
        """Where the patch of a cell begins."""
        x, y = self.grid.origin(cell)
        before_l0 = (self.patch_px - self.stride_px) // 2 * self.pixel_l0
        return PointL0(x - before_l0, y - before_l0)

    def offsets_px(self, count: int) -> NDArray[np.int64]:
        """How many pixels behind the patch of the first of `count` cells in a row each one's patch begins."""
        places: NDArray[np.int64] = np.rint(np.arange(count) * (self.grid.cell_l0 / self.pixel_l0)).astype(np.int64)
        return places


@dataclass(frozen=True, slots=True, eq=False)
class Block:
    """Cells that are read together: a rectangle of them, from `first`, of which some are wanted."""

    first: Cell
    wanted: Mask  # (rows, cols)

    @property
    def cells(self) -> NDArray[np.int64]:
        """The wanted ones as (n, 2) of (row, col) on the slide, row by row."""
        return np.asarray(np.argwhere(self.wanted) + np.array([self.first.row, self.first.col]), np.int64)


def tissue_cells(plan: CellPlan, tissue: Coverage, min_tissue: float) -> Mask:
    """Which cells have a patch that is at least `min_tissue` tissue, (rows, cols)."""
    is_tissue = np.empty((plan.grid.rows, plan.grid.cols), np.bool_)
    xs_l0 = plan.corner(Cell(0, 0)).x + plan.grid.cell_l0 * np.arange(plan.grid.cols)
    ys_l0 = plan.corner(Cell(0, 0)).y + plan.grid.cell_l0 * np.arange(plan.grid.rows)
    side_l0 = plan.patch_px * plan.pixel_l0
    for top in range(0, plan.grid.rows, plan.band_rows):  # in bands: shares take eight times the memory of a mask
        xs, ys = np.broadcast_arrays(xs_l0, ys_l0[top : top + plan.band_rows, None])
        is_tissue[top : top + plan.band_rows] = tissue.shares(xs, ys, side_l0) >= min_tissue - _ROUNDING
    return is_tissue


def blocks(plan: CellPlan, is_tissue: Mask) -> Iterator[Block]:
    """The blocks that hold tissue, band by band and from left to right, each no larger than its tissue.

    A block begins where tissue does: a network of pixels computes whole blocks, also what is no tissue in them. To a
    quarter of its side: stored tiles are often as large, and one on the border of two blocks would be decoded twice.
    """
    side = plan.band_rows
    quarter = max(1, side // 4)
    for top in range(0, plan.grid.rows, side):
        band = is_tissue[top : top + side]
        right = 0
        for left in np.flatnonzero(band.any(axis=0)).tolist():
            if left >= right:
                start = max(right, left // quarter * quarter)
                right = start + side
                yield _trimmed(Cell(top, start), band[:, start:right])


def _trimmed(first: Cell, wanted: Mask) -> Block:
    """Without empty rows and columns at its edges: stored tiles that hold nothing wanted need not be decoded."""
    rows, cols = np.flatnonzero(wanted.any(axis=1)), np.flatnonzero(wanted.any(axis=0))
    inner = wanted[rows[0] : rows[-1] + 1, cols[0] : cols[-1] + 1]
    return Block(Cell(first.row + int(rows[0]), first.col + int(cols[0])), inner)
