"""What gives the patches of tiles their classes: a trained model, or a baseline that needs none."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from ucc_path.clusters import Clusters, nearest
from ucc_path.features.engines import Engine
from ucc_path.features.heads import CountHead
from ucc_path.features.levels import table_of
from ucc_path.features.streaming import Band
from ucc_path.mask.deciding import Decision, decide
from ucc_path.mask.thresholds import HALF, Counts, count_normal, threshold_of
from ucc_path.model.recipes import TrainedModel
from ucc_path.stain import Change
from ucc_path.tiles.labelling import CLASSES
from ucc_path.workflows.evaluate.tiles import Tile

Labels = NDArray[np.uint8]
Floats = NDArray[np.float32]

MIRRORED_PX = 32
"""How much of a tile is mirrored around it, at least, for a network of pixels."""
_CHANNELS = 3


class Verdict(NamedTuple):
    """What is said of a tile."""

    labels: Labels  # (rows, cols) of patches; 0 background, then the classes
    pixels: Labels | None = None  # (side, side), of a model that sees pixels
    features: Floats | None = None  # (judged patches, features)
    counted: Floats | None = None  # the probability of each label of the tile, of a model that counts


class Judge(Protocol):
    """Judges tiles of one slide."""

    @property
    def classes(self) -> Sequence[str]:
        """Names of the label values, from 1."""

    def __call__(self, tiles: Sequence[Tile], standard: Change | None) -> list[Verdict]:
        """`standard` is that of the slide's stain."""


class PatchJudge:
    """A model that sees a patch at a time."""

    def __init__(
        self, model: TrainedModel, engine: Engine, decision: Decision, head: CountHead | None, batch: int
    ) -> None:
        self.classes = model.card.classes
        self._model, self._engine, self._decision, self._head, self._batch = model, engine, decision, head, batch

    def __call__(self, tiles: Sequence[Tile], standard: Change | None) -> list[Verdict]:
        features = self._features(np.concatenate([tile.patches for tile in tiles]), standard)
        ends = np.cumsum([np.count_nonzero(tile.is_judged) for tile in tiles])[:-1]
        return [self._verdict(tile, own) for tile, own in zip(tiles, np.split(features, ends), strict=True)]

    def _features(self, patches: NDArray[np.uint8], standard: Change | None) -> Floats:
        settings = self._model.card.settings
        table = table_of(self._model.preparation, standard if settings.colours == "slide" else None, _CHANNELS)
        found = np.zeros((len(patches), settings.features), np.float32)
        for first in range(0, len(patches), self._batch):
            part = patches[first : first + self._batch]
            full = np.zeros((self._batch, *part.shape[1:]), np.uint8)  # an engine takes one shape alone
            full[: len(part)] = part
            found[first : first + len(part)] = self._engine(full, table)[: len(part)]
        return found

    def _verdict(self, tile: Tile, features: Floats) -> Verdict:
        values = np.zeros((*tile.is_judged.shape, features.shape[1]), np.float32)
        values[tile.is_judged] = features
        labels, _ = decide([Band(0, values, tile.is_judged)], self._decision, tile.is_judged.shape)
        counted = None
        if self._head is not None and len(features):
            # All patches of the tile are one bag: nothing is left to chance.
            counted = self._head.probabilities(self._head.added_by(features).mean(axis=0, keepdims=True))[0]
        return Verdict(labels, features=features, counted=counted)


