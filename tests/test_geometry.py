"""Planes and grids."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ucc_path.geometry import BoxL0, Cell, Grid, PointL0, SizeL0, scale_between


def test_a_cell_is_never_equal_to_a_point_with_the_same_numbers() -> None:
    assert Cell(1, 2) != PointL0(1, 2)
    assert Cell(1, 2) == Cell(1, 2)


def test_a_box_knows_its_far_sides() -> None:
    box = BoxL0(PointL0(10, 20), SizeL0(30, 40))
    assert (box.right, box.bottom) == (40, 60)


def test_the_corner_of_a_cell_has_the_column_in_x_and_the_row_in_y() -> None:
    grid = Grid(PointL0(100, 200), 10.5, rows=4, cols=6)
    assert grid.origin(Cell(row=0, col=0)) == PointL0(100, 200)
    assert grid.origin(Cell(row=3, col=5)) == PointL0(152.5, 231.5)
    assert grid.size_l0 == SizeL0(63, 42)


def test_a_grid_that_fits_exactly_has_no_cell_too_many() -> None:
    grid = Grid.covering(SizeL0(300, 200), 100)
    assert (grid.cols, grid.rows) == (3, 2)
    # 16000 / (8 / 0.2005) is 401.00000000000006
    assert Grid.covering(SizeL0(16_000, 16_000), 8 / 0.2005).cols == 401


def test_a_grid_on_a_slide_smaller_than_a_cell_has_one_cell() -> None:
    grid = Grid.covering(SizeL0(3, 5), 100)
    assert (grid.rows, grid.cols) == (1, 1)


@given(st.integers(1, 300_000), st.integers(1, 300_000), st.floats(0.5, 5000))
def test_a_grid_covers_the_slide_and_its_last_row_and_column_are_needed(width: int, height: int, cell: float) -> None:
    grid = Grid.covering(SizeL0(width, height), cell)
    slack = 1e-6 * cell
    assert grid.size_l0.width >= width - slack and (grid.cols - 1) * cell < width
    assert grid.size_l0.height >= height - slack and (grid.rows - 1) * cell < height


def test_a_pixel_at_a_coarser_scale_spans_as_many_level_0_pixels_as_it_is_wider() -> None:
    assert scale_between(1.0, 0.25) == 4
    assert scale_between(0.5, 0.5) == 1
