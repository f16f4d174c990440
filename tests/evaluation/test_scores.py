"""Figures worked out by hand, and what is said where there is nothing to divide by."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

from ucc_path.evaluation import Scores, scores
from ucc_path.evaluation.scores import AVERAGINGS, FIGURES, average, figures_of

PREDICTED = [[1, 1, 1, 0], [1, 1, 1, 0], [0, 0, 0, 0], [0, 0, 0, 0]]
TRUTH = [[0, 1, 1, 1], [0, 1, 1, 0], [0, 0, 0, 0], [0, 0, 0, 0]]
# In both: 4. Only predicted: 2. In neither: 9. Only true: 1.
COUNTS = (4, 2, 9, 1)
WORKED_OUT = {
    "TPR": 4 / 5,  # found of the 5 of tumour
    "FPR": 2 / 11,  # taken for tumour of the 11 others
    "TNR": 9 / 11,
    "FNR": 1 / 5,
    "PA": 13 / 16,  # 4 + 9 are right
    "balanced": 89 / 110,  # (44 / 55 + 45 / 55) / 2
    "IoU": 4 / 7,  # 4 in both, 7 in either
    "Dice": 8 / 11,  # twice 4, by 6 predicted and 5 true
}
NAN = math.nan


def named(figures: NDArray[np.float64]) -> dict[str, float]:
    return dict(zip(FIGURES, figures.tolist(), strict=True))


def rows(*counts: Sequence[float]) -> NDArray[np.float64]:
    """Counts of images, each TP, FP, TN, FN."""
    return np.array(counts, np.float64)


@pytest.mark.parametrize("figure", FIGURES)
def test_a_figure_is_what_it_is_by_hand(figure: str) -> None:
    assert named(figures_of(rows(COUNTS)[0]))[figure] == pytest.approx(WORKED_OUT[figure], abs=1e-15)


def test_the_figures_stand_in_the_order_of_the_paper_with_ours_behind() -> None:
    assert FIGURES == ("TPR", "FPR", "TNR", "FNR", "PA", "balanced", "IoU", "Dice") == tuple(WORKED_OUT)


def test_two_masks_have_the_five_figures_of_the_paper() -> None:
    found = scores(np.array(PREDICTED), np.array(TRUTH))
    assert isinstance(found, Scores) and found._fields == ("tpr", "fpr", "tnr", "fnr", "pa")
    assert found == pytest.approx((4 / 5, 2 / 11, 9 / 11, 1 / 5, 13 / 16))
    assert all(type(value) is float for value in found)


def test_a_perfect_mask_and_its_opposite() -> None:
    truth = np.array(TRUTH)
    assert scores(truth, truth) == (1, 0, 1, 0, 1)
    assert scores(1 - truth, truth) == (0, 1, 0, 1, 0)


@pytest.mark.parametrize(("dtype", "tumour"), [("bool", 1), ("uint8", 255), ("int64", -2), ("float32", 0.01)])
def test_whatever_is_not_zero_is_tumour(dtype: str, tumour: float) -> None:
    predicted, truth = ((tumour * np.array(mask)).astype(dtype) for mask in (PREDICTED, TRUTH))
    assert scores(predicted, np.array(TRUTH)) == scores(np.array(PREDICTED), truth) == scores(predicted, truth)
    assert scores(predicted, truth).pa == 13 / 16


def test_labels_that_share_no_bit_are_tumour_both() -> None:
    assert scores(np.array([[1, 0]]), np.array([[2, 0]])) == (1, 0, 1, 0, 1)


def test_masks_of_different_shapes_are_refused() -> None:
    with pytest.raises(ValueError, match=r"masks of \(4, 4\) and \(4,\) cannot be compared"):
        scores(np.array(PREDICTED), np.array(TRUTH[0]))


@pytest.mark.parametrize(
    ("counts", "worked_out"),
    [
        ((0, 0, 16, 0), (NAN, 0, 1, NAN, 1, NAN, NAN, NAN)),
        ((0, 4, 12, 0), (NAN, 1 / 4, 3 / 4, NAN, 3 / 4, NAN, 0, 0)),
        ((12, 0, 0, 4), (3 / 4, NAN, NAN, 1 / 4, 3 / 4, NAN, 3 / 4, 6 / 7)),
        ((0, 0, 0, 16), (0, NAN, NAN, 1, 0, NAN, 0, 0)),
        ((0, 0, 0, 0), (NAN,) * 8),
    ],
    ids=["no tumour", "no tumour, some predicted", "all tumour", "all tumour, none predicted", "no pixels"],
)
def test_what_has_nothing_to_divide_by_is_not_defined_and_nothing_else(
    counts: tuple[int, ...], worked_out: tuple[float, ...]
) -> None:
    with np.errstate(all="raise"):
        found = figures_of(rows(counts)[0])
    np.testing.assert_allclose(found, worked_out, atol=1e-15)


def test_a_mask_without_tumour_has_no_tpr_and_fnr() -> None:
    found = scores(np.array(PREDICTED), np.zeros((4, 4), np.bool_))
    assert math.isnan(found.tpr) and math.isnan(found.fnr)
    assert (found.fpr, found.tnr, found.pa) == (6 / 16, 10 / 16, 10 / 16)


def test_figures_of_many_images_are_those_of_each() -> None:
    counts = rows(COUNTS, (0, 0, 16, 0), (12, 0, 0, 4), (2, 4, 1, 9)).reshape(2, 2, 4)
    found = figures_of(counts)
    assert found.shape == (2, 2, 8)
    for place in np.ndindex(2, 2):
        np.testing.assert_array_equal(found[place], figures_of(counts[place]))


def test_over_images_a_figure_is_the_mean_of_the_images_that_have_it() -> None:
    # TPR: 1/2 and 1, the middle image has no tumour. TNR: 1 and 3/4, the last image is all tumour. PA: all three.
    counts = rows((2, 0, 4, 2), (0, 2, 6, 0), (8, 0, 0, 0))
    found = named(average(counts, "image"))
    assert (found["TPR"], found["FNR"]) == (3 / 4, 1 / 4)
    assert (found["TNR"], found["FPR"]) == (7 / 8, 1 / 8)
    assert found["PA"] == pytest.approx((6 / 8 + 6 / 8 + 1) / 3)
    assert found["balanced"] == (1 / 2 + 1) / 2  # only the first image has both
    assert found["IoU"] == pytest.approx((2 / 4 + 0 + 1) / 3)  # the middle one predicts what is not there: 0
    assert found["Dice"] == pytest.approx((4 / 6 + 0 + 1) / 3)


def test_pooled_a_figure_is_that_of_all_pixels_together() -> None:
    counts = rows((2, 0, 4, 2), (0, 2, 6, 0), (8, 0, 0, 0))  # together 10, 2, 10, 2
    expected = (10 / 12, 2 / 12, 10 / 12, 2 / 12, 20 / 24, 10 / 12, 10 / 14, 20 / 24)
    np.testing.assert_allclose(average(counts, "pooled"), expected, atol=1e-15)


def test_over_images_the_accuracy_can_be_above_both_rates_as_in_the_paper_and_pooled_it_cannot() -> None:
    # An image of 9 of tumour, all found, and 1 other, not; and one of 1 of tumour, not found, and 9 others, all right.
    counts = rows((9, 1, 0, 0), (0, 0, 9, 1))
    over_images, pooled = (named(average(counts, averaging)) for averaging in AVERAGINGS)
    assert (over_images["TPR"], over_images["TNR"], over_images["PA"]) == (0.5, 0.5, 0.9)
    assert (pooled["TPR"], pooled["TNR"], pooled["PA"]) == (0.9, 0.9, 0.9)
    # Of all pixels together it is the mean of both rates, weighted by how much of each kind there is.
    for tp, fp, tn, fn in np.random.default_rng(0).integers(1, 99, (50, 4)).tolist():
        figures = named(average(rows((tp, fp, 0, 0), (0, 0, tn, fn)), "pooled"))
        assert min(figures["TPR"], figures["TNR"]) <= figures["PA"] <= max(figures["TPR"], figures["TNR"])


@pytest.mark.parametrize("averaging", AVERAGINGS)
def test_a_figure_that_no_image_has_is_not_defined(averaging: str) -> None:
    with np.errstate(all="raise"):
        found = named(average(rows((0, 0, 16, 0), (0, 0, 8, 0)), averaging))
        of_nothing = average(np.zeros((0, 4)), averaging)
    assert {figure for figure, value in found.items() if math.isnan(value)} == {
        *("TPR", "FNR", "balanced", "IoU", "Dice"),
    }
    assert (found["TNR"], found["FPR"], found["PA"]) == (1, 0, 1)
    assert of_nothing.shape == (8,) and np.isnan(of_nothing).all()


def test_counts_that_are_not_known_are_left_out_of_sums_and_means() -> None:
    # Of the second image only the outlined tumour is known: 2 found, 2 missed. TPR 0.75 and 0.5; PA of the first alone.
    counts = np.array([[3, 1, 5, 1], [2, np.nan, np.nan, 2]])
    by_image = dict(zip(FIGURES, average(counts, "image"), strict=True))
    assert (by_image["TPR"], by_image["PA"]) == (0.625, 0.8)
    pooled = dict(zip(FIGURES, average(counts, "pooled"), strict=True))
    assert (pooled["TPR"], pooled["FPR"]) == (5 / 8, pytest.approx(1 / 6))


def test_an_averaging_that_there_is_not_is_refused() -> None:
    with pytest.raises(ValueError, match="no averaging 'imgae'"):
        average(np.ones((1, 4)), "imgae")