class PixelJudge:
    """A Unet, which sees the tile as a whole; a patch gets the class that is likelier on average over its pixels.

    On a slide it sees what lies around. A tile has nothing around it, so there it sees the tile mirrored: an edge where
    tissue ends all at once is something that it has not learnt about.
    """

    def __init__(self, model: TrainedModel, engine: Engine, side_px: int, *, adapt: float) -> None:
        self.classes = model.card.classes
        self.thresholds: dict[str, float] = {}  # of the slides that it has adapted to
        self._adapt = adapt
        self._model, self._engine, self._side_px = model, engine, side_px

    def count(self, tile: Tile, standard: Change | None) -> Counts:
        """How sure it is of what it calls normal in a tile."""
        return count_normal(self._of_patches(tile, self._shares(tile, standard))[tile.is_judged])

    def adapt_to(self, slide: str, counts: Counts) -> None:
        """Judges the tiles of a slide by its own threshold from now on; `counts` are those of its tiles."""
        self.thresholds[slide] = threshold_of(counts, self._adapt)

    def __call__(self, tiles: Sequence[Tile], standard: Change | None) -> list[Verdict]:
        return [self._verdict(tile, self._shares(tile, standard)) for tile in tiles]

    def _shares(self, tile: Tile, standard: Change | None) -> Floats:
        """The probability of tumour of each pixel, (side, side)."""
        colours = self._model.card.settings.colours
        table = table_of(self._model.preparation, standard if colours == "slide" else None, _CHANNELS)
        side = len(tile.image)
        around = (MIRRORED_PX, self._side_px - side - MIRRORED_PX)
        whole = np.pad(tile.image, (around, around, (0, 0)), mode="reflect")
        shares: Floats = self._engine(whole[None], table)[0][:, :, 0]
        return shares

    def _verdict(self, tile: Tile, shares: Floats) -> Verdict:
        threshold = self.thresholds.get(tile.row.slide, HALF)
        is_judged = tile.on_pixels(tile.is_judged.astype(np.uint8)) != 0
        patches = _labels(self._of_patches(tile, shares) > threshold, tile.is_judged)
        return Verdict(patches, pixels=_labels(shares > threshold, is_judged))

    def _of_patches(self, tile: Tile, shares: Floats) -> Floats:
        """The mean probability of each patch (rows, cols)."""
        (rows, cols), patch = tile.is_judged.shape, tile.patch_px
        whole = shares[: rows * patch, : cols * patch].reshape(rows, patch, cols, patch)
        return np.asarray(whole.mean(axis=(1, 3)), np.float32)


class RefinedJudge:
    """A UCC model with a second round: its network of pixels says the classes, and its features are there to count."""

    def __init__(self, pixels: PixelJudge, patches: PatchJudge) -> None:
        self.classes = pixels.classes
        self.pixels = pixels
        self._patches = patches

    def __call__(self, tiles: Sequence[Tile], standard: Change | None) -> list[Verdict]:
        both = zip(self.pixels(tiles, standard), self._patches(tiles, standard), strict=True)
        return [drawn._replace(features=known.features, counted=known.counted) for drawn, known in both]


class RawClusters:
    """The nearest centre of clusters of raw pixels; it knows neither stains nor labels."""

    def __init__(self, clusters: Clusters) -> None:
        self.classes = clusters.names
        self._centroids = clusters.centroids

    def __call__(self, tiles: Sequence[Tile], standard: Change | None) -> list[Verdict]:
        return [self._verdict(tile) for tile in tiles]

    def _verdict(self, tile: Tile) -> Verdict:
        labels = np.zeros(tile.is_judged.shape, np.uint8)
        labels[tile.is_judged] = nearest(raw(tile.patches), self._centroids) + 1
        return Verdict(labels)


class MeanColour:
    """A line between the mean colours of normal and of tumour patches."""

    classes = CLASSES

    def __init__(self, weights: NDArray[np.float64], offset: float) -> None:
        self._weights, self._offset = weights, offset

    def __call__(self, tiles: Sequence[Tile], standard: Change | None) -> list[Verdict]:
        return [self._verdict(tile) for tile in tiles]

    def _verdict(self, tile: Tile) -> Verdict:
        is_tumour = np.zeros(tile.is_judged.shape, np.bool_)
        is_tumour[tile.is_judged] = mean_colours(tile.patches) @ self._weights + self._offset > 0
        return Verdict(_labels(is_tumour, tile.is_judged))


class Empty:
    """Nothing is tumour."""

    classes = CLASSES

    def __call__(self, tiles: Sequence[Tile], standard: Change | None) -> list[Verdict]:
        return [Verdict(tile.is_judged.astype(np.uint8)) for tile in tiles]


class GridCeiling:
    """The truth, as well as a grid of patches can say it."""

    classes = CLASSES

    def __call__(self, tiles: Sequence[Tile], standard: Change | None) -> list[Verdict]:
        return [Verdict(_labels(tile.is_tumour_patch, tile.is_judged)) for tile in tiles]


def raw(patches: NDArray[np.uint8]) -> Floats:
    """Patches (n, side, side, 3) as rows of light, from 0 to 1."""
    return np.asarray(patches.reshape(len(patches), math.prod(patches.shape[1:])) / np.float32(255), np.float32)


def mean_colours(patches: NDArray[np.uint8]) -> NDArray[np.float64]:
    """Of patches (n, side, side, 3), from 0 to 1; (n, 3)."""
    return np.asarray(patches.mean(axis=(1, 2)) / 255, np.float64)


def _labels(is_tumour: NDArray[np.bool_], is_judged: NDArray[np.bool_]) -> Labels:
    """1 not tumour, 2 tumour, 0 what was not judged."""
    return np.where(is_judged, 1 + is_tumour, 0).astype(np.uint8)
