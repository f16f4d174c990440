"""What says the class of a patch better, cluster centres or the head: judged by pure tiles, without any mask."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from ucc_path.bags import TileSet, patches_of_tiles, patches_of_tissue
from ucc_path.features import features_of
from ucc_path.features.heads import CountHead
from ucc_path.features.streaming import Band
from ucc_path.mask.deciding import ByCentroids, ByHead, Decision, decide
from ucc_path.model.preparing import Preparation
from ucc_path.model.ucc import UCC
from ucc_path.settings import ASSIGNMENTS, ModelSettings, SegmentationSettings
from ucc_path.tiles.labelling import CLASSES

MOST_TILES = 100  # of each class

CENTROIDS, HEAD, _ = ASSIGNMENTS


@dataclass(frozen=True, slots=True)
class Assignment:
    """The better one, and the share of patches of pure tiles that each gives the tile's class; mean over classes."""

    chosen: str
    shares: dict[str, float]


def compare_assignments(
    network: UCC,
    labels: tuple[str, ...],
    centroids: NDArray[np.float32],
    tiles: TileSet,
    kinds: NDArray[np.int64],
    settings: ModelSettings,
    preparation: Preparation,
    device: torch.device,
    *,
    min_tissue: float,
) -> Assignment | None:
    """`kinds` is the class of each tile, or less than 0; None where the tiles or the head do not know both classes."""
    head = CountHead(network, labels, settings.features)
    if not head.tells_classes or any((kinds == kind).sum() == 0 for kind in range(len(CLASSES))):
        return None
    neighbours = SegmentationSettings().neighbours
    decisions: dict[str, Decision] = {CENTROIDS: ByCentroids(centroids), HEAD: ByHead(head, neighbours, 1)}
    right = {name: np.zeros(len(CLASSES)) for name in decisions}
    patches = np.zeros(len(CLASSES))
    for kind, band in _bands(network, tiles, kinds, settings.patch_px, preparation, device, min_tissue):
        patches[kind] += np.count_nonzero(band.is_there)
        for name, decision in decisions.items():
            found, _ = decide([band], decision, band.is_there.shape)
            right[name][kind] += np.count_nonzero(found == kind + 1)
    shares = {name: float((count / np.maximum(patches, 1)).mean()) for name, count in right.items()}
    return Assignment(HEAD if shares[HEAD] > shares[CENTROIDS] else CENTROIDS, shares)


def _bands(
    network: UCC,
    tiles: TileSet,
    kinds: NDArray[np.int64],
    patch_px: int,
    preparation: Preparation,
    device: torch.device,
    min_tissue: float,
) -> Iterator[tuple[int, Band]]:
    """Some pure tiles of each class, evenly chosen, each as the band of its grid of patches."""
    is_tissue = patches_of_tissue(np.asarray(tiles.tissue), min_tissue)
    for kind in range(len(CLASSES)):
        pure = np.flatnonzero(kinds == kind)
        for tile in pure[np.unique(np.linspace(0, len(pure) - 1, min(MOST_TILES, len(pure))).astype(int))]:
            is_there = is_tissue[tile]
            patches, own = patches_of_tiles(tiles, is_tissue, np.array([tile]), patch_px)
            if len(patches):
                stain = None if tiles.standard is None else tiles.standard[own]
                features = features_of(patches, network.extractor, preparation, device, stain)
                values = np.zeros((*is_there.shape, features.shape[1]), np.float32)
                values[is_there] = features
                yield kind, Band(0, values, is_there)
