"""The share of every cell of a grid that is tumour: areas, exact, without pixels.

An edge gives the tumour to its right: to its own cell the part of the edge's height that lies right of it, to all cells
further right in the row the height itself. Down counts up, up counts down, and what is left is the tumour's area. So
edges are cut where they cross from cell to cell, each part is noted in its cell and in the next one, and sums along
rows are the areas. The cost is that of the cuts, whatever the number of cells.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from ucc_path.annotation import Annotation, Edges
from ucc_path.geometry import Grid

_ROUNDING = 1e-10  # of a cell; what sums of an outline's edges may fall short of 0 or 1

_Numbers = NDArray[np.float64]
_Places = NDArray[np.int64]


def cell_shares(annotation: Annotation, grid: Grid) -> NDArray[np.float64]:
    """Share of each cell that is tumour, (rows, cols); exactly 0 where there is none and 1 where there is all.

    The grid may hang over the slide or the tumour, or miss it.
    """
    shares = np.empty((grid.rows, grid.cols))
    for rows, band in bands_of_shares(annotation, grid):
        shares[rows] = band
    return shares


def bands_of_shares(
    annotation: Annotation, grid: Grid, *, most_cells: int = 2**20
) -> Iterator[tuple[slice, NDArray[np.float64]]]:
    """The same in bands from top to bottom: the rows of the grid, and the shares of their cells, (rows, cols).

    A band has up to `most_cells` cells, or one row. Some 24 bytes a cell are taken, and some 200 a cut of an edge.
    """
    if most_cells < 1:
        raise ValueError(f"most_cells is {most_cells}; a band needs at least one")
    ys = (annotation.edges[:, [1, 3]] - grid.corner.y) / grid.cell_l0
    upper, lower = ys.min(axis=1), ys.max(axis=1)
    height = max(1, most_cells // max(1, grid.cols))
    for top in range(0, grid.rows, height):
        rows = slice(top, min(top + height, grid.rows))
        edges = annotation.edges[(upper < rows.stop) & (lower > rows.start)]
        yield rows, _shares(_in_cells(edges, grid, top), rows.stop - top, grid.cols)


def _in_cells(edges: Edges, grid: Grid, top: int) -> Edges:
    """Edges in units of cells, from the left end of the row `top`."""
    corner = [grid.corner.x, grid.corner.y, grid.corner.x, grid.corner.y]
    return np.asarray((edges - corner) / grid.cell_l0 - [0, top, 0, top], np.float64)


def _shares(edges: Edges, rows: int, cols: int) -> NDArray[np.float64]:
    """Shares of the cells from (0, 0) to (cols, rows), (rows, cols), given edges in units of cells."""
    row, x_from, x_to, dy = _cut_at_rows(edges, rows)
    is_near = np.minimum(x_from, x_to) < cols  # what lies right of all cells gives them nothing
    row, x_from, x_to, dy = row[is_near], x_from[is_near], x_to[is_near], dy[is_near]
    of, col, right_of, dy_parts = _cut_at_columns(x_from, x_to, dy, cols)
    cell = row[of] * (cols + 1) + col  # one column more, for the next of the last
    areas = np.zeros(rows * (cols + 1) + 1)
    areas += np.bincount(cell, dy_parts * right_of, minlength=len(areas))
    areas += np.bincount(cell + 1, dy_parts * (1 - right_of), minlength=len(areas))
    shares = areas[:-1].reshape(rows, cols + 1)
    np.cumsum(shares, axis=1, out=shares)
    shares = np.asarray(np.clip(shares[:, :cols], 0.0, 1.0), np.float64)
    shares[shares < _ROUNDING] = 0.0
    shares[shares > 1 - _ROUNDING] = 1.0
    return shares


def _cut_at_rows(edges: Edges, rows: int) -> tuple[_Places, _Numbers, _Numbers, _Numbers]:
    """Edges as pieces that each lie in one row: the row, x at both ends, and the height, negative where it goes up."""
    x0, y0, x1, y1 = edges.T
    upper, lower = np.clip(np.minimum(y0, y1), 0, rows), np.clip(np.maximum(y0, y1), 0, rows)
    of, row, y_from, y_to = _cut(upper, lower)
    x0, y0, x1, y1 = edges[of].T
    x_from, x_to = (x0 + np.clip((y - y0) / (y1 - y0), 0, 1) * (x1 - x0) for y in (y_from, y_to))
    return np.minimum(row, rows - 1), x_from, x_to, np.where(y1 > y0, 1, -1) * (y_to - y_from)


def _cut_at_columns(
    x_from: _Numbers, x_to: _Numbers, dy: _Numbers, cols: int
) -> tuple[_Places, _Places, _Numbers, _Numbers]:
    """Pieces of edges in parts that each lie in one column.

    Of each part: which piece it is of, the column, the share of the cell's width that lies right of it, and its height.
    What lies left of all columns is moved to the left side of the first: all cells are right of both.
    """
    low, high = np.minimum(x_from, x_to), np.maximum(x_from, x_to)
    is_upright = high == low
    span = np.where(is_upright, 1.0, high - low)
    of, col, x_low, x_high = _cut(np.clip(low, 0, cols), np.clip(high, 0, cols))
    share = np.where(is_upright[of], 1.0, (x_high - x_low) / span[of])
    right_of = 1 - ((x_low + x_high) / 2 - col)
    # An upright piece left of all columns is there already; of a slanting one the part left of them was cut off.
    cut_off = np.where(is_upright, 0.0, np.clip(-low / span, 0, 1))
    left = np.flatnonzero(cut_off)
    return (
        np.concatenate([of, left]),
        np.concatenate([col, np.zeros_like(left)]),
        np.concatenate([right_of, np.ones(len(left))]),
        np.concatenate([dy[of] * share, dy[left] * cut_off[left]]),
    )


def _cut(low: _Numbers, high: _Numbers) -> tuple[_Places, _Places, _Numbers, _Numbers]:
    """Stretches cut at whole numbers; of each part: which stretch it is of, the number it begins after, its two ends.

    A stretch without length stays one part.
    """
    first = np.floor(low).astype(np.int64)
    count = np.maximum(np.ceil(high).astype(np.int64) - first, 1)
    of = np.repeat(np.arange(len(low)), count)  # (stretches,) -> (parts,)
    after = np.arange(len(of)) - np.repeat(np.cumsum(count) - count - first, count)
    return of, after, np.maximum(low[of], after), np.minimum(high[of], after + 1)
