"""What is known of all patches of tissue of the tiles of a split, by the first round or from photographs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from ucc_path.bags import patches_of_tiles, patches_of_tissue
from ucc_path.features import features_of
from ucc_path.model.lite import SIDE_MULTIPLE, CellKnowledge, LiteEncoder
from ucc_path.workflows.train.data import tile_set
from ucc_path.workflows.train.first_weights import load
from ucc_path.workflows.train.learning import Job, Lesson

_TILES_AT_ONCE = 16
_LEAST_SPREAD = 1e-3  # of a feature; less is no feature
_MIRRORED_PX = 32  # around a tile, where nothing is known


@dataclass(frozen=True, slots=True, eq=False)
class PatchFeatures:
    """Of patches, tile by tile."""

    features: NDArray[np.float32]  # (patches, features)
    tiles: NDArray[np.int64]  # (patches,) the tile of each
    slides: NDArray[np.int64]  # (tiles,) the slide of each

    def alike(self) -> NDArray[np.float32]:
        """The features with mean 0 and spread 1 over each slide: what is said of a patch is beside its own slide."""
        features: NDArray[np.float32] = self.features.copy()
        slide_of = self.slides[self.tiles]
        for slide in np.unique(slide_of):
            own = features[slide_of == slide]
            features[slide_of == slide] = (own - own.mean(axis=0)) / (own.std(axis=0) + _LEAST_SPREAD)
        return features

    def shares(self, groups: NDArray[np.int64], count: int) -> NDArray[np.float64]:
        """The share of each tile's patches that is in each group, (tiles, count), by the group of each patch."""
        numbers = np.zeros((len(self.slides), count))
        np.add.at(numbers, (self.tiles, groups), 1.0)
        return np.asarray(numbers / np.maximum(numbers.sum(axis=1, keepdims=True), 1))


def features_of_tiles(job: Job, lesson: Lesson, split: str) -> PatchFeatures:
    """On the grid of each tile, without any change by chance."""
    settings = job.request.model_settings
    tiles = tile_set(job.run.tiles, split, job.rows[split], settings.colours)
    extractor = lesson.learner.network.get_submodule("extractor")
    is_tissue = patches_of_tissue(np.asarray(tiles.tissue), job.request.training.min_tissue)
    features: list[NDArray[np.float32]] = [np.zeros((0, settings.features), np.float32)]
    for first in range(0, len(is_tissue), _TILES_AT_ONCE):
        chosen = np.arange(first, min(first + _TILES_AT_ONCE, len(is_tissue)))
        patches, own = patches_of_tiles(tiles, is_tissue, chosen, settings.patch_px)
        if len(patches):
            stain = None if tiles.standard is None else tiles.standard[own]
            features.append(features_of(patches, extractor, lesson.preparation, job.device, stain))
    return PatchFeatures(np.concatenate(features), np.nonzero(is_tissue)[0], _slides(job, split))


def knowledge_of_tiles(job: Job, lesson: Lesson, split: str) -> PatchFeatures:
    """What one who knows photographs sees in each patch and around it; nothing of it was learnt from the tiles."""
    settings = job.request.model_settings
    tiles = tile_set(job.run.tiles, split, job.rows[split], settings.colours)
    is_tissue = patches_of_tissue(np.asarray(tiles.tissue), job.request.training.min_tissue)
    encoder = LiteEncoder(is_density=settings.colours == "slide")
    load(encoder)
    cells, side_px = is_tissue.shape[1], tiles.images.shape[1]
    beyond = -(side_px + 2 * _MIRRORED_PX) % SIDE_MULTIPLE
    around = (_MIRRORED_PX, _MIRRORED_PX + beyond)
    seen = CellKnowledge(encoder, margin_px=_MIRRORED_PX, cells=cells, cell_px=settings.patch_px)
    seen = seen.to(job.device, memory_format=torch.channels_last).eval()  # type: ignore[call-overload]
    found = []
    for first in range(0, len(is_tissue), _TILES_AT_ONCE):
        chosen = slice(first, first + _TILES_AT_ONCE)
        images = np.pad(tiles.images[chosen], ((0, 0), around, around, (0, 0)), mode="reflect")
        pixels = torch.from_numpy(images).to(job.device)
        stain = None if tiles.standard is None else torch.from_numpy(tiles.standard[chosen]).to(job.device)
        with torch.no_grad():
            values = seen(lesson.preparation(pixels, stain)).cpu().numpy()
        found.append(values[is_tissue[chosen]])
    return PatchFeatures(np.concatenate(found), np.nonzero(is_tissue)[0], _slides(job, split))


def _slides(job: Job, split: str) -> NDArray[np.int64]:
    """The slide of each tile, as a number."""
    return np.asarray(np.unique([row.slide for row in job.rows[split].rows], return_inverse=True)[1], np.int64)
