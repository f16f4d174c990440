"""How much of a place a mask covers, against counting pixels."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from ucc_path.coverage import Coverage
from ucc_path.geometry import Grid, PointL0, SizeL0


def map_of(mask: NDArray[np.bool_], cell_l0: float = 16.0, x_l0: float = 0, y_l0: float = 0) -> Coverage:
    rows, cols = mask.shape
    return Coverage(mask, Grid(PointL0(x_l0, y_l0), cell_l0, rows, cols))


def share_pixel_by_pixel(mask: NDArray[np.bool_], cell_l0: int, x: int, y: int, width: int, height: int) -> float:
    level0 = np.kron(mask, np.ones((cell_l0, cell_l0), bool))
    return float(level0[max(0, y) : max(0, y + height), max(0, x) : max(0, x + width)].sum() / (width * height))


def random_mask() -> NDArray[np.bool_]:
    return np.random.default_rng(5).random((13, 17)) < 0.4


@pytest.mark.parametrize(
    "box", [(0, 0, 8, 8), (5, 3, 40, 21), (3, 7, 1, 1), (-20, 90, 60, 60), (100, -5, 500, 500), (0, 0, 136, 104)]
)
def test_the_share_of_a_box_is_exact_and_beyond_the_slide_is_no_tissue(box: tuple[int, int, int, int]) -> None:
    x, y, width, height = box
    found = map_of(random_mask(), cell_l0=8).share(PointL0(x, y), SizeL0(width, height))
    assert found == pytest.approx(share_pixel_by_pixel(random_mask(), 8, x, y, width, height))


def test_shares_of_many_squares_are_those_of_each() -> None:
    tissue = map_of(random_mask(), cell_l0=7.3, x_l0=11, y_l0=-4)
    rng = np.random.default_rng(1)
    xs, ys = rng.uniform(-40, 160, 50), rng.uniform(-40, 130, 50)
    one_by_one = [tissue.share(PointL0(x, y), SizeL0(30.5, 30.5)) for x, y in zip(xs, ys, strict=True)]
    assert tissue.shares(xs, ys, 30.5) == pytest.approx(np.array(one_by_one))


def test_a_box_wholly_beyond_the_slide_holds_no_tissue() -> None:
    tissue = map_of(np.ones((4, 4), bool))
    assert tissue.share(PointL0(64, 0), SizeL0(10, 10)) == 0
    assert tissue.shares(np.array([-50.0, 500.0]), np.array([0.0, 0.0]), 20).tolist() == [0, 0]


@pytest.mark.parametrize("cell_l0", [4.0, 16.0, 25.0, 300.0])
def test_shares_per_cell_of_another_grid_are_those_of_its_boxes(cell_l0: float) -> None:
    tissue = map_of(random_mask(), cell_l0=8)
    grid = Grid.covering(SizeL0(140, 110), cell_l0)
    found = tissue.share_per_cell(grid)
    by_box = [
        [tissue.share(PointL0(col * cell_l0, row * cell_l0), SizeL0(cell_l0, cell_l0)) for col in range(grid.cols)]
        for row in range(grid.rows)
    ]
    assert found.dtype == np.float32
    assert found == pytest.approx(np.array(by_box), abs=1e-6)


def test_the_shares_on_the_own_grid_are_the_mask() -> None:
    tissue = map_of(random_mask())
    assert np.array_equal(tissue.share_per_cell(tissue.grid), random_mask())


def test_area_and_share_of_the_slide_follow_from_the_mask() -> None:
    mask = np.zeros((10, 10), bool)
    mask[:2, :5] = True
    tissue = map_of(mask, cell_l0=16)
    assert tissue.share_of_slide == pytest.approx(0.1)
    assert tissue.area_l0 == 10 * 16.0**2


def test_a_mask_that_does_not_fit_its_grid_is_refused() -> None:
    with pytest.raises(ValueError, match=r"a mask \(2, 3\) on a grid of 3 x 2 cells"):
        Coverage(np.ones((2, 3), bool), Grid(PointL0(0, 0), 16, rows=3, cols=2))
