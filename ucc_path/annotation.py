"""Outlines or runs of a mask → what is tumour on a slide: the mask of a region, the share of a region.

A region of tumour is kept as its edges alone, oriented so that their winding number is 1 inside and 0 outside. Both
questions are answered from the edges that cross the rows asked for, found through bands of rows, so that a tile costs
the same on an outline of a hundred vertices and on a mask of four million runs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import shapely
from numpy.typing import ArrayLike, NDArray
from shapely.geometry.base import BaseGeometry

from ucc_path.errors import AnnotationError
from ucc_path.geometry import BoxL0, PointL0, SizeL0

MIN_BAND_L0 = 64.0
LARGEST_COORDINATE_L0 = 2.0**31
MAX_CROSSINGS = 300_000  # of an outline with itself: about half a minute of repair
NEIGHBOURS = 10  # sides that may lie close to one without crossing it
TANGLE_SAMPLE = 500

Edges: TypeAlias = NDArray[np.float64]  # (n, 4), columns x0, y0, x1, y1 in level-0 pixels
Runs: TypeAlias = NDArray[np.int64]  # (n, 3), columns row, start, end (exclusive) in mask pixels
Outline: TypeAlias = NDArray[np.float64] | BaseGeometry  # (n, 2) points of a ring, closed or not; or polygons


@dataclass(frozen=True, slots=True)
class AnnotationSummary:
    """What was found in an annotation; outlines are 0 where it was a mask."""

    tumour_outlines: int = 0
    excluded_outlines: int = 0
    cut_area_l0: float = 0.0  # px² of tumour that the exclusions took away
    repaired_outlines: int = 0  # they crossed or touched themselves
    without_area: int = 0  # dots, lines, outlines of fewer than three places: left out


@dataclass(frozen=True, slots=True, eq=False)
class _Bands:
    """Which edges touch which rows. Edges are sorted by the band they begin in; `carried` has the others of a band."""

    top_l0: float
    height_l0: float
    begins: NDArray[np.int64]  # (bands + 1,): edges[begins[b]:begins[b + 1]] begin in band b
    carries: NDArray[np.int64]  # (bands + 1,): carried[carries[b]:carries[b + 1]] began above and reach into band b
    carried: NDArray[np.int64]

    def band(self, y_l0: float) -> int:
        return int(min(max((y_l0 - self.top_l0) // self.height_l0, 0), len(self.begins) - 2))


@dataclass(frozen=True, slots=True, eq=False)
class Annotation:
    """The tumour of one slide; make one with `from_polygons` or `from_runs`."""

    edges: Edges  # sorted by band, none horizontal; tumour lies to the right (greater x) of an edge that goes down
    summary: AnnotationSummary
    bounds: BoxL0 | None  # None where there is no tumour
    area_l0: float  # px²
    _bands: _Bands

    @property
    def is_empty(self) -> bool:
        return self.bounds is None

    def tumour_mask(
        self, corner_l0: tuple[float, float], size_l0: tuple[float, float], downsample: float = 1
    ) -> NDArray[np.bool_]:
        """Which pixels of a region have their centre in tumour, shape (round(height / ds), round(width / ds)).

        The region may hang over the slide or lie outside it. A centre on the outline itself belongs to the tumour if
        the tumour lies to its right, or below it.
        """
        left, top, width, height = _checked_box(corner_l0, size_l0)
        if not 0 < downsample < math.inf:
            raise ValueError(f"downsample is {downsample}; give a positive number")
        rows, cols = round(height / downsample), round(width / downsample)
        winding = np.zeros((rows, cols + 1), np.int8)  # one column more, for crossings right of the region
        x0, y0, x1, y1 = self._near(top, top + height, left + width).T
        if rows == 0 or cols == 0 or len(x0) == 0:
            return winding[:, :cols].astype(np.bool_)
        # An edge crosses the rows whose centre is in [upper, lower): neighbours share an end, so none is counted twice.
        first = _index_of_centre(np.minimum(y0, y1) - top, downsample, rows)
        count = _index_of_centre(np.maximum(y0, y1) - top, downsample, rows) - first
        edge = np.repeat(np.arange(len(x0)), count)  # (edges,) -> (crossings,)
        row = np.arange(len(edge)) - np.repeat(np.cumsum(count) - count - first, count)
        x = _x_at(top + (row + 0.5) * downsample, x0[edge], y0[edge], x1[edge], y1[edge])
        col = _index_of_centre(x - left, downsample, cols)
        sign = np.where(y1 > y0, 1, -1).astype(np.int8)
        # Eight bits may run over on the way, but sums are modulo 256 and the winding number in the end is 0 or 1.
        np.add.at(winding.reshape(-1), row * (cols + 1) + col, sign[edge])
        np.cumsum(winding, axis=1, dtype=np.int8, out=winding)
        mask: NDArray[np.bool_] = winding[:, :cols] != 0
        return mask

    def tumour_share(self, corner_l0: tuple[float, float], size_l0: tuple[float, float]) -> float:
        """Share of a region's area that is tumour, from 0 to 1, exact: no pixels are involved.

        What lies outside the slide counts as area without tumour.
        """
        left, top, width, height = _checked_box(corner_l0, size_l0)
        x0, y0, x1, y1 = self._near(top, top + height, left + width).T
        y_from, y_to = np.clip(y0, top, top + height), np.clip(y1, top, top + height)
        x_from, x_to = _x_at(y_from, x0, y0, x1, y1), _x_at(y_to, x0, y0, x1, y1)
        low, high = np.minimum(x_from, x_to) - left, np.maximum(x_from, x_to) - left
        # Mean over the edge of the distance from it to the region's right side, where both ends stay inside the region:
        # the part left of the region counts the whole width, the part right of it nothing.
        span = np.where(high > low, high - low, 1.0)
        before = np.where(high > low, np.clip(-low / span, 0, 1), low < 0)
        until = np.where(high > low, np.clip((width - low) / span, 0, 1), low < width)
        inside = width - (np.clip(low, 0, width) + np.clip(high, 0, width)) / 2
        area = float(np.sum((y_to - y_from) * (before * width + (until - before) * inside)))
        return min(max(area / (width * height), 0.0), 1.0)

    def _near(self, top_l0: float, bottom_l0: float, right_l0: float) -> Edges:
        """The edges that may touch these rows and do not lie wholly right of the region."""
        if self.bounds is None or bottom_l0 < self.bounds.corner.y or top_l0 > self.bounds.bottom:
            return self.edges[:0]
        bands, first, last = self._bands, self._bands.band(top_l0), self._bands.band(bottom_l0)
        begun = self.edges[bands.begins[first] : bands.begins[last + 1]]
        carried = self.edges[bands.carried[bands.carries[first] : bands.carries[first + 1]]]
        near = np.concatenate([begun, carried])
        touches = np.minimum(near[:, 0], near[:, 2]) < right_l0
        touches &= np.minimum(near[:, 1], near[:, 3]) < bottom_l0
        touches &= np.maximum(near[:, 1], near[:, 3]) > top_l0
        kept: Edges = near[touches]
        return kept


def from_polygons(tumour: Sequence[Outline], excluded: Sequence[Outline] = (), *, without_area: int = 0) -> Annotation:
    """All that lies in a tumour outline and in no excluded one, whatever their order.

    An outline that crosses itself is filled as ASAP fills it, by non-zero winding. `without_area` is the number of
    dots and lines the caller left out; outlines that turn out to have no area are added to it.
    """
    tumour_parts, tumour_repaired, tumour_flat = _repaired(tumour)
    excluded_parts, excluded_repaired, excluded_flat = _repaired(excluded)
    filled = _union(tumour_parts)
    region = shapely.difference(filled, _union(excluded_parts)) if len(excluded_parts) else filled
    summary = AnnotationSummary(
        tumour_outlines=len(tumour) - tumour_flat,
        excluded_outlines=len(excluded) - excluded_flat,
        cut_area_l0=max(0.0, float(shapely.area(filled) - shapely.area(region))),
        repaired_outlines=tumour_repaired + excluded_repaired,
        without_area=without_area + tumour_flat + excluded_flat,
    )
    parts = shapely.orient_polygons(_polygons(np.array([region])), exterior_cw=True)
    points, ring = shapely.get_coordinates(shapely.get_rings(parts), return_index=True)
    follows = ring[1:] == ring[:-1]
    return _annotation(np.hstack([points[:-1][follows], points[1:][follows]]), summary)


def from_runs(runs: ArrayLike, *, scale_l0: float = 1.0) -> Annotation:
    """Tumour from runs of mask pixels, rows of (row, start, end), each pixel `scale_l0` level-0 pixels wide and high.

    Runs may come in any order and may touch, but not overlap.
    """
    joined = join_runs(np.asarray(runs, np.int64).reshape(-1, 3))
    left = _upright_edges(joined[:, 1], joined[:, 0])
    right = _upright_edges(joined[:, 2], joined[:, 0])[:, [0, 3, 2, 1]]  # the right side of a run goes up
    return _annotation(np.concatenate([left, right]) * scale_l0, AnnotationSummary())


def from_edges(edges: Edges) -> Annotation:
    """The annotation whose `edges` these were; what was known of its outlines is not kept."""
    return _annotation(edges, AnnotationSummary())


def join_runs(runs: Runs) -> Runs:
    """The same pixels in as few runs as possible, sorted by row: runs that touch in a row become one."""
    runs = runs[np.lexsort((runs[:, 1], runs[:, 0]))]
    begins = np.ones(len(runs), np.bool_)
    begins[1:] = (runs[1:, 0] != runs[:-1, 0]) | (runs[1:, 1] != runs[:-1, 2])
    ends = np.roll(begins, -1)
    return np.column_stack([runs[begins, :2], runs[ends, 2]])


def _upright_edges(x: NDArray[np.int64], row: NDArray[np.int64]) -> Edges:
    """Edges that go down along the left side of pixels; those of one column in rows that follow become one."""
    order = np.lexsort((row, x))
    x, row = x[order], row[order]
    begins = np.ones(len(x), np.bool_)
    begins[1:] = (x[1:] != x[:-1]) | (row[1:] != row[:-1] + 1)
    ends = np.roll(begins, -1)
    return np.column_stack([x[begins], row[begins], x[begins], row[ends] + 1]).astype(np.float64)


def _checked_box(corner_l0: tuple[float, float], size_l0: tuple[float, float]) -> tuple[float, float, float, float]:
    (left, top), (width, height) = map(float, corner_l0), map(float, size_l0)
    if not (math.isfinite(left) and math.isfinite(top) and 0 < width < math.inf and 0 < height < math.inf):
        raise ValueError(f"the region at {corner_l0} of size {size_l0} has no area")
    return left, top, width, height


def _index_of_centre(offset_l0: NDArray[np.float64], downsample: float, stop: int) -> NDArray[np.int64]:
    """The first pixel whose centre is at or after an offset; `stop` if none is."""
    return np.clip(np.ceil(offset_l0 / downsample - 0.5), 0, stop).astype(np.int64)


def _x_at(
    y: NDArray[np.float64],
    x0: NDArray[np.float64],
    y0: NDArray[np.float64],
    x1: NDArray[np.float64],
    y1: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Where edges are at a height; never beyond their ends, however flat they are."""
    return x0 + np.clip((y - y0) / (y1 - y0), 0, 1) * (x1 - x0)


