"""Clusters by k-means or spectral clustering, joined by a count, fitted anew, and named."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment
from threadpoolctl import threadpool_limits

from ucc_path.tiles.labelling import CLASSES

UNKNOWN = -1
_STARTS = 10
_AT_ONCE = 8192  # rows: what they add to a bag is ten times larger than they are
_SPECTRAL_NEIGHBOURS = 10
_TINY = 1e-12  # centres in one place are told apart by nothing, which is no reason to divide by zero


class CountingHead(Protocol):
    """A head that counts the classes of bags, given by the means of what their instances add."""

    counts: NDArray[np.int64]  # that its outputs stand for

    def added_by(self, features: NDArray[np.float32]) -> NDArray[np.float32]: ...

    def probabilities(self, means: NDArray[np.float32]) -> NDArray[np.float32]: ...


@dataclass(frozen=True, slots=True, eq=False)
class Merged:
    """Small clusters, and which of them belong together."""

    centroids: NDArray[np.float32]  # (small clusters, features)
    clusters: NDArray[np.int64]  # (small clusters,) the cluster that each is part of

    def of(self, features: NDArray[np.float32]) -> NDArray[np.int64]:
        """The cluster of each row."""
        return np.asarray(self.clusters[nearest(features, self.centroids)])


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
    features: NDArray[np.float32], centroids: NDArray[np.float32], classes: NDArray[np.int64] | None = None
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """The class of the nearest centroid for each row, and how sure that is: 0 on the boundary of two, 1 at a centroid.

    The distance to the boundary, in halves of the distance between the two centroids it parts. Where several centroids
    are of one class, as `classes` says, there is no boundary between those; otherwise each is a class by itself.
    """
    classes = np.arange(len(centroids)) if classes is None else classes
    centres = centroids.astype(np.float64)
    distances = np.square(centres).sum(axis=1) - 2 * (features.astype(np.float64) @ centres.T)  # less |f|^2
    chosen = np.argmin(distances, axis=1)
    apart = np.square(centres[:, None] - centres[None]).sum(axis=2)  # (clusters, clusters), squared
    gaps = (distances - np.take_along_axis(distances, chosen[:, None], 1)) / np.maximum(apart[chosen], _TINY)
    gaps[classes[chosen][:, None] == classes] = np.inf
    return classes[chosen], np.minimum(gaps.min(axis=1), 1.0).astype(np.float32)


def spectral(features: NDArray[np.float32], clusters: int, seed: int) -> NDArray[np.int64]:
    """The cluster of each row by spectral clustering, which sees shapes that k-means does not and is for few rows."""
    from sklearn.cluster import SpectralClustering

    neighbours = min(_SPECTRAL_NEIGHBOURS, len(features) - 1)
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # that not all rows are linked: they are clustered all the same
        found = SpectralClustering(
            clusters, affinity="nearest_neighbors", n_neighbors=neighbours, random_state=seed, assign_labels="kmeans"
        ).fit_predict(features)
    return np.asarray(found, np.int64)


def refit(
    features: NDArray[np.float32], known: NDArray[np.float32], *, how: str, seed: int
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Rows clustered anew: the cluster of each, and the centres, in the order of the `known` centres that are nearest.

    By k-means, or by spectral clustering.
    """
    clusters = len(known)
    if how == "spectral":
        assigned = spectral(features, clusters, seed)
        centres = np.stack([_mean(features[assigned == place], known[place]) for place in range(clusters)])
    else:
        centres = kmeans(features, clusters, seed)
        assigned = nearest(features, centres)
    places = _places_of(centres, known)
    return places[assigned], centres[np.argsort(places)]


def named_after(
    known: NDArray[np.float32], features: NDArray[np.float32], assigned: NDArray[np.int64]
) -> NDArray[np.int64]:
    """The place of each cluster among the `known` centres, by the means of the rows assigned to it."""
    return _places_of(
        np.stack([_mean(features[assigned == place], known[place]) for place in range(len(known))]), known
    )


