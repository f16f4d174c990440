"""Bags of labelled images: they hold as many classes as they claim, in the shares that were asked for."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from ucc_path.bags import LabelledImages, PowerSet
from ucc_path.bags.power_set import Pool, class_counts, moved
from ucc_path.errors import DatasetError, SettingsError
from ucc_path.settings import ModelSettings, ReproductionSettings, TrainingSettings

MODEL = ModelSettings(classes=5, ucc_labels=(1, 2, 3, 4))
TRAINING = TrainingSettings(bag_size=12, seed=3)
EVEN = 1.0


def make_images(each: int = 20, classes: int = 5, side_px: int = 4) -> LabelledImages:
    """Images whose upper left pixel is their class, the next one their number in it; all others are chance."""
    rng = np.random.default_rng(0)
    labels = np.tile(np.arange(classes), each)
    images = rng.integers(0, 256, (len(labels), side_px, side_px, 1), np.uint8)
    images[:, 0, 0, 0], images[:, 0, 1, 0] = labels, np.arange(len(labels)) // classes
    return LabelledImages(images, labels)


def make_sampler(
    min_share: float = 0.125, *, purpose: str = "train", augmented: bool = False, **changes: Any
) -> PowerSet:
    reproduction = ReproductionSettings(min_share=min_share, **changes.pop("reproduction", {}))
    images = changes.pop("images", None) or make_images()
    parts = (replace(MODEL, **changes.pop("model", {})), replace(TRAINING, **changes), reproduction)
    return PowerSet(images, *parts, purpose=purpose, augmented=augmented)


def held(pool: Pool, bag_size: int = 12) -> NDArray[np.int64]:
    """How many images of each class each bag holds, (bags, 5)."""
    each = np.rint(pool.shares * bag_size).astype(np.int64)
    return np.stack([each[:, pool.classes == place].sum(axis=1) for place in range(5)], axis=1)


@pytest.mark.parametrize("min_share", [0.0, 0.125, 0.3, EVEN])
def test_a_bag_holds_exactly_as_many_classes_as_it_claims(min_share: float) -> None:
    sampler = make_sampler(min_share)
    for number in range(5):
        pool = sampler.draw(number, 40)
        counts = held(pool)
        assert (counts > 0).sum(axis=1).tolist() == (pool.labels + 1).tolist()
        assert (counts.sum(axis=1) == 12).all()


def test_each_class_of_a_bag_has_the_least_share_or_an_even_one_where_that_is_less() -> None:
    pool = make_sampler(0.3).draw(0, 400)
    counts = held(pool)
    for unique in (2, 3, 4):
        own = counts[pool.labels == unique - 1]
        assert own[own > 0].min() == 3  # 0.3 of 12 images is three whole ones
        assert own.max() == 12 - 3 * (unique - 1)  # and beyond that, chance
    assert held(make_sampler(0.9).draw(0, 400)).tolist() == held(make_sampler(EVEN).draw(0, 400)).tolist()


def test_with_a_share_of_one_all_classes_of_a_bag_have_the_same() -> None:
    pool = make_sampler(EVEN).draw(0, 80)
    counts = held(pool)
    for unique in (1, 2, 3, 4):
        own = counts[pool.labels == unique - 1]
        assert set(own[own > 0].tolist()) == {12 // unique}


def test_what_even_shares_leave_over_is_given_evenly() -> None:
    pool = make_sampler(EVEN, bag_size=10).draw(0, 80)
    counts = held(pool, 10)
    of_three = np.sort(counts[pool.labels == 2], axis=1)
    assert np.unique(of_three, axis=0).tolist() == [[0, 0, 3, 3, 4]]
    assert (counts[pool.labels == 2] == 4).any(axis=0).all()  # now of one class, now of another


def test_counts_are_as_many_of_each_and_labels_are_their_places() -> None:
    pool = make_sampler(model={"ucc_labels": (2, 3, 4)}).draw(0, 9)
    assert pool.labels.tolist() == [0, 1, 2] * 3
    assert (held(pool) > 0).sum(axis=1).tolist() == [2, 3, 4] * 3


def test_every_class_comes_up_in_bags_of_one() -> None:
    pool = make_sampler().draw(0, 400)
    pure = held(pool)[pool.labels == 0]
    assert ((pure == 12).sum(axis=0) > 5).all()


def test_a_pool_has_a_bag_of_each_class_none_twice_in_no_order() -> None:
    pool = make_sampler().draw(0, 8)
    assert pool.images.shape == (60, 4, 4, 1) and pool.images.dtype == np.uint8
    assert np.bincount(pool.classes).tolist() == [12] * 5
    assert np.array_equal(pool.images[:, 0, 0, 0], pool.classes)  # each image still has its class
    assert len({(int(image[0, 0, 0]), int(image[0, 1, 0])) for image in pool.images}) == 60
    assert (np.diff(pool.classes) < 0).sum() > 10


def test_shares_sum_to_one_and_are_whole_images() -> None:
    pool = make_sampler().draw(0, 64)
    assert pool.shares.dtype == np.float32 and pool.shares.shape == (64, 60)
    np.testing.assert_allclose(pool.shares.sum(axis=1), 1, atol=1e-6)
    assert set(np.unique(pool.shares).tolist()) == {0.0, float(np.float32(1 / 12))}


def test_bags_of_one_class_hold_different_images() -> None:
    """Where a bag does not take all of a class."""
    pool = make_sampler().draw(0, 400)
    pairs = pool.shares[pool.labels == 1]
    assert len(np.unique(pairs, axis=0)) == len(pairs)


def same(one: Pool, other: Pool) -> bool:
    names = ("images", "classes", "shares", "labels")
    return all(np.array_equal(getattr(one, name), getattr(other, name)) for name in names)


def test_a_number_is_always_the_same_pool_whatever_was_drawn_before() -> None:
    first, again = make_sampler(augmented=True), make_sampler(augmented=True)
    wanted = [first.draw(number, 16) for number in range(3)]
    found = [again.draw(number, 16) for number in (2, 1, 0)]
    assert all(same(one, other) for one, other in zip(wanted, reversed(found), strict=True))
    assert not same(wanted[0], wanted[1])


@pytest.mark.parametrize("other", [{"seed": 4}, {"purpose": "val"}])
def test_another_seed_or_purpose_is_another_pool(other: dict[str, Any]) -> None:
    assert not same(make_sampler().draw(0, 16), make_sampler(**other).draw(0, 16))


def test_only_what_is_learnt_from_is_moved() -> None:
    moves = {"reproduction": {"shift_px": 1, "mirror": True}}
    still, shifted = (make_sampler(augmented=augmented, **moves).draw(0, 8) for augmented in (False, True))
    assert np.array_equal(still.images[:, 0, 0, 0], still.classes)
    assert np.array_equal(still.classes, shifted.classes) and np.array_equal(still.shares, shifted.shares)
    assert not np.array_equal(still.images, shifted.images)


def test_an_image_is_shifted_as_a_whole_and_its_edge_is_repeated() -> None:
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (200, 5, 5, 2), np.uint8)
    padded = np.pad(images, ((0, 0), (1, 1), (1, 1), (0, 0)), mode="edge")
    found = moved(np.random.default_rng(1), images, shift_px=1, mirror=False)
    places = set()
    for image, around in zip(found, padded, strict=True):
        at = [
            (row, col)
            for row in range(3)
            for col in range(3)
            if np.array_equal(image, around[row : row + 5, col : col + 5])
        ]
        assert len(at) == 1
        places.update(at)
    assert len(places) == 9  # every way


def test_an_image_is_mirrored_left_to_right_or_not() -> None:
    images = np.random.default_rng(0).integers(0, 256, (100, 5, 5, 3), np.uint8)
    found = moved(np.random.default_rng(1), images, shift_px=0, mirror=True)
    is_turned = [np.array_equal(after, before[:, ::-1]) for after, before in zip(found, images, strict=True)]
    is_still = [np.array_equal(after, before) for after, before in zip(found, images, strict=True)]
    assert all(one or other for one, other in zip(is_turned, is_still, strict=True))
    assert 30 < sum(is_turned) < 70


def test_without_moves_images_are_not_even_copied() -> None:
    images = make_images().images
    assert moved(np.random.default_rng(0), images, shift_px=0, mirror=False) is images


def test_too_few_images_of_a_class_are_refused() -> None:
    images = make_images(each=12)
    few = images.chosen(np.flatnonzero(~((images.classes == 3) & (images.images[:, 0, 1, 0] == 0))))
    message = (
        r"^class 3 has 11 val images, fewer than a bag of 12; "
        r"get the whole data set, or give a smaller bag_size under \[training\]$"
    )
    with pytest.raises(DatasetError, match=message):
        make_sampler(images=few, purpose="val")
    assert len(make_sampler(images=few, bag_size=11).draw(0, 4).labels) == 4


@pytest.mark.parametrize(
    ("labels", "bag_size", "message"),
    [
        ((1, 6), 12, "ucc_labels go up to 6, and a bag of 12 images of 5 classes cannot hold as many; give smaller"),
        ((1, 4), 3, "ucc_labels go up to 4, and a bag of 3 images of 5 classes cannot hold as many; give smaller"),
    ],
)
def test_counts_that_no_bag_can_have_are_refused(labels: tuple[int, ...], bag_size: int, message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        make_sampler(model={"ucc_labels": labels}, bag_size=bag_size)


@settings(max_examples=40)
@given(st.integers(1, 12), st.integers(1, 40), st.floats(0, 1), st.integers(0, 2**32 - 1))
def test_class_counts_keep_their_promises(classes: int, bag_size: int, min_share: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    unique = rng.integers(1, min(classes, bag_size) + 1, 50)
    counts = class_counts(rng, unique, classes=classes, bag_size=bag_size, min_share=min_share)
    assert counts.shape == (50, classes) and counts.dtype == np.int64
    assert ((counts > 0).sum(axis=1) == unique).all()
    assert (counts.sum(axis=1) == bag_size).all()
    for row, count in zip(counts, unique.tolist(), strict=True):
        own = row[row > 0]
        assert own.min() >= min(int(min_share * bag_size), bag_size // count)
        assert min_share < 1 or own.max() - own.min() <= 1
