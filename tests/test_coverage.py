"""Coverage against brute force."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from ucc_path.coverage import Coverage
from ucc_path.geometry import Grid, PointL0, SizeL0


def make_coverage(seed: int = 0, corner: tuple[float, float] = (0, 0), cell_l0: float = 8.0) -> Coverage:
    mask = np.random.default_rng(seed).random((13, 21)) < 0.4
    return Coverage(mask, Grid(PointL0(*corner), cell_l0, *mask.shape))


def brute_share(coverage: Coverage, x: float, y: float, width: float, height: float) -> float:
    """Sums the part of every covered cell that lies in the box, one cell at a time."""
    grid, area = coverage.grid, 0.0
    for row, col in np.argwhere(coverage.mask):
        left, top = grid.corner.x + col * grid.cell_l0, grid.corner.y + row * grid.cell_l0
        across = min(x + width, left + grid.cell_l0) - max(x, left)
        down = min(y + height, top + grid.cell_l0) - max(y, top)
        area += max(0.0, across) * max(0.0, down)
    return area / (width * height)


places = st.floats(-60, 200, allow_nan=False)
sizes = st.floats(0.5, 150, allow_nan=False)


@given(places, places, sizes, sizes, st.sampled_from([(0, 0), (13.5, -7.25)]), st.sampled_from([8.0, 3.3]))
def test_the_share_of_a_box_is_that_of_its_cells_counted_one_by_one(
    x: float, y: float, width: float, height: float, corner: tuple[float, float], cell_l0: float
) -> None:
    coverage = make_coverage(corner=corner, cell_l0=cell_l0)
    share = coverage.share(PointL0(x, y), SizeL0(width, height))
    assert share == pytest.approx(brute_share(coverage, x, y, width, height), abs=1e-8)


@given(st.lists(st.tuples(places, places), min_size=1, max_size=6), sizes)
def test_the_shares_of_many_squares_are_those_of_each(corners: list[tuple[float, float]], side: float) -> None:
    coverage = make_coverage(1, corner=(5, 9))
    xs, ys = np.array(corners).T
    alone = [brute_share(coverage, x, y, side, side) for x, y in corners]
    np.testing.assert_allclose(coverage.shares(xs, ys, side), alone, atol=1e-8)


def test_whole_numbers_will_do_for_places() -> None:
    coverage = make_coverage()
    xs, ys = np.array([0, 17], np.int64), np.array([40, 3], np.int64)
    np.testing.assert_allclose(
        coverage.shares(xs, ys, 20.0), [brute_share(coverage, x, y, 20, 20) for x, y in ((0, 40), (17, 3))]
    )


@pytest.mark.parametrize("cell_l0", [2.5, 8.0, 16.0, 33.0])
def test_the_shares_of_the_cells_of_another_grid_are_those_of_their_boxes(cell_l0: float) -> None:
    coverage = make_coverage()
    grid = Grid(PointL0(-7, 5), cell_l0, rows=5, cols=7)
    shares = coverage.share_per_cell(grid)
    assert shares.shape == (5, 7) and shares.dtype == np.float32
    for row in range(5):
        for col in range(7):
            truth = brute_share(coverage, -7 + col * cell_l0, 5 + row * cell_l0, cell_l0, cell_l0)
            assert shares[row, col] == pytest.approx(truth, abs=1e-6)


def test_beyond_the_grid_nothing_is_covered() -> None:
    everywhere = Coverage(np.ones((4, 4), bool), Grid(PointL0(0, 0), 10, 4, 4))
    assert everywhere.share(PointL0(-40, 0), SizeL0(80, 40)) == 0.5
    assert everywhere.share(PointL0(500, 500), SizeL0(10, 10)) == 0
    assert everywhere.share(PointL0(10, 10), SizeL0(20, 20)) == 1


def test_rows_are_down_and_columns_are_across() -> None:
    mask = np.zeros((2, 3), bool)
    mask[0, 2] = True
    coverage = Coverage(mask, Grid(PointL0(0, 0), 10, 2, 3))
    assert coverage.share(PointL0(20, 0), SizeL0(10, 10)) == 1
    assert coverage.share(PointL0(0, 10), SizeL0(30, 10)) == 0


def test_the_area_is_that_of_the_mask() -> None:
    mask: NDArray[np.bool_] = np.zeros((4, 5), bool)
    mask[1, :3] = True
    coverage = Coverage(mask, Grid(PointL0(0, 0), 10, 4, 5))
    assert coverage.area_l0 == 300


def test_a_mask_that_does_not_fit_its_grid_is_a_mistake_of_the_caller() -> None:
    with pytest.raises(ValueError, match=r"a mask \(2, 3\) on a grid of 3 x 2 cells"):
        Coverage(np.zeros((2, 3), bool), Grid(PointL0(0, 0), 10, 3, 2))
