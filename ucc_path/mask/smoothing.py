"""Probabilities of cells, each seen together with the tissue around it: a few that differ by chance are no mask.

It is logits that are averaged, so that cells of which a network is sure count for more than those of which it is not;
cells without tissue do not count at all.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import correlate1d

from ucc_path.features.streaming import Band
from ucc_path.mask.deciding import with_surroundings

Floats = NDArray[np.float32]

_REACH = 3  # in widths of the Gaussian; beyond there is a hundredth of it
_SUREST = 1e-4  # what is surer counts as this


def reach_of(width: float) -> int:
    """How many cells to each side are looked at."""
    return math.ceil(_REACH * width)


def smoothed(shares: Floats, is_there: NDArray[np.bool_], width: float) -> Floats:
    """Probabilities (rows, cols) averaged by a Gaussian so many cells wide, over the cells that are there."""
    if width == 0:
        return shares
    offsets = np.arange(-reach_of(width), reach_of(width) + 1)
    weights = np.exp(-((offsets / width) ** 2) / 2).astype(np.float32)
    within = np.clip(shares, _SUREST, 1 - _SUREST)
    sums, there = np.where(is_there, np.log(within / (1 - within)), np.float32(0)), is_there.astype(np.float32)
    for axis in (0, 1):
        sums, there = (correlate1d(values, weights, axis=axis, mode="constant") for values in (sums, there))
    means = sums / np.maximum(there, np.finfo(np.float32).tiny)
    return np.asarray(np.where(is_there, 1 / (1 + np.exp(-means)), 0), np.float32)


def smooth(bands: Iterable[Band], width: float) -> Iterator[Band]:
    """The bands with the first of their values alone, smoothed across them."""
    alone = (replace(band, values=band.values[..., :1].copy()) for band in bands)  # features are many times as large
    for around in with_surroundings(alone, reach_of(width)):
        rows = slice(around.above, around.above + len(around.band.values))
        shares = smoothed(around.values[..., 0], around.is_there, width)[rows]
        yield Band(around.band.first_row, shares[..., None], around.band.is_there)
