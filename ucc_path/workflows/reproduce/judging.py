"""What a trained network is worth: how it counts, how far its classes lie apart, how its features cluster."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray

from ucc_path.bags import LabelledImages, PowerSet
from ucc_path.clusters import kmeans, merge, nearest, spectral
from ucc_path.evaluation.clustering import agreement
from ucc_path.evaluation.divergence import ClassDensities, jensen_shannon
from ucc_path.features import features_of
from ucc_path.features.heads import CountHead
from ucc_path.model import UCC
from ucc_path.workflows.reproduce.learning import Learnt, drawn_again
from ucc_path.workflows.reproduce.request import Variant

_BAGS_OF_POOL = 50  # test bags of each count that share a pool of images
_MOST_SPECTRAL = 20_000  # images
EVEN = 1.0

KMEANS, SPECTRAL, MERGE = "kmeans", "spectral", "merge"
WAYS = (KMEANS, SPECTRAL, MERGE)
"""Ways to cluster features."""

Table = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Verdict:
    """Everything that is measured of a variant on the test images; None where it has no such thing."""

    counting: Table | None = None  # test bags (labels, labels) by their count and by what is said of them
    divergence: NDArray[np.float64] | None = None  # (classes, classes)
    densities: NDArray[np.float64] | None = None  # (classes, features, bins)
    clusters: dict[str, Table] | None = None  # by way: images by class and by the class of their cluster
    generated: NDArray[np.uint8] | None = None  # (classes, side, side, channels)


def share_right(table: Table) -> float:
    """The share of a table that is on its diagonal."""
    return float(np.trace(table) / max(1, table.sum()))


def even_bags(variant: Variant, test: LabelledImages) -> PowerSet:
    """Bags of test images with even shares of their classes, as far as the authors' code is known.

    Made before anything is learnt: it refuses too few images.
    """
    reproduction = replace(variant.reproduction, min_share=EVEN)
    return PowerSet(test, variant.model, variant.training, reproduction, purpose="test")


def judge(
    variant: Variant, learnt: Learnt, test: LabelledImages, bags: PowerSet | None, device: torch.device
) -> Verdict:
    """Judges a network by the test images, clustering those themselves, as the paper does; by `bags` if it counts."""
    model, classes = variant.model, variant.model.classes
    extractor = learnt.network.get_submodule("extractor")
    features = features_of(test.images, extractor, learnt.preparation, device)
    densities = ClassDensities(classes, model.features, bins=model.bins, sigma=model.sigma)
    densities.add(features, test.classes)
    head = None
    if isinstance(learnt.network, UCC):
        labels = [f"ucc {count}" for count in model.ucc_labels]
        head = CountHead(learnt.network, labels, model.features)
    means = np.stack([features[test.classes == place].mean(axis=0) for place in range(classes)])
    drawn = drawn_again(learnt, torch.from_numpy(means).to(device))
    found = densities.result()
    return Verdict(
        counting=_counting(variant, learnt, bags, device) if bags else None,
        divergence=jensen_shannon(found),
        densities=found,
        clusters=_clusters(variant, features, test.classes, head),
        generated=None if drawn is None else drawn.to(torch.uint8).cpu().numpy(),
    )


def judge_raw(variant: Variant, test: LabelledImages) -> Verdict:
    """Clusters of the raw pixels, by the way that the variant is called after."""
    pixels = (test.images.reshape(len(test), -1) / 255).astype(np.float32)
    classes = variant.model.classes
    if variant.name == KMEANS:
        assigned = nearest(pixels, kmeans(pixels, classes, variant.seed))
    else:
        assigned = spectral(pixels, classes, variant.seed)
    return Verdict(clusters={variant.name: agreement(assigned, test.classes, count=classes)})


def _counting(variant: Variant, learnt: Learnt, bags: PowerSet, device: torch.device) -> Table:
    """What is said of as many test bags of each count."""
    labels = len(variant.model.ucc_labels)
    table = np.zeros((labels, labels), np.int64)
    network = learnt.network
    assert isinstance(network, UCC)
    left = variant.reproduction.test_bags
    for number in range(math.ceil(left / _BAGS_OF_POOL)):
        pool = bags.draw(number, min(_BAGS_OF_POOL, left) * labels)
        left -= _BAGS_OF_POOL
        features = features_of(pool.images, network.extractor, learnt.preparation, device)
        with torch.no_grad():
            logits = network.count_shared(*(torch.from_numpy(part).to(device) for part in (features, pool.shares)))
        np.add.at(table, (pool.labels, logits.argmax(dim=1).cpu().numpy()), 1)
    return table


def _clusters(
    variant: Variant, features: NDArray[np.float32], classes: NDArray[np.int64], head: CountHead | None
) -> dict[str, Table]:
    count, seed = variant.model.classes, variant.seed
    assigned = {KMEANS: nearest(features, kmeans(features, count, seed))}
    if len(features) <= _MOST_SPECTRAL:
        assigned[SPECTRAL] = spectral(features, count, seed)
    if head is not None:
        first = count * variant.reproduction.first_clusters
        assigned[MERGE] = merge(features, head, clusters=count, first=first, seed=seed).of(features)
    return {way: agreement(found, classes, count=count) for way, found in assigned.items()}
