"""The threshold of a slide, by how sure a network is of what it calls normal there."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from ucc_path.mask.thresholds import FARTHEST_LOGIT, FEWEST_CELLS, HALF, USUAL_LOGIT, count_normal, threshold_of

NO_CELL = np.zeros(0, np.float32)


def shares_about(logit: float, count: int = 400, spread: float = 0.5) -> NDArray[np.float32]:
    """Probabilities whose logits lie about one; their median is it."""
    logits = logit + spread * np.linspace(-1, 1, count + 1)
    return (1 / (1 + np.exp(-logits))).astype(np.float32)


def logit_of(threshold: float) -> float:
    return float(np.log(threshold / (1 - threshold)))


def test_where_a_network_is_as_sure_as_usual_one_half_is_the_threshold() -> None:
    assert threshold_of(count_normal(shares_about(USUAL_LOGIT)), 1.0) == pytest.approx(HALF, abs=0.01)


@pytest.mark.parametrize("strength", [0.25, 0.5, 1.0])
@pytest.mark.parametrize("away", [-0.9, -0.4, 0.4, 0.9])
def test_the_threshold_goes_along_with_the_median_of_what_is_called_normal(strength: float, away: float) -> None:
    threshold = threshold_of(count_normal(shares_about(USUAL_LOGIT + away)), strength)
    assert logit_of(threshold) == pytest.approx(strength * away, abs=0.03)


@pytest.mark.parametrize("logit", [-30.0, -0.2])
def test_it_goes_only_so_far(logit: float) -> None:
    threshold = threshold_of(count_normal(shares_about(logit, spread=0.1)), 2.0)
    assert logit_of(threshold) == pytest.approx(np.copysign(FARTHEST_LOGIT, logit - USUAL_LOGIT))


def test_how_much_tumour_there_is_does_not_matter() -> None:
    normal = shares_about(-2.0)
    alone = threshold_of(count_normal(normal), 0.5)
    for count in (10, 10_000):
        with_tumour = np.concatenate([normal, shares_about(3.0, count)])
        assert threshold_of(count_normal(with_tumour), 0.5) == alone


def test_without_strength_or_with_next_to_nothing_normal_it_is_one_half() -> None:
    doubtful = shares_about(-1.0)
    assert threshold_of(count_normal(doubtful), 0.0) == HALF
    assert threshold_of(count_normal(NO_CELL), 1.0) == HALF
    few = doubtful[: FEWEST_CELLS - 1]
    assert threshold_of(count_normal(np.concatenate([few, shares_about(3.0)])), 1.0) == HALF
    assert threshold_of(count_normal(doubtful[:FEWEST_CELLS]), 1.0) > HALF


def test_counts_of_parts_add_up_to_those_of_the_whole() -> None:
    shares = np.random.default_rng(0).random(1000).astype(np.float32)
    parts = [count_normal(part) for part in np.split(shares, [1, 1, 400, 999])]
    np.testing.assert_array_equal(np.sum(parts, axis=0), count_normal(shares))
    assert count_normal(shares).sum() == np.count_nonzero(shares < HALF)


def test_probabilities_of_nothing_and_of_one_are_counted_too() -> None:
    assert count_normal(np.array([0.0, 1.0, 0.5, np.nextafter(np.float32(0.5), np.float32(0))], np.float32)).sum() == 2
