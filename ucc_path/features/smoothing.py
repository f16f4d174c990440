"""Probabilities of a network of pixels, each seen together with what lies around it and looks like it.

Labels of tiles do not say where tumour ends, and a network that they have taught does not know it well. The picture
shows it: nests are denser than what lies between them. So the logit of a place is averaged with those around it, and
each counts the more the nearer it is in density. Logits, so that places of which the network is sure count for more.

It is done in the pictures that the network is shown, in small cells, before anything becomes patches.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray
from scipy.ndimage import gaussian_filter
from torch import nn

from ucc_path.features.engines import Engine, Pictures, Values
from ucc_path.features.levels import Table
from ucc_path.features.reading import PictureShape
from ucc_path.model.unet import CellLooks, CellShares

Floats = NDArray[np.float32]

CELL_PX = 8
"""Side of the cells. Each is compared with all around it, so that finer ones would cost many times as much."""
ALIKE = 0.15
"""How much the looks of places differ that count six tenths of what equal ones do, in spreads of a slide's tissue."""

_BLUR_CELLS = 1.0  # of the looks: a nucleus more or less is no other tissue
_SUREST = 1e-4  # what is surer counts as this
_NOTHING = np.float32(1e6)  # the looks of what is beyond a picture: like nothing


@dataclass(frozen=True, slots=True)
class SmoothedEngine:
    """Pictures become the mean probability of each cell of their inner part, seen together with its surroundings."""

    cells: Engine  # (n, side, side, channels) -> (n, side / CELL_PX, side / CELL_PX, 1 + looks)
    shape: PictureShape
    cell_px: int  # of the result
    reach_px: float  # how far around a place is looked, which counts six tenths there

    @property
    def name(self) -> str:
        return self.cells.name

    def __call__(self, pictures: Pictures, table: Table) -> Values:
        """(n, side, side, channels) -> (n, cells, cells, 1)."""
        return np.stack([self._shares(found) for found in self.cells(pictures, table)])

    def _shares(self, found: Floats) -> Floats:
        first_px, end_px = self.shape.margin_px, self.shape.margin_px + self.shape.core_px
        # One more to each side, between which and the inner ones pixels lie.
        inner = slice(max(0, first_px // CELL_PX - 1), min(len(found), -(-end_px // CELL_PX) + 1))
        looks = gaussian_filter(found[..., 1:], _BLUR_CELLS, axes=(0, 1), mode="nearest")
        logits = smoothed(_logits(found[..., 0]), looks, self.reach_px / CELL_PX, inner)
        places = np.clip((np.arange(first_px, end_px) + 0.5) / CELL_PX - 0.5 - inner.start, 0, len(logits) - 1)
        shares = 1 / (1 + np.exp(-_between(_between(logits, places, axis=0), places, axis=1)))
        cells = self.shape.core_px // self.cell_px
        return np.asarray(shares.reshape(cells, self.cell_px, cells, self.cell_px).mean(axis=(1, 3))[..., None])


def engine_of_shares(
    unet: nn.Module,
    shape: PictureShape,
    *,
    cell_px: int,
    reach_px: float,
    make: Callable[[nn.Module, int], tuple[Engine, str]],
) -> tuple[Engine, str]:
    """What makes probabilities of the cells of pictures, smoothed unless `reach_px` is 0; and a remark on the engine.

    `make` makes the engine of a network that takes one picture of a side.
    """
    if reach_px == 0:
        shares = CellShares(unet, margin_px=shape.margin_px, core_px=shape.core_px, cell_px=cell_px)
        return make(shares, shape.side_px)
    cells, remark = make(CellLooks(unet, CELL_PX), shape.side_px)
    return SmoothedEngine(cells, shape, cell_px, reach_px), remark


def smoothed(logits: Floats, looks: Floats, reach: float, inner: slice) -> Floats:
    """The mean logit around each of the `inner` cells, of as many rows and columns: (rows, cols) -> (n, n).

    `looks` (rows, cols, k) are compared: cells count by a Gaussian of how far they are, up to `reach` cells, and by one
    of how different. Row by row of what lies around, so that little is in memory at once.
    """
    far = math.floor(reach)
    around = np.pad(logits, far)
    there = np.pad(looks, ((far, far), (far, far), (0, 0)), constant_values=_NOTHING)
    own = looks[inner, inner]
    distances = np.arange(-far, far + 1) / max(reach, 1)
    sums, weights = np.zeros(own.shape[:2], np.float32), np.zeros(own.shape[:2], np.float32)
    # Used again for every row: to get and give back memory would take longer than to compute.
    unlike, part = (np.empty((*own.shape[:2], len(distances)), np.float32) for _ in range(2))
    for down, distance in enumerate(distances):
        rows, cols = slice(inner.start + down, inner.stop + down), slice(inner.start, inner.stop + 2 * far)
        unlike[:] = 0
        for channel in range(looks.shape[2]):
            beside = sliding_window_view(there[rows, cols, channel], len(distances), axis=1)
            np.subtract(beside, own[..., channel, None], out=part)
            unlike += np.multiply(part, part, out=part)
        unlike *= -0.5 / (looks.shape[2] * ALIKE**2)
        unlike -= (0.5 * (distances**2 + distance**2)).astype(np.float32)
        counts = np.exp(unlike, out=unlike)
        sums += np.einsum("ijk,ijk->ij", counts, sliding_window_view(around[rows, cols], len(distances), axis=1))
        weights += counts.sum(axis=2)
    return sums / weights


def _logits(shares: Floats) -> Floats:
    within = np.clip(shares, _SUREST, 1 - _SUREST)
    return np.asarray(np.log(within / (1 - within)), np.float32)


def _between(values: Floats, places: NDArray[np.float64], axis: int) -> Floats:
    """Values at places between them along an axis: of the two beside each, by how near they are.

    Not as a product of matrices: for that a library would take all cores, and its digits depend on how many there are.
    """
    first = places.astype(np.int64)
    lower, upper = (values.take(np.minimum(cells, values.shape[axis] - 1), axis) for cells in (first, first + 1))
    weights = np.expand_dims((places - first).astype(np.float32), 1 - axis)
    return np.asarray(lower + (upper - lower) * weights, np.float32)
