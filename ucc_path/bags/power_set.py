"""Bags from the power set of labelled images, each with its unique class count, as in the paper's experiments.

The bags of a step are drawn from one pool of images, as many of each class as a bag holds. What an image costs is its
features, and those are shared: hundreds of bags can be learnt from at the price of ten.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ucc_path.errors import DatasetError, SettingsError
from ucc_path.seeding import stream
from ucc_path.settings import ModelSettings, ReproductionSettings, TrainingSettings

Indices = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class LabelledImages:
    """Images (n, side, side, channels), and the class of each, from 0 on."""

    images: NDArray[np.uint8]
    classes: Indices

    def __len__(self) -> int:
        return len(self.classes)

    def chosen(self, places: Indices) -> LabelledImages:
        """Some of them, in this order."""
        return LabelledImages(self.images[places], self.classes[places])


@dataclass(frozen=True, slots=True, eq=False)
class Pool:
    """Images of one step, in no order, and the bags drawn from them."""

    images: NDArray[np.uint8]  # (pool, side, side, channels)
    classes: Indices  # (pool,)
    shares: NDArray[np.float32]  # (bags, pool): which part of each bag each image is
    labels: Indices  # (bags,) place of the bag's count among `ucc_labels`


class PowerSet:
    """Draws pools and their bags; always the same for a number."""

    def __init__(
        self,
        images: LabelledImages,
        model: ModelSettings,
        training: TrainingSettings,
        reproduction: ReproductionSettings,
        *,
        purpose: str,
        augmented: bool = False,
    ) -> None:
        check_counts(model, training)
        self._by_class = [np.flatnonzero(images.classes == place) for place in range(model.classes)]
        fewest = min(range(model.classes), key=lambda place: len(self._by_class[place]))
        if len(self._by_class[fewest]) < training.bag_size:
            raise DatasetError(
                f"class {fewest} has {len(self._by_class[fewest])} {purpose} images, fewer than a bag of "
                f"{training.bag_size}; get the whole data set, or give a smaller bag_size under [training]"
            )
        self._images, self._counts = images, np.array(model.ucc_labels)
        self._bag_size, self._seed, self._purpose = training.bag_size, training.seed, purpose
        self._min_share = reproduction.min_share
        self._shift_px = reproduction.shift_px if augmented else 0
        self._is_mirrored = augmented and reproduction.mirror

    def draw(self, number: int, bags: int) -> Pool:
        """The pool of step `number` and its bags, as many of each count."""
        rng = stream(self._seed, "power set", self._purpose, number)
        size, classes = self._bag_size, len(self._by_class)
        taken = np.concatenate([rng.choice(places, size, replace=False) for places in self._by_class])
        labels = np.arange(bags) % len(self._counts)
        counts = class_counts(rng, self._counts[labels], classes=classes, bag_size=size, min_share=self._min_share)
        ranks = rng.random((bags, classes, size)).argsort(axis=2)
        is_in = (ranks < counts[:, :, None]).reshape(bags, -1)
        order = rng.permutation(len(taken))
        pool = self._images.chosen(taken[order])
        images = moved(rng, pool.images, shift_px=self._shift_px, mirror=self._is_mirrored)
        return Pool(images, pool.classes, (is_in[:, order] / size).astype(np.float32), labels)


def check_counts(model: ModelSettings, training: TrainingSettings) -> None:
    """SettingsError where bags cannot hold as many classes as are to be counted."""
    if max(model.ucc_labels) > min(model.classes, training.bag_size):
        raise SettingsError(
            f"ucc_labels go up to {max(model.ucc_labels)}, and a bag of {training.bag_size} images of "
            f"{model.classes} classes cannot hold as many; give smaller ones"
        )


def class_counts(
    rng: np.random.Generator, unique: Indices, *, classes: int, bag_size: int, min_share: float
) -> Indices:
    """How many instances of each class bags with `unique` classes hold: (bags,) -> (bags, classes).

    Which classes is chance, and so is how many of each, but for `min_share` of the bag, or an even share where that
    is less. A class that is a small part of a bag can be counted only if hardly any instance lies with a wrong class:
    such bags teach clusters that are far apart, and even ones do not.
    """
    chance = rng.random((len(unique), classes))
    is_chosen = _ranks(chance) < unique[:, None]
    least = np.clip(math.floor(min_share * bag_size), 1, bag_size // unique)
    left = bag_size - unique * least
    weights = rng.standard_exponential(chance.shape) * is_chosen  # shares of which each is as likely as any other
    more = rng.multinomial(left, weights / weights.sum(axis=1, keepdims=True))
    one_each = _ranks(np.where(is_chosen, rng.random(chance.shape), np.inf)) < left[:, None]
    more = np.where((left < unique)[:, None], one_each, more)  # what is left of an even share is given evenly
    return np.asarray(least[:, None] * is_chosen + more, np.int64)


def _ranks(values: NDArray[np.float64]) -> Indices:
    """The place of each value in the order of its row."""
    return values.argsort(axis=1).argsort(axis=1)


def moved(rng: np.random.Generator, images: NDArray[np.uint8], *, shift_px: int, mirror: bool) -> NDArray[np.uint8]:
    """Images (n, side, side, channels), each shifted and mirrored at random; its edge is repeated where it was."""
    if not shift_px and not mirror:
        return images
    count, side = images.shape[:2]
    shifts = rng.integers(-shift_px, shift_px + 1, (2, count, 1))
    rows, cols = np.clip(np.arange(side) + shifts, 0, side - 1)  # each (n, side)
    if mirror:
        cols = np.where(rng.random((count, 1)) < 0.5, side - 1 - cols, cols)
    return np.asarray(images[np.arange(count)[:, None, None], rows[:, :, None], cols[:, None, :]])
