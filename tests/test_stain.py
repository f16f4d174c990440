"""Changes of stain: the standard of a slide, and random ones, seen on densities of known dyes."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from ucc_path.stain import EOSIN, HAEMATOXYLIN, RESIDUAL, count_levels, draw_stains, one_after_other, standard_of


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


def test_the_standard_gives_densities_a_mean_of_0_and_a_spread_of_1() -> None:
    pixels = np.random.default_rng(0).integers(20, 250, (4000, 3), np.uint8) // np.array([1, 2, 3], np.uint8)
    density = -np.log10(np.maximum(pixels, 1) / 255)
    standard = standard_of(count_levels(pixels))
    changed = density @ standard[:, :3].T + standard[:, 3]
    assert np.allclose(changed.mean(axis=0), 0, atol=1e-4)
    assert np.allclose(changed.std(axis=0), 1, atol=1e-4)


def test_levels_of_parts_add_up_to_those_of_the_whole() -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (10, 8, 8, 3), np.uint8)
    assert np.array_equal(count_levels(pixels[:4]) + count_levels(pixels[4:]), count_levels(pixels))
    assert count_levels(pixels).sum(axis=1).tolist() == [640, 640, 640]


def test_a_slide_of_one_colour_or_of_none_has_a_finite_standard() -> None:
    assert np.isfinite(standard_of(count_levels(np.full((5, 3), 200, np.uint8)))).all()
    assert np.array_equal(standard_of(np.zeros((3, 256), np.int64)), np.eye(3, 4))


def test_the_same_tissue_stained_twice_as_strongly_has_the_same_standard_densities() -> None:
    weak = np.random.default_rng(0).uniform(0.05, 0.5, (5000, 3))
    standard = []
    for density in (weak, 2 * weak):
        pixels = np.rint(255 * 10**-density).astype(np.uint8)
        change = standard_of(count_levels(pixels))
        standard.append(-np.log10(pixels / 255) @ change[:, :3].T + change[:, 3])
    assert np.abs(standard[0] - standard[1]).max() < 0.1  # what rounding to bytes leaves


def test_two_changes_one_after_the_other_are_one_change() -> None:
    rng = np.random.default_rng(0)
    first, then = rng.normal(size=(2, 4, 3, 4)).astype(np.float32)
    density = rng.normal(size=(4, 3, 1))
    middle = first[..., :3] @ density + first[..., 3:]
    both = one_after_other(first, then)
    assert np.allclose(both[..., :3] @ density + both[..., 3:], then[..., :3] @ middle + then[..., 3:], atol=1e-5)
