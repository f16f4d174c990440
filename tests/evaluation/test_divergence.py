"""How far features lie apart, held against sums that can be done by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from ucc_path.evaluation.divergence import ClassDensities, jensen_shannon
from ucc_path.model.pooling import KernelDensity

# Distributions over two bins.
LEFT, RIGHT, EVEN = (1.0, 0.0), (0.0, 1.0), (0.5, 0.5)
MOSTLY_LEFT, MOSTLY_RIGHT = (0.75, 0.25), (0.25, 0.75)
NONE = (math.nan, math.nan)

BINS, SIGMA = 11, 0.1


def between(one: tuple[float, float], other: tuple[float, float]) -> float:
    return float(jensen_shannon(np.array([[one], [other]]))[0, 1])


@pytest.mark.parametrize("alike", [LEFT, EVEN, MOSTLY_RIGHT])
def test_classes_that_are_alike_do_not_lie_apart(alike: tuple[float, float]) -> None:
    assert between(alike, alike) == 0


def test_classes_with_nothing_in_common_lie_ln_2_apart() -> None:
    assert between(LEFT, RIGHT) == pytest.approx(math.log(2), abs=1e-15)


@pytest.mark.parametrize(
    ("one", "other", "worked_out"),
    [
        # Between them: (3/4, 1/4). From the one ln(4/3), from the other (ln(2/3) + ln 2) / 2 = ln(4/3) / 2; the mean.
        (LEFT, EVEN, 0.75 * math.log(4 / 3)),
        # Between them: (1/2, 1/2). From either 3/4 ln(3/2) + 1/4 ln(1/2).
        (MOSTLY_LEFT, MOSTLY_RIGHT, 0.75 * math.log(1.5) - 0.25 * math.log(2)),
    ],
)
def test_two_bins_are_as_worked_out_in_either_order(
    one: tuple[float, float], other: tuple[float, float], worked_out: float
) -> None:
    assert between(one, other) == pytest.approx(worked_out, abs=1e-15)
    assert between(other, one) == pytest.approx(worked_out, abs=1e-15)


def test_it_is_the_mean_over_features() -> None:
    densities = np.array([[LEFT, EVEN, LEFT, LEFT], [RIGHT, EVEN, EVEN, LEFT]])
    wanted = (math.log(2) + 0 + 0.75 * math.log(4 / 3) + 0) / 4
    assert jensen_shannon(densities)[0, 1] == pytest.approx(wanted, abs=1e-15)


def test_every_pair_of_classes_has_its_own() -> None:
    found = jensen_shannon(np.array([[LEFT], [RIGHT], [EVEN]]))
    far, near = math.log(2), 0.75 * math.log(4 / 3)
    np.testing.assert_allclose(found, [[0, far, near], [far, 0, near], [near, near, 0]], atol=1e-15)


def test_a_class_without_patches_lies_nowhere_and_the_others_stay_where_they_are() -> None:
    with np.errstate(all="raise"):
        found = jensen_shannon(np.array([[LEFT], [NONE], [RIGHT]]))
    assert np.isnan([found[0, 1], found[1, 0], found[1, 2], found[2, 1]]).all()
    assert found[0, 2] == found[2, 0] == pytest.approx(math.log(2))


def densities_of(features: NDArray[np.float32], classes: NDArray[np.int64], *, parts: int = 1) -> ClassDensities:
    """Two classes; the patches are given in so many parts."""
    found = ClassDensities(2, features.shape[1], bins=BINS, sigma=SIGMA)
    for rows in np.array_split(np.arange(len(features)), parts):
        found.add(features[rows], classes[rows])
    return found


def make_patches(count: int = 40, features: int = 3) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    rng = np.random.default_rng(0)
    return rng.random((count, features), np.float32), rng.integers(0, 2, count)


def test_one_patch_between_three_bins_is_as_worked_out() -> None:
    densities = ClassDensities(1, 1, bins=3, sigma=0.5)
    densities.add(np.array([[0.5]], np.float32), np.array([0]))
    # At 0 and 1 it is one sigma away, exp(-1/2); in the middle, 1.
    side = math.exp(-0.5)
    np.testing.assert_allclose(densities.result(), [[np.array([side, 1, side]) / (1 + 2 * side)]], rtol=1e-6)


def test_each_class_and_feature_has_the_models_density_divided_by_its_sum() -> None:
    features, classes = make_patches()
    densities = densities_of(features, classes)
    found, pooling = densities.result(), KernelDensity(BINS, SIGMA, normalise=True)
    assert found.shape == (2, 3, BINS) and densities.patches.tolist() == np.bincount(classes).tolist()
    for place in range(2):
        bag = torch.from_numpy(features[classes == place])
        np.testing.assert_allclose(found[place], pooling(bag[None]).reshape(3, BINS).numpy(), rtol=1e-5)
    np.testing.assert_allclose(found.sum(axis=2), 1, rtol=1e-12)


@pytest.mark.parametrize("parts", [2, 7, 40])
def test_patches_added_in_parts_are_as_patches_added_at_once(parts: int) -> None:
    features, classes = make_patches()
    at_once, in_parts = densities_of(features, classes), densities_of(features, classes, parts=parts)
    np.testing.assert_allclose(in_parts.result(), at_once.result(), rtol=1e-12)
    assert in_parts.patches.tolist() == at_once.patches.tolist()


def test_every_patch_counts_the_same_in_whichever_part_it_came() -> None:
    densities = ClassDensities(1, 1, bins=2, sigma=0.1)  # as narrow as that, a patch at an end is in one bin only
    for values in ([0.0, 0.0, 0.0], [1.0]):
        densities.add(np.array(values, np.float32)[:, None], np.zeros(len(values), np.int64))
    np.testing.assert_allclose(densities.result(), [[[0.75, 0.25]]], atol=1e-12)


def test_a_class_without_patches_has_no_density() -> None:
    features, _ = make_patches()
    densities = densities_of(features, np.ones(40, np.int64))
    with np.errstate(all="raise"):
        found = densities.result()
    assert np.isnan(found[0]).all() and np.isfinite(found[1]).all()
    assert densities.patches.tolist() == [0, 40]
    assert math.isnan(jensen_shannon(found)[0, 1])


def test_features_at_either_end_lie_ln_2_apart_and_mixed_ones_do_not() -> None:
    ends = np.repeat(np.array([0.0, 1.0], np.float32), 20)[:, None]
    apart = jensen_shannon(densities_of(ends, np.repeat([0, 1], 20)).result())[0, 1]
    mixed = jensen_shannon(densities_of(ends, np.tile([0, 1], 20)).result())[0, 1]
    assert apart == pytest.approx(math.log(2), abs=1e-4) and mixed == pytest.approx(0, abs=1e-12)