def _places_of(centres: NDArray[np.float32], known: NDArray[np.float32]) -> NDArray[np.int64]:
    """Centres matched one to one with the known ones, so that they lie nearest in sum."""
    distances = np.square(centres[:, None].astype(np.float64) - known[None]).sum(axis=2)
    return np.asarray(linear_sum_assignment(distances)[1], np.int64)


def merge(features: NDArray[np.float32], head: CountingHead, *, clusters: int, first: int, seed: int) -> Merged:
    """Clusters by the count: `first` small ones by k-means, of which two become one until so many are left.

    Those two are joined whose union most surely holds one class, as in the proof of the paper's proposition 2, with the
    head in place of a perfect counter. A class with several looks is several small clusters: k-means would cut it
    and leave two others together, and the head knows that its parts are one.
    """
    centroids = kmeans(features, min(first, len(features)), seed, 1)
    assigned = nearest(features, centroids)
    sizes = np.bincount(assigned, minlength=len(centroids)).astype(np.float64)
    means = np.zeros((len(centroids), head.added_by(features[:1]).shape[1]))
    for rows in np.array_split(np.arange(len(features)), -(-len(features) // _AT_ONCE)):
        np.add.at(means, assigned[rows], head.added_by(features[rows]))
    means /= np.maximum(sizes, 1)[:, None]
    places = np.arange(len(centroids))  # of each small cluster, the one that stands for all it is joined with
    alive = places[sizes > 0]
    scores = np.full((len(places), len(places)), -np.inf)
    for one in alive:
        scores[one, alive[alive > one]] = _alike(head, means, alive, one)[alive > one]
    while len(alive) > clusters:
        one, other = np.unravel_index(np.argmax(scores), scores.shape)  # one < other
        means[one] = (sizes[one] * means[one] + sizes[other] * means[other]) / (sizes[one] + sizes[other])
        sizes[one] += sizes[other]
        places[places == other] = one
        alive = alive[alive != other]
        scores[other], scores[:, other] = -np.inf, -np.inf
        again = _alike(head, means, alive, int(one))
        scores[one, alive[alive > one]] = again[alive > one]
        scores[alive[alive < one], one] = again[alive < one]
    return Merged(centroids, np.searchsorted(alive, np.where(np.isin(places, alive), places, alive[0])))


def _alike(head: CountingHead, means: NDArray[np.float64], alive: NDArray[np.int64], one: int) -> NDArray[np.float64]:
    """How surely the union of cluster `one` and each of those alive, in equal parts, has the least count there is.

    A head that was taught by no pure bag cannot say that a union is pure: as many further clusters are added to it as
    make up the least count, each of the others in turn, and it says whether those are all that is added.
    """
    least = int(head.counts.min())
    found = np.empty(len(alive))
    for place, other in enumerate(alive):
        others = means[alive[(alive != one) & (alive != other)]]
        more = min(least - 1, len(others))
        company = sum((np.roll(others, step, axis=0) for step in range(more)), np.zeros((1, means.shape[1])))
        bags = (means[one] + means[other] + company) / (2 + more)
        is_least = head.probabilities(bags.astype(np.float32))[:, head.counts == least]
        found[place] = is_least.sum(axis=1).mean()
    return found


def _mean(rows: NDArray[np.float32], otherwise: NDArray[np.float32]) -> NDArray[np.float32]:
    return np.asarray(rows.mean(axis=0) if len(rows) else otherwise, np.float32)


def fit(
    features: NDArray[np.float32], kinds: NDArray[np.int64], *, clusters: int, seed: int, starts: int = _STARTS
) -> Clusters:
    """k-means, its clusters named by the rows whose class is known: `kinds` is a place in CLASSES, or UNKNOWN."""
    centroids = kmeans(features, clusters, seed, starts)
    order, names = named(nearest(features, centroids), kinds, clusters)
    return Clusters(centroids[order], names)


def kmeans(features: NDArray[np.float32], clusters: int, seed: int, starts: int = _STARTS) -> NDArray[np.float32]:
    """The centres of k-means, (clusters, features)."""
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
