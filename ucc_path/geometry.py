"""Coordinate planes and the only conversions between them.

Names carry their plane: `_l0` is level-0 pixels of the slide (x right, y down; all that is stored), `_px` is pixels of
a picture at a working scale, `_um` is micrometres of glass. A *cell* is (row, col) in a `Grid`. Points are (x, y),
arrays are [row, col], and nothing mixes the two.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple


class PointL0(NamedTuple):
    """A place on the slide in level-0 pixels."""

    x: float
    y: float


class SizeL0(NamedTuple):
    """A width and height in level-0 pixels."""

    width: float
    height: float


@dataclass(frozen=True, slots=True)
class Cell:
    """A place in a grid; never equal to a point with the same numbers."""

    row: int
    col: int


@dataclass(frozen=True, slots=True)
class BoxL0:
    """An axis-aligned rectangle on the slide."""

    corner: PointL0
    size: SizeL0

    @property
    def right(self) -> float:
        return self.corner.x + self.size.width

    @property
    def bottom(self) -> float:
        return self.corner.y + self.size.height


@dataclass(frozen=True, slots=True)
class Grid:
    """Square cells laid over the slide from `corner`, `rows` x `cols` of them, each `cell_l0` level-0 pixels wide."""

    corner: PointL0
    cell_l0: float
    rows: int
    cols: int

    @classmethod
    def covering(cls, size_l0: SizeL0, cell_l0: float) -> Grid:
        """The grid whose cells cover all of the slide; the last row and column may hang over its edge."""
        rows = max(1, math.ceil(size_l0.height / cell_l0 - 1e-9))
        cols = max(1, math.ceil(size_l0.width / cell_l0 - 1e-9))
        return cls(PointL0(0, 0), cell_l0, rows, cols)

    @property
    def size_l0(self) -> SizeL0:
        return SizeL0(self.cols * self.cell_l0, self.rows * self.cell_l0)

    def origin(self, cell: Cell) -> PointL0:
        """The top left corner of a cell."""
        return PointL0(self.corner.x + cell.col * self.cell_l0, self.corner.y + cell.row * self.cell_l0)


def scale_between(mpp: float, slide_mpp: float) -> float:
    """How many level-0 pixels one pixel at `mpp` spans: (um/px) / (um/px_l0) = px_l0/px."""
    return mpp / slide_mpp
