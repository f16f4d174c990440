"""How likely tumour must be on a slide to be called that, by how sure a network is of what it calls normal there.

Of a slide unlike those that it has learnt from a network is less sure, and calls too much of it tumour; of one that it
knows well it is very sure, and misses what is not as clear. How sure it is of the tissue that it calls normal shows
without a label, and hardly depends on how much tumour there is. So a slide's threshold goes along with that.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

Counts = NDArray[np.int64]
"""How many cells that are called normal there are of each sureness; counts of parts of a slide add up."""

HALF = 0.5
USUAL_LOGIT = -3.0  # the median of what is called normal, as on slides where one half is right: a probability of 0.05
FARTHEST_LOGIT = 1.0  # that a threshold may be from one half: between 0.27 and 0.73
FEWEST_CELLS = 30  # that are called normal; from fewer nothing is to be learnt

_LOWEST_LOGIT, _STEP = -9.0, 0.02
_BINS = round(-_LOWEST_LOGIT / _STEP)
_AT_ONCE = 2**18  # cells, so that no memory is needed


def count_normal(shares: NDArray[np.float32]) -> Counts:
    """Of cells with these probabilities of tumour, those below one half by their logits."""
    counts: Counts = np.zeros(_BINS, np.int64)
    for first in range(0, len(shares), _AT_ONCE):
        part = shares[first : first + _AT_ONCE]
        calm = np.clip(part[part < HALF].astype(np.float64), np.finfo(np.float32).tiny, None)
        places = np.floor((np.log(calm / (1 - calm)) - _LOWEST_LOGIT) / _STEP)
        counts += np.bincount(np.clip(places, 0, _BINS - 1).astype(np.int64), minlength=_BINS)
    return counts


def threshold_of(counts: Counts, strength: float) -> float:
    """The probability above which a cell is tumour; one half where `strength` is 0 or next to nothing is normal.

    >>> usual, doubtful = (count_normal(np.full(100, share, np.float32)) for share in (0.0474, 0.18))
    >>> [round(threshold_of(counts, 0.5), 2) for counts in (usual, doubtful)]
    [0.5, 0.68]
    """
    if strength == 0 or counts.sum() < FEWEST_CELLS:
        return HALF
    middle = int(np.searchsorted(counts.cumsum(), counts.sum() / 2))
    median_logit = _LOWEST_LOGIT + _STEP * (middle + 0.5)
    logit = strength * (median_logit - USUAL_LOGIT)
    return 1 / (1 + math.exp(-min(FARTHEST_LOGIT, max(-FARTHEST_LOGIT, logit))))
