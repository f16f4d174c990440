"""A slide clustered anew by its own patches: features go to a file, a sample is clustered, then all are decided."""

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
from ucc_path.workflows.segment.keeping import kept

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
    with kept(bands, work, depth=known.shape[1]) as stored:
        if stored.count < 2 * len(known):
            raise UccPathError(f"{name} has {stored.count} patches, too few to be clustered anew; leave out --refit")
        yield stored.bands(), _decision(stored.values(), known, how=how, seed=seed, head=head)


def _decision(
    stored: NDArray[np.float32], known: NDArray[np.float32], *, how: str, seed: int, head: CountingHead | None
) -> Decision:
    count = len(stored)
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
