"""Previews: what is drawn where, by construction."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from ucc_path.report.overlay import (
    OTHER,
    OUTLINE,
    PALETTE,
    class_colours,
    draw_mask,
    draw_preview,
    with_legend,
)


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


RED, BLUE = (255, 0, 0), (0, 0, 255)


def make_labels() -> NDArray[np.uint8]:
    """A square of 1 and one of 2 that touches it, away from the edges."""
    labels = np.zeros((40, 60), np.uint8)
    labels[10:30, 20:30] = 1
    labels[10:30, 30:40] = 2
    return labels


def inner(mask: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Without a line of a pixel along what is not in it; the edge of the picture is no such line."""
    padded = np.pad(mask, 1, constant_values=True)
    rows, cols = mask.shape
    return np.all([padded[r : r + rows, c : c + cols] for r in range(3) for c in range(3)], axis=0)


def test_each_class_is_tinted_and_lined_with_its_colour_and_the_rest_is_as_it_was() -> None:
    thumbnail, labels = make_slide()[0], make_labels()
    picture = draw_mask(thumbnail, labels, [RED, BLUE])
    assert picture.dtype == np.uint8 and (picture[labels == 0] == 100).all()
    for label, colour, tinted in ((1, RED, (146, 70, 70)), (2, BLUE, (70, 70, 146))):  # 0.7 * 100 + 0.3 * colour
        mask = labels == label
        assert np.array_equal(is_colour(picture, colour), mask & ~inner(mask))
        assert (np.abs(picture[inner(mask)].astype(int) - tinted) <= 1).all()


def test_a_class_that_the_edge_of_the_picture_cuts_has_no_line_there() -> None:
    labels = np.zeros((40, 60), np.uint8)
    labels[:, :30] = 1
    drawn = is_colour(draw_mask(make_slide()[0], labels, [RED]), RED)
    line = np.zeros_like(drawn)
    line[:, 29] = True
    assert np.array_equal(drawn, line)


def test_a_picture_without_labels_is_as_it_was_and_nothing_given_is_changed() -> None:
    thumbnail, labels = make_slide()[0], make_labels()
    assert np.array_equal(draw_mask(thumbnail, np.zeros_like(labels), [RED]), thumbnail)
    draw_mask(thumbnail, labels, [RED, BLUE])
    assert (thumbnail == 100).all() and np.array_equal(labels, make_labels())


def test_nuclei_stay_visible_under_the_tint() -> None:
    thumbnail = np.random.default_rng(0).integers(0, 256, (40, 60, 3), np.uint8)
    picture = draw_mask(thumbnail, np.ones((40, 60), np.uint8), [RED])
    assert np.corrcoef(picture[..., 1].ravel(), thumbnail[..., 1].ravel())[0, 1] > 0.99


def test_a_legend_stands_below_the_picture_with_each_colour_once_in_the_order_given() -> None:
    picture = np.full((50, 400, 3), 100, np.uint8)
    found = with_legend(picture, [("normal 1.2 mm2", RED), ("metastases 0.3 mm2", BLUE)])
    assert np.array_equal(found[:50], picture) and found.shape[1:] == (400, 3) and found.dtype == np.uint8
    strip = found[50:]
    red, blue = (np.flatnonzero(is_colour(strip, colour).any(axis=0)) for colour in (RED, BLUE))
    assert len(red) == len(blue) == 16 and np.ptp(red) == np.ptp(blue) == 15  # a square of each
    words = (strip < 128).all(axis=2).any(axis=0)  # dark pixels
    assert words[red[-1] + 1 : blue[0]].any() and words[blue[-1] + 1 :].any()
    assert not words[: red[0]].any() and (strip[:, 0] == 255).all()


def test_words_that_do_not_fit_are_left_out_whole() -> None:
    entries = [("normal", RED), ("metastases of some size", BLUE)]
    assert is_colour(with_legend(np.zeros((5, 120, 3), np.uint8), entries)[5:], BLUE).sum() == 0
    assert is_colour(with_legend(np.zeros((5, 120, 3), np.uint8), entries)[5:], RED).sum() == 256
    narrow = with_legend(np.zeros((5, 20, 3), np.uint8), entries)
    assert narrow.shape[1] == 20 and (narrow[5:] == 255).all()


def test_a_legend_of_nothing_is_an_empty_strip() -> None:
    assert (with_legend(np.zeros((5, 100, 3), np.uint8), [])[5:] == 255).all()


def test_a_class_has_the_same_colour_wherever_it_stands() -> None:
    assert class_colours(("normal", "metastases")) == [PALETTE["normal"], PALETTE["metastases"]]
    assert class_colours(("metastases", "normal")) == [PALETTE["metastases"], PALETTE["normal"]]


@pytest.mark.parametrize(
    "names",
    [
        ("normal", "metastases", "cluster 3", "cluster 4", "cluster 5"),
        ("cluster 1", "metastases", "cluster 3", "cluster 4", "cluster 5"),
        ("normal", "cluster 2", "cluster 3", "cluster 4", "cluster 5"),
        ("cluster 1", "cluster 2", "cluster 3", "cluster 4", "cluster 5"),
    ],
)
def test_five_classes_have_five_colours_whichever_of_them_have_names(names: tuple[str, ...]) -> None:
    assert len(set(class_colours(names))) == 5


def test_there_is_a_colour_for_every_class_however_many() -> None:
    assert len(class_colours([f"cluster {n}" for n in range(20)])) == 20
