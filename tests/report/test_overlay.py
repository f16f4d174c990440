"""Previews: what is drawn where, by construction."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from ucc_path.report.overlay import OTHER, OUTLINE, PALETTE, draw_preview


def make_slide() -> tuple[NDArray[np.uint8], NDArray[np.bool_]]:
    """A grey picture whose middle square is tissue."""
    mask = np.zeros((40, 60), bool)
    mask[10:30, 20:40] = True
    return np.full((40, 60, 3), 100, np.uint8), mask


def boxes(*rows: tuple[int, int, int, int]) -> NDArray[np.int64]:
    return np.array(rows, np.int64).reshape(-1, 4)


def is_colour(picture: NDArray[np.uint8], colour: tuple[int, int, int]) -> NDArray[np.bool_]:
    return np.asarray((picture == np.array(colour, np.uint8)).all(axis=2))


def test_tissue_is_shown_as_it_is_and_the_rest_faded() -> None:
    thumbnail, mask = make_slide()
    picture = draw_preview(thumbnail, mask, {})
    assert picture.dtype == np.uint8
    assert (picture[mask] == 100).all()
    assert (picture[0, 0] > 100).all()


def test_the_outline_runs_around_the_tissue_and_nowhere_else() -> None:
    thumbnail, mask = make_slide()
    ring = np.zeros_like(mask)
    ring[9:31, 19:41] = True
    assert np.array_equal(is_colour(draw_preview(thumbnail, mask, {}), OUTLINE), ring & ~mask)


def test_each_kind_of_tile_has_a_frame_of_its_colour_inside_its_box() -> None:
    thumbnail, mask = make_slide()
    picture = draw_preview(thumbnail, mask, {"normal": boxes((12, 22, 18, 28)), "mixture": boxes((20, 30, 26, 36))})
    frame = np.zeros_like(mask)
    frame[12:18, 22:28] = True
    frame[14:16, 24:26] = False
    assert np.array_equal(is_colour(picture, PALETTE["normal"]), frame)
    assert np.array_equal(is_colour(picture, PALETTE["mixture"]), np.roll(frame, (8, 8), axis=(0, 1)))


def test_a_frame_that_hangs_over_the_edge_is_drawn_as_far_as_it_is_inside() -> None:
    thumbnail, mask = make_slide()
    drawn = is_colour(
        draw_preview(thumbnail, mask, {"normal": boxes((-5, -5, 4, 4), (36, 50, 90, 90))}), PALETTE["normal"]
    )
    expected = np.zeros_like(mask)
    expected[2:4, :4] = expected[:4, 2:4] = True
    expected[36:38, 50:] = expected[36:, 50:52] = True
    assert np.array_equal(drawn, expected)


@pytest.mark.parametrize("box", [(-9, -9, -2, -2), (100, 100, 120, 120), (50, 5, 60, 9)])
def test_a_frame_wholly_outside_is_not_drawn(box: tuple[int, int, int, int]) -> None:
    thumbnail, mask = make_slide()
    assert np.array_equal(draw_preview(thumbnail, mask, {"normal": boxes(box)}), draw_preview(thumbnail, mask, {}))


def test_a_kind_without_a_colour_is_black_and_other_palettes_are_obeyed() -> None:
    thumbnail, mask = make_slide()
    tiles = {"cartilage": boxes((12, 22, 18, 28))}
    assert is_colour(draw_preview(thumbnail, mask, tiles), OTHER).sum() == 32
    assert is_colour(draw_preview(thumbnail, mask, tiles, {"cartilage": (1, 2, 3)}), (1, 2, 3)).sum() == 32


def test_no_tissue_and_no_tiles_is_a_faded_picture() -> None:
    thumbnail, mask = make_slide()
    assert np.unique(draw_preview(thumbnail, np.zeros_like(mask), {"normal": boxes()})).tolist() == [178]


def test_the_thumbnail_and_the_mask_are_left_as_they_were() -> None:
    thumbnail, mask = make_slide()
    draw_preview(thumbnail, mask, {"normal": boxes((0, 0, 5, 5))})
    assert (thumbnail == 100).all()
    assert mask.sum() == 400


def test_colours_of_kinds_and_outline_are_all_different() -> None:
    colours = [OUTLINE, OTHER, *PALETTE.values()]
    assert len(set(colours)) == len(colours)
