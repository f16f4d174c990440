"""Small clusters are put into two groups so that the counts of whole tiles come out right.

A tile of one class should lie in one group, whichever it is, and a tile of two classes in both. Of all ways to part the
small clusters the one is taken that says so best of the labelled tiles. Nothing but their counts is looked at.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

MOST_CLUSTERS = 16  # there are 2 ** 15 ways to part so many, and all of them are tried
_BOTH = 0.3  # share of a tile from which on a group counts as there
_WAYS_AT_ONCE = 1024


def parted_by_counts(shares: NDArray[np.float64], is_mixed: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Which small clusters make up the second group, from the share that each has of each tile, (tiles, clusters).

    >>> parted_by_counts(np.array([[1.0, 0, 0], [0, 0.5, 0.5], [0.5, 0.2, 0.3]]), np.array([False, False, True]))
    array([ True, False, False])
    """
    clusters = shares.shape[1]
    if not 2 <= clusters <= MOST_CLUSTERS:
        raise ValueError(f"{clusters} clusters cannot be parted; give 2 to {MOST_CLUSTERS}")
    best, found = -np.inf, np.zeros(clusters, np.bool_)
    for first in range(0, 2 ** (clusters - 1), _WAYS_AT_ONCE):  # the last cluster is always in the first group
        numbers = np.arange(first, min(first + _WAYS_AT_ONCE, 2 ** (clusters - 1)))
        ways = (numbers[:, None] >> np.arange(clusters)) & 1
        second = ways @ shares.T  # (ways, tiles)
        smaller = np.minimum(np.minimum(second, 1 - second), _BOTH) / _BOTH
        right = smaller[:, is_mixed].mean(axis=1) - smaller[:, ~is_mixed].mean(axis=1)
        place = int(np.argmax(right))
        if right[place] > best:
            best, found = float(right[place]), ways[place].astype(np.bool_)
    return found
