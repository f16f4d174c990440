"""Whole tiles with their labels, for a network of pixels that is taught by labels alone; drawn as bags are."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ucc_path.bags.choosing import Indices, check_channels, choose_blurs, choose_stains, choose_tiles, group_by_label
from ucc_path.bags.pixels import TileSet, cell_px
from ucc_path.bags.turning import TURNS, turn_in_place
from ucc_path.errors import DatasetError
from ucc_path.seeding import stream
from ucc_path.settings import ModelSettings, TrainingSettings

_PIXELS_A_STEP = 9 * 256**2
_MOST_A_STEP = 48  # tiles, however small they are
_MOST_KNOTS = 6  # along the side of a tile, from which the shape of an exchanged part is made


@dataclass(frozen=True, slots=True, eq=False)
class Wholes:
    """The tiles of a step."""

    images: NDArray[np.uint8]  # (tiles, side, side, channels)
    labels: Indices  # (tiles,)
    tissue: NDArray[np.bool_]  # (tiles, cells, cells)
    stain: NDArray[np.float32] | None  # (tiles, 3, 4), as of Bags
    partners: Indices  # (tiles,) the tile of the step that a part is taken from, or the tile itself
    is_grafted: NDArray[np.bool_]  # (tiles, side, side): that part, which `images` do not hold yet; `tissue` does
    blur_px: NDArray[np.float32]  # (tiles,) how far each, with its part, is to be put out of focus


def tiles_a_step(side_px: int, labels: int) -> int:
    """As many tiles as make up the pixels of a step, and one of each label at least.

    >>> tiles_a_step(256, 3), tiles_a_step(512, 3), tiles_a_step(2048, 3)
    (9, 3, 3)
    """
    return max(labels, min(_MOST_A_STEP, round(_PIXELS_A_STEP / side_px**2)))


class WholeSampler:
    """Draws whole tiles, as many of each label; some of the two classes exchange a part.

    Where a part of a tile comes from a tile of the other class, the class of every pixel is known, and what lies around
    one no longer gives it away. Stains are made alike before that, so it is done by whoever prepares the images.
    """

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
        cell = cell_px(model.patch_px)
        multiple_px = math.lcm(cell, model.picture_multiple)
        self.side_px = tiles.tissue.shape[1] * cell // multiple_px * multiple_px
        if self.side_px == 0:
            raise DatasetError(
                f"tiles of {tiles.images.shape[1]} px are smaller than {multiple_px} px; use larger tiles (--tile-px)"
            )
        self._cells = self.side_px // cell
        self._images = np.asarray(tiles.images)
        self._tissue = np.asarray(tiles.tissue)[:, : self._cells, : self._cells]
        self._labels = tiles.labels
        self._training, self._purpose = training, purpose
        self._is_moved = augmented and training.augment
        self._graft = training.graft if augmented else 0.0
        self._blur = training.blur if augmented else 0.0
        self._jitter, self._standard = training.stain_jitter if augmented else 0.0, tiles.standard
        has_tissue = np.flatnonzero(self._tissue.any(axis=(1, 2)))
        self._groups = group_by_label(
            tiles.labels, has_tissue, label_names, purpose=purpose, why_unusable="shows tissue; look at the tiles"
        )
        self.usable: Indices = np.sort(np.concatenate(self._groups))

    def draw(self, number: int, count: int) -> Wholes:
        """The `count` tiles of step `number`."""
        rng = stream(self._training.seed, "wholes", self._purpose, number)
        tiles, _ = choose_tiles(rng, self._groups, number, count)
        stain = choose_stains(rng, self._standard, tiles, self._jitter)
        turns = rng.integers(0, TURNS if self._is_moved else 1, count)
        images, tissue = self._images[tiles, : self.side_px, : self.side_px], self._tissue[tiles]
        turn_in_place(images, turns)
        turn_in_place(tissue, turns)
        labels = self._labels[tiles]
        partners, is_grafted = self._grafts(rng, labels)
        cell = self.side_px // self._cells
        middles = is_grafted[:, cell // 2 :: cell, cell // 2 :: cell]
        tissue = np.where(middles, tissue[partners], tissue)
        blur_px = choose_blurs(rng, count, self._blur)
        return Wholes(images, labels, tissue, stain, partners, is_grafted, blur_px)

    def _grafts(self, rng: np.random.Generator, labels: Indices) -> tuple[Indices, NDArray[np.bool_]]:
        """Who exchanges which part with whom: pairs of the first two labels, as far as there are."""
        partners = np.arange(len(labels))
        is_grafted = np.zeros((len(labels), self.side_px, self.side_px), np.bool_)
        for one, other in zip(np.flatnonzero(labels == 0), np.flatnonzero(labels == 1), strict=False):
            if rng.random() < self._graft:
                partners[one], partners[other] = other, one
                is_grafted[[one, other]] = _part(rng, self.side_px)
        return partners, is_grafted


def _part(rng: np.random.Generator, side_px: int) -> NDArray[np.bool_]:
    """A quarter to three quarters of a square, in a few pieces with round edges: hills above some height."""
    knots = rng.integers(2, _MOST_KNOTS + 1, 2)
    down, right = (
        np.maximum(0, 1 - np.abs(np.linspace(0, count - 1, side_px)[:, None] - np.arange(count))) for count in knots
    )
    heights = down @ rng.normal(size=knots) @ right.T
    return np.asarray(heights > np.quantile(heights, rng.uniform(0.25, 0.75)))
