"""Which cells and patches of a tile are tissue."""

from __future__ import annotations

import numpy as np
import pytest
from conftest import GLASS, TISSUE
from numpy.typing import NDArray

from ucc_path.bags import cell_px, patches_of_tissue, tissue_cells
from ucc_path.bags.pixels import places_of_tissue
from ucc_path.errors import SettingsError
from ucc_path.settings import TissueSettings


def make_tile(side: int, *, tissue_cols: slice) -> NDArray[np.uint8]:
    """Noisy glass, with tissue from top to bottom in some columns."""
    tile = np.full((side, side, 3), GLASS, np.int16)
    tile[:, tissue_cols] = TISSUE
    tile += np.random.default_rng(0).integers(-5, 6, tile.shape, np.int16)
    return tile.astype(np.uint8)


def test_the_cells_of_a_tile_are_tissue_where_the_tile_is() -> None:
    cells = tissue_cells(make_tile(512, tissue_cols=slice(0, 256)), 1.0, 32, TissueSettings())
    assert cells.shape == (64, 64) and cells.dtype == np.bool_
    assert cells[:, :31].all()
    assert not cells[:, 34:].any()


def test_a_tile_whose_side_is_no_multiple_of_a_cell_loses_the_rest() -> None:
    tile = make_tile(512, tissue_cols=slice(None))
    assert tissue_cells(tile[:509, :509], 1.0, 32, TissueSettings()).shape == (63, 63)
    assert tissue_cells(tile[:7, :7], 1.0, 32, TissueSettings()).shape == (0, 0)


@pytest.mark.parametrize("channels", [1, 2, 4])
def test_all_of_a_picture_without_colours_is_tissue(channels: int) -> None:
    assert tissue_cells(np.zeros((28, 28, channels), np.uint8), 1.0, 28, TissueSettings()).tolist() == [[True] * 4] * 4


def test_a_cell_is_a_quarter_of_a_patch() -> None:
    assert [cell_px(px) for px in (4, 28, 32)] == [1, 7, 8]


@pytest.mark.parametrize("patch_px", [-4, 0, 2, 30])
def test_a_patch_that_has_no_quarter_is_refused(patch_px: int) -> None:
    with pytest.raises(SettingsError, match=rf"patch_px is {patch_px}; give a multiple of 4, such as 32"):
        cell_px(patch_px)


@pytest.mark.parametrize(("min_tissue", "cells_needed"), [(0.0, 0), (0.01, 1), (0.5, 8), (0.51, 9), (0.7, 12), (1, 16)])
def test_a_patch_needs_its_share_of_tissue_and_not_a_cell_more(min_tissue: float, cells_needed: int) -> None:
    tissue = np.zeros((17, 16), bool)
    tissue[np.tril_indices(17, -1, 16)] = True  # tile n has n cells of tissue
    found = patches_of_tissue(tissue.reshape(17, 4, 4), min_tissue)
    assert found.ravel().tolist() == [cells >= cells_needed for cells in range(17)]


def test_every_patch_is_judged_by_its_own_cells() -> None:
    tissue = np.random.default_rng(0).random((3, 11, 13)) < 0.5
    expected = tissue[:, :8, :12].reshape(3, 2, 4, 3, 4).mean(axis=(2, 4)) >= 0.5
    assert np.array_equal(patches_of_tissue(tissue, 0.5), expected)
    assert 0 < expected.mean() < 1


def test_a_patch_may_begin_at_any_cell() -> None:
    tissue = np.random.default_rng(1).random((2, 9, 8)) < 0.5
    found = places_of_tissue(tissue, 0.5)
    assert found.shape == (2, 6, 5)
    for row, col in np.ndindex(6, 5):
        expected = tissue[:, row : row + 4, col : col + 4].mean(axis=(1, 2)) >= 0.5
        assert np.array_equal(found[:, row, col], expected)


@pytest.mark.parametrize("cells", [0, 1, 3])
def test_a_tile_smaller_than_a_patch_has_none(cells: int) -> None:
    assert patches_of_tissue(np.ones((2, cells, cells), bool), 0.5).shape == (2, 0, 0)
