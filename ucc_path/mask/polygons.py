"""Labels on a grid of cells → regions of one label, outlined exactly along the borders of cells.

A border is kept as its level stretches, each from one corner to the next with the region on its right hand (y down). To
find the upright ones between them, the ends of level stretches are sorted by column: the first and second in a column
are joined, the third and fourth, and so on. Python walks from stretch to stretch; all else is done on arrays.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage

_BAND_CELLS = 2**20  # counted at once: numpy takes 16 bytes for each

Ring: TypeAlias = NDArray[np.int64]  # (n, 2), columns (x, y) in level-0 pixels, the last point the first one again


@dataclass(frozen=True, slots=True, eq=False)
class Region:
    """Cells of one label that hang together by their sides.

    The first ring is the outside, from the top left corner of the region's first cell rightwards; the others are holes.
    On the slide, where y runs down, the outside goes clockwise and holes go anti-clockwise; by their numbers alone they
    turn as GeoJSON asks. Rings are simple, and touch each other at single points only: the polygon is valid.
    """

    label: int
    cells: int
    score: float  # from 0 to 1: the mean of how sure its cells are
    rings: tuple[Ring, ...]


@dataclass(frozen=True, slots=True, eq=False)
class _Stretches:
    """The level stretches of the borders of a class, in reading order."""

    y: NDArray[np.int32]  # (n,), in cells
    x: NDArray[np.int32]  # (n, 2), columns left, right, in cells and one too high, by the padding
    rightwards: NDArray[np.bool_]  # (n,), the region is below then


def regions(labels: NDArray[np.uint8], margins: NDArray[np.uint8] | None, *, cell_l0: int) -> Iterator[Region]:
    """The 4-connected regions of each label > 0 of a raster (rows, cols), by label and then by their first cell.

    The first cell is the first in reading, row by row. Beside the raster some 8 bytes a cell are taken, and more where
    most cells are unlike their neighbours.
    `margins` (rows, cols) says how sure each cell is, 255 being sure; without it all are.
    """
    for place, box in enumerate(ndimage.find_objects(labels)):
        if box is not None:
            sure = None if margins is None else margins[box]
            yield from _regions_of(place + 1, labels[box], sure, (box[1].start, box[0].start), cell_l0)


def _regions_of(
    label: int,
    labels: NDArray[np.uint8],
    margins: NDArray[np.uint8] | None,
    corner: tuple[int, int],
    cell_l0: int,
) -> Iterator[Region]:
    """Those of one label; `corner` is the column and row in which the cropped rasters begin."""
    inside = np.pad(labels == label, 1)
    stretches = _level_stretches(inside)
    parts, count = ndimage.label(inside, output=np.int32)  # (rows + 2, cols + 2), without diagonals
    cells, scores = _count_and_mean(parts[1:-1, 1:-1], margins, count)
    part = parts[stretches.y + stretches.rightwards, stretches.x[:, 0]]  # (stretches,)
    del inside, parts
    walked, begins = _walk(_followers(stretches, part))
    parts_of_rings = part[walked[begins[:-1]]]
    points = _points(stretches, walked) + np.array(corner, np.int32)
    # Parts are numbered by their first cells; rings were walked by their first stretches, so the outside comes first.
    ordered = np.argsort(parts_of_rings, kind="stable").tolist()
    for this, group in groupby(ordered, key=parts_of_rings.tolist().__getitem__):
        rings = [_closed(points[2 * begins[ring] : 2 * begins[ring + 1]]) * cell_l0 for ring in group]
        yield Region(label, int(cells[this]), float(scores[this]), tuple(rings))


def _level_stretches(inside: NDArray[np.bool_]) -> _Stretches:
    """Where a cell is inside and the one above or below it is not; nothing is inside along the raster's own border."""
    width = inside.shape[1]
    steps = np.diff(inside.view(np.int8), axis=0).reshape(-1)  # 1 where the class begins below, -1 where it ends
    changes = np.flatnonzero(steps[1:] != steps[:-1]) + 1
    left, right = changes[steps[changes] != 0], changes[steps[changes - 1] != 0]
    x = np.column_stack([left % width, right % width]).astype(np.int32)
    return _Stretches((left // width).astype(np.int32), x, steps[left] > 0)


def _followers(stretches: _Stretches, part: NDArray[np.int32]) -> NDArray[np.int32]:
    """The stretch to which an upright border leads from the end of each, (stretches,)."""
    y, x, rightwards = stretches.y, stretches.x, stretches.rightwards
    ends = np.arange(2 * len(y), dtype=np.int32)  # the left end of stretch k is 2k, its right end 2k + 1
    # Where four borders meet, two cells touch at a corner. The end whose upright goes up is to come first: if they are
    # of two parts, each keeps to its own cell; if of one, each keeps to what is not inside, or the ring would pass the
    # corner twice and not be simple.
    meet = np.flatnonzero((y[:-1] == y[1:]) & (x[:-1, 1] == x[1:, 0]))
    swapped = 2 * meet[rightwards[meet] != (part[meet] == part[meet + 1])] + 1
    ends[swapped], ends[swapped + 1] = swapped + 1, swapped
    joined = ends[np.argsort(x.reshape(-1), kind="stable")].reshape(-1, 2)
    arrives = (joined[:, 0] % 2 == 1) == rightwards[joined[:, 0] // 2]
    followers = np.empty(len(y), np.int32)
    followers[np.where(arrives, joined[:, 0], joined[:, 1]) // 2] = np.where(arrives, joined[:, 1], joined[:, 0]) // 2
    return followers


def _walk(followers: NDArray[np.int32]) -> tuple[NDArray[np.int32], list[int]]:
    """All stretches ring by ring, (stretches,), and where in them each ring begins, with the end of the last."""
    walked, begins, place = np.empty_like(followers), [], 0
    following, path, seen = followers.data, walked.data, bytearray(len(followers))
    for first in range(len(followers)):
        if seen[first]:
            continue
        begins.append(place)
        at = first
        while not seen[at]:
            seen[at] = 1
            path[place] = at
            place += 1
            at = following[at]
    return walked, [*begins, place]


def _points(stretches: _Stretches, walked: NDArray[np.int32]) -> NDArray[np.int32]:
    """The corners passed on the way, (2 * stretches, 2), columns (x, y), without the padding."""
    points = np.empty((len(walked), 2, 2), np.int32)
    x, turned = stretches.x[walked] - 1, ~stretches.rightwards[walked]
    x[turned] = x[turned, ::-1]
    points[..., 0], points[..., 1] = x, stretches.y[walked, None]
    return points.reshape(-1, 2)


def _closed(points: NDArray[np.int32]) -> Ring:
    ring = np.empty((len(points) + 1, 2), np.int64)
    ring[:-1], ring[-1] = points, points[0]
    return ring


def _count_and_mean(
    parts: NDArray[np.int32], margins: NDArray[np.uint8] | None, count: int
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Cells of each part and the mean of their margins as a share of 255, both (1 + count,); place 0 is no part."""
    cells, sums = np.zeros(count + 1, np.int64), np.zeros(count + 1)
    rows = max(_BAND_CELLS, count) // parts.shape[1] + 1
    for top in range(0, len(parts), rows):
        band = parts[top : top + rows].reshape(-1)
        cells += np.bincount(band, minlength=count + 1)
        if margins is not None:
            sums += np.bincount(band, margins[top : top + rows].reshape(-1), minlength=count + 1)
    if margins is None:
        return cells, np.ones(count + 1)
    return cells, sums / (255.0 * np.maximum(cells, 1))
