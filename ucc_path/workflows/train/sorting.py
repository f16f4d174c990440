"""Which class each tile has: by its kind, or, where only counts are taught, by what is known of its patches.

Patches are put into small clusters, the clusters into two groups by the counts of the tiles, and a tile of one class is
of the group that has most of it. Of one that is of neither, the network that is taught says the class, once it can.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ucc_path.clusters import UNKNOWN, Clusters, Parting, kmeans, named, nearest, parted_by_counts, principal_axes
from ucc_path.model.losses import CLEAR_SHARE, MIXED, UNCLEAR
from ucc_path.tiles.labelling import CLASSES, UCC_OF_KIND
from ucc_path.workflows.train.features import features_of_tiles, knowledge_of_tiles
from ucc_path.workflows.train.learning import Job, Lesson

_PATCHES_FOR_CLUSTERS, _CUTS = 10_000, 12
_AXES = 16  # of what is known of patches that clusters are made of: the others are mostly chance


def classes_of_tiles(job: Job, lesson: Lesson, clusters: Clusters) -> dict[str, NDArray[np.int64]]:
    """The class of each tile of each split by its kind or by its count: MIXED where it has two, UNCLEAR or UNKNOWN."""
    mixed = {split: _is_mixed(job, split) for split in job.rows if job.rows[split].rows}
    if job.request.supervision == "kind":
        return {split: np.where(mixed[split], MIXED, job.rows[split].kinds()) for split in mixed}
    shares = _shares_of_second(job, lesson, clusters, mixed)
    classes = {split: np.where(mixed[split], MIXED, _likely_classes(shares[split], mixed[split])) for split in mixed}
    # Of the train tiles the network itself will say; to judge it only what is known counts.
    is_unclear = (classes["train"] == UNKNOWN) & np.isfinite(shares["train"])
    return classes | {"train": np.where(is_unclear, UNCLEAR, classes["train"])}


def _likely_classes(shares: NDArray[np.float64], is_mixed: NDArray[np.bool_]) -> NDArray[np.int64]:
    """The class of each tile by its share of the second; where it is not clear none, unless no tile is left for one."""
    for least in (CLEAR_SHARE, 0.5):
        classes = np.where(shares >= least, 1, np.where(shares <= 1 - least, 0, UNKNOWN))  # of nan it is neither
        if all(bool((classes[~is_mixed] == place).any()) for place in range(len(CLASSES))):
            break
    return np.asarray(classes, np.int64)


def _is_mixed(job: Job, split: str) -> NDArray[np.bool_]:
    rows = job.rows[split]
    mixed = ("mixture", f"ucc {UCC_OF_KIND['mixture']}")
    return np.array([rows.names[label] in mixed for label in rows.labels], np.bool_)


def _shares_of_second(
    job: Job, lesson: Lesson, clusters: Clusters, mixed: dict[str, NDArray[np.bool_]]
) -> dict[str, NDArray[np.float64]]:
    """How much of each tile is of the second class, by small clusters that the counts of the train tiles part.

    It is nan of a tile without a patch of tissue, of which nobody knows.
    """
    request = job.request
    knows = knowledge_of_tiles if request.model_settings.encoder == "lite0" else features_of_tiles
    found = {split: knows(job, lesson, split) for split in mixed}
    train, alike = found["train"], {split: patches.alike() for split, patches in found.items()}
    axes = principal_axes(alike["train"], _AXES)
    alike = {split: values @ axes for split, values in alike.items()}
    every = max(1, len(train.features) // _PATCHES_FOR_CLUSTERS)
    count = min(request.training.small_clusters, len(train.features))
    best: Parting | None = None
    # k-means cuts a tissue with many looks at other places each time; the counts tell which cut is a good one.
    for start in range(_CUTS):
        cut = kmeans(alike["train"][start % every :: every], count, _CUTS * request.training.seed + start, 1)
        parting = parted_by_counts(train.shares(nearest(alike["train"], cut), count), mixed["train"], train.slides)
        if best is None or parting.right > best.right:
            best, centres = parting, cut
    assert best is not None
    is_second = best.is_second
    small = {split: nearest(alike[split], centres) for split in found}
    shares = {split: found[split].shares(small[split], count) for split in found}
    assigned = is_second[small["train"]].astype(np.int64)
    # Kinds, where they are known, only name the two groups; otherwise they are called as the clusters they agree with.
    kinds = job.rows["train"].kinds()[train.tiles]
    if clusters.names == CLASSES:
        order, _ = named(assigned, kinds, len(CLASSES))
    else:
        order = np.arange(len(CLASSES))
        agree = np.mean(nearest(features_of_tiles(job, lesson, "train").features, clusters.centroids) == assigned)
        order = order if agree >= 0.5 else order[::-1]
    is_second = is_second if order[1] == 1 else ~is_second
    has_patches = {split: shares[split].any(axis=1) for split in shares}
    return {split: np.where(has_patches[split], shares[split] @ is_second, np.nan) for split in shares}
