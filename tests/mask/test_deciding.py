"""Classes of cells from their values, in bands of any height."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from numpy.typing import NDArray

from ucc_path.clusters import margins
from ucc_path.features.streaming import Band
from ucc_path.mask.deciding import (
    ByCentroids,
    ByHead,
    ByProbability,
    ByShare,
    Decided,
    InOrder,
    Surroundings,
    decide,
    likeliest,
)

Floats = NDArray[np.float32]
SHAPE = (23, 17)
HEIGHTS = [(23,), (1,) * 23, (16, 7), (3, 1, 4, 1, 5, 9), (2, 2, 2, 17), (22, 1), (1, 22)]


def make_cells(share: float = 0.6, features: int = 3, seed: int = 0) -> tuple[Floats, NDArray[np.bool_]]:
    """Values of small whole numbers, whose sums are exact, on cells of which some are empty; so are whole rows."""
    rng = np.random.default_rng(seed)
    is_there = rng.random(SHAPE) < share
    is_there[8:10] = is_there[-1] = False
    values = rng.integers(0, 5, (*SHAPE, features)).astype(np.float32)
    return values * is_there[..., None], is_there


def in_bands(values: Floats, is_there: NDArray[np.bool_], heights: tuple[int, ...]) -> Iterator[Band]:
    first = 0
    for height in heights:
        yield Band(first, values[first : first + height], is_there[first : first + height])
        first += height
    assert first == len(values)


class MeanHead:
    """Classes by the mean of a bag: the first two features speak for one class each, the third for both."""

    width = 6

    def added_by(self, features: Floats) -> Floats:
        return np.concatenate([features, features**2], axis=1)

    def probabilities(self, means: Floats) -> Floats:
        """Of two classes and a third label; without BLAS, which rounds a row otherwise in other company."""
        weights = np.array([[3, 0, 1], [0, 3, 1], [1, 1, 1], [1, 0, 0], [0, 1, 0], [1, 1, 1]], np.float32)
        scores = (means[:, :, None] * weights).sum(axis=1)
        return np.asarray(scores / np.maximum(scores.sum(axis=1, keepdims=True), 1), np.float32)

    def classes(self, probabilities: Floats) -> Floats:
        pure = probabilities[:, :2]
        return np.asarray(pure / np.maximum(pure.sum(axis=1, keepdims=True), 1e-9), np.float32)


def by_brute_force(
    values: Floats, is_there: NDArray[np.bool_], head: MeanHead, neighbours: int, cells_a_patch: int
) -> tuple[NDArray[np.uint8], NDArray[np.float64]]:
    """Labels and 255 * sure, bag by bag."""
    labels, sure = np.zeros(SHAPE, np.uint8), np.zeros(SHAPE)
    steps = [cells_a_patch * step for step in range(-neighbours, neighbours + 1)]
    for row, col in np.argwhere(is_there):
        bag = [
            values[row + down, col + right]
            for down in steps
            for right in steps
            if 0 <= row + down < SHAPE[0] and 0 <= col + right < SHAPE[1] and is_there[row + down, col + right]
        ]
        mean = head.added_by(np.stack(bag)).astype(np.float64).mean(axis=0, keepdims=True).astype(np.float32)
        found = head.classes(head.probabilities(mean))[0]
        labels[row, col] = found.argmax() + 1
        sure[row, col] = 255 * abs(float(found[0]) - float(found[1]))
    return labels, sure


@pytest.mark.parametrize("heights", HEIGHTS, ids=str)
@pytest.mark.parametrize(("neighbours", "cells_a_patch"), [(0, 1), (1, 1), (2, 1), (1, 3), (2, 4)])
def test_the_head_judges_a_patch_with_those_around_it_that_do_not_overlap(
    heights: tuple[int, ...], neighbours: int, cells_a_patch: int
) -> None:
    values, is_there = make_cells()
    decision = ByHead(MeanHead(), neighbours, cells_a_patch)
    assert decision.reach == neighbours * cells_a_patch
    labels, sure = decide(in_bands(values, is_there, heights), decision, SHAPE)
    wanted_labels, wanted_sure = by_brute_force(values, is_there, MeanHead(), neighbours, cells_a_patch)
    assert np.array_equal(labels, wanted_labels)
    assert np.abs(sure - wanted_sure).max() <= 0.51
    assert {1, 2} <= set(np.unique(labels).tolist())


def test_neighbours_change_what_the_head_says() -> None:
    values, is_there = make_cells()
    found = [
        decide(in_bands(values, is_there, (23,)), ByHead(MeanHead(), neighbours, 1), SHAPE)[0] for neighbours in (0, 1)
    ]
    assert (found[0] != found[1]).mean() > 0.05


def test_the_bands_of_a_slide_without_patches_are_decided() -> None:
    values, is_there = make_cells(share=0.0)
    for decision in (ByHead(MeanHead(), 1, 2), ByCentroids(np.eye(3, dtype=np.float32))):
        labels, sure = decide(in_bands(values, is_there, (16, 7)), decision, SHAPE)
        assert labels.shape == sure.shape == SHAPE and not labels.any() and not sure.any()


@pytest.mark.parametrize("heights", HEIGHTS, ids=str)
def test_cells_have_the_class_of_the_nearest_centre_and_how_sure_that_is(heights: tuple[int, ...]) -> None:
    values, is_there = make_cells()
    centres = np.array([[0.5, 1, 2], [3.2, 1, 2], [2, 3, 0.1]], np.float32)
    labels, sure = decide(in_bands(values, is_there, heights), ByCentroids(centres), SHAPE)
    classes, share = margins(values.reshape(-1, 3), centres)
    assert labels.dtype == sure.dtype == np.uint8
    assert np.array_equal(labels, np.where(is_there, classes.reshape(SHAPE) + 1, 0))
    assert np.array_equal(sure, np.where(is_there, np.rint(255 * share.reshape(SHAPE)), 0))
    assert set(np.unique(labels)) == {0, 1, 2, 3}


@pytest.mark.parametrize("heights", HEIGHTS, ids=str)
def test_cells_have_the_likeliest_class_that_a_network_says(heights: tuple[int, ...]) -> None:
    values, is_there = make_cells(features=1)

    def shares(values: Floats) -> Floats:
        return np.concatenate([1 - values / 4, values / 4], axis=1)

    labels, sure = decide(in_bands(values, is_there, heights), ByProbability(shares), SHAPE)
    tumour = values[..., 0] / 4
    assert np.array_equal(labels, np.where(is_there, 1 + (tumour > 0.5), 0))
    assert np.array_equal(sure, np.where(is_there, np.rint(255 * np.abs(2 * tumour - 1)), 0))


def test_the_likeliest_is_sure_by_how_far_it_is_ahead_and_of_equals_it_is_the_first() -> None:
    found = likeliest(np.array([[0.2, 0.5, 0.3], [1, 0, 0], [0.25, 0.25, 0.25], [0, 0.5, 0.5]], np.float32))
    assert found.classes.tolist() == [1, 0, 0, 1]
    np.testing.assert_allclose(found.sure, [0.2, 1.0, 0.0, 0.0], atol=1e-6)
    assert likeliest(np.zeros((0, 2), np.float32)).classes.shape == (0,)


@pytest.mark.parametrize("heights", HEIGHTS, ids=str)
def test_classes_that_are_known_already_go_to_their_cells_row_by_row(heights: tuple[int, ...]) -> None:
    values, is_there = make_cells()
    count = np.count_nonzero(is_there)
    classes, sure = np.arange(count) % 7, (np.arange(count) % 256 / 255).astype(np.float32)
    labels, found = decide(in_bands(values, is_there, heights), InOrder(Decided(classes, sure)), SHAPE)
    assert np.array_equal(labels[is_there], classes + 1) and not labels[~is_there].any()
    assert np.array_equal(found[is_there], np.arange(count) % 256)


class Watching:
    """A decision that notes how many bands had come when it was asked."""

    def __init__(self, reach: int, came: list[int]) -> None:
        self.reach, self._came = reach, came
        self.asked: list[tuple[int, int, int, int]] = []

    def __call__(self, around: Surroundings) -> Decided:
        rows = len(around.values)
        self.asked.append((around.band.first_row, around.above, rows, len(self._came)))
        assert np.array_equal(around.values[around.above :][: len(around.band.values)], around.band.values)
        count = np.count_nonzero(around.band.is_there)
        return Decided(np.zeros(count, np.int64), np.zeros(count, np.float32))


def asked(reach: int, heights: tuple[int, ...]) -> list[tuple[int, int, int, int]]:
    """Of each band: its first row, the rows above it, all rows that were given, the bands that had come by then."""
    values, is_there = make_cells()
    came: list[int] = []

    def coming() -> Iterator[Band]:
        for band in in_bands(values, is_there, heights):
            came.append(band.first_row)
            yield band

    watching = Watching(reach, came)
    decide(coming(), watching, SHAPE)
    return watching.asked


def test_a_band_is_decided_as_soon_as_the_rows_below_it_have_come() -> None:
    assert asked(0, (10, 10, 3)) == [(0, 0, 10, 1), (10, 0, 10, 2), (20, 0, 3, 3)]
    assert asked(4, (10, 10, 3)) == [(0, 0, 14, 2), (10, 4, 17, 3), (20, 4, 7, 3)]
    assert asked(3, (2, 1, 20)) == [(0, 0, 5, 3), (2, 2, 6, 3), (3, 3, 23, 3)]


@pytest.mark.parametrize("heights", HEIGHTS, ids=str)
@pytest.mark.parametrize("threshold", [0.25, 0.5, 0.7])
def test_a_cell_is_of_the_second_class_above_the_threshold_and_sure_by_how_far_it_is_from_it(
    heights: tuple[int, ...], threshold: float
) -> None:
    values, is_there = make_cells()
    shares = values[..., :1] / 4  # 0, 0.25 ... 1
    labels, sure = decide(in_bands(shares, is_there, heights), ByShare(threshold), SHAPE)
    wanted = np.where(shares[..., 0] > threshold, 2, 1)
    assert np.array_equal(labels, np.where(is_there, wanted, 0))
    for share, found in ((0.0, 255), (1.0, 255), (threshold, 0)):
        assert (sure[is_there & (shares[..., 0] == share)] == found).all()
    near, far = (sure[is_there & (shares[..., 0] == share)] for share in (0.75, 1.0))
    assert 0 < near.max() < far.min()
