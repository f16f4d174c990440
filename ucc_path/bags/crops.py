"""Crops of tiles with their masks, for the Unet; drawn as bags are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ucc_path.bags.choosing import Indices, check_channels, choose_blurs, choose_stains, choose_tiles, group_by_label
from ucc_path.bags.pixels import TileSet
from ucc_path.bags.turning import TURNS, turn_in_place
from ucc_path.errors import DatasetError
from ucc_path.seeding import stream
from ucc_path.settings import ModelSettings, TrainingSettings


@dataclass(frozen=True, slots=True, eq=False)
class Crops:
    """The crops of a step, or of one process's part of it."""

    images: NDArray[np.uint8]  # (crops, crop_px, crop_px, channels)
    masks: NDArray[np.bool_]  # (crops, crop_px, crop_px), True = tumour
    stain: NDArray[np.float32] | None  # (crops, 3, 4), as of Bags
    blur_px: NDArray[np.float32]  # (crops,) how far each is to be put out of focus


class CropSampler:
    """Draws crops from tiles that have masks; without label names, from all tiles alike."""

    def __init__(
        self,
        tiles: TileSet,
        model: ModelSettings,
        training: TrainingSettings,
        *,
        purpose: str,
        label_names: Sequence[str],
        augmented: bool,
    ) -> None:
        check_channels(tiles, model, purpose)
        if tiles.masks is None:
            raise DatasetError(
                f"the {purpose} tiles have no masks to learn from; make the data set with ucc-path tile --annotations, "
                "or train --model ucc"
            )
        side = tiles.images.shape[1]
        multiple_px = model.picture_multiple
        self.crop_px = min(training.crop_px, side) // multiple_px * multiple_px
        if self.crop_px <= 0:
            raise DatasetError(
                f"crops of {training.crop_px} px from tiles of {side} px are smaller than {multiple_px} px; "
                "set a larger crop_px under [training], or use larger tiles (--tile-px)"
            )
        self._images, self._masks = np.asarray(tiles.images), np.asarray(tiles.masks)
        self._training, self._purpose = training, purpose
        self._is_moved = augmented and training.augment
        self._jitter, self._standard = training.stain_jitter if augmented else 0.0, tiles.standard
        self._blur = training.blur if augmented else 0.0
        self._groups = group_by_label(
            tiles.labels, np.arange(len(tiles.labels)), label_names, purpose=purpose, why_unusable=""
        )
        self.usable: Indices = np.sort(np.concatenate(self._groups))  # tiles with a label

    def draw(self, number: int, count: int, part: slice = slice(None)) -> Crops:
        """The `part` of the `count` crops of step `number`; it equals the same rows of the whole."""
        # Chance decides on all crops, whatever the part, so that every part has the chance of the whole.
        rng = stream(self._training.seed, "crops", self._purpose, number)
        tiles, _ = choose_tiles(rng, self._groups, number, count)
        stain = choose_stains(rng, self._standard, tiles, self._jitter)
        room = self._images.shape[1] - self.crop_px
        corners_px = np.full((count, 2), room // 2)
        turns = np.zeros(count, np.int64)
        if self._is_moved:
            corners_px = rng.integers(0, room + 1, (count, 2))
            turns = rng.integers(0, TURNS, count)
        blur_px = choose_blurs(rng, count, self._blur)
        shape = (len(tiles[part]), self.crop_px, self.crop_px)
        images = np.empty((*shape, self._images.shape[3]), np.uint8)
        masks = np.empty(shape, np.bool_)
        for crop, (tile, (top, left)) in enumerate(zip(tiles[part], corners_px[part], strict=True)):
            window = (tile, slice(top, top + self.crop_px), slice(left, left + self.crop_px))
            images[crop] = self._images[window]
            masks[crop] = self._masks[window] != 0
        if self._is_moved:
            turn_in_place(images, turns[part])
            turn_in_place(masks, turns[part])
        return Crops(images, masks, None if stain is None else stain[part], blur_px[part])
