"""A random change of stain: laboratories differ in how strongly they stain, hardly in the colours of the dyes."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

_LAMP_SHARE = 0.2  # of the spread of the stains; 0.02 is 5 % of brightness


def _unit(vector: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray(vector / np.linalg.norm(vector))


# Ruifrok and Johnston, Anal Quant Cytol Histol 2001: optical densities of (red, green, blue).
HAEMATOXYLIN = _unit(np.array([0.65, 0.70, 0.29]))
EOSIN = _unit(np.array([0.07, 0.99, 0.11]))
RESIDUAL = _unit(np.cross(HAEMATOXYLIN, EOSIN))
_STAINS = np.column_stack([HAEMATOXYLIN, EOSIN, RESIDUAL])  # amounts of stain -> densities of (red, green, blue)
_AMOUNTS = np.linalg.inv(_STAINS)


def draw_stains(rng: np.random.Generator, count: int, spread: float) -> NDArray[np.float32]:
    """Random changes (count, 3, 4) of decadic optical density, a column (red, green, blue): [:, :3] @ density + [:, 3].

    Haematoxylin and eosin are each made stronger or weaker by up to the share `spread`; what is neither stays.
    """
    factors = np.ones((count, 3))
    factors[:, :2] += spread * rng.uniform(-1.0, 1.0, (count, 2))
    # One shift for all three channels: it is the lamp that varies. A shift for each would tint the glass, which
    # scanners balance to white.
    shift = _LAMP_SHARE * spread * rng.uniform(-1.0, 1.0, (count, 1, 1))
    matrices = (_STAINS * factors[:, None, :]) @ _AMOUNTS
    return np.concatenate([matrices, np.broadcast_to(shift, (count, 3, 1))], axis=2).astype(np.float32)
