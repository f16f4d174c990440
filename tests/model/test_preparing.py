"""Bytes become what a network takes; light and optical density by hand, in numpy."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from ucc_path.model.preparing import Preparation, blurred
from ucc_path.stain import count_levels, draw_stains, one_after_other, standard_of

MEAN, STD = (0.7, 0.5, 0.6), (0.2, 0.25, 0.1)
NO_CHANGE = np.eye(3, 4, dtype=np.float32)


def make_bags() -> NDArray[np.uint8]:
    return np.random.default_rng(0).integers(0, 256, (2, 4, 8, 8, 3), np.uint8)


def density_of(pixels: NDArray[np.uint8]) -> NDArray[np.float64]:
    """-log10 of the light; black is as dark as a level of 1, not infinitely so."""
    return np.asarray(-np.log10(np.maximum(pixels, 1) / 255))


def prepared(pixels: NDArray[np.uint8], *stains: NDArray[np.float32], colours: str = "slide") -> NDArray[np.float32]:
    """With the channels last again."""
    change = torch.from_numpy(np.stack(stains)) if stains else None
    found = Preparation(colours, MEAN, STD)(torch.from_numpy(pixels), change)
    assert found.dtype == torch.float32
    return np.moveaxis(found.numpy(), -3, -1)


@pytest.mark.parametrize("shape", [(5, 8, 8, 3), (2, 4, 8, 8, 3)], ids=["tiles", "bags"])
def test_light_is_centred_and_scaled_channel_by_channel(shape: tuple[int, ...]) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, shape, np.uint8)
    wanted = (pixels / 255 - np.array(MEAN)) / np.array(STD)
    np.testing.assert_allclose(prepared(pixels, colours="light"), wanted, atol=1e-5)


@pytest.mark.parametrize("shape", [(5, 8, 8, 3), (2, 4, 8, 8, 3)], ids=["tiles", "bags"])
def test_density_is_centred_and_scaled_where_a_slide_has_no_standard(shape: tuple[int, ...]) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, shape, np.uint8)
    wanted = (density_of(pixels) - np.array(MEAN)) / np.array(STD)
    np.testing.assert_allclose(prepared(pixels), wanted, atol=1e-4)


def test_one_channel_of_light_is_prepared_too() -> None:
    pixels = torch.tensor([[[[0], [255]]]], dtype=torch.uint8)
    assert Preparation("light", (0.5,), (0.25,))(pixels).tolist() == [[[[-2.0, 2.0]]]]


@pytest.mark.parametrize("colours", ["light", "slide"])
@pytest.mark.parametrize("is_stained", [False, True])
def test_channels_lie_last_in_memory_also_once_bags_are_taken_apart(colours: str, is_stained: bool) -> None:
    stain = torch.from_numpy(np.stack([NO_CHANGE] * 2)) if is_stained else None
    bags = Preparation(colours, MEAN, STD)(torch.from_numpy(make_bags()), stain)
    flat = bags.flatten(0, 1)
    assert bags.shape == (2, 4, 3, 8, 8)
    assert flat.is_contiguous(memory_format=torch.channels_last)
    assert flat.data_ptr() == bags.data_ptr()  # no copy


def test_no_change_of_stain_leaves_the_density_as_it_is() -> None:
    """Mean and std of the data set are not for a slide that has a standard of its own."""
    pixels = make_bags()
    np.testing.assert_allclose(prepared(pixels, NO_CHANGE, NO_CHANGE), density_of(pixels), atol=1e-5)


def test_twice_the_stain_is_twice_the_density_and_each_bag_has_its_own_change() -> None:
    """Light of a tenth has density 1, which becomes 2: light of a hundredth."""
    pixels = make_bags()
    found = prepared(pixels, 2 * NO_CHANGE, NO_CHANGE)
    np.testing.assert_allclose(10.0 ** -found[0], 10 ** -(2 * density_of(pixels[0])), rtol=1e-4)
    np.testing.assert_allclose(found[1], density_of(pixels[1]), atol=1e-5)


def test_a_matrix_mixes_the_densities_of_the_channels_in_its_rows() -> None:
    """Red is to absorb what green did as well; were the matrix turned round, green would."""
    pixels = make_bags()
    adds_green_to_red = NO_CHANGE.copy()
    adds_green_to_red[0, 1] = 1
    found, density = prepared(pixels, adds_green_to_red, adds_green_to_red), density_of(pixels)
    np.testing.assert_allclose(found[..., 0], density[..., 0] + density[..., 1], atol=1e-5)
    np.testing.assert_allclose(found[..., 1:], density[..., 1:], atol=1e-5)


def test_random_stains_are_applied_as_by_hand() -> None:
    pixels, stains = make_bags(), draw_stains(np.random.default_rng(0), 2, 0.5)
    found = prepared(pixels, *stains)
    for bag, change, changed in zip(pixels, stains.astype(np.float64), found, strict=True):
        np.testing.assert_allclose(changed, density_of(bag) @ change[:, :3].T + change[:, 3], atol=1e-5)
    assert np.abs(found - density_of(pixels)).mean() > 0.02


def test_the_standard_of_a_slide_gives_its_pixels_a_mean_of_zero_and_a_spread_of_one() -> None:
    dark, pale = make_bags() // 2, make_bags() // 4 + 190
    standards = [standard_of(count_levels(slide)) for slide in (dark[0], pale[1])]
    found = prepared(np.stack([dark[0], pale[1]]), *standards).reshape(2, -1, 3)
    np.testing.assert_allclose(found.mean(axis=1), 0, atol=1e-4)
    np.testing.assert_allclose(found.std(axis=1), 1, atol=1e-4)


def test_a_random_stain_comes_before_the_standard() -> None:
    pixels, jitter = make_bags()[:1], draw_stains(np.random.default_rng(0), 1, 0.5)[0]
    standard = standard_of(count_levels(pixels))
    changed = density_of(pixels) @ jitter[:, :3].T + jitter[:, 3]
    found = prepared(pixels, one_after_other(jitter, standard))
    np.testing.assert_allclose(found, changed @ standard[:, :3].T + standard[:, 3], atol=1e-4)


def test_light_is_taken_as_it_is_whatever_the_stain() -> None:
    pixels = make_bags()
    assert np.array_equal(
        prepared(pixels, 2 * NO_CHANGE, NO_CHANGE, colours="light"), prepared(pixels, colours="light")
    )


def spot(side: int = 21) -> torch.Tensor:
    """Two pictures of three channels, black but for one pixel in the middle."""
    pictures = torch.zeros(2, 3, side, side)
    pictures[:, :, side // 2, side // 2] = 1.0
    return pictures


def test_a_picture_out_of_focus_has_its_spots_spread_as_wide_as_the_gaussian() -> None:
    sharp = spot()
    found = blurred(sharp, torch.tensor([2.0, 0.0]))
    assert torch.equal(found[1], sharp[1])
    assert torch.allclose(found[0].sum((1, 2)), torch.ones(3), atol=1e-5)
    places = torch.arange(21) - 10.0
    for line in (found[0].sum(1), found[0].sum(2)):  # across, down
        spread_px = (line * places**2).sum(1).sqrt()
        assert torch.allclose(spread_px, torch.full((3,), 1.852), atol=0.001)  # of 2 px, without what lies beyond 4
    assert torch.equal(sharp, spot())


def test_each_picture_has_its_own_focus() -> None:
    together = blurred(spot(), torch.tensor([0.5, 1.5]))
    for place, width_px in enumerate((0.5, 1.5)):
        alone = blurred(spot()[place : place + 1], torch.tensor([width_px]))
        assert torch.allclose(together[place], alone[0], atol=0.01)  # the narrow one is cut off elsewhere
    assert together[0].max() > 2 * together[1].max()


def test_what_is_even_stays_even_up_to_the_edge() -> None:
    even = torch.full((1, 3, 16, 16), 0.7)
    assert torch.allclose(blurred(even, torch.tensor([2.0])), even, atol=1e-6)


def test_pictures_that_stay_sharp_are_not_even_copied() -> None:
    pictures = spot()
    assert blurred(pictures, torch.zeros(2)) is pictures


def test_channels_stay_last_in_memory() -> None:
    """Convolutions are quickest with that."""
    pictures = spot().to(memory_format=torch.channels_last)
    assert blurred(pictures, torch.tensor([1.0, 0.0])).is_contiguous(memory_format=torch.channels_last)
