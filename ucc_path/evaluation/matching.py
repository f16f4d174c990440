"""Which clusters are tumour: by the names that the model gave them, or by the truth itself, which is to be said."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

from ucc_path.tiles.labelling import METASTASES

MATCHES = ("names", "oracle")
"""Ways to match clusters to classes; the first unless told otherwise."""


def by_names(classes: Sequence[str]) -> frozenset[int]:
    """The label values of the classes called tumour; label values begin at 1.

    >>> sorted(by_names(["normal", "metastases", "cluster 3"]))
    [2]
    """
    return frozenset(value for value, name in enumerate(classes, start=1) if name == METASTASES)


def by_truth(pixels: NDArray[np.int64]) -> frozenset[int]:
    """The label values that agree best with the truth: `pixels` (labels, 2) of each label that are not tumour, and are.

    Two clusters are matched one to one, as in clustering accuracy. Of more, each is what most of its pixels are. Label
    0, the background, is never tumour.
    """
    clusters = pixels[1:]
    if len(clusters) == 2:
        rows, columns = linear_sum_assignment(clusters, maximize=True)
        return frozenset(int(row) + 1 for row, column in zip(rows, columns, strict=True) if column == 1)
    return frozenset((np.flatnonzero(clusters[:, 1] > clusters[:, 0]) + 1).tolist())