def _polygons(shapes: NDArray[np.object_]) -> NDArray[np.object_]:
    """The polygons of any geometries; lines, points and emptiness are left out."""
    parts = shapely.get_parts(shapely.get_parts(shapes))  # twice: a collection may hold multi-polygons
    return np.asarray(parts[(shapely.get_type_id(parts) == 3) & ~shapely.is_empty(parts)])


def _union(polygons: NDArray[np.object_]) -> BaseGeometry:
    """All of them as one shape; lesions seldom touch, and what stands alone need not be worked through."""
    return shapely.disjoint_subset_union_all(polygons)


def _repaired(outlines: Sequence[Outline]) -> tuple[NDArray[np.object_], int, int]:
    """Valid polygons, how many outlines had to be repaired, and how many have no area."""
    shapes = np.array([_shape(outline) for outline in outlines], dtype=np.object_)
    for shape in shapes[shapely.get_num_coordinates(shapes) > TANGLE_SAMPLE]:  # even to look for crossings takes hours
        _refuse_tangle(shape)
    broken = ~shapely.is_valid(shapes)
    shapes[broken] = shapely.make_valid(shapes[broken], method="structure", keep_collapsed=False)
    flat = shapely.area(shapes) == 0
    return _polygons(shapes[~flat]), int(np.sum(broken & ~flat)), int(np.sum(flat))


