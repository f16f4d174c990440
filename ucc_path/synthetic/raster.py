"""Rings to pixels, exactly: a pixel is inside when its centre is inside an odd number of rings."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ucc_path.synthetic.scene import Rings, Window


def edges(rings: Rings) -> NDArray[np.float64]:
    """All sides of all rings, shape (n, 4): x, y of one end and of the other; level sides are left out."""
    if not rings:
        return np.empty((0, 4))
    sides = np.concatenate([np.hstack([ring, np.roll(ring, -1, axis=0)]) for ring in rings])
    return np.asarray(sides[sides[:, 1] != sides[:, 3]], np.float64)


def fill(sides: NDArray[np.float64], window: Window) -> NDArray[np.bool_]:
    """Which pixels of the window are inside, shape (height, width)."""
    height, width = window.height_px, window.width_px
    low, high = np.minimum(sides[:, 1], sides[:, 3]), np.maximum(sides[:, 1], sides[:, 3])
    near = sides[(high > window.y_l0) & (low < window.y_l0 + height)]
    first, last = _rows_crossed(near, window)
    counts = np.maximum(last - first, 0)
    if not counts.any():
        return np.zeros((height, width), bool)
    side = np.repeat(np.arange(len(near)), counts)
    row = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts) + first[side]
    x1, y1, x2, y2 = near[side].T
    x = x1 + (row + window.y_l0 + 0.5 - y1) * (x2 - x1) / (y2 - y1)
    # The first pixel whose centre lies at or right of the crossing changes side; so do all that follow it.
    col = np.clip(np.ceil(x - window.x_l0 - 0.5), 0, width).astype(np.intp)
    changes = np.bincount(row * (width + 1) + col, minlength=height * (width + 1)).reshape(height, width + 1)
    inside: NDArray[np.bool_] = np.bitwise_and(np.cumsum(changes[:, :width], axis=1), 1).astype(bool)
    return inside


def _rows_crossed(sides: NDArray[np.float64], window: Window) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """First and one past the last row of the window whose centre line each side crosses."""
    low, high = np.minimum(sides[:, 1], sides[:, 3]), np.maximum(sides[:, 1], sides[:, 3])
    first = np.clip(np.ceil(low - window.y_l0 - 0.5), 0, window.height_px).astype(np.intp)
    last = np.clip(np.ceil(high - window.y_l0 - 0.5), 0, window.height_px).astype(np.intp)
    return first, last
