"""Cells, which of them are tissue, and the blocks in which they are read."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from ucc_path.coverage import Coverage
from ucc_path.errors import SlideError
from ucc_path.features.cells import BLOCK_PX, CellPlan, block_cells, blocks, tissue_cells
from ucc_path.geometry import Cell, Grid, PointL0, SizeL0


def make_plan(
    size_l0: tuple[float, float] = (4096, 3072),
    *,
    slide_mpp: float = 0.5,
    mpp: float = 1.0,
    patch_px: int = 32,
    stride_px: int = 32,
) -> CellPlan:
    return CellPlan.of(
        SizeL0(*size_l0), slide_mpp, patch_px=patch_px, stride_px=stride_px, mpp=mpp, name="slides/a.tif"
    )


def make_tissue(plan: CellPlan, share: float, seed: int = 0) -> NDArray[np.bool_]:
    return np.random.default_rng(seed).random((plan.grid.rows, plan.grid.cols)) < share


@given(
    slide_mpp=st.floats(0.1, 1.0),
    times=st.floats(1.0, 8.0),
    stride_px=st.integers(1, 64),
    width=st.integers(1024, 50_000),
    height=st.integers(1024, 50_000),
)
def test_cells_are_whole_pixels_as_near_as_can_be_and_lie_on_the_slide(
    slide_mpp: float, times: float, stride_px: int, width: int, height: int
) -> None:
    plan = make_plan((width, height), slide_mpp=slide_mpp, mpp=slide_mpp * times, patch_px=64, stride_px=stride_px)
    cell = plan.grid.cell_l0
    assert isinstance(cell, int) and cell >= 1
    assert abs(cell - stride_px * times) <= 0.5 + 1e-6
    assert plan.grid.corner == PointL0(0, 0)
    for count, side in ((plan.grid.cols, width), (plan.grid.rows, height)):
        assert count * cell <= side < (count + 1) * cell


@given(slide_mpp=st.floats(0.1, 1.0), times=st.floats(1.0, 8.0), stride_px=st.integers(1, 64))
def test_every_patch_of_a_row_begins_at_the_working_pixel_nearest_to_its_place(
    slide_mpp: float, times: float, stride_px: int
) -> None:
    plan = make_plan((60_000, 60_000), slide_mpp=slide_mpp, mpp=slide_mpp * times, patch_px=64, stride_px=stride_px)
    cells = np.arange(plan.band_rows)
    off_l0 = plan.offsets_px(len(cells)) * plan.pixel_l0 - cells * plan.grid.cell_l0
    assert np.abs(off_l0).max() <= plan.pixel_l0 / 2 * (1 + 1e-9)


@pytest.mark.parametrize("stride_px", [32, 16, 8, 5])
def test_where_scales_divide_patches_are_a_stride_apart(stride_px: int) -> None:
    plan = make_plan(stride_px=stride_px)
    assert plan.grid.cell_l0 == 2 * stride_px
    assert plan.offsets_px(7).tolist() == [stride_px * n for n in range(7)]


@pytest.mark.parametrize(("stride_px", "before_px"), [(32, 0), (16, 8), (8, 12), (30, 1), (31, 0), (1, 15)])
def test_the_middle_of_a_patch_is_the_middle_of_its_cell(stride_px: int, before_px: int) -> None:
    plan = make_plan(stride_px=stride_px)
    cell = Cell(3, 5)
    x, y = plan.grid.origin(cell)
    assert plan.corner(cell) == PointL0(x - 2 * before_px, y - 2 * before_px)
    middle_px = plan.corner(cell).x / 2 + 16
    assert abs(middle_px - (x / 2 + stride_px / 2)) <= 0.5  # half a pixel where the difference is odd


def test_a_slide_of_one_patch_has_one_cell_and_a_smaller_one_is_refused() -> None:
    assert make_plan((64, 64)).grid == Grid(PointL0(0, 0), 64, 1, 1)
    message = (
        r"^slides/a\.tif is 63 x 900 px at 0\.5 um/px, smaller than a patch of 32 px at 1 um/px; "
        r"give its true scale with --slide-mpp, or leave it out$"
    )
    with pytest.raises(SlideError, match=message):
        make_plan((63, 900))


def test_a_slide_a_little_coarser_than_its_model_is_taken_for_one_of_its_scale() -> None:
    """The reader bears 2 %; cells of less than a pixel for each of the patch's would make it invent detail."""
    plan = make_plan(slide_mpp=1.018)
    assert plan.grid.cell_l0 == 32


@pytest.mark.parametrize(
    ("patch_px", "stride_px", "cells", "a_patch"),
    [(32, 32, 16, 1), (32, 16, 32, 2), (32, 8, 64, 4), (48, 48, 10, 1), (32, 12, 42, 3), (512, 512, 1, 1)],
)
def test_a_block_is_whole_patches_and_no_larger_than_a_stored_tile(
    patch_px: int, stride_px: int, cells: int, a_patch: int
) -> None:
    plan = make_plan(patch_px=patch_px, stride_px=stride_px)
    assert (plan.band_rows, plan.cells_a_patch) == (cells, a_patch)
    assert cells % a_patch == 0 and cells * stride_px <= BLOCK_PX