def _refuse_tangle(shape: BaseGeometry) -> None:
    """AnnotationError where an outline crosses itself so often that to repair it would take hours.

    Counted on a sample of its sides, as pairs whose boxes overlap; along a drawn line only neighbours do.
    """
    points = shapely.get_coordinates(shape)
    sides = shapely.linestrings(np.stack([points[:-1], points[1:]], axis=1))
    tree, met = shapely.STRtree(sides), [0]
    for side in sides[:: max(1, len(sides) // TANGLE_SAMPLE)]:  # one at a time: a side may meet millions
        met.append(len(tree.query(side)))
        if len(met) > TANGLE_SAMPLE // 20 and sum(met) > MAX_CROSSINGS * TANGLE_SAMPLE // 20:
            break
    # The median: the box of one long side may hold all others, which proves nothing.
    crossings = max(0.0, float(np.median(met)) - NEIGHBOURS) * len(sides) / 2
    if crossings > MAX_CROSSINGS:
        raise AnnotationError(f"an outline crosses itself about {crossings:,.0f} times; draw it anew")


def _shape(outline: Outline) -> BaseGeometry:
    if isinstance(outline, BaseGeometry):
        return outline
    return shapely.Polygon(outline) if len(outline) >= 3 else shapely.Polygon()


def _annotation(edges: Edges, summary: AnnotationSummary) -> Annotation:
    edges = edges[edges[:, 1] != edges[:, 3]]  # no row centre crosses a horizontal edge, and no area lies beside it
    if len(edges) == 0:
        nothing = np.zeros(0, np.int64)
        return Annotation(edges, summary, None, 0.0, _Bands(0.0, MIN_BAND_L0, nothing, nothing, nothing))
    low, high = edges.reshape(-1, 2).min(axis=0), edges.reshape(-1, 2).max(axis=0)
    bounds = BoxL0(PointL0(*low.tolist()), SizeL0(*(high - low).tolist()))
    order, bands = _banded(edges, bounds)
    edges = edges[order]
    edges.setflags(write=False)
    area = float(np.sum(((edges[:, 0] + edges[:, 2]) / 2 - low[0]) * (edges[:, 1] - edges[:, 3])))
    return Annotation(edges, summary, bounds, area, bands)


def _banded(edges: Edges, bounds: BoxL0) -> tuple[NDArray[np.int64], _Bands]:
    """The order of edges by band, and the bands; high enough that the average edge reaches into one other at most."""
    upper, lower = np.minimum(edges[:, 1], edges[:, 3]), np.maximum(edges[:, 1], edges[:, 3])
    height = max(MIN_BAND_L0, float(np.mean(lower - upper)), bounds.size.height / len(edges))
    first = ((upper - bounds.corner.y) // height).astype(np.int64)
    last = ((lower - bounds.corner.y) // height).astype(np.int64)
    order = np.argsort(first, kind="stable")
    first, further = first[order], (last - first)[order]
    edge = np.repeat(np.arange(len(edges)), further)  # (edges,) -> (edges, once per further band)
    band = first[edge] + 1 + np.arange(len(edge)) - np.repeat(np.cumsum(further) - further, further)
    by_band = np.argsort(band, kind="stable")
    marks = np.arange(int(last.max()) + 2)
    begins, carries = np.searchsorted(first, marks), np.searchsorted(band[by_band], marks)
    return order, _Bands(bounds.corner.y, height, begins, carries, edge[by_band])
