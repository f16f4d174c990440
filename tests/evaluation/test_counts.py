"""Pixels of the four kinds, counted by hand on masks small enough to read."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from ucc_path.evaluation.counts import FN, FP, TN, TP, confusion, count, count_by_label, counts_of


def drawn(picture: str) -> NDArray[np.bool_]:
    """A mask as it is drawn, # for tumour."""
    return np.array([[sign == "#" for sign in line] for line in picture.split()])


PREDICTED = drawn("###. ###. .... ....")
TRUTH = drawn(".### .##. .... ....")

# Two rows of four pixels: label, whether it is tumour, whether it is tissue.
LABELS = np.array([[0, 1, 2, 2], [1, 1, 0, 2]], np.uint8)
IS_TUMOUR = drawn("..## #.#.")
IS_TISSUE = drawn(".##. ##.#")
# By label, then tumour no and yes (rows), then tissue no and yes (columns).
BY_LABEL = [
    [[1, 0], [1, 0]],
    [[0, 2], [0, 1]],
    [[0, 1], [1, 1]],
]


def test_a_pixel_is_of_one_of_four_kinds() -> None:
    # In both: columns 1 and 2 of two rows, 4. Only predicted: column 0 of two rows, 2. Only true: the corner, 1.
    found = count(PREDICTED, TRUTH)
    assert found.dtype == np.float64
    assert (found[TP], found[FP], found[TN], found[FN]) == (4, 2, 16 - 4 - 2 - 1, 1)


def test_false_positives_and_false_negatives_change_places_with_the_masks() -> None:
    assert count(TRUTH, PREDICTED).tolist() == [4, 1, 9, 2]


def test_masks_without_pixels_have_nothing_to_count() -> None:
    assert count(np.zeros((0, 4), np.bool_), np.zeros((0, 4), np.bool_)).tolist() == [0, 0, 0, 0]


@pytest.mark.parametrize("shape", [(16,), (2, 8), (1, 4), (4, 4, 1)])
def test_masks_of_different_shapes_are_refused_also_where_one_could_be_stretched(shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match=r"masks of \(4, 4\) and \(.*\) cannot be compared"):
        count(PREDICTED, np.zeros(shape, np.bool_))


def test_labels_are_counted_by_tumour_and_by_tissue() -> None:
    assert count_by_label(LABELS, IS_TUMOUR, IS_TISSUE, classes=2).tolist() == BY_LABEL


def test_a_label_without_pixels_is_counted_too() -> None:
    assert count_by_label(LABELS, IS_TUMOUR, IS_TISSUE, classes=3).tolist() == [*BY_LABEL, [[0, 0], [0, 0]]]


def test_a_label_as_large_as_a_byte_allows_stands_in_its_place() -> None:
    found = count_by_label(np.array([[255]], np.uint8), drawn("#"), drawn("#"), classes=255)
    assert found.shape == (256, 2, 2) and found.sum() == found[255, 1, 1] == 1


def test_a_label_beyond_the_classes_is_not_passed_over() -> None:
    with pytest.raises(ValueError, match="reshape"):
        count_by_label(LABELS, IS_TUMOUR, IS_TISSUE, classes=1)


@pytest.mark.parametrize(
    ("tumour_labels", "over_all", "over_tissue"),
    [
        # Label 2 has 2 pixels of tumour, 1 of them tissue, and 1 that is not; the others 2 of tumour, of which 1 is
        # tissue, and 3 that are not, of which 2 are tissue.
        ({2}, [2, 1, 3, 2], [1, 1, 2, 1]),
        ({1, 2}, [3, 3, 1, 1], [2, 3, 0, 0]),
        (set(), [0, 0, 4, 4], [0, 0, 3, 2]),
    ],
    ids=["one", "two", "none"],
)
def test_labels_that_mean_tumour_are_found_and_all_others_are_not_the_background_among_them(
    tumour_labels: set[int], over_all: list[int], over_tissue: list[int]
) -> None:
    by_label = np.array(BY_LABEL)
    found = counts_of(by_label, tumour_labels, tissue_only=False)
    assert found.dtype == np.float64 and found.tolist() == over_all
    assert counts_of(by_label, frozenset(tumour_labels), tissue_only=True).tolist() == over_tissue


def test_many_images_are_counted_each_by_itself() -> None:
    one, other = np.array(BY_LABEL), 10 * np.array(BY_LABEL)[::-1]  # the other's labels the other way round
    found = counts_of(np.array([[one, other], [other, one]]), [2], tissue_only=False)
    # Label 2 of the other is label 0 of the one, tenfold: 1 pixel of tumour, 1 not; the rest 3 and 3.
    assert found.tolist() == [[[2, 1, 3, 2], [10, 10, 30, 30]], [[10, 10, 30, 30], [2, 1, 3, 2]]]


def test_counting_by_label_first_comes_to_the_counts_of_the_masks() -> None:
    rng = np.random.default_rng(0)
    labels, truth, is_tissue = rng.integers(0, 4, (9, 7)).astype(np.uint8), rng.random((9, 7)) < 0.4, rng.random((9, 7))
    by_label = count_by_label(labels, truth, is_tissue < 0.6, classes=3)
    mask, is_judged = (labels == 1) | (labels == 3), is_tissue < 0.6
    assert counts_of(by_label, {1, 3}, tissue_only=False).tolist() == count(mask, truth).tolist()
    assert counts_of(by_label, {1, 3}, tissue_only=True).tolist() == count(mask[is_judged], truth[is_judged]).tolist()


def test_a_confusion_has_the_truth_in_rows_and_what_it_was_taken_for_in_columns() -> None:
    truth, taken_for = np.array([0, 0, 2, 2, 2, 2]), np.array([0, 1, 0, 2, 2, 2])
    assert confusion(truth, taken_for, 3).tolist() == [[1, 1, 0], [0, 0, 0], [1, 0, 3]]


def test_a_confusion_of_nothing_is_a_table_of_zeros() -> None:
    assert confusion(np.zeros(0, np.int64), np.zeros(0, np.int64), 2).tolist() == [[0, 0], [0, 0]]
