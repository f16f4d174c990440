"""How well clusters agree with classes: each cluster stands for one class, matched so that most instances are right."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment


def agreement(assigned: NDArray[np.int64], classes: NDArray[np.int64], *, count: int) -> NDArray[np.int64]:
    """Instances by class and by the class that their cluster stands for: (count, count), right ones on the diagonal."""
    found = np.zeros((count, count), np.int64)  # by cluster and class
    np.add.at(found, (assigned, classes), 1)
    clusters, matched = linear_sum_assignment(found, maximize=True)
    table = np.zeros_like(found)
    table[:, matched] = found[clusters].T
    return table


def clustering_accuracy(assigned: NDArray[np.int64], classes: NDArray[np.int64], *, count: int) -> float:
    """The share of instances whose cluster stands for their class.

    >>> clustering_accuracy(np.array([1, 1, 0, 0]), np.array([0, 0, 1, 0]), count=2)
    0.75
    """
    return float(np.trace(agreement(assigned, classes, count=count)) / len(classes))