def test_a_block_holds_a_patch_also_where_that_is_larger_than_a_stored_tile() -> None:
    assert block_cells(1024, 1024) == 1
    assert block_cells(1024, 256) == 4


@pytest.mark.parametrize("slide_mpp", [0.5, 0.243])
@pytest.mark.parametrize("stride_px", [32, 12])
@pytest.mark.parametrize("min_tissue", [0.0, 0.3, 1.0])
def test_a_cell_is_tissue_where_enough_of_its_patch_is(slide_mpp: float, stride_px: int, min_tissue: float) -> None:
    plan = make_plan((5003, 3001), slide_mpp=slide_mpp, stride_px=stride_px)
    mask = np.random.default_rng(0).random((48, 79)) < 0.6
    mask[10:20, 10:20] = True
    tissue = Coverage(mask, Grid(PointL0(0, 0), 64.0, 48, 79))
    found = tissue_cells(plan, tissue, min_tissue)
    assert found.shape == (plan.grid.rows, plan.grid.cols)
    side = SizeL0(32 * plan.pixel_l0, 32 * plan.pixel_l0)
    rng = np.random.default_rng(1)
    edges = [(0, 0), (plan.grid.rows - 1, plan.grid.cols - 1)]
    inner = [(rng.integers(plan.grid.rows), rng.integers(plan.grid.cols)) for _ in range(300)]
    for row, col in edges + inner:
        share = tissue.share(plan.corner(Cell(int(row), int(col))), side)
        if abs(share - min_tissue) > 1e-5:
            assert found[row, col] == (share > min_tissue)
    assert found.all() == (min_tissue == 0) and found.any()


def test_a_patch_of_exactly_the_share_asked_for_is_tissue() -> None:
    plan = make_plan((640, 64), stride_px=32)
    mask = np.zeros((2, 20), bool)
    mask[:, 1::2] = True  # a patch of 64 px is a column of glass and one of tissue
    tissue = Coverage(mask, Grid(PointL0(0, 0), 32.0, 2, 20))
    assert tissue_cells(plan, tissue, 0.5).all()
    assert not tissue_cells(plan, tissue, 0.51).any()


def test_what_lies_beyond_the_slide_is_not_tissue() -> None:
    plan = make_plan((640, 640), stride_px=8)  # patches of the first and last cells hang over by 12 of 32 px
    tissue = Coverage(np.ones((10, 10), bool), Grid(PointL0(0, 0), 64.0, 10, 10))
    inside = (20 / 32) ** 2
    assert tissue_cells(plan, tissue, inside).all()
    assert not tissue_cells(plan, tissue, inside + 0.01)[0, 0]
    assert tissue_cells(plan, tissue, 1.0)[2:-2, 2:-2].all() and not tissue_cells(plan, tissue, 1.0)[1].any()


@pytest.mark.parametrize("share", [0.001, 0.02, 0.5, 1.0])
@pytest.mark.parametrize("stride_px", [32, 12])
def test_every_cell_of_tissue_is_in_one_block_and_no_other_cell_is_in_any(share: float, stride_px: int) -> None:
    plan = make_plan((4100, 3333), stride_px=stride_px)
    is_tissue, times = make_tissue(plan, share), np.zeros((plan.grid.rows, plan.grid.cols), int)
    for block in blocks(plan, is_tissue):
        np.add.at(times, tuple(block.cells.T), 1)
    assert np.array_equal(times, is_tissue.astype(int))


def test_blocks_come_band_by_band_and_from_left_to_right() -> None:
    plan = make_plan()
    places = [
        (block.first.row // plan.band_rows, block.first.col // plan.band_rows)
        for block in blocks(plan, make_tissue(plan, 0.01))
    ]
    assert places == sorted(set(places)) and len(places) > 5


def test_tissue_as_wide_as_a_block_is_in_one_wherever_it_begins() -> None:
    plan = make_plan()
    is_tissue = np.zeros((plan.grid.rows, plan.grid.cols), bool)
    is_tissue[0, 12 : 12 + plan.band_rows] = True
    assert len(list(blocks(plan, is_tissue))) == 1


def test_a_block_is_no_larger_than_its_tissue() -> None:
    plan = make_plan()
    is_tissue = np.zeros((plan.grid.rows, plan.grid.cols), bool)
    is_tissue[19, 20] = is_tissue[25, 23] = True
    (block,) = blocks(plan, is_tissue)
    assert block.first == Cell(19, 20) and block.wanted.shape == (7, 4)
    assert block.cells.tolist() == [[19, 20], [25, 23]] and block.cells.dtype == np.int64


def test_a_slide_without_tissue_has_no_blocks() -> None:
    plan = make_plan()
    assert list(blocks(plan, make_tissue(plan, 0.0))) == []
