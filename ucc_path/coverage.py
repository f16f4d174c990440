"""How much of any place on a slide a mask covers: tissue, or tumour, known on a grid of cells."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ucc_path.geometry import Grid, PointL0, SizeL0

Mask = NDArray[np.bool_]
Places = NDArray[np.floating] | NDArray[np.int64]  # x or y of corners, in level-0 pixels


@dataclass(frozen=True, eq=False)
class Coverage:
    """Something on the slide: `mask` (rows, cols), each of its pixels one cell of `grid`.

    Shares are exact for the mask: a cell that a box cuts counts with the part inside. The slide ends where the grid
    ends; beyond it nothing is covered.
    """

    mask: Mask
    grid: Grid
    _sums: NDArray[np.int32] = field(init=False, repr=False)  # [r, c] is the count of mask[:r, :c]

    def __post_init__(self) -> None:
        if self.mask.shape != (self.grid.rows, self.grid.cols):
            raise ValueError(f"a mask {self.mask.shape} on a grid of {self.grid.rows} x {self.grid.cols} cells")
        sums = np.zeros((self.grid.rows + 1, self.grid.cols + 1), np.int32)
        np.cumsum(self.mask, axis=0, dtype=np.int32, out=sums[1:, 1:])
        np.cumsum(sums, axis=1, out=sums)
        object.__setattr__(self, "_sums", sums)

    @property
    def area_l0(self) -> float:
        """Area of all that is covered, in level-0 pixels squared."""
        return float(self._sums[-1, -1]) * self.grid.cell_l0**2

    def share(self, corner_l0: PointL0, size_l0: SizeL0) -> float:
        """Share of a box that is covered."""
        rows = self._rows(np.array([corner_l0.y, corner_l0.y + size_l0.height]))
        cols = self._cols(np.array([corner_l0.x, corner_l0.x + size_l0.width]))
        counts = self._count_above_left(rows[:, None], cols[None, :])
        return float(_box_counts(counts)[0, 0]) * self.grid.cell_l0**2 / (size_l0.width * size_l0.height)

    def shares(self, xs_l0: Places, ys_l0: Places, side_l0: float) -> NDArray[np.float64]:
        """Share of each of many squares that is covered, given their top left corners; the shape of `xs_l0`."""
        left, right = self._cols(xs_l0), self._cols(xs_l0 + side_l0)
        top, bottom = self._rows(ys_l0), self._rows(ys_l0 + side_l0)
        count = self._count_above_left
        covered = count(bottom, right) - count(bottom, left) - count(top, right) + count(top, left)
        return covered * (self.grid.cell_l0 / side_l0) ** 2

    def share_per_cell(self, grid: Grid) -> NDArray[np.float32]:
        """Share of each cell of another grid that is covered, (grid.rows, grid.cols)."""
        rows = self._rows(grid.corner.y + grid.cell_l0 * np.arange(grid.rows + 1))
        cols = self._cols(grid.corner.x + grid.cell_l0 * np.arange(grid.cols + 1))
        counts = _box_counts(self._count_above_left(rows[:, None], cols[None, :]))
        return (counts * (self.grid.cell_l0 / grid.cell_l0) ** 2).astype(np.float32)

    def _rows(self, ys_l0: Places) -> NDArray[np.float64]:
        return np.clip((ys_l0 - self.grid.corner.y) / self.grid.cell_l0, 0.0, self.grid.rows)

    def _cols(self, xs_l0: Places) -> NDArray[np.float64]:
        return np.clip((xs_l0 - self.grid.corner.x) / self.grid.cell_l0, 0.0, self.grid.cols)

    def _count_above_left(self, rows: NDArray[np.float64], cols: NDArray[np.float64]) -> NDArray[np.float64]:
        """Covered cells above `rows` and left of `cols`; between whole cells the sums are linear along each axis."""
        row = np.minimum(rows.astype(np.int64), self.grid.rows - 1)
        col = np.minimum(cols.astype(np.int64), self.grid.cols - 1)
        down, right = rows - row, cols - col
        above = self._sums[row, col] * (1 - right) + self._sums[row, col + 1] * right
        below = self._sums[row + 1, col] * (1 - right) + self._sums[row + 1, col + 1] * right
        return np.asarray(above * (1 - down) + below * down, np.float64)


def _box_counts(counts: NDArray[np.float64]) -> NDArray[np.float64]:
    """Counts above and left of corners (rows + 1, cols + 1) -> counts within the boxes between them (rows, cols)."""
    return np.diff(np.diff(counts, axis=0), axis=1)
