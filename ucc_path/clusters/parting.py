"""Small clusters are put into two groups so that the counts of whole tiles come out right.

A tile of one class should lie in one group, whichever it is, and a tile of two classes in both. Of all ways to part the
small clusters the one is taken that says so best of the labelled tiles. Nothing but their counts is looked at.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

MOST_CLUSTERS = 16  # there are 2 ** 15 ways to part so many, and all of them are tried
_BOTH = 0.3  # share of a tile from which on a group counts as there
_RARE = 0.1  # share of the tiles of one class that each class is expected to have, and that is worth as much
_WAYS_AT_ONCE = 1024

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]


def parted_by_counts(shares: Floats, is_mixed: Bools, slides: NDArray[np.int64]) -> Bools:
    """Which small clusters make up the second group, from the share that each has of each tile, (tiles, clusters).

    Each of the `slides` has the same say, so that one with many tiles does not rule. Tiles of one class are expected
    to be of either: where all of them are called the same, a look that only mixtures have would pass for a class.

    >>> shares = np.array([[1.0, 0, 0], [0, 0.5, 0.5], [0.5, 0.2, 0.3]])
    >>> parted_by_counts(shares, np.array([False, False, True]), np.zeros(3, np.int64))
    array([ True, False, False])
    """
    clusters = shares.shape[1]
    if not 2 <= clusters <= MOST_CLUSTERS:
        raise ValueError(f"{clusters} clusters cannot be parted; give 2 to {MOST_CLUSTERS}")
    parts = [slides == slide for slide in np.unique(slides)]
    parts = [part for part in parts if 0 < is_mixed[part].sum() < part.sum()] or [np.ones(len(slides), np.bool_)]
    best, found = -np.inf, np.zeros(clusters, np.bool_)
    for first in range(0, 2 ** (clusters - 1), _WAYS_AT_ONCE):  # the last cluster is always in the first group
        numbers = np.arange(first, min(first + _WAYS_AT_ONCE, 2 ** (clusters - 1)))
        ways = (numbers[:, None] >> np.arange(clusters)) & 1
        right = _how_right(ways @ shares.T, is_mixed, parts)
        place = int(np.argmax(right))
        if right[place] > best:
            best, found = float(right[place]), ways[place].astype(np.bool_)
    return found


def _how_right(second: Floats, is_mixed: Bools, parts: list[Bools]) -> Floats:
    """How well each way says the counts, from its second group's share of each tile: (ways, tiles) -> (ways,)."""
    smaller = np.minimum(np.minimum(second, 1 - second), _BOTH) / _BOTH
    each = [smaller[:, part & is_mixed].mean(axis=1) - smaller[:, part & ~is_mixed].mean(axis=1) for part in parts]
    rarer = (second[:, ~is_mixed] > 0.5).mean(axis=1)
    rarer = np.minimum(rarer, 1 - rarer)
    return np.asarray(np.mean(each, axis=0) + np.minimum(rarer, _RARE))
