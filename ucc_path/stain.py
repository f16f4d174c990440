"""How strongly a slide is stained: its standard, which makes slides alike, and random changes to learn to bear.

Everything here is a linear change of decadic optical density, (..., 3, 4) for a column (red, green, blue):
`[:, :3] @ density + [:, 3]`. Laboratories differ in how much of each dye they use, and the same tissue then differs
more between two slides than tumour and normal tissue do on one.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Change = NDArray[np.float32]

_LEVELS = 256
_DARKEST = 1  # black would be infinitely dense
_MIN_STD = 0.01  # of density; less is a picture of one colour
_LAMP_SHARE = 0.2  # of the spread of the stains; 0.02 is 5 % of brightness

DENSITY_OF_LEVEL = -np.log10(np.maximum(np.arange(_LEVELS), _DARKEST) / (_LEVELS - 1))


def _unit(vector: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray(vector / np.linalg.norm(vector))


# Ruifrok and Johnston, Anal Quant Cytol Histol 2001: optical densities of (red, green, blue).
HAEMATOXYLIN = _unit(np.array([0.65, 0.70, 0.29]))
EOSIN = _unit(np.array([0.07, 0.99, 0.11]))
RESIDUAL = _unit(np.cross(HAEMATOXYLIN, EOSIN))
_STAINS = np.column_stack([HAEMATOXYLIN, EOSIN, RESIDUAL])  # amounts of stain -> densities of (red, green, blue)
_AMOUNTS = np.linalg.inv(_STAINS)


def count_levels(pixels: NDArray[np.uint8]) -> NDArray[np.int64]:
    """How often each level occurs in each channel: (..., channels) -> (channels, 256).

    Counts of parts of a slide add up, so that its standard needs no more memory than this.
    """
    channels = pixels.shape[-1]
    flat = pixels.reshape(-1, channels)
    return np.stack([np.bincount(flat[:, channel], minlength=_LEVELS) for channel in range(channels)])


def mean_and_spread(
    levels: NDArray[np.int64], values: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Mean and standard deviation of each channel, where each level stands for one of the 256 `values`."""
    counts = np.maximum(levels.sum(axis=-1), 1)
    mean = (levels @ values) / counts
    return mean, np.sqrt(np.maximum((levels @ values**2) / counts - mean**2, 0.0))


def standard_of(levels: NDArray[np.int64]) -> Change:
    """The change that gives each channel's density a mean of 0 and a spread of 1 over what was counted.

    Nothing counted: the densities themselves.
    """
    mean, std = mean_and_spread(levels, DENSITY_OF_LEVEL)
    scale = np.where(levels.any(axis=-1), 1 / np.maximum(std, _MIN_STD), 1.0)
    return np.concatenate([np.diag(scale), -(scale * mean)[:, None]], axis=1).astype(np.float32)


def draw_stains(rng: np.random.Generator, count: int, spread: float) -> Change:
    """Random changes (count, 3, 4).

    Haematoxylin and eosin are each made stronger or weaker by up to the share `spread`; what is neither stays.
    """
    factors = np.ones((count, 3))
    factors[:, :2] += spread * rng.uniform(-1.0, 1.0, (count, 2))
    # One shift for all three channels: it is the lamp that varies. A shift for each would tint the glass, which
    # scanners balance to white.
    shift = _LAMP_SHARE * spread * rng.uniform(-1.0, 1.0, (count, 1, 1))
    matrices = (_STAINS * factors[:, None, :]) @ _AMOUNTS
    return np.concatenate([matrices, np.broadcast_to(shift, (count, 3, 1))], axis=2).astype(np.float32)


def one_after_other(first: Change, then: Change) -> Change:
    """Two changes as one; of many, one by one."""
    matrices = then[..., :3] @ first[..., :3]
    shifts = then[..., :3] @ first[..., 3:] + then[..., 3:]
    return np.concatenate([matrices, shifts], axis=-1)
