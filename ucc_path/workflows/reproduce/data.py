"""The images of an experiment: read, laid into squares that a network takes, and parted as in the paper."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ucc_path.bags import LabelledImages
from ucc_path.errors import DatasetError, SettingsError
from ucc_path.formats import cifar_binary, idx
from ucc_path.seeding import stream
from ucc_path.settings import ModelSettings

MOST_VAL = 10_000  # of the training images, chosen at random
_VAL_SHARE = 5  # one in so many, where there are fewer


@dataclass(frozen=True, slots=True, eq=False)
class Images:
    """All images of an experiment."""

    learning: LabelledImages  # train and val
    test: LabelledImages
    fingerprint: str

    @property
    def sizes(self) -> dict[str, int]:
        """How many there are of each split."""
        val = min(MOST_VAL, len(self.learning) // _VAL_SHARE)
        return {"train": len(self.learning) - val, "val": val, "test": len(self.test)}

    def split(self, seed: int) -> tuple[LabelledImages, LabelledImages]:
        """Train and val images."""
        order, val = stream(seed, "images").permutation(len(self.learning)), self.sizes["val"]
        return self.learning.chosen(order[val:]), self.learning.chosen(order[:val])


def read_images(experiment: str, folder: Path, model: ModelSettings) -> Images:
    """The images, in the middle of squares that a model takes; refuses files that are not the experiment's."""
    classes, side_px = model.classes, model.patch_px
    if experiment == "mnist":
        learning, test = (idx.read(folder, part) for part in ("train", "test"))
    else:
        learning, test = (cifar_binary.read(folder, experiment, part) for part in ("train", "test"))
    for part, images in (("train", learning), ("test", test)):
        if images.classes.max(initial=-1) >= classes or len(np.unique(images.classes)) < classes:
            raise DatasetError(f"the {part} images of {folder} are not of {classes} classes; get the whole data set")
    if learning.images.shape[3] != model.channels:
        found = learning.images.shape[3]
        raise SettingsError(f"channels is {model.channels} and the images have {found}; give {found}, or leave it out")
    digest = hashlib.sha256()
    for images in (learning, test):
        digest.update(np.ascontiguousarray(images.images).data)
        digest.update(images.classes.data)
    return Images(_laid(learning, side_px), _laid(test, side_px), digest.hexdigest())


def _laid(images: LabelledImages, side_px: int) -> LabelledImages:
    side = images.images.shape[1]
    if side > side_px:
        raise SettingsError(f"the images are {side} px wide and patch_px is {side_px}; give {side} or more")
    before = (side_px - side) // 2
    around = (before, side_px - side - before)
    return LabelledImages(np.pad(images.images, ((0, 0), around, around, (0, 0))), images.classes)
