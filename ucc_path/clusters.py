"""Features become clusters, and clusters classes with names."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment
from threadpoolctl import threadpool_limits

from ucc_path.tiles.labelling import CLASSES

UNKNOWN = -1
_STARTS = 10
_SPECTRAL_NEIGHBOURS = 10
_TINY = 1e-12  # centres in one place are told apart by nothing, which is no reason to divide by zero


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


def margins(
    features: NDArray[np.float32], centroids: NDArray[np.float32]
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """The nearest centroid for each row, and how sure that is: 0 on the boundary of two, 1 at a centroid or beyond.

    The distance to the boundary, in halves of the distance between the two centroids it parts.
    """
    centres = centroids.astype(np.float64)
    distances = np.square(centres).sum(axis=1) - 2 * (features.astype(np.float64) @ centres.T)  # less |f|^2
    chosen = np.argmin(distances, axis=1)
    apart = np.square(centres[:, None] - centres[None]).sum(axis=2)  # (clusters, clusters), squared
    gaps = (distances - np.take_along_axis(distances, chosen[:, None], 1)) / np.maximum(apart[chosen], _TINY)
    np.put_along_axis(gaps, chosen[:, None], np.inf, 1)
    return chosen, np.minimum(gaps.min(axis=1), 1.0).astype(np.float32)


def refit(
    features: NDArray[np.float32], known: NDArray[np.float32], *, how: str, seed: int
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Rows clustered anew: the cluster of each, and the centres, in the order of the `known` centres that are nearest.

    By k-means, or by spectral clustering, which sees shapes that k-means does not and is for few rows.
    """
    clusters = len(known)
    if how == "spectral":
        from sklearn.cluster import SpectralClustering

        neighbours = min(_SPECTRAL_NEIGHBOURS, len(features) - 1)
        with threadpool_limits(1), warnings.catch_warnings():
            warnings.simplefilter(
                "ignore", UserWarning
            )  # that not all rows are linked: they are clustered all the same
            spectral = SpectralClustering(
                clusters,
                affinity="nearest_neighbors",
                n_neighbors=neighbours,
                random_state=seed,
                assign_labels="kmeans",
            )
            assigned = spectral.fit_predict(features).astype(np.int64)
        centres = np.stack([_mean(features[assigned == place], known[place]) for place in range(clusters)])
    else:
        centres = _kmeans(features, clusters, seed, _STARTS)
        assigned = nearest(features, centres)
    distances = np.square(centres[:, None].astype(np.float64) - known[None]).sum(axis=2)
    rows, places = linear_sum_assignment(distances)
    order = rows[np.argsort(places)]
    return np.argsort(order)[assigned], centres[order]


def _mean(rows: NDArray[np.float32], otherwise: NDArray[np.float32]) -> NDArray[np.float32]:
    return np.asarray(rows.mean(axis=0) if len(rows) else otherwise, np.float32)


def fit(
    features: NDArray[np.float32], kinds: NDArray[np.int64], *, clusters: int, seed: int, starts: int = _STARTS
) -> Clusters:
    """k-means, its clusters named by the rows whose class is known: `kinds` is a place in CLASSES, or UNKNOWN."""
    centroids = _kmeans(features, clusters, seed, starts)
    order, names = named(nearest(features, centroids), kinds, clusters)
    return Clusters(centroids[order], names)


def _kmeans(features: NDArray[np.float32], clusters: int, seed: int, starts: int) -> NDArray[np.float32]:
    from sklearn.cluster import KMeans  # here, since it takes a second that who only uses a model need not wait
    from sklearn.exceptions import ConvergenceWarning

    with threadpool_limits(1), warnings.catch_warnings():  # threads add in any order, and the last digits would differ
        # Of features all alike: nothing was learnt then, and training says so.
        warnings.simplefilter("ignore", ConvergenceWarning)
        means = KMeans(clusters, n_init=starts, random_state=seed).fit(features)
    return np.asarray(means.cluster_centers_, np.float32)


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
