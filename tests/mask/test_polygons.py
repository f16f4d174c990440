"""Regions of a raster as polygons: exact, valid, and all of them."""

from __future__ import annotations

import numpy as np
import pytest
import shapely
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays
from numpy.typing import NDArray
from scipy import ndimage

from ucc_path.mask import polygons
from ucc_path.mask.polygons import Region, regions

CELL_L0 = 32


def raster(*rows: str) -> NDArray[np.uint8]:
    """Rows of digits; a dot is 0."""
    return np.array([[0 if cell == "." else int(cell) for cell in row] for row in rows], np.uint8)


def outlined(labels: NDArray[np.uint8], margins: NDArray[np.uint8] | None = None) -> list[Region]:
    return list(regions(labels, margins, cell_l0=CELL_L0))


def in_cells(region: Region) -> list[list[list[int]]]:
    return [(ring // CELL_L0).tolist() for ring in region.rings]


def polygon(region: Region) -> shapely.Polygon:
    return shapely.Polygon(region.rings[0], region.rings[1:])


def check_against(labels: NDArray[np.uint8], found: list[Region]) -> None:
    """Valid, without needless corners, one per part of each label, of exactly the cells of that part, and in order."""
    shapes = np.array([polygon(region) for region in found], np.object_)
    assert shapely.is_valid(shapes).all()
    ys, xs = (np.indices(labels.shape) + 0.5) * CELL_L0
    covered, firsts = np.zeros_like(labels), []
    for shape, region in zip(shapes, found, strict=True):
        cells = shapely.contains_xy(shape, xs, ys)
        assert cells.sum() == region.cells == shape.area / CELL_L0**2
        assert ndimage.label(cells)[1] == 1 and not covered[cells].any()
        covered[cells] = region.label
        firsts.append((region.label, *np.argwhere(cells)[0].tolist()))
        assert in_cells(region)[0][0] == [firsts[-1][2], firsts[-1][1]]
        for ring in region.rings:
            assert ring.dtype == np.int64 and (ring[0] == ring[-1]).all()
            assert ((np.diff(ring, axis=0) == 0).sum(axis=1) == 1).all()
            level = np.diff(ring[:, 1]) == 0
            assert (level[1:] != level[:-1]).all() and level[0] != level[-1]
    assert np.array_equal(covered, labels) and firsts == sorted(firsts)
    assert len(found) == sum(ndimage.label(labels == label)[1] for label in range(1, int(labels.max()) + 1))


def test_a_cell_is_a_square_in_level_0_pixels() -> None:
    (region,) = outlined(raster("...", "..2"))
    (ring,) = region.rings
    assert ring.tolist() == [[64, 32], [96, 32], [96, 64], [64, 64], [64, 32]]
    assert (region.label, region.cells, region.score) == (2, 1, 1.0)


def test_nothing_is_outlined_where_all_is_background() -> None:
    assert outlined(raster("...", "...")) == []


def test_a_raster_that_is_all_one_label_is_outlined_along_its_edge() -> None:
    (region,) = outlined(raster("111", "111"))
    assert in_cells(region) == [[[0, 0], [3, 0], [3, 2], [0, 2], [0, 0]]]


def test_a_ring_of_cells_has_a_hole() -> None:
    (region,) = outlined(raster("111", "1.1", "111"))
    outside, hole = in_cells(region)
    assert outside == [[0, 0], [3, 0], [3, 3], [0, 3], [0, 0]]
    assert hole == [[2, 1], [1, 1], [1, 2], [2, 2], [2, 1]]
    assert region.cells == 8


def test_a_hole_that_touches_the_outside_at_a_corner_is_a_hole() -> None:
    labels = raster(".11", "1.1", "111")
    (region,) = found = outlined(labels)
    outside, hole = in_cells(region)
    assert outside == [[1, 0], [3, 0], [3, 3], [0, 3], [0, 1], [1, 1], [1, 0]]
    assert hole == [[2, 1], [1, 1], [1, 2], [2, 2], [2, 1]]
    check_against(labels, found)


@pytest.mark.parametrize("turns", range(4))
def test_corners_that_touch_are_told_apart_whichever_way_they_lie(turns: int) -> None:
    holes = np.ascontiguousarray(np.rot90(raster("11111", "1.111", "11.11", "111.1", "11111"), turns))
    (region,) = found = outlined(holes)
    assert len(region.rings) == 4
    check_against(holes, found)
    touching = np.ascontiguousarray(np.rot90(raster("11.", "11.", "..1"), turns))
    assert sorted(region.cells for region in outlined(touching)) == [1, 4]


def test_cells_of_a_checkerboard_are_regions_of_their_own() -> None:
    labels = (np.indices((5, 6)).sum(axis=0) % 2).astype(np.uint8)
    found = outlined(labels)
    assert [region.cells for region in found] == [1] * 15
    check_against(labels, found)


def test_labels_side_by_side_share_their_border() -> None:
    labels = raster("1122", "1222")
    first, second = found = outlined(labels)
    assert polygon(first).touches(polygon(second))
    check_against(labels, found)


def test_an_island_in_a_hole_of_an_island_in_a_hole_is_a_region_of_its_own() -> None:
    labels = raster("1111111", "1.....1", "1.111.1", "1.1.1.1", "1.111.1", "1.....1", "1111111")
    found = outlined(labels)
    assert [(region.cells, len(region.rings)) for region in found] == [(24, 2), (8, 2)]
    check_against(labels, found)
    labels[3, 3] = 2
    filled = outlined(labels)
    assert [(region.label, region.cells, len(region.rings)) for region in filled] == [(1, 24, 2), (1, 8, 2), (2, 1, 1)]
    check_against(labels, filled)


def test_regions_come_by_label_and_then_by_first_cell() -> None:
    labels = raster("2..1", ".1.1", "11..", "..22")
    found = outlined(labels)
    assert [region.label for region in found] == [1, 1, 2, 2]
    assert [in_cells(region)[0][0] for region in found] == [[3, 0], [1, 1], [0, 0], [2, 3]]


def test_the_outside_begins_at_the_first_cell_and_turns_as_geojson_asks_and_holes_the_other_way() -> None:
    (region,) = outlined(raster("..111", "111.1", "1.111", "111.."))
    assert in_cells(region)[0][:2] == [[2, 0], [5, 0]]
    assert [shapely.is_ccw(shapely.LinearRing(ring)) for ring in region.rings] == [True, False, False]


def test_the_score_is_the_mean_over_the_cells_of_the_region_alone() -> None:
    margins = np.array([[255, 0, 51, 9], [102, 9, 255, 9]], np.uint8)
    one, other = outlined(raster("11.1", "1..2"), margins)[:2]
    assert one.score == pytest.approx((255 + 0 + 102) / 3 / 255)
    assert other.score == pytest.approx(9 / 255)


def test_counts_and_scores_add_up_over_bands(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    labels, margins = rng.integers(0, 3, (40, 30), np.uint8), rng.integers(0, 256, (40, 30), np.uint8)
    labels[:, 7] = 1
    whole = [(region.cells, region.score) for region in outlined(labels, margins)]
    monkeypatch.setattr(polygons, "_BAND_CELLS", 1)
    assert [(region.cells, region.score) for region in outlined(labels, margins)] == whole


rasters = arrays(np.uint8, array_shapes(min_dims=2, max_dims=2, max_side=9), elements=st.integers(0, 3))


@given(rasters)
def test_the_polygons_of_any_raster_are_valid_and_cover_it_exactly(labels: NDArray[np.uint8]) -> None:
    check_against(labels, outlined(labels))


@given(st.integers(0, 2**32 - 1), st.floats(0.2, 0.9))
def test_the_polygons_of_a_wide_and_tangled_raster_are_valid_and_cover_it_exactly(seed: int, share: float) -> None:
    labels = (np.random.default_rng(seed).random((17, 23)) < share).astype(np.uint8)
    check_against(labels, outlined(labels))


@given(rasters, st.integers(0, 2**32 - 1))
def test_the_scores_of_any_raster_are_the_means_of_its_parts(labels: NDArray[np.uint8], seed: int) -> None:
    margins = np.random.default_rng(seed).integers(0, 256, labels.shape, np.uint8)
    ys, xs = (np.indices(labels.shape) + 0.5) * CELL_L0
    for region in outlined(labels, margins):
        cells = shapely.contains_xy(polygon(region), xs, ys)
        assert region.score == pytest.approx(float(margins[cells].mean()) / 255)
