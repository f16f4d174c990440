"""Comparisons: what is drawn where, by construction, and that it can be told apart in grey."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from numpy.typing import NDArray

from ucc_path.report.comparison import AGREEMENT, agreement_map, strip, tumour_view
from ucc_path.report.overlay import PALETTE

Picture = NDArray[np.uint8]
LINE = PALETTE["metastases"]


def make_tile(side_px: int = 40, level: int = 100) -> tuple[Picture, NDArray[np.bool_]]:
    """A flat tile whose middle square is tumour."""
    tumour = np.zeros((side_px, side_px), bool)
    tumour[10:30, 10:30] = True
    return np.full((side_px, side_px, 3), level, np.uint8), tumour


def is_colour(picture: Picture, colour: tuple[int, int, int]) -> NDArray[np.bool_]:
    return np.asarray((picture == np.array(colour, np.uint8)).all(axis=2))


def ring(outer_px: int, inner_px: int) -> NDArray[np.bool_]:
    """What lies so far around the square of `make_tile`, and not nearer."""
    found = np.zeros((40, 40), bool)
    found[10 - outer_px : 30 + outer_px, 10 - outer_px : 30 + outer_px] = True
    found[10 - inner_px : 30 + inner_px, 10 - inner_px : 30 + inner_px] = False
    return found


def test_tumour_is_shown_as_it_is_and_the_rest_faded() -> None:
    rgb, tumour = make_tile()
    view = tumour_view(rgb, tumour)
    assert view.dtype == np.uint8 and (view[tumour] == 100).all()
    assert (view[0, 0] == round(100 * 0.45 + 255 * 0.55)).all()
    assert (rgb == 100).all()


def test_around_the_tumour_run_a_dark_line_and_one_in_its_colour() -> None:
    view = tumour_view(*make_tile())
    assert np.array_equal(is_colour(view, LINE), ring(3, 1))
    assert (view[ring(1, 0)] < 40).all()
    assert (view[~ring(3, 0) & ~make_tile()[1]] > 150).all()


@pytest.mark.parametrize("level", [0, 60, 120, 180, 255])
def test_in_grey_the_line_stands_out_from_any_faded_tissue(level: int) -> None:
    rgb, tumour = make_tile(level=level)
    view = tumour_view(rgb, tumour).mean(axis=2)
    assert view[0, 0] - view[9, 20] >= 100


@pytest.mark.parametrize("value", [False, True])
def test_a_tile_all_of_one_kind_has_no_line(value: bool) -> None:
    rgb, _ = make_tile()
    view = tumour_view(rgb, np.full((40, 40), value))
    assert len(np.unique(view)) == 1 and (view[0, 0, 0] == 100) == value


def test_a_strip_shows_each_picture_in_its_order_below_its_name() -> None:
    pictures = [
        (name, np.full((side, side, 3), level, np.uint8)) for name, side, level in [("a", 8, 10), ("b", 99, 90)]
    ]
    sheet = strip(pictures, side_px=64)
    assert sheet.dtype == np.uint8 and sheet.shape[1] == 2 * 64 + 8
    head = sheet.shape[0] - 64
    assert (sheet[head:, :64] == 10).all() and (sheet[head:, 72:] == 90).all() and (sheet[head:, 64:72] == 255).all()
    for left in (0, 72):
        assert (sheet[:head, left : left + 64] < 128).any()
    unnamed = strip([("", picture) for _, picture in pictures], side_px=64)
    assert (unnamed[:head] == 255).all()


def test_a_long_name_stays_above_its_own_picture() -> None:
    black = np.zeros((64, 64, 3), np.uint8)
    sheet = strip([("", black), ("a name far longer than the picture is wide", black), ("", black)], side_px=64)
    head = sheet[: sheet.shape[0] - 64]
    assert (head[:, :72] == 255).all() and (head[:, 136:] == 255).all() and (head[:, 72:136] < 128).any()


def test_a_strip_of_nothing_is_a_mistake_of_the_caller() -> None:
    with pytest.raises(ValueError, match="no pictures to show"):
        strip([])


@pytest.mark.parametrize("weights", [(0.299, 0.587, 0.114), (0.2126, 0.7152, 0.0722)])
def test_the_tones_of_a_map_are_told_apart_in_grey(weights: tuple[float, float, float]) -> None:
    greys = [float(np.dot(colour, weights)) for colour in AGREEMENT.values()]
    assert len(greys) == 5 and min(abs(one - other) for one, other in combinations(greys, 2)) >= 40


@pytest.mark.parametrize(
    ("name", "is_predicted", "is_true"),
    [
        ("tumour found", True, True),
        ("tumour missed", False, True),
        ("false alarm", True, False),
        ("not tumour, rightly", False, False),
    ],
)
def test_a_cell_has_the_colour_of_what_happened_there(name: str, is_predicted: bool, is_true: bool) -> None:
    predicted, truth = np.full((1, 2), is_predicted), np.full((1, 2), is_true)
    picture = agreement_map(predicted, truth, np.array([[True, False]]), least_px=2)
    assert picture.tolist() == [[list(AGREEMENT[name]), list(AGREEMENT["background"])]]


@pytest.mark.parametrize(("least_px", "factor"), [(0, 1), (7, 1), (8, 2), (14, 2), (15, 3)])
def test_cells_are_enlarged_by_a_whole_factor(least_px: int, factor: int) -> None:
    truth = np.random.default_rng(0).random((4, 7)) < 0.5
    nothing, tissue = np.zeros((4, 7), bool), np.ones((4, 7), bool)
    picture = agreement_map(nothing, truth, tissue, least_px=least_px)
    assert picture.shape == (4 * factor, 7 * factor, 3) and picture.dtype == np.uint8
    missed = is_colour(picture, AGREEMENT["tumour missed"])
    assert np.array_equal(missed, np.kron(truth, np.ones((factor, factor))).astype(bool))


def test_a_slide_is_large_enough_to_look_at_and_one_without_cells_is_no_error() -> None:
    one = np.ones((30, 20), bool)
    assert agreement_map(one, one, one).shape == (480, 320, 3)
    none = np.ones((0, 0), bool)
    assert agreement_map(none, none, none).shape == (0, 0, 3)
