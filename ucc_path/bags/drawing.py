"""Bags: patches of one tile with the tile's label, drawn at random but always the same for a step.

A step's chance depends on the seed, the purpose and the step's number alone: an interrupted training goes on with the
bags it would have had, and several processes agree on them without speaking.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from ucc_path.bags.choosing import Indices, check_channels, choose_stains, choose_tiles, group_by_label
from ucc_path.bags.pixels import CELLS, TileSet, cell_px, patches_of_tissue, places_of_tissue
from ucc_path.bags.turning import TURNS, turn_in_place
from ucc_path.errors import DatasetError
from ucc_path.seeding import stream
from ucc_path.settings import ModelSettings, TrainingSettings

T = TypeVar("T", bound=np.generic)


@dataclass(frozen=True, slots=True, eq=False)
class Bags:
    """The bags of a step, or of one process's part of it."""

    patches: NDArray[np.uint8]  # (bags, bag_size, patch_px, patch_px, channels)
    labels: Indices  # (bags,) index of the label, -1 = none
    tiles: Indices  # (bags,) the tile of each
    tumour: NDArray[np.bool_] | None  # (bags, bag_size): at least half of the patch; None where there are no masks
    stain: NDArray[np.float32] | None  # (bags, 3, 4) change of optical density; None where light is used as it is


class BagSampler:
    """Draws bags from tiles; without label names, from all tiles alike, and the bags have no label."""

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
        _check_grid(tiles, model.patch_px, training.bag_size)
        self._images = np.asarray(tiles.images)  # a plain view: memory maps are slow to index
        self._masks = None if tiles.masks is None else np.asarray(tiles.masks)
        self._tissue = np.asarray(tiles.tissue)
        self._patch_px, self._training, self._purpose = model.patch_px, training, purpose
        self._is_labelled = bool(label_names)
        self._is_moved = augmented and training.augment
        self._jitter, self._standard = training.stain_jitter if augmented else 0.0, tiles.standard
        patches = np.count_nonzero(patches_of_tissue(self._tissue, training.min_tissue), axis=(1, 2))
        enough = np.flatnonzero(patches >= training.bag_size)
        why_unusable = (
            f"has the {training.bag_size} patches of a bag that are at least {training.min_tissue:g} tissue; "
            "use a smaller bag (--bag-size), or lower min_tissue under [training] in the settings file"
        )
        self._groups = group_by_label(tiles.labels, enough, label_names, purpose=purpose, why_unusable=why_unusable)
        self.usable: Indices = np.sort(np.concatenate(self._groups))  # tiles with enough tissue, and a label

    def draw(self, number: int, count: int, part: slice = slice(None)) -> Bags:
        """The `part` of the `count` bags of step `number`; it equals the same rows of the whole."""
        bag_size = self._training.bag_size
        # Chance decides on all bags, whatever the part, so that every part has the chance of the whole.
        rng = stream(self._training.seed, "bags", self._purpose, number)
        tiles, groups = choose_tiles(rng, self._groups, number, count)
        stain = choose_stains(rng, self._standard, tiles, self._jitter)
        shifts = rng.integers(0, CELLS if self._is_moved else 1, (count, 2))
        is_tissue = places_of_tissue(self._tissue[tiles], self._training.min_tissue)
        places = [self._choose_places(rng, *bag) for bag in zip(is_tissue, shifts, strict=True)]
        turns = rng.integers(0, TURNS if self._is_moved else 1, (count, bag_size))[part]
        taken = list(zip(tiles, places, strict=True))[part]
        shape = (len(taken), bag_size, self._patch_px, self._patch_px)
        patches = np.empty((*shape, self._images.shape[3]), np.uint8)
        tumour = None if self._masks is None else np.empty(shape[:2], np.bool_)
        for bag, (tile, corners_px) in enumerate(taken):
            patches[bag] = _cut(self._images[tile], corners_px, self._patch_px)
            if self._masks is not None and tumour is not None:
                tumour[bag] = _is_mostly(_cut(self._masks[tile], corners_px, self._patch_px))
        if self._is_moved:
            turn_in_place(patches.reshape(-1, *patches.shape[2:]), turns.ravel())
        labels = groups if self._is_labelled else np.full(count, -1, np.int64)
        return Bags(patches, labels[part], tiles[part], tumour, None if stain is None else stain[part])

    def _choose_places(self, rng: np.random.Generator, is_tissue: NDArray[np.bool_], shift: Indices) -> Indices:
        """Top left corners (bag_size, 2) in pixels of different patches of tissue on the grid shifted by cells."""
        bag_size = self._training.bag_size
        places = np.argwhere(is_tissue[shift[0] :: CELLS, shift[1] :: CELLS])  # (patches, 2) of (row, col)
        if len(places) < bag_size:
            shift = np.zeros_like(shift)
            places = np.argwhere(is_tissue[::CELLS, ::CELLS])
        chosen = rng.choice(len(places), bag_size, replace=False)
        return np.asarray(places[chosen] * self._patch_px + shift * cell_px(self._patch_px))


def _check_grid(tiles: TileSet, patch_px: int, bag_size: int) -> None:
    side = tiles.images.shape[1]
    cells = side // cell_px(patch_px)
    if tiles.tissue.shape[1:] != (cells, cells):
        raise ValueError(f"tissue of {tiles.tissue.shape[1:]} cells is not of tiles of {side} px for {patch_px} px")
    patches = (side // patch_px) ** 2
    if patches < bag_size:
        raise DatasetError(
            f"tiles of {side} px hold {patches} patches of {patch_px} px, fewer than a bag of {bag_size}; "
            "use larger tiles (--tile-px) or a smaller bag (--bag-size)"
        )


def _cut(picture: NDArray[T], corners_px: Indices, side_px: int) -> NDArray[T]:
    """Squares (n, side_px, side_px, ...) of a picture, by corners that lie on one grid of squares."""
    top, left = corners_px[0] % side_px
    rows, cols = (picture.shape[0] - top) // side_px, (picture.shape[1] - left) // side_px
    whole = picture[top : top + rows * side_px, left : left + cols * side_px]
    squares = whole.reshape(rows, side_px, cols, side_px, *picture.shape[2:])  # a view
    row, col = corners_px.T // side_px
    return squares[row, :, col]


def _is_mostly(masks: NDArray[np.bool_] | NDArray[np.uint8]) -> NDArray[np.bool_]:
    """Which masks (n, side, side) are nonzero on at least half of their area."""
    pixels = (masks != 0).reshape(len(masks), -1)
    return np.asarray(2 * pixels.sum(axis=1, dtype=np.int32) >= pixels.shape[1])
