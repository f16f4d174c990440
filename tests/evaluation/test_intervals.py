"""Intervals: exact where the draws can be counted, and held against a loop that draws one image after another."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from ucc_path.evaluation import intervals as intervals_module
from ucc_path.evaluation.counts import Counts
from ucc_path.evaluation.intervals import intervals
from ucc_path.evaluation.scores import AVERAGINGS, FIGURES, average
from ucc_path.evaluation.summary import Summary, summarise
from ucc_path.settings import EvaluationSettings

TPR, PA = FIGURES.index("TPR"), FIGURES.index("PA")
IMAGE, POOLED = range(2)
LOW, HIGH = range(2)


def interval(
    counts: Counts,
    groups: NDArray[np.int64] | None = None,
    *,
    resamples: int = 1000,
    confidence: float = 0.95,
    seed: int = 0,
) -> NDArray[np.float64]:
    """Of one table, each image by itself unless told otherwise: (2 averagings, 2, 8)."""
    groups = np.arange(len(counts)) if groups is None else groups
    found = intervals([counts], groups, resamples=resamples, confidence=confidence, seed=seed)
    assert found.shape == (1, 2, 2, 8)
    return np.asarray(found[0])


def right(*pixels: int, of: int = 4) -> Counts:
    """Images of so many right pixels; the others are false positives."""
    return np.array([[0, of - each, each, 0] for each in pixels], np.float64)


def widths(found: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray(found[:, HIGH] - found[:, LOW])


def make_counts(images: int, seed: int = 0) -> Counts:
    """Of images of differing size and share of tumour."""
    rng = np.random.default_rng(seed)
    return (rng.integers(1, 100, (images, 4)) * rng.integers(1, 5, (images, 1))).astype(np.float64)


def test_images_that_are_alike_leave_no_doubt() -> None:
    counts = np.tile([6.0, 4.0, 12.0, 2.0], (10, 1))  # TPR 6/8, PA 18/24
    found = interval(counts)
    for way, averaging in enumerate(AVERAGINGS):
        np.testing.assert_allclose(found[way], np.tile(average(counts, averaging), (2, 1)), atol=1e-12)
    assert found[IMAGE, :, TPR].tolist() == found[POOLED, :, PA].tolist() == [0.75, 0.75]


@pytest.mark.parametrize(("confidence", "low", "high"), [(0.95, 0.0, 1.0), (0.6, 0.0, 1.0), (0.4, 0.5, 0.5)])
def test_the_draws_of_two_images_can_be_counted(confidence: float, low: float, high: float) -> None:
    # One is all wrong, one all right: a quarter of the draws has 0, half of them 1/2, a quarter 1. Between 20 % and
    # 80 % lie parts of all three, between 30 % and 70 % only those with 1/2.
    found = interval(right(0, 4), confidence=confidence)
    assert found[:, :, PA].tolist() == [[low, high]] * 2


def test_the_interval_lies_around_the_value_and_is_wider_with_fewer_images() -> None:
    few, many = (right(*[1, 3] * pairs) for pairs in (4, 64))
    for counts in (few, many):
        low, high = interval(counts)[IMAGE, :, PA]
        assert low < average(counts, "image")[PA] == 0.5 < high
    # 16 times as many images: a quarter of the width.
    assert widths(interval(few))[:, PA] / widths(interval(many))[:, PA] == pytest.approx(4, rel=0.15)


def test_more_confidence_is_a_wider_interval() -> None:
    sure, surer = (widths(interval(make_counts(20), confidence=confidence)) for confidence in (0.5, 0.99))
    assert (surer > 1.5 * sure).all()


def test_between_two_draws_an_end_lies_as_far_along_as_the_confidence_says() -> None:
    # Of two draws all that there is goes from the one to the other; half the confidence is half of that, in its middle.
    low, high = np.moveaxis(interval(make_counts(9), resamples=2, confidence=1.0), 1, 0)
    half = interval(make_counts(9), resamples=2, confidence=0.5)
    assert (low < high).all()
    np.testing.assert_allclose(half[:, LOW], low + (high - low) / 4, rtol=1e-12)
    np.testing.assert_allclose(half[:, HIGH], high - (high - low) / 4, rtol=1e-12)


def test_whole_slides_drawn_again_vary_more_where_slides_differ_and_their_images_do_not() -> None:
    counts, slides = right(*np.repeat([0, 1, 2, 3, 4], 16).tolist()), np.repeat(np.arange(5), 16)
    by_image, by_slide = (widths(interval(counts, groups))[:, PA] for groups in (None, slides))
    assert by_slide / by_image == pytest.approx(4, rel=0.15)  # as if there were 5 images and not 80
    np.testing.assert_allclose(widths(interval(right(0, 1, 2, 3, 4)))[:, PA], by_slide, rtol=0.1)


def test_slides_that_are_alike_vary_less_than_their_images() -> None:
    counts, slides = right(*[0, 4] * 20), np.repeat(np.arange(10), 4)
    assert widths(interval(counts, slides))[:, PA].tolist() == [0, 0]
    assert (widths(interval(counts))[:, PA] > 0.2).all()


def test_one_seed_is_one_result_and_another_seed_another() -> None:
    counts = make_counts(9)
    np.testing.assert_array_equal(interval(counts, seed=1), interval(counts, seed=1))
    assert (interval(counts, seed=1) != interval(counts, seed=2)).all()


def test_models_are_judged_on_the_same_draws() -> None:
    one, other = make_counts(9, seed=1), make_counts(9, seed=2)
    beside = intervals([one, other, one], np.arange(9), resamples=200, confidence=0.9, seed=0)
    np.testing.assert_allclose(beside[0], beside[2], rtol=1e-12)
    for place, counts in enumerate((one, other)):
        np.testing.assert_allclose(beside[place], interval(counts, resamples=200, confidence=0.9), rtol=1e-12)


def test_a_figure_that_no_image_has_is_not_defined_and_others_are() -> None:
    with np.errstate(all="raise"):
        found = interval(right(1, 2, 3))  # no image has tumour
    is_missing = np.isnan(found).all(axis=(0, 1))
    assert {FIGURES[place] for place in np.flatnonzero(is_missing)} == {"TPR", "FNR", "balanced"}
    assert np.isfinite(found[:, :, ~is_missing]).all()


def test_draws_without_a_figure_are_left_out_of_it() -> None:
    # TPR 1/4, TPR 3/4, no tumour: one draw in 27 has no TPR, 7 in 27 have 1/4 alone and as many 3/4 alone.
    counts = np.array([[1, 0, 4, 3], [3, 0, 4, 1], [0, 0, 8, 0]], np.float64)
    assert interval(counts)[:, :, TPR].tolist() == [[0.25, 0.75]] * 2
    # Beside 30 without tumour it is in few draws, and always the same there.
    rare = np.concatenate([counts[:1], np.repeat(counts[2:], 30, axis=0)])
    assert interval(rare)[:, :, TPR].tolist() == [[0.25, 0.25]] * 2


def slow_draws(counts: Counts, groups: NDArray[np.int64], resamples: int) -> NDArray[np.float64]:
    """Group after group drawn and its images laid beside the others: (resamples, 2 averagings, 8)."""
    rng = np.random.default_rng(99)
    members = [np.flatnonzero(groups == group) for group in range(groups.max() + 1)]
    found = []
    for _ in range(resamples):
        chosen = np.concatenate([members[rng.integers(len(members))] for _ in members])
        found.append([average(counts[chosen], averaging) for averaging in AVERAGINGS])
    return np.array(found)


@pytest.mark.parametrize(
    "groups", [np.arange(24), np.arange(24) % 8, np.repeat(np.arange(6), [1, 2, 3, 4, 5, 9])], ids=["24", "8", "uneven"]
)
@pytest.mark.parametrize("confidence", [0.95, 0.7])
def test_the_interval_is_that_of_images_drawn_one_by_one(groups: NDArray[np.int64], confidence: float) -> None:
    counts = make_counts(24)
    counts[::5] *= [0, 1, 1, 0]  # some have no tumour, so that their number in a draw varies by figure
    draws = slow_draws(counts, groups, 3000)
    wanted = np.quantile(draws, [(1 - confidence) / 2, (1 + confidence) / 2], axis=0)
    found = interval(counts, groups, resamples=10_000, confidence=confidence)
    # Chance moves the ends by some hundredths of how far figures spread; 0.9 in place of 0.95 would by 0.3.
    assert (np.abs(found - np.moveaxis(wanted, 0, 1)) < 0.2 * draws.std(axis=0)[:, None]).all()


@pytest.mark.parametrize("at_once", [1, 50, 1000])
def test_how_many_are_drawn_at_once_does_not_matter(monkeypatch: pytest.MonkeyPatch, at_once: int) -> None:
    counts, groups = make_counts(13), np.arange(13) % 7
    whole, figures_of_sums, draws = interval(counts, groups, resamples=301), intervals_module._figures, []

    def noting(sums: NDArray[np.float64]) -> NDArray[np.float64]:
        draws.append(len(sums))
        return figures_of_sums(sums)

    monkeypatch.setattr(intervals_module, "_figures", noting)
    monkeypatch.setattr(intervals_module, "_WEIGHTS_AT_ONCE", at_once)
    np.testing.assert_allclose(interval(counts, groups, resamples=301), whole, rtol=1e-12)
    assert max(draws) == max(1, at_once // 13) and sum(draws) == 301


HOW = EvaluationSettings(resamples=150, confidence=0.8, seed=3)


def two_models(images: int = 6) -> dict[str, dict[str, Counts]]:
    """Counts of which no two are alike, by model and by region."""
    return {
        model: {region: make_counts(images, seed=place) for place, region in enumerate(("", "-tissue"), start=first)}
        for first, model in ((1, "a"), (3, "b"))
    }


def summaries(slides: list[int]) -> list[tuple[Counts, int, Summary]]:
    """Of each row of the table: its counts, the place of its averaging, what was found."""
    counts = two_models(len(slides))
    table = summarise(counts, np.array(slides), HOW)
    assert list(table) == ["a", "b"]
    assert [list(row) for row in table.values()] == [["image", "pooled", "image-tissue", "pooled-tissue"]] * 2
    return [
        (counts[model][region], way, table[model][averaging + region])
        for model in counts
        for region in ("", "-tissue")
        for way, averaging in enumerate(AVERAGINGS)
    ]


def test_every_model_has_its_figures_by_averaging_and_by_region() -> None:
    found = summaries([0, 0, 0, 1, 1, 2])
    assert len(found) == 8
    for counts, way, summary in found:
        np.testing.assert_array_equal(summary.value, average(counts, AVERAGINGS[way]))


def test_images_and_whole_slides_are_drawn_as_the_settings_say() -> None:
    groups = np.array([0, 0, 0, 1, 1, 2])
    for counts, way, summary in summaries(groups.tolist()):
        for drawn, (low, high) in (
            (np.arange(6), (summary.low, summary.high)),
            (groups, (summary.low_slides, summary.high_slides)),
        ):
            wanted = interval(counts, drawn, resamples=150, confidence=0.8, seed=3)[way]
            np.testing.assert_allclose([low, high], wanted, rtol=1e-12)


@pytest.mark.parametrize("slides", [[0] * 6, [0, 1, 2, 3, 4, 5]], ids=["one slide", "every image a slide"])
def test_slides_have_no_intervals_of_their_own_where_there_is_one_or_each_is_an_image(slides: list[int]) -> None:
    for _, _, summary in summaries(slides):
        assert np.isnan([summary.low_slides, summary.high_slides]).all()
        assert np.isfinite([summary.low, summary.high]).all()


def test_tissue_alone_is_counted_apart() -> None:
    counts = {"m": {"": right(2, 2, 2), "-tissue": right(3, 3, 3)}}
    table = summarise(counts, np.zeros(3, np.int64), HOW)
    assert {name: (row.low[PA], row.value[PA], row.high[PA]) for name, row in table["m"].items()} == {
        **dict.fromkeys(("image", "pooled"), (0.5, 0.5, 0.5)),
        **dict.fromkeys(("image-tissue", "pooled-tissue"), (0.75, 0.75, 0.75)),
    }


def test_a_figure_that_is_not_defined_is_so_in_the_table() -> None:
    table = summarise({"m": {"": right(1, 3), "-tissue": right(1, 3)}}, np.zeros(2, np.int64), HOW)
    for row in table["m"].values():
        assert np.isnan([row.value[TPR], row.low[TPR], row.high[TPR]]).all()
        assert row.low[PA] < row.value[PA] < row.high[PA]
