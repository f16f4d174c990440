"""Windows: what is summed square by square is what each window holds."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from ucc_path.features.streaming import Band
from ucc_path.mask import windows as windows_module
from ucc_path.mask.windows import Disagreements, WindowMap, Windows, disagreements

Floats = NDArray[np.float32]


class ExactHead:
    """Adds small whole numbers, whose sums are exact in any order; three labels, of which two count one class."""

    width = 4

    def added_by(self, features: Floats) -> Floats:
        return np.concatenate([features, features[:, ::-1] * 2], axis=1)

    def probabilities(self, means: Floats) -> Floats:
        """Without BLAS, which rounds a row otherwise in other company."""
        weights = np.array([[3, 0, 1], [0, 3, 1], [1, 0, 2], [0, 1, 1]], np.float32)
        scores = (means[:, :, None] * weights).sum(axis=1) + np.float32(0.01)
        return np.asarray(scores / scores.sum(axis=1, keepdims=True), np.float32)

    def mixture(self, probabilities: Floats) -> Floats:
        return probabilities[:, 2]

    def predicted(self, probabilities: Floats) -> NDArray[np.int64]:
        return np.where(probabilities[:, 2] > 0.5, 2, 1)


def make_cells(rows: int, cols: int, share: float, seed: int = 0) -> tuple[Floats, NDArray[np.bool_]]:
    """Values of whole numbers in smooth patches, so that windows differ, and empty cells, columns and rows."""
    rng = np.random.default_rng(seed)
    is_there = rng.random((rows, cols)) < share
    is_there[rows // 2 : rows // 2 + rows // 8] = False
    is_there[:, cols // 3 : cols // 3 + cols // 8] = False
    coarse = rng.integers(0, 9, (rows // 5 + 1, cols // 5 + 1, 2))
    values = np.repeat(np.repeat(coarse, 5, axis=0), 5, axis=1)[:rows, :cols] + rng.integers(0, 3, (rows, cols, 2))
    return (values * is_there[..., None]).astype(np.float32), is_there


def in_bands(values: Floats, is_there: NDArray[np.bool_], heights: list[int]) -> Iterator[Band]:
    """Bands of these heights, again and again, to the last row."""
    first = number = 0
    while first < len(values):
        height = heights[number % len(heights)]
        yield Band(first, values[first : first + height], is_there[first : first + height])
        first, number = first + height, number + 1


def judged(
    values: Floats, is_there: NDArray[np.bool_], window_cells: int, heights: list[int]
) -> tuple[NDArray[np.uint8], Windows]:
    window_map = WindowMap(ExactHead(), is_there.shape, window_cells=window_cells)  # type: ignore[arg-type]
    for band in in_bands(values, is_there, heights):
        window_map.take(band)
    return window_map.finish()


def said_of(values: Floats, is_there: NDArray[np.bool_], box: tuple[int, int, int], most: int) -> Floats | None:
    """What the head says of the square (top, left, side), cut at the edges; None with less than a quarter of `most`."""
    top, left, side = box
    window = (slice(max(0, top), max(0, top + side)), slice(max(0, left), max(0, left + side)))
    bag = values[window][is_there[window]]
    if len(bag) < most / 4:
        return None
    head = ExactHead()
    mean = head.added_by(bag).astype(np.float64).sum(axis=0, keepdims=True) / len(bag)
    return head.probabilities(mean.astype(np.float32))


def by_brute_force(
    values: Floats, is_there: NDArray[np.bool_], window_cells: int
) -> tuple[NDArray[np.uint8], dict[tuple[int, int], int]]:
    """255 * P(mixture) of each cell, and the count of windows side by side, by the cell in which they begin."""
    side = max(1, window_cells // 4)
    squares = max(1, window_cells // side)
    whole = squares * side
    rows, cols = is_there.shape
    mixture = np.zeros((rows, cols), np.uint8)
    for top in range(0, rows, side):
        for left in range(0, cols, side):
            square = (slice(top, top + side), slice(left, left + side))
            box = (top - squares // 2 * side, left - squares // 2 * side, whole)
            said = said_of(values, is_there, box, whole**2) if is_there[square].any() else None
            if said is not None:
                mixture[square] = np.rint(255 * said[0, 2])
    windows = {}
    for top in range(0, rows, whole):
        for left in range(0, cols, whole):
            said = said_of(values, is_there, (top, left, whole), whole**2)
            if said is not None:
                windows[top, left] = int(ExactHead().predicted(said)[0])
    return mixture, windows


@given(
    rows=st.integers(1, 40),
    cols=st.integers(1, 40),
    window_cells=st.integers(1, 21),
    share=st.sampled_from([0.1, 0.4, 0.9, 1.0]),
    heights=st.lists(st.integers(1, 20), min_size=1, max_size=3),
    seed=st.integers(0, 9),
)
def test_every_window_is_judged_by_all_its_cells_whatever_the_sizes(
    rows: int, cols: int, window_cells: int, share: float, heights: list[int], seed: int
) -> None:
    values, is_there = make_cells(rows, cols, share, seed)
    mixture, windows = judged(values, is_there, window_cells, heights)
    wanted, wanted_windows = by_brute_force(values, is_there, window_cells)
    assert mixture.dtype == np.uint8 and np.array_equal(mixture, wanted)
    assert {tuple(cell): count for cell, count in zip(windows.cells.tolist(), windows.predicted, strict=True)} == (
        wanted_windows
    )
    assert windows.cells.tolist() == sorted(windows.cells.tolist())


@pytest.mark.parametrize("window_cells", [1, 3, 4, 8, 13, 32])
def test_the_windows_of_a_large_raster_differ_and_are_right(window_cells: int) -> None:
    values, is_there = make_cells(61, 47, 0.8)
    mixture, windows = judged(values, is_there, window_cells, [16])
    wanted, wanted_windows = by_brute_force(values, is_there, window_cells)
    assert np.array_equal(mixture, wanted) and len(windows.cells) == len(wanted_windows)
    assert len(np.unique(wanted)) > 3  # so that a window in another place would show


@pytest.mark.parametrize(("window_cells", "side_cells"), [(1, 1), (3, 3), (7, 7), (8, 8), (9, 8), (11, 10), (32, 32)])
def test_windows_are_as_large_as_squares_of_a_quarter_allow(window_cells: int, side_cells: int) -> None:
    values, is_there = make_cells(40, 40, 1.0)
    assert judged(values, is_there, window_cells, [16])[1].side_cells == side_cells


def test_a_mixture_is_seen_where_two_classes_meet_and_not_elsewhere() -> None:
    """Left and right are of one class each; a window of 8 cells sees both up to 4 cells from the border."""

    class TwoClasses(ExactHead):
        def probabilities(self, means: Floats) -> Floats:
            both = np.minimum(means[:, 0], means[:, 1]) * 2
            return np.stack([means[:, 0] - both / 2, means[:, 1] - both / 2, both], axis=1)

    values = np.zeros((32, 64, 2), np.float32)
    values[:, :32, 0] = values[:, 32:, 1] = 1
    window_map = WindowMap(TwoClasses(), (32, 64), window_cells=8)  # type: ignore[arg-type]
    window_map.take(Band(0, values, np.ones((32, 64), np.bool_)))
    mixture, windows = window_map.finish()
    # Squares of 2 cells; the window of a square begins two squares before it and ends with the one behind it.
    assert mixture[0, [26, 28, 30, 32, 34, 36]].tolist() == [0, 0, 128, 255, 128, 0]
    assert (mixture == mixture[0]).all()
    assert set(windows.predicted.tolist()) == {1} and len(windows.cells) == 32  # side by side none lies on the border


def test_a_slide_without_patches_has_no_windows() -> None:
    values, is_there = make_cells(20, 20, 0.0)
    mixture, windows = judged(values, is_there, 8, [7])
    assert mixture.shape == (20, 20) and not mixture.any()
    assert windows.cells.shape == (0, 2) and windows.predicted.shape == (0,)
    assert disagreements(windows, np.zeros((20, 20), np.uint8), 0.2).in_mask.shape == (0,)


def test_memory_does_not_grow_with_the_height_of_a_slide() -> None:
    values, is_there = make_cells(400, 8, 1.0)
    window_map, kept = WindowMap(ExactHead(), (400, 8), window_cells=8), []  # type: ignore[arg-type]
    for band in in_bands(values, is_there, [5]):
        window_map.take(band)
        kept.append(len(window_map._last))
    assert max(kept) <= 4  # rows of squares: those of one window


def review(labels: NDArray[np.uint8], predicted: int, min_class_share: float = 0.2) -> Disagreements:
    """Of one window over all of the labels."""
    windows = Windows(np.zeros((1, 2), np.int64), len(labels), np.array([predicted]))
    return disagreements(windows, labels, min_class_share)


def make_window(*counts: int) -> NDArray[np.uint8]:
    """10 x 10 cells of which so many are 1, 2, ..., the others background."""
    labels = np.zeros(100, np.uint8)
    labels[: sum(counts)] = np.repeat(np.arange(1, len(counts) + 1), counts)
    return np.random.default_rng(0).permutation(labels).reshape(10, 10)


@pytest.mark.parametrize(
    ("counts", "in_mask"),
    [
        ((100,), 1),
        ((80, 20), 2),
        ((81, 19), 1),
        ((40, 10), 2),
        ((41, 9), 1),
        ((0, 30), 1),
        ((30, 30, 30), 3),
        ((0,), 0),
    ],
)
def test_a_class_is_in_the_mask_where_it_has_its_share_of_the_cells_that_have_one(
    counts: tuple[int, ...], in_mask: int
) -> None:
    labels = make_window(*counts)
    for predicted in (1, 2, 3):
        found = review(labels, predicted)
        assert found.in_mask.tolist() == ([] if predicted == in_mask else [in_mask])
        assert found.predicted.tolist() == ([] if predicted == in_mask else [predicted])


def test_without_a_least_share_one_cell_makes_a_class() -> None:
    assert review(make_window(99, 1), 1, min_class_share=0.0).in_mask.tolist() == [2]
    assert review(make_window(99, 0, 1), 2, min_class_share=0.0).in_mask.tolist() == []


def test_only_windows_that_disagree_are_for_review_each_by_its_own_part_of_the_mask() -> None:
    labels = np.zeros((10, 13), np.uint8)
    labels[:4, :4] = 1
    labels[:4, 4:8] = 1
    labels[:2, 4:8] = 2
    labels[8:, 12:] = 2  # a window cut by the edge of the slide
    windows = Windows(np.array([[0, 0], [0, 4], [8, 12]]), 4, np.array([1, 1, 2]))
    found = disagreements(windows, labels, 0.2)
    assert found.side_cells == 4
    assert found.cells.tolist() == [[0, 4], [8, 12]]
    assert found.predicted.tolist() == [1, 2] and found.in_mask.tolist() == [2, 1]


def test_of_a_band_however_large_the_model_is_asked_for_some_patches_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    class Asked(ExactHead):
        def added_by(self, features: Floats) -> Floats:
            asked.append(len(features))
            return super().added_by(features)

    values, is_there = make_cells(40, 60, 0.7)
    mixture, found = judged(values, is_there, 8, [16])
    monkeypatch.setattr(windows_module, "_AT_ONCE", 50)
    window_map = WindowMap(Asked(), is_there.shape, window_cells=8)  # type: ignore[arg-type]
    for band in in_bands(values, is_there, [16]):
        window_map.take(band)
    again, found_again = window_map.finish()
    assert max(asked) == 50 and sum(asked) == np.count_nonzero(is_there)
    assert np.array_equal(mixture, again) and mixture.any()
    assert np.array_equal(found.predicted, found_again.predicted)
