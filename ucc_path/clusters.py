"""Features become clusters, and clusters classes with names."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import threadpool_limits

from ucc_path.tiles.labelling import METASTASES, NORMAL

CLASSES = (NORMAL, METASTASES)
"""What pure tiles can be; the label value of a class is its place + 1."""

UNKNOWN = -1
_STARTS = 10


@dataclass(frozen=True, slots=True, eq=False)
class Clusters:
    """Centres (clusters, features) in the order of their label values, and their names."""

    centroids: NDArray[np.float32]
    names: tuple[str, ...]


def nearest(features: NDArray[np.float32], centroids: NDArray[np.float32]) -> NDArray[np.int64]:
    """The nearest of the centroids for each row of features; of two equally near ones the first."""
    centres = centroids.astype(np.float64)
    # |f - c|^2 without |f|^2, which is the same for all centres.
    distances = np.square(centres).sum(axis=1) - 2 * (features.astype(np.float64) @ centres.T)
    return np.asarray(np.argmin(distances, axis=1), np.int64)


def fit(
    features: NDArray[np.float32], kinds: NDArray[np.int64], *, clusters: int, seed: int, starts: int = _STARTS
) -> Clusters:
    """k-means, its clusters named by the rows whose class is known: `kinds` is a place in CLASSES, or UNKNOWN."""
    with threadpool_limits(1), warnings.catch_warnings():  # threads add in any order, and the last digits would differ
        warnings.simplefilter(
            "ignore", ConvergenceWarning
        )  # of features all alike: nothing was learnt then, and training says so
        means = KMeans(clusters, n_init=starts, random_state=seed).fit(features)
    centroids = means.cluster_centers_.astype(np.float32)
    order, names = named(nearest(features, centroids), kinds, clusters)
    return Clusters(centroids[order], names)


def named(
    assigned: NDArray[np.int64], kinds: NDArray[np.int64], clusters: int
) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    """The clusters in the order of their label values, and their names.

    Clusters and classes are matched one to one, so that the share of each class's rows that fall into its cluster is
    largest in sum: shares, since there may be ten times more normal rows than others. With one class known and two
    clusters the other cluster is the other class; a cluster that no class is left for is called by its number.
    """
    known = [kind for kind in range(len(CLASSES)) if (kinds == kind).any()]
    shares = np.array([np.bincount(assigned[kinds == kind], minlength=clusters) for kind in known], np.float64)
    cluster_of: dict[int, int] = {}
    if known:
        rows, columns = linear_sum_assignment(shares / shares.sum(axis=1, keepdims=True), maximize=True)
        cluster_of = {known[row]: int(column) for row, column in zip(rows, columns, strict=True)}
    if clusters == len(CLASSES) and len(known) == 1:
        cluster_of[1 - known[0]] = 1 - cluster_of[known[0]]
    unnamed = iter(sorted(set(range(clusters)) - set(cluster_of.values())))
    order = [cluster_of[place] if place in cluster_of else next(unnamed) for place in range(clusters)]
    names = [CLASSES[place] if place in cluster_of else f"cluster {place + 1}" for place in range(clusters)]
    return np.array(order, np.int64), tuple(names)
