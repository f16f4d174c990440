"""Organic outlines as exact polygons: level lines of smooth random fields, and pen strokes.

Vertices lie on quarters of a pixel, so that an annotation file in decimals gives back the very same numbers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

import numpy as np
import shapely
from numpy.typing import NDArray
from scipy.ndimage import distance_transform_edt, gaussian_filter, zoom
from shapely import MultiPolygon, Polygon
from shapely.geometry.base import BaseGeometry
from skimage.measure import find_contours

from ucc_path.synthetic.scene import Float, Rings

GRID_L0 = 0.25
SHARE_TOLERANCE = 0.05


def smooth_noise(rng: np.random.Generator, shape: tuple[int, int], sigma_cells: float) -> Float:
    """A random field of mean 0 and variance 1 that varies over `sigma_cells`."""
    coarser = max(1, int(sigma_cells / 4))  # what varies slowly need not be drawn at every cell
    sigma = sigma_cells / coarser
    margin = math.ceil(3 * sigma)
    rows, cols = (math.ceil(side / coarser) + 2 for side in shape)
    white = rng.standard_normal((rows + 2 * margin, cols + 2 * margin))
    blurred = gaussian_filter(white, sigma)[margin : margin + rows, margin : margin + cols]
    # The variance is that of the kernel, not of this draw: a small slide would else always hold all kinds of tissue.
    blurred = blurred * max(sigma, 0.3) * 2 * math.sqrt(math.pi)
    return np.asarray(zoom(blurred, coarser, order=2)[: shape[0], : shape[1]], np.float32)


def above(values: Float, threshold: float, *, cell_l0: float, min_area_l0: float) -> MultiPolygon:
    """Where a field on coarse cells exceeds a threshold: no piece and no hole smaller than `min_area_l0`.

    A piece within a hole of another is left out, so outlines less holes is always the whole truth.
    """
    framed = np.pad(values - threshold, 1, constant_values=-1e3)
    outer: list[Polygon] = []
    holes: list[Polygon] = []
    for contour in find_contours(framed, 0.0):  # type: ignore[no-untyped-call]
        ring = Polygon((contour[:, ::-1] - 0.5) * cell_l0) if len(contour) > 3 else Polygon()
        if ring.area >= min_area_l0:
            # scikit-image keeps the high side to one hand: in (x, y) an outline is counter-clockwise, a hole clockwise
            (outer if ring.exterior.is_ccw else holes).append(ring)
    return simple(shapely.union_all(outer).difference(shapely.union_all(holes)))


def simple(shape: BaseGeometry) -> MultiPolygon:
    """Valid polygons on the grid of vertices, lines and points dropped, no piece within a hole."""
    pieces = polygons(shapely.set_precision(shape, GRID_L0))
    filled = shapely.union_all([Polygon(piece.exterior) for piece in pieces])
    holes = shapely.union_all([Polygon(hole) for piece in pieces for hole in piece.interiors])
    return MultiPolygon(polygons(shapely.difference(filled, holes, grid_size=GRID_L0)))


def polygons(shape: BaseGeometry) -> list[Polygon]:
    return [part for part in shapely.get_parts(shape) if isinstance(part, Polygon) and part.area > 0]


def rings(shape: MultiPolygon) -> tuple[Rings, Rings]:
    """Outlines and holes, as open rings of (x, y)."""
    outlines = tuple(np.asarray(piece.exterior.coords)[:-1] for piece in shape.geoms)
    holes = tuple(np.asarray(hole.coords)[:-1] for piece in shape.geoms for hole in piece.interiors)
    return outlines, holes


def with_share(shape_at: Callable[[float], MultiPolygon], *, within: BaseGeometry, share: float) -> MultiPolygon:
    """The shape at the threshold that makes it cover `share` of `within`, as near as bisection finds."""
    low, high = -6.0, 6.0
    best, best_error = MultiPolygon(), math.inf
    for _ in range(14):
        middle = (low + high) / 2
        shape = shape_at(middle)
        error = shape.area / within.area - share
        if abs(error) < best_error:
            best, best_error = shape, abs(error)
        if best_error < 0.008:
            break
        low, high = (middle, high) if error > 0 else (low, middle)
    return best


def blob(rng: np.random.Generator, centre_l0: tuple[float, float], radius_l0: float) -> Polygon:
    """A round shape with a wavy outline."""
    angle = np.linspace(0, 2 * math.pi, 48, endpoint=False)
    waves = sum(rng.normal(0, 0.16 / n) * np.cos(n * angle + rng.uniform(0, 2 * math.pi)) for n in range(2, 6))
    radius = radius_l0 * (1 + np.clip(waves, -0.5, 0.5))
    return Polygon(np.stack([centre_l0[0] + radius * np.cos(angle), centre_l0[1] + radius * np.sin(angle)], axis=1))


def spots_within(
    rng: np.random.Generator, inside: NDArray[np.bool_], radius_cells: float, count: int
) -> Iterable[tuple[int, int]]:
    """Up to `count` cells (row, col), each further than `radius_cells` from the outside and from the others."""
    room = inside.copy()
    for _ in range(count):
        rows, cols = np.nonzero(distance_transform_edt(np.pad(room, 1))[1:-1, 1:-1] > radius_cells)
        if not len(rows):
            return
        pick = int(rng.integers(len(rows)))
        row, col = int(rows[pick]), int(cols[pick])
        yield row, col
        reach = math.ceil(2 * radius_cells)
        room[max(0, row - reach) : row + reach + 1, max(0, col - reach) : col + reach + 1] = False


def pen_stroke(rng: np.random.Generator, size_l0: tuple[int, int], width_l0: float) -> Polygon:
    """A slightly curved stroke of a pen somewhere on the slide."""
    centre = rng.uniform(0.05, 0.95, 2) * size_l0
    heading, bend = rng.uniform(0, 2 * math.pi), rng.normal(0, 0.25)
    steps = np.linspace(-1, 1, 24)
    length = rng.uniform(0.12, 0.3) * min(size_l0)
    angle = heading + bend * steps
    x = centre[0] + np.cumsum(np.cos(angle)) * length / 12
    y = centre[1] + np.cumsum(np.sin(angle)) * length / 12
    return shapely.LineString(np.stack([x, y], axis=1)).buffer(width_l0 / 2, quad_segs=6)
