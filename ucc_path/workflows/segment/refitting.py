"""A slide clustered anew by its own patches: features go to a file, a sample is clustered, then all are decided.

The file lies in the folder that is being written, and is removed with it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ucc_path.clusters import CountingHead, margins, merge, named_after, refit
from ucc_path.errors import TooLargeError, UccPathError
from ucc_path.features.streaming import Band
from ucc_path.mask.deciding import ByCentroids, Decided, Decision, InOrder
from ucc_path.seeding import stream

MOST_SPECTRAL = 20_000  # patches: half a minute, and more than twice that for twice as many
SAMPLE = 100_000  # patches that k-means looks at; more would hardly move the centres

FIRST_CLUSTERS = 20  # of which merging makes the classes: a tissue has few looks, and each needs some patches

_SPECTRAL, _MERGE = "spectral", "merge"


def require_few(patches: int, *, how: str, name: str) -> None:
    """TooLargeError where there are too many patches to be clustered so."""
    if how == _SPECTRAL and patches > MOST_SPECTRAL:
        raise TooLargeError(
            f"{name} has {patches:,} patches, and --refit-spectral is for up to {MOST_SPECTRAL:,}; give --refit"
        )


@contextmanager
def refitted(
    bands: Iterable[Band],
    known: NDArray[np.float32],
    *,
    how: str,
    seed: int,
    work: Path,
    name: str,
    head: CountingHead | None = None,
) -> Iterator[tuple[Iterator[Band], Decision]]:
    """All bands once more, and the decision by clusters of this slide, named as the `known` centres next to them.

    `head` counts the classes of bags, which merging needs.
    """
    path = work / "features.f32"
    places: list[tuple[int, NDArray[np.bool_]]] = []
    try:
        with path.open("wb") as file:
            for band in bands:
                file.write(np.ascontiguousarray(band.values[band.is_there]).data)
                places.append((band.first_row, band.is_there))
        count = sum(int(np.count_nonzero(is_there)) for _, is_there in places)
        if count < 2 * len(known):
            raise UccPathError(f"{name} has {count} patches, too few to be clustered anew; leave out --refit")
        decision = _decision(path, count, known, how=how, seed=seed, head=head)
        yield _read_back(path, places, known.shape[1]), decision
    finally:
        path.unlink(missing_ok=True)


def _decision(
    path: Path, count: int, known: NDArray[np.float32], *, how: str, seed: int, head: CountingHead | None
) -> Decision:
    stored = np.memmap(path, np.float32, "r", shape=(count, known.shape[1]))
    chosen = np.arange(count)
    if count > SAMPLE:
        chosen = np.sort(stream(seed, "refit").choice(count, SAMPLE, replace=False))
    if how == _MERGE and head is not None:
        features = np.array(stored[chosen])
        merged = merge(features, head, clusters=len(known), first=FIRST_CLUSTERS, seed=seed)
        return ByCentroids(merged.centroids, named_after(known, features, merged.of(features))[merged.clusters])
    classes, centroids = refit(np.array(stored[chosen]), known, how=how, seed=seed)
    if how != _SPECTRAL:
        return ByCentroids(centroids)
    nearest, sure = margins(np.array(stored), centroids)
    return InOrder(Decided(classes, np.where(nearest == classes, sure, np.float32(0))))


def _read_back(path: Path, places: list[tuple[int, NDArray[np.bool_]]], depth: int) -> Iterator[Band]:
    with path.open("rb") as file:
        for first_row, is_there in places:
            values = np.zeros((*is_there.shape, depth), np.float32)
            count = int(np.count_nonzero(is_there)) * depth
            values[is_there] = np.fromfile(file, np.float32, count).reshape(-1, depth)
            yield Band(first_row, values, is_there)
