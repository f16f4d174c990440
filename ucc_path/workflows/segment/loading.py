"""A model file becomes what a worker segments with: a network on its engine, a way to read, a way to decide.

Loaded once in a process, however many slides it works on.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from ucc_path.errors import ModelError, SettingsError
from ucc_path.features.cells import CellPlan
from ucc_path.features.engines import Engine, make_engine
from ucc_path.features.heads import CountHead
from ucc_path.features.levels import FromLevels
from ucc_path.features.reading import PatchReader, PictureReader, PictureShape
from ucc_path.formats import model_safetensors
from ucc_path.geometry import Cell
from ucc_path.mask.deciding import ByCentroids, ByHead, ByProbability, Decision
from ucc_path.model import UCC, Unet
from ucc_path.model.devices import choose_device
from ucc_path.model.recipes import CLUSTERED, TrainedModel, assemble
from ucc_path.model.unet import CellShares
from ucc_path.settings import ASSIGNMENTS, SegmentationSettings
from ucc_path.slide import Slide
from ucc_path.slide.damage import Surviving
from ucc_path.workflows.segment.jobs import ModelSpec

UNET_MARGIN_PX = 64  # more than a Unet looks around a pixel
CENTROIDS, HEAD, PROBABILITY = *ASSIGNMENTS, "probability"
"""What can say the class of a patch."""

_CHANNELS = 3  # of a slide


@dataclass(frozen=True, slots=True, eq=False)
class Loaded:
    """A model at work."""

    model: TrainedModel
    engine: Engine
    remark: str  # on the engine, where it is not the usual one
    device: torch.device
    batch_size: int
    stride_px: int
    pictures: PictureShape | None  # of a network that takes whole pictures, and not patches
    head: CountHead | None  # of a model that counts
    assign: str  # centroids, head or probability

    @property
    def depth(self) -> int:
        """How many values it gives for a cell."""
        return 1 if self.pictures else self.model.card.settings.features

    def reader(
        self, slide: Slide, plan: CellPlan, *, is_strict: bool, known: dict[Cell, Surviving]
    ) -> PatchReader | PictureReader:
        """What reads blocks for it; `known` are those whose patches were read before."""
        if self.pictures:
            return PictureReader(slide, plan, self.pictures, is_strict)
        return PatchReader(slide, plan, is_strict, known)

    def decision(self, plan: CellPlan, neighbours: int) -> Decision:
        """How cells get their classes."""
        if self.assign == HEAD and self.head is not None:
            return ByHead(self.head, neighbours, plan.cells_a_patch)
        if self.model.centroids is not None:
            return ByCentroids(self.model.centroids.numpy())
        return ByProbability(_tumour_or_not if self.pictures else _by_last_layer(self.model.network))


@lru_cache(maxsize=1)
def load(spec: ModelSpec) -> Loaded:
    """The model of a file on its engine; refuses one that cannot do what is asked."""
    card, tensors = model_safetensors.read(spec.path)
    wishes, settings = spec.segmentation, card.settings
    stride_px = wishes.stride_px or settings.patch_px
    if settings.channels != _CHANNELS:
        raise ModelError(
            f"{spec.path} looks at {settings.channels} channels, and slides have {_CHANNELS}; take another"
        )
    if stride_px > settings.patch_px:
        raise SettingsError(
            f"--stride-px {stride_px} would leave gaps between patches of {settings.patch_px} px; "
            f"give {settings.patch_px} or less"
        )
    device = choose_device(spec.device)
    model = assemble(card, tensors, device)
    head = CountHead(model.network, card.labels, settings.features) if isinstance(model.network, UCC) else None
    assign = _assignment(model, head, wishes)
    if wishes.refit != "none" and model.centroids is None:
        raise SettingsError(
            f"--refit is for models with clusters, and {spec.path} is a model {card.model}; leave it out"
        )
    pictures = None
    network: nn.Module = model.network
    if isinstance(network, Unet):
        pictures = PictureShape.of(
            settings.patch_px, stride_px, margin_px=UNET_MARGIN_PX, multiple_px=settings.side_multiple
        )
        network = CellShares(network, margin_px=pictures.margin_px, core_px=pictures.core_px, cell_px=stride_px)
    else:
        network = network.get_submodule("extractor")
    batch_size = 1 if pictures else wishes.batch_size
    side = pictures.side_px if pictures else settings.patch_px
    engine, remark = make_engine(
        wishes.inference,
        FromLevels(network, _CHANNELS),
        device,
        shape=(batch_size, side, side, _CHANNELS),
        threads=spec.threads,
    )
    return Loaded(model, engine, remark, device, batch_size, stride_px, pictures, head, assign)


def _assignment(model: TrainedModel, head: CountHead | None, wishes: SegmentationSettings) -> str:
    """What says the class of a patch."""
    if model.card.model not in CLUSTERED:
        if wishes.assign != "model":
            raise SettingsError(f"--assign has no meaning for a model {model.card.model}; leave it out")
        return PROBABILITY
    assign = model.card.assign if wishes.assign == "model" else wishes.assign
    if assign == HEAD and (head is None or not head.tells_classes):
        raise SettingsError(
            "--assign head is for models that were taught which class a tile is (train --supervision kind); "
            "give --assign centroids"
        )
    if assign == HEAD and wishes.refit != "none":
        raise SettingsError("--refit makes clusters anew, which --assign head does not look at; give one of them")
    return assign


def _tumour_or_not(shares: NDArray[np.float32]) -> NDArray[np.float32]:
    return np.concatenate([1 - shares, shares], axis=1)


def _by_last_layer(network: nn.Module) -> Callable[[NDArray[np.float32]], NDArray[np.float32]]:
    """The classes of patches by the layer that a supervised model ends with."""
    layer = network.get_submodule("head").cpu()

    def probabilities(features: NDArray[np.float32]) -> NDArray[np.float32]:
        with torch.no_grad():
            found: NDArray[np.float32] = torch.softmax(layer(torch.from_numpy(features)), dim=1).numpy()
        return found

    return probabilities
