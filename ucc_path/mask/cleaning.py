"""Labels on a grid of cells → the same without specks: a cell goes with the cells around it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ucc_path.settings import CLEANINGS

_BAND_CELLS = 2**22  # cleaned at once, with some 8 bytes for each


def clean(labels: NDArray[np.uint8], how: str) -> NDArray[np.uint8]:
    """The raster (rows, cols) with cells > 0 relabelled by the up to 8 cells > 0 around them; 0 stays and has no vote.

    `none` changes nothing. `lone` gives a cell whose label no neighbour shares the commonest label of its neighbours.
    `median` gives each cell the commonest label among itself and its neighbours, its own if that is one of several.
    Otherwise the lowest of several wins. All cells are decided on the labels as they were.
    """
    if how not in CLEANINGS:
        raise ValueError(f"a mask is cleaned by one of {', '.join(CLEANINGS)}, not by {how!r}")
    if how == "none":
        return labels
    cleaned = np.empty_like(labels)
    rows = _BAND_CELLS // max(1, labels.shape[1]) + 1
    for top in range(0, len(labels), rows):
        above = min(top, 1)  # a row more on either side, where there is one: it has a vote
        cleaned[top : top + rows] = _cleaned(labels[top - above : top + rows + 1], how)[above : above + rows]
    return cleaned


def _cleaned(labels: NDArray[np.uint8], how: str) -> NDArray[np.uint8]:
    winners, most, own = (np.zeros_like(labels) for _ in range(3))
    for label in range(1, int(labels.max(initial=0)) + 1):
        has_it = labels == label
        if not has_it.any():
            continue
        votes = _count_3x3(has_it)
        if how == "lone":
            votes -= has_it
        np.copyto(own, votes, where=has_it)
        np.copyto(winners, np.uint8(label), where=votes > most)
        np.maximum(most, votes, out=most)
    loses = (labels > 0) & (own < most)
    if how == "lone":
        loses &= own == 0
    return np.where(loses, winners, labels)


def _count_3x3(has_it: NDArray[np.bool_]) -> NDArray[np.uint8]:
    """How many of the 3 x 3 cells around each one have it, from 0 to 9."""
    upright: NDArray[np.uint8] = has_it.astype(np.uint8)
    upright[1:] += has_it[:-1]
    upright[:-1] += has_it[1:]
    counts: NDArray[np.uint8] = upright.copy()
    counts[:, 1:] += upright[:, :-1]
    counts[:, :-1] += upright[:, 1:]
    return counts
