"""Shares of cells against the share of each cell asked for alone."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from ucc_path.annotation import Annotation, from_polygons, from_runs
from ucc_path.evaluation.areas import bands_of_shares, cell_shares
from ucc_path.geometry import Cell, Grid, PointL0, SizeL0

EXTENT_L0 = 1000.0


def make_star(rng: np.random.Generator, radius: float, vertices: int = 30) -> NDArray[np.float64]:
    """A star-shaped outline somewhere: it never crosses itself."""
    angle, reach = np.sort(rng.uniform(0, 2 * np.pi, vertices)), radius * rng.uniform(0.3, 1, vertices)
    return rng.uniform(0, EXTENT_L0, 2) + np.column_stack([reach * np.cos(angle), reach * np.sin(angle)])


def make_stars(seed: int) -> Annotation:
    """Stars of all sizes, some of them holes of others."""
    rng = np.random.default_rng(seed)
    stars = [make_star(rng, rng.uniform(0.005, 0.5) * EXTENT_L0) for _ in range(18)]
    return from_polygons(stars[:12], stars[12:])


def one_by_one(annotation: Annotation, grid: Grid) -> NDArray[np.float64]:
    side = SizeL0(grid.cell_l0, grid.cell_l0)
    cells = [[Cell(row, col) for col in range(grid.cols)] for row in range(grid.rows)]
    return np.array([[annotation.tumour_share(grid.origin(cell), side) for cell in row] for row in cells])


def assert_exact(annotation: Annotation, grid: Grid) -> None:
    np.testing.assert_allclose(cell_shares(annotation, grid), one_by_one(annotation, grid), rtol=0, atol=1e-9)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("cell_l0", [64.0, 37.31])
def test_the_share_of_every_cell_is_that_of_the_cell_alone(seed: int, cell_l0: float) -> None:
    assert_exact(make_stars(seed), Grid(PointL0(-520.5, -533.25), cell_l0, 30, 32))


@pytest.mark.parametrize("corner", [(300, 400), (-900, 300), (700, -800), (500, 990), (5000, 0), (0, 5000), (-5000, 9)])
def test_tumour_beside_the_grid_counts_only_in_the_cells_it_reaches(corner: tuple[float, float]) -> None:
    assert_exact(make_stars(7), Grid(PointL0(*corner), 50.0, 12, 11))


def test_half_cells_quarter_cells_and_whole_ones_are_known() -> None:
    # A triangle from the corner down the diagonal of four cells, its right angle at the lower left.
    annotation = from_polygons([np.array([[0, 0], [20, 20], [0, 20]], float)])
    shares = cell_shares(annotation, Grid(PointL0(0, 0), 10.0, 3, 3))
    np.testing.assert_allclose(shares, np.array([[0.5, 0, 0], [1, 0.5, 0], [0, 0, 0]]), atol=1e-12)


def test_corners_on_the_lines_of_the_grid_fill_exactly_their_cells() -> None:
    ring = [(20, 10), (50, 10), (50, 40), (30, 40), (30, 30), (20, 30)]
    shares = cell_shares(from_polygons([np.array(ring, float)]), Grid(PointL0(0, 0), 10.0, 5, 6))
    filled = np.zeros((5, 6))
    filled[1:3, 2:5], filled[3, 3:5] = 1, 1
    assert np.array_equal(shares, filled)


@given(st.lists(st.tuples(st.integers(0, 8), st.integers(0, 8)), min_size=3, max_size=12))
def test_outlines_from_crossing_to_crossing_of_the_grid_are_exact(corners: list[tuple[int, int]]) -> None:
    annotation = from_polygons([np.array(corners, float) * 16])
    assert_exact(annotation, Grid(PointL0(16, 32), 16.0, 5, 6))
    assert_exact(annotation, Grid(PointL0(0, 0), 48.0, 3, 3))


@pytest.mark.parametrize(("scale_l0", "cell_l0"), [(1.0, 4.0), (32.0, 128.0), (7.25, 13.7)])
def test_a_mask_of_runs_gives_the_means_of_its_pixels(scale_l0: float, cell_l0: float) -> None:
    is_tumour = np.random.default_rng(3).random((40, 48)) < 0.5
    rows, starts = np.nonzero(is_tumour)
    annotation = from_runs(np.column_stack([rows, starts, starts + 1]), scale_l0=scale_l0)
    assert_exact(annotation, Grid(PointL0(0, 0), cell_l0, 12, 14))
    means = is_tumour.reshape(10, 4, 12, 4).mean(axis=(1, 3))
    shares = cell_shares(annotation, Grid(PointL0(0, 0), 4 * scale_l0, 10, 12))
    np.testing.assert_allclose(shares, means, rtol=0, atol=1e-9)


@pytest.mark.parametrize("cell_l0", [64.0, 37.31, 5000.0])
def test_all_shares_together_are_the_tumours_area(cell_l0: float) -> None:
    annotation = make_stars(11)
    assert annotation.bounds is not None
    corner, size = annotation.bounds.corner, annotation.bounds.size
    covering = Grid.covering(SizeL0(size.width + 3, size.height + 3), cell_l0)
    grid = Grid(PointL0(corner.x - 1, corner.y - 1), cell_l0, covering.rows, covering.cols)
    assert cell_shares(annotation, grid).sum() * cell_l0**2 == pytest.approx(annotation.area_l0, rel=1e-9)


def test_a_slide_without_tumour_has_shares_of_0() -> None:
    assert np.array_equal(cell_shares(from_polygons([]), Grid(PointL0(0, 0), 8.0, 3, 4)), np.zeros((3, 4)))


def test_what_is_empty_is_exactly_0_and_what_is_full_exactly_1() -> None:
    annotation = make_stars(5)
    grid = Grid(PointL0(-520, -520), 3.3, 620, 620)
    shares = cell_shares(annotation, grid)
    # Known without areas: no edge comes near, so the cell is as its centre is.
    centres = annotation.tumour_mask(grid.corner, grid.size_l0, grid.cell_l0)
    on_edge = np.zeros(shares.shape, bool)
    for x0, y0, x1, y1 in (annotation.edges - [-520] * 4) / 3.3:
        rows, cols = (slice(int(min(ends)) - 1, int(max(ends)) + 2) for ends in ((y0, y1), (x0, x1)))
        on_edge[rows, cols] = True
    assert 0 < on_edge.mean() < 0.7
    assert np.array_equal(shares[~on_edge], centres[~on_edge].astype(float))


@pytest.mark.parametrize("most_cells", [1, 33, 100, 1000, 2**20])
def test_bands_of_any_height_make_up_the_whole(most_cells: int) -> None:
    annotation, grid = make_stars(2), Grid(PointL0(0, 0), 31.0, 30, 33)
    bands = list(bands_of_shares(annotation, grid, most_cells=most_cells))
    assert [rows.start for rows, _ in bands] == [0, *(rows.stop for rows, _ in bands[:-1])]
    assert all(band.size <= max(33, most_cells) for _, band in bands)
    np.testing.assert_allclose(np.concatenate([band for _, band in bands]), cell_shares(annotation, grid), atol=1e-12)


def test_a_band_of_no_cells_is_refused() -> None:
    with pytest.raises(ValueError, match="most_cells is 0"):
        next(bands_of_shares(make_stars(0), Grid(PointL0(0, 0), 8.0, 3, 4), most_cells=0))
