"""Probabilities averaged with those around, whole or in bands."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from numpy.typing import NDArray

from ucc_path.features.streaming import Band
from ucc_path.mask.smoothing import reach_of, smooth, smoothed

Floats = NDArray[np.float32]
SHAPE = (23, 17)


def make_cells(share: float = 0.7) -> tuple[Floats, NDArray[np.bool_]]:
    """Probabilities of all sizes on cells of which some are no tissue; so are whole rows."""
    rng = np.random.default_rng(0)
    is_there = rng.random(SHAPE) < share
    is_there[8:10] = is_there[-1] = False
    return (rng.random(SHAPE) ** 3).astype(np.float32) * is_there, is_there


def in_bands(shares: Floats, is_there: NDArray[np.bool_], heights: tuple[int, ...]) -> Iterator[Band]:
    """With a feature behind the probability, as a model that counts has."""
    values = np.stack([shares, np.ones_like(shares)], axis=2)
    first = 0
    for height in heights:
        yield Band(first, values[first : first + height], is_there[first : first + height])
        first += height


def by_hand(shares: Floats, is_there: NDArray[np.bool_], width: float) -> NDArray[np.float64]:
    """Cell by cell."""
    found = np.zeros(SHAPE)
    logits = np.log(np.clip(shares, 1e-4, 1 - 1e-4) / (1 - np.clip(shares, 1e-4, 1 - 1e-4)), dtype=np.float64)
    places = np.argwhere(is_there)
    for row, col in places:
        away = np.abs(places - (row, col))
        near = places[(away <= reach_of(width)).all(axis=1)]
        weights = np.exp(-((near - (row, col)) ** 2).sum(axis=1) / (2 * width**2))
        found[row, col] = 1 / (1 + np.exp(-(weights * logits[tuple(near.T)]).sum() / weights.sum()))
    return found


@pytest.mark.parametrize("width", [0.3, 0.75, 2.5])
def test_a_cell_is_the_mean_of_the_logits_of_the_tissue_around_it(width: float) -> None:
    shares, is_there = make_cells()
    np.testing.assert_allclose(smoothed(shares, is_there, width), by_hand(shares, is_there, width), atol=1e-5)


@pytest.mark.parametrize("heights", [(23,), (1,) * 23, (16, 7), (3, 1, 4, 1, 5, 9), (22, 1)], ids=str)
@pytest.mark.parametrize("width", [0.0, 0.75, 2.5])
def test_in_bands_it_is_the_same_to_the_last_digit(heights: tuple[int, ...], width: float) -> None:
    shares, is_there = make_cells()
    whole, found = smoothed(shares, is_there, width), list(smooth(in_bands(shares, is_there, heights), width))
    assert all(band.values.shape[2] == 1 for band in found)
    assert [band.first_row for band in found] == np.cumsum([0, *heights])[:-1].tolist()
    np.testing.assert_array_equal(np.concatenate([band.values[..., 0] for band in found]), whole)
    np.testing.assert_array_equal(np.concatenate([band.is_there for band in found]), is_there)


def test_without_a_width_nothing_changes() -> None:
    shares, is_there = make_cells()
    np.testing.assert_array_equal(smoothed(shares, is_there, 0.0), shares)


def test_what_is_no_tissue_does_not_count_and_stays_nothing() -> None:
    shares, is_there = np.full(SHAPE, 0.9, np.float32), np.zeros(SHAPE, np.bool_)
    is_there[5, 5] = is_there[10, 3:9] = True
    shares[~is_there] = 0
    found = smoothed(shares, is_there, 2.0)
    np.testing.assert_allclose(found[is_there], 0.9, atol=1e-6)
    assert not found[~is_there].any()


def test_a_lone_cell_goes_along_with_those_around_it_unless_it_is_surer_than_they_are() -> None:
    is_there = np.ones(SHAPE, np.bool_)
    for lone, around, is_tumour in ((0.6, 0.2, False), (0.9999, 0.4, True)):
        shares = np.full(SHAPE, around, np.float32)
        shares[11, 8] = lone
        assert (smoothed(shares, is_there, 0.75)[11, 8] > 0.5) == is_tumour
