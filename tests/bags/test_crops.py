"""Crops from tiles in which every pixel tells where it came from, and whose masks follow from it."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

from ucc_path.bags import Crops, CropSampler, TileSet
from ucc_path.errors import DatasetError
from ucc_path.settings import ModelSettings, TrainingSettings

SIDE = 50
MODEL = ModelSettings(encoder="blocks")
TRAINING = TrainingSettings(crop_px=24, stain_jitter=0.0)
NAMES = ("normal", "metastases", "mixture")


def is_tumour(images: NDArray[np.uint8]) -> NDArray[np.bool_]:
    """What the masks are made by: a slope that no turn maps onto itself."""
    return images[..., 1].astype(int) + 2 * images[..., 2] > 70


def make_tiles(labels: Sequence[int] = (0, 1, 2, 0, 1, 2), *, side: int = SIDE) -> TileSet:
    """Tiles whose pixel (row, col) of tile t is coloured (t, row, col)."""
    images = np.empty((len(labels), side, side, 3), np.uint8)
    images[..., 0] = np.arange(len(labels))[:, None, None]
    images[..., 1] = np.arange(side)[:, None]
    images[..., 2] = np.arange(side)
    masks = np.where(is_tumour(images), 255, 0).astype(np.uint8)
    tissue = np.zeros((len(labels), side // 8, side // 8), bool)
    return TileSet(
        images, masks, tissue, np.array(labels, np.int64), np.stack([np.eye(3, 4, dtype=np.float32)] * len(labels))
    )


def make_sampler(
    tiles: TileSet | None = None,
    *,
    names: Sequence[str] = NAMES,
    augmented: bool = True,
    purpose: str = "train",
    model: ModelSettings = MODEL,
    **training: object,
) -> CropSampler:
    return CropSampler(
        make_tiles() if tiles is None else tiles,
        model,
        dataclasses.replace(TRAINING, **training),  # type: ignore[arg-type]
        purpose=purpose,
        label_names=names,
        augmented=augmented,
    )


def corners(crops: Crops) -> NDArray[np.int64]:
    return np.asarray(crops.images[..., 1:].min(axis=(1, 2)), np.int64)


def test_the_mask_of_a_crop_is_moved_and_turned_with_it() -> None:
    crops = make_sampler().draw(0, 60)
    assert crops.images.shape == (60, 24, 24, 3) and crops.masks.shape == (60, 24, 24)
    assert crops.masks.dtype == np.bool_
    assert np.array_equal(crops.masks, is_tumour(crops.images))
    assert 0 < crops.masks.mean() < 1
    steps = crops.images[:, 1, 0, 1:].astype(int) - crops.images[:, 0, 0, 1:]
    assert {tuple(step) for step in steps.tolist()} == {(0, 1), (0, -1), (1, 0), (-1, 0)}


def test_augmented_crops_come_from_everywhere_in_a_tile_and_are_whole() -> None:
    sampler = make_sampler()
    crops = [sampler.draw(number, 60) for number in range(10)]
    places = np.concatenate([corners(drawn) for drawn in crops])
    assert set(places[:, 0].tolist()) == set(places[:, 1].tolist()) == set(range(SIDE - 24 + 1))
    assert all((drawn.images[..., 1:].max(axis=(1, 2)) - corners(drawn) == 23).all() for drawn in crops)


def test_without_augmentation_a_crop_is_the_centre_of_its_tile_as_it_is() -> None:
    tiles = make_tiles()
    for sampler in (make_sampler(tiles, augmented=False), make_sampler(tiles, augment=False)):
        crops = sampler.draw(4, 6)
        chosen = crops.images[:, 0, 0, 0]
        assert sorted(chosen.tolist()) == [0, 1, 2, 3, 4, 5]
        assert np.array_equal(crops.images, tiles.images[chosen, 13:37, 13:37])


@pytest.mark.parametrize(
    ("encoder", "crop_px", "side", "expected"),
    [
        ("blocks", 24, 50, 24),
        ("blocks", 30, 50, 24),
        ("blocks", 192, 50, 48),
        ("blocks", 48, 48, 48),
        ("lite0", 24, 50, 16),
        ("lite0", 32, 50, 32),
        ("lite0", 192, 50, 48),
    ],
)
def test_a_crop_fits_into_its_tile_and_can_be_halved_as_often_as_the_network_does(
    encoder: str, crop_px: int, side: int, expected: int
) -> None:
    sampler = make_sampler(make_tiles(side=side), model=ModelSettings(encoder=encoder), crop_px=crop_px)
    assert sampler.crop_px == expected
    assert sampler.draw(0, 2).images.shape == (2, expected, expected, 3)


def test_crops_are_balanced_over_the_labels_and_over_all_tiles_without() -> None:
    tiles = make_tiles([0, 0, 0, 0, 1, 2, -1])
    balanced = make_sampler(tiles)
    assert balanced.usable.tolist() == [0, 1, 2, 3, 4, 5]
    assert tiles.labels[balanced.draw(0, 9).images[:, 0, 0, 0]].tolist() == [0, 1, 2] * 3
    assert sorted(make_sampler(tiles, names=()).draw(0, 7).images[:, 0, 0, 0].tolist()) == list(range(7))


@pytest.mark.parametrize("part", [slice(0, 4), slice(4, 9), slice(1, None, 2)])
def test_a_part_is_those_rows_of_the_whole(part: slice) -> None:
    sampler = make_sampler(stain_jitter=0.1)
    whole, some = sampler.draw(3, 9), sampler.draw(3, 9, part)
    assert whole.stain is not None and some.stain is not None
    assert np.array_equal(some.images, whole.images[part])
    assert np.array_equal(some.masks, whole.masks[part])
    assert np.array_equal(some.stain, whole.stain[part])


def test_the_same_step_has_the_same_crops_and_another_step_seed_or_purpose_others() -> None:
    crops = make_sampler().draw(1, 6)
    assert np.array_equal(make_sampler().draw(1, 6).images, crops.images)
    others = [make_sampler().draw(2, 6), make_sampler(seed=1).draw(1, 6), make_sampler(purpose="val").draw(1, 6)]
    assert not any(np.array_equal(other.images, crops.images) for other in others)


def test_stain_is_changed_only_when_augmented_with_jitter() -> None:
    stain = make_sampler(stain_jitter=0.1).draw(0, 5).stain
    assert stain is not None and stain.shape == (5, 3, 4)
    assert not np.allclose(stain, np.eye(3, 4))
    for sampler in (make_sampler(), make_sampler(stain_jitter=0.1, augmented=False)):
        plain = sampler.draw(0, 5).stain
        assert plain is not None and np.array_equal(plain, np.stack([np.eye(3, 4)] * 5))


def test_tiles_without_masks_are_refused() -> None:
    message = r"^the val tiles have no masks to learn from; make the data set with ucc-path tile --annotations"
    with pytest.raises(DatasetError, match=message):
        make_sampler(dataclasses.replace(make_tiles(), masks=None), purpose="val")


def test_crops_too_small_to_be_halved_are_refused() -> None:
    with pytest.raises(DatasetError, match=r"^crops of 24 px from tiles of 7 px are smaller than 8 px; set a larger"):
        make_sampler(make_tiles(side=7))
    with pytest.raises(DatasetError, match=r"^crops of 24 px from tiles of 15 px are smaller than 16 px; set a larger"):
        make_sampler(make_tiles(side=15), model=ModelSettings(encoder="lite0"))


def test_a_label_without_tiles_and_tiles_of_other_channels_are_refused() -> None:
    with pytest.raises(DatasetError, match=r"^there are no train tiles labelled mixture; training needs tiles of"):
        make_sampler(make_tiles([0, 1]))
    with pytest.raises(DatasetError, match=r"^the train tiles have 3 channels and the model takes 1"):
        make_sampler(model=ModelSettings(channels=1))


def test_as_many_as_asked_are_put_out_of_focus_and_nothing_else_changes() -> None:
    for share in (0.0, 0.3, 1.0):
        drawn = [make_sampler(blur=share).draw(number, 12) for number in range(40)]
        blur_px = np.concatenate([one.blur_px for one in drawn])
        assert np.mean(blur_px > 0) == pytest.approx(share, abs=0.08)
        assert ((blur_px == 0) | ((blur_px >= 0.5) & (blur_px <= 2.0))).all()
        sharp = make_sampler(blur=0.0).draw(39, 12)
        np.testing.assert_array_equal(drawn[-1].images, sharp.images)


def test_what_a_network_is_judged_by_stays_sharp() -> None:
    assert not make_sampler(augmented=False, blur=1.0).draw(0, 12).blur_px.any()
