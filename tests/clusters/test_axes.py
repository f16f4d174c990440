"""Principal axes of rows whose spread is known by construction."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from ucc_path.clusters import principal_axes

SPREADS = (1.0, 8.0, 0.5, 3.0, 0.1)


def make_rows(turn: NDArray[np.float64] | None = None, count: int = 400) -> NDArray[np.float32]:
    """Rows of mean 0 that are spread along their values by SPREADS, and then turned."""
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((count, len(SPREADS)))
    rows = np.linalg.qr(rows - rows.mean(axis=0))[0] * SPREADS  # nothing goes with anything else, to the last digit
    return np.asarray(rows if turn is None else rows @ turn, np.float32)


def some_turn() -> NDArray[np.float64]:
    return np.linalg.qr(np.random.default_rng(1).standard_normal((len(SPREADS),) * 2))[0]


def test_axes_have_length_one_and_stand_upright_on_each_other() -> None:
    axes = principal_axes(make_rows(some_turn()), 3)
    assert axes.shape == (5, 3) and axes.dtype == np.float32
    np.testing.assert_allclose(axes.T @ axes, np.eye(3), atol=1e-6)


def test_the_first_axis_is_the_way_of_most_spread_and_the_others_follow() -> None:
    order = np.argsort(SPREADS)[::-1]
    np.testing.assert_allclose(np.abs(principal_axes(make_rows(), 5)), np.eye(5)[:, order], atol=1e-5)


def test_axes_turn_with_the_rows() -> None:
    turn = some_turn()
    along = turn @ principal_axes(make_rows(turn), 2)  # seen from before the turn
    np.testing.assert_allclose(np.abs(along), np.eye(5)[:, [1, 3]], atol=1e-5)


def test_rows_along_the_axes_keep_their_distances_but_for_the_least_spread() -> None:
    rows = make_rows(some_turn())
    along = rows @ principal_axes(rows, 4)
    lost = ((rows[:, None] - rows) ** 2).sum(axis=2) - ((along[:, None] - along) ** 2).sum(axis=2)
    assert along.shape == (400, 4)
    assert lost.min() > -1e-3 and lost.max() < (2 * 0.1) ** 2


@pytest.mark.parametrize("count", [5, 6, 16])
def test_there_are_no_more_axes_than_values(count: int) -> None:
    assert principal_axes(make_rows(), count).shape == (5, 5)


def test_fewer_rows_than_axes_will_do() -> None:
    axes = principal_axes(np.array([[0, 2, 0], [0, -2, 0]], np.float32), 2)
    np.testing.assert_allclose(np.abs(axes[:, 0]), [0, 1, 0], atol=1e-6)
    np.testing.assert_allclose(axes.T @ axes, np.eye(2), atol=1e-6)


def test_the_same_rows_have_the_same_axes_to_the_last_digit() -> None:
    rows = make_rows(some_turn(), 5000)
    assert np.array_equal(principal_axes(rows, 3), principal_axes(rows.copy(), 3))
