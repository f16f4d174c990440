"""Line charts: that what is drawn is where the numbers say, and that odd numbers do no harm."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from ucc_path.report import lettering
from ucc_path.report.chart import AXIS, COLOURS, DASHES, SMALLEST_PX, Guide, Mark, Panel, Series, line_chart

Picture = NDArray[np.uint8]
FIRST, SECOND = COLOURS[:2]


def is_colour(picture: Picture, colour: tuple[int, int, int]) -> NDArray[np.bool_]:
    return np.asarray((picture == np.array(colour, np.uint8)).all(axis=2))


def box_of(picture: Picture) -> tuple[int, int, int, int]:
    """Left, top, right and bottom of the frame, read off the axes: the longest dark column and row.

    A curve that runs along an axis or ends at an end of one would hide it.
    """
    dark = is_colour(picture, AXIS)
    left, bottom = int(dark.sum(axis=0).argmax()), int(dark.sum(axis=1).argmax())
    return left, int(np.flatnonzero(dark[:, left])[0]), int(np.flatnonzero(dark[bottom])[-1]), bottom


def place(picture: Picture, x_share: float, y_share: float) -> tuple[int, int]:
    """The (row, col) of a point so far along the axes."""
    left, top, right, bottom = box_of(picture)
    return round(bottom - y_share * (bottom - top)), round(left + x_share * (right - left))


def near(picture: Picture, row: int, col: int) -> Picture:
    return picture[row - 1 : row + 2, col - 1 : col + 2]


# On scales of 0 to 10 and 0 to 1, whose ends are round numbers, so that the frame is known.
DIAGONAL = Series("up", [0, 5, 10], [0.0, 0.5, 1.0])


def make_chart(*series: Series, mark: Mark | None = None, guides: tuple[Guide, ...] = ()) -> Picture:
    return line_chart([Panel("", "", series, mark, guides)])


def test_the_picture_is_of_the_size_asked_for() -> None:
    panel = Panel("Loss", "step", (DIAGONAL,))
    picture = line_chart([panel, panel], width_px=700, panel_height_px=250)
    assert picture.shape == (500, 700, 3) and picture.dtype == np.uint8
    titled = line_chart([panel, panel], title="a run", width_px=700, panel_height_px=250)
    assert titled.shape[0] > 500
    assert np.array_equal(titled[-500:], picture)
    assert line_chart([panel], width_px=1, panel_height_px=-5).shape == (SMALLEST_PX[1], SMALLEST_PX[0], 3)


@pytest.mark.parametrize("share", [0.1, 0.25, 0.5, 0.73, 0.9])
def test_a_curve_passes_where_its_values_belong(share: float) -> None:
    picture = make_chart(DIAGONAL)
    assert is_colour(near(picture, *place(picture, share, share)), FIRST).any()
    assert not is_colour(near(picture, *place(picture, share, 1 - share)), FIRST).any() or share == 0.5


def test_a_straight_curve_is_two_pixels_wide() -> None:
    picture = make_chart(Series("", [0, 10], [0.5, 0.5]), DIAGONAL)
    row, col = place(picture, 0.25, 0.5)
    around = 255 - picture[row - 5 : row + 6, col, 0].astype(float)
    assert around.sum() / (255 - FIRST[0]) == pytest.approx(2, abs=0.3)


def test_a_later_curve_has_the_next_colour() -> None:
    picture = make_chart(DIAGONAL, Series("down", [2, 8], [0.8, 0.2]))
    assert is_colour(near(picture, *place(picture, 0.25, 0.75)), SECOND).any()
    assert is_colour(near(picture, *place(picture, 0.25, 0.25)), FIRST).any()


def test_the_legend_shows_the_colour_of_each_name_above_the_frame() -> None:
    one, two = make_chart(DIAGONAL), make_chart(DIAGONAL, Series("none yet", [], []))
    top = box_of(two)[1]
    assert is_colour(two[:top], FIRST).any() and is_colour(two[:top], SECOND).any()
    assert not is_colour(one, SECOND).any()


def test_more_names_than_there_is_room_for_leave_room_for_the_curves() -> None:
    picture = line_chart([Panel("", "", (DIAGONAL,) * 60)], width_px=400, panel_height_px=200)
    _, top, _, bottom = box_of(picture)
    assert bottom - top >= 50


def test_a_guide_is_a_dashed_line_at_its_height() -> None:
    picture = make_chart(DIAGONAL, guides=(Guide(0.7, "guessing"),))
    left, top, right, bottom = box_of(picture)
    row, _ = place(picture, 0, 0.7)
    dashes = is_colour(picture, DASHES)[top:bottom, left:right]
    assert (np.flatnonzero(dashes.sum(axis=1) > 20) + top).tolist() == [row]
    assert 0.4 < dashes[row - top].mean() < 0.6


def test_a_guide_beyond_the_curves_widens_the_scale() -> None:
    picture = make_chart(DIAGONAL, guides=(Guide(2.0, ""),))
    assert is_colour(near(picture, *place(picture, 0.9, 0.45)), FIRST).any()
    top = place(picture, 0, 1)[0]
    assert is_colour(picture, DASHES)[top - 1 : top + 1].any()  # where it covers the end of the axis


def test_words_of_guides_at_nearly_one_height_do_not_overlap() -> None:
    guides = (Guide(0.5, "HHHH"), Guide(0.501, "HHHH"))
    picture = make_chart(DIAGONAL, guides=guides)
    right = box_of(picture)[2]
    rows_one = (make_chart(DIAGONAL, guides=guides[:1])[:, right + 2 :] < 128).any(axis=(1, 2))
    rows_two = (picture[:, right + 2 :] < 128).any(axis=(1, 2))
    middle = slice(90, 250)  # without the legend above and the ticks below
    assert rows_two[middle].sum() == 2 * rows_one[middle].sum() > 0


def test_a_mark_is_a_dashed_line_at_its_place_with_words_above_the_frame() -> None:
    picture = make_chart(DIAGONAL, mark=Mark(4, "best"))
    _, top, _, bottom = box_of(picture)
    _, col = place(picture, 0.4, 0)
    dashes = is_colour(picture, DASHES)[top:bottom]
    assert np.flatnonzero(dashes.sum(axis=0) > 20).tolist() == [col]
    assert (picture[top - 16 : top - 1, col - 15 : col + 15] < 128).any()


def test_a_value_that_is_not_a_number_leaves_a_gap() -> None:
    x = list(range(11))
    picture = make_chart(Series("", x, [0.5] * 4 + [math.nan] * 2 + [0.5] * 5), DIAGONAL)
    for share, is_drawn in [(0.15, True), (0.35, False), (0.45, False), (0.55, False), (0.8, True)]:
        assert is_colour(near(picture, *place(picture, share, 0.5)), FIRST).any() == is_drawn, share


def test_a_single_point_is_a_dot() -> None:
    picture = make_chart(DIAGONAL, Series("", [2], [0.8]))
    _, top, _, bottom = box_of(picture)
    rows, cols = np.nonzero(is_colour(picture[top:bottom], SECOND))
    row, col = place(picture, 0.2, 0.8)
    assert abs(rows.mean() + top - row) < 0.6 and abs(cols.mean() - col) < 0.6
    assert 3 <= np.ptp(rows) <= 6 and np.ptp(rows) == np.ptp(cols)


def test_nothing_of_a_curve_is_drawn_outside_its_frame() -> None:
    wild = np.random.default_rng(0).normal(size=200) * 100
    picture = make_chart(Series("", list(range(200)), wild.tolist()))
    left, top, right, bottom = box_of(picture)
    without = make_chart(Series("", [0, 199], [wild.min(), wild.max()]))
    changed = (picture != without).any(axis=2)
    changed[top - 5 : bottom + 6, left - 5 : right + 6] = False
    assert not changed.any()


ODD = [0.0, 1.0, -1.0, 1e308, -1e308, 5e-324, 1e-300, 1 + 1e-15, 123456789.0, math.nan, math.inf, -math.inf]
numbers = st.sampled_from(ODD) | st.floats()


@settings(max_examples=40)
@given(st.lists(st.tuples(numbers, numbers), max_size=5), numbers, numbers)
def test_no_numbers_are_too_odd_to_draw(points: list[tuple[float, float]], mark: float, guide: float) -> None:
    series = Series("name", [x for x, _ in points], [y for _, y in points])
    panel = Panel("title", "step", (series,), Mark(mark, "mark"), (Guide(guide, "guide"),))
    assert line_chart([panel], width_px=320, panel_height_px=200).shape == (200, 320, 3)


def test_nothing_at_all_can_be_drawn() -> None:
    assert line_chart([]).shape == (1, 900, 3)
    assert (line_chart([Panel("", "", ())]) < 255).any()  # a frame


@pytest.mark.parametrize("text", ["x" * 500, "two\nlines", "Ж 漢字 \x1b[31m", "\ud800"])
def test_any_text_is_kept_inside_the_picture(text: str) -> None:
    panel = Panel(text, text, (Series(text, [0, 1], [0, 1]),), Mark(1, text), (Guide(0.5, text),))
    picture = line_chart([panel], title=text, width_px=500)
    assert (picture[:, :4] == 255).all() and (picture[:, -4:] == 255).all()


@pytest.fixture
def without_freetype(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    bitmap = lettering.ImageFont.load_default_imagefont()

    def load_default(size: float | None = None) -> lettering.Font:
        if size is not None:
            raise ImportError("The _imagingft C module is not installed")
        return bitmap

    monkeypatch.setattr(lettering.ImageFont, "load_default", load_default)
    lettering.font_of.cache_clear()
    yield
    lettering.font_of.cache_clear()


@pytest.mark.usefixtures("without_freetype")
def test_without_freetype_the_bitmap_font_is_used() -> None:
    panel = Panel("Loss µ Ж", "step", (DIAGONAL,), Mark(5, "best"), (Guide(0.5, "guessing"),))
    picture = line_chart([panel], title="run")
    assert is_colour(near(picture, *place(picture, 0.25, 0.25)), FIRST).any()


def test_the_same_numbers_give_the_same_picture_and_are_left_as_they_were() -> None:
    values = np.array([0.0, 0.4, 1.0])
    pictures = [make_chart(Series("", values.tolist(), values.tolist())) for _ in range(2)]
    assert np.array_equal(*pictures)
