"""Contact sheets: what is drawn where, by construction."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from ucc_path.report.contact_sheet import THUMBNAIL_PX, TILES_A_ROW, Picture, contact_sheet
from ucc_path.report.overlay import OTHER, PALETTE

FRAME_PX, GAP_PX = 4, 6
FRAMED_PX = THUMBNAIL_PX + 2 * FRAME_PX
STEP_PX = FRAMED_PX + GAP_PX
GREY = (100, 110, 120)


def flat(side_px: int = 64, mask: NDArray[np.bool_] | None = None) -> Picture:
    return np.full((side_px, side_px, 3), GREY, np.uint8), mask


def cell(sheet: NDArray[np.uint8], row: int, col: int) -> NDArray[np.uint8]:
    return sheet[row * STEP_PX : row * STEP_PX + FRAMED_PX, col * STEP_PX : col * STEP_PX + FRAMED_PX]


def test_each_tile_is_framed_in_the_colour_of_its_kind_and_shown_as_it_is() -> None:
    sheet = contact_sheet({"normal": [flat()], "metastases": [flat(512)], "strange": [flat()]})
    for row, colour in enumerate([PALETTE["normal"], PALETTE["metastases"], OTHER]):
        framed = cell(sheet, row, 0)
        inner = framed[FRAME_PX:-FRAME_PX, FRAME_PX:-FRAME_PX]
        assert (inner == GREY).all()
        assert (framed == colour).all(axis=2).sum() == FRAMED_PX**2 - THUMBNAIL_PX**2
        assert (cell(sheet, row, 1) == 255).all()


def test_a_kind_takes_as_many_rows_as_it_needs_and_one_without_pictures_none() -> None:
    sheet = contact_sheet({"normal": [flat()] * (TILES_A_ROW + 1), "metastases": [], "mixture": [flat()]})
    assert sheet.shape == (3 * STEP_PX - GAP_PX, TILES_A_ROW * STEP_PX - GAP_PX, 3)
    assert sheet.dtype == np.uint8
    for row, shown in ((0, TILES_A_ROW), (1, 1), (2, 1)):
        assert [bool((cell(sheet, row, col) != 255).any()) for col in range(TILES_A_ROW)] == [
            col < shown for col in range(TILES_A_ROW)
        ]


def test_pictures_keep_their_order() -> None:
    pictures = [(np.full((8, 8, 3), level, np.uint8), None) for level in (10, 20, 30)]
    sheet = contact_sheet({"normal": pictures})
    assert [int(cell(sheet, 0, col)[80, 80, 0]) for col in range(3)] == [10, 20, 30]


def test_the_tumour_is_outlined_where_it_ends_inside_the_tile_and_not_along_its_sides() -> None:
    mask = np.zeros((THUMBNAIL_PX, THUMBNAIL_PX), bool)
    mask[:, :60] = True
    inner = cell(contact_sheet({"mixture": [flat(THUMBNAIL_PX, mask)]}), 0, 0)[FRAME_PX:-FRAME_PX, FRAME_PX:-FRAME_PX]
    black = (inner == 0).all(axis=2)
    assert black[:, 59].all() and black.sum() == THUMBNAIL_PX
    assert (inner[~black] == GREY).all()


@pytest.mark.parametrize("value", [False, True])
def test_a_tile_all_of_one_kind_has_no_outline(value: bool) -> None:
    sheet = contact_sheet({"normal": [flat(64, np.full((64, 64), value))]})
    assert (cell(sheet, 0, 0)[FRAME_PX:-FRAME_PX, FRAME_PX:-FRAME_PX] == GREY).all()


def test_pictures_are_not_changed() -> None:
    mask = np.eye(THUMBNAIL_PX, dtype=bool)
    picture = flat(THUMBNAIL_PX, mask)
    contact_sheet({"mixture": [picture]})
    assert (picture[0] == GREY).all() and mask.sum() == THUMBNAIL_PX


def test_no_pictures_at_all_is_a_mistake_of_the_caller() -> None:
    with pytest.raises(ValueError, match="no pictures to show"):
        contact_sheet({"normal": []})
