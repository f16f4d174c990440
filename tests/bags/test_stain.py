"""Random changes of stain, seen on densities of known dyes."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from ucc_path.bags.stain import EOSIN, HAEMATOXYLIN, RESIDUAL, draw_stains


def make_stains(count: int = 500, spread: float = 0.1) -> NDArray[np.float32]:
    return draw_stains(np.random.default_rng(0), count, spread)


@pytest.mark.parametrize("dye", [HAEMATOXYLIN, EOSIN], ids=["haematoxylin", "eosin"])
def test_a_dye_keeps_its_colour_and_becomes_stronger_or_weaker(dye: NDArray[np.float64]) -> None:
    changed = make_stains()[:, :, :3] @ dye  # (count, 3)
    strengths = changed @ dye  # of a unit vector
    assert np.allclose(changed, strengths[:, None] * dye, atol=1e-6)
    assert 0.9 <= strengths.min() < 0.91 and 1.09 < strengths.max() <= 1.1 + 1e-6
    assert abs(strengths.mean() - 1) < 0.01


def test_the_dyes_change_independently_of_each_other() -> None:
    stains = make_stains()[:, :, :3]
    assert abs(np.corrcoef(stains @ HAEMATOXYLIN @ HAEMATOXYLIN, stains @ EOSIN @ EOSIN)[0, 1]) < 0.15


def test_what_is_neither_dye_stays_as_it_is() -> None:
    assert np.allclose(make_stains()[:, :, :3] @ RESIDUAL, RESIDUAL, atol=1e-6)


def test_the_lamp_shifts_all_channels_alike() -> None:
    shifts = make_stains()[:, :, 3]
    assert np.array_equal(shifts, np.repeat(shifts[:, :1], 3, axis=1))
    assert 0.019 < np.abs(shifts).max() <= 0.02


def test_no_spread_is_no_change() -> None:
    stains = make_stains(2, spread=0.0)
    assert stains.dtype == np.float32
    assert np.allclose(stains, np.eye(3, 4), atol=1e-7)


def test_the_colours_are_those_of_ruifrok_and_johnston() -> None:
    assert np.allclose(HAEMATOXYLIN / HAEMATOXYLIN[0] * 0.65, [0.65, 0.70, 0.29])
    assert np.allclose(EOSIN / EOSIN[0] * 0.07, [0.07, 0.99, 0.11])
    assert np.allclose(np.linalg.norm([HAEMATOXYLIN, EOSIN, RESIDUAL], axis=1), 1)
    assert abs(RESIDUAL @ HAEMATOXYLIN) < 1e-12 and abs(RESIDUAL @ EOSIN) < 1e-12
