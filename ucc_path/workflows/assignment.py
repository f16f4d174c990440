"""What says the class of a patch: cluster centres, the head that tells classes, or a network of pixels or patches."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from ucc_path.errors import SettingsError
from ucc_path.features.heads import CountHead
from ucc_path.mask.deciding import ByCentroids, ByHead, ByProbability, ByShare, Decision
from ucc_path.model import PixelNetwork
from ucc_path.model.card import ModelCard
from ucc_path.model.recipes import CLUSTERED, TrainedModel
from ucc_path.settings import ASSIGNMENTS, SegmentationSettings

CENTROIDS, HEAD, PIXELS, PROBABILITY = *ASSIGNMENTS, "probability"


def assignment_of(model: TrainedModel, head: CountHead | None, wishes: SegmentationSettings) -> str:
    """What says the class of a patch."""
    if model.card.model not in CLUSTERED:
        if wishes.assign != "model":
            raise SettingsError(f"--assign has no meaning for a model {model.card.model}; leave it out")
        return PROBABILITY
    usual = model.card.assign if wishes.refit == "none" else CENTROIDS  # who asks for clusters anew means them
    assign = usual if wishes.assign == "model" else wishes.assign
    if assign == HEAD and (head is None or not head.tells_classes):
        raise SettingsError(
            "--assign head is for models that were taught which class a tile is (train --supervision kind); "
            "give --assign centroids"
        )
    if assign == PIXELS and model.pixels is None:
        raise SettingsError(
            "--assign pixels is for models with a second round (train with refine above 0 under [training]); "
            "give --assign centroids"
        )
    if assign != CENTROIDS and wishes.refit != "none":
        raise SettingsError(f"--refit makes clusters anew, which --assign {assign} does not look at; give one of them")
    return assign


def smoothing_px(card: ModelCard, wishes: SegmentationSettings) -> float:
    """How wide probabilities are smoothed: where labels of tiles have taught, which do not say where an edge is."""
    return 0.0 if card.supervision == "mask" else wishes.smooth_px


def decision_of(
    model: TrainedModel, head: CountHead | None, assign: str, *, neighbours: int, cells_a_patch: int
) -> Decision:
    """How cells get their classes, where `assign` is what says them."""
    if assign == HEAD and head is not None:
        return ByHead(head, neighbours, cells_a_patch)
    if assign == CENTROIDS and model.centroids is not None:
        return ByCentroids(model.centroids.numpy())
    if assign == PIXELS or isinstance(model.network, PixelNetwork):
        return ByShare()
    return ByProbability(_by_last_layer(model.network))


def _by_last_layer(network: nn.Module) -> Callable[[NDArray[np.float32]], NDArray[np.float32]]:
    """The classes of patches by the layer that a supervised model ends with."""
    layer = network.get_submodule("head").cpu()

    def probabilities(features: NDArray[np.float32]) -> NDArray[np.float32]:
        with torch.no_grad():
            found: NDArray[np.float32] = torch.softmax(layer(torch.from_numpy(features)), dim=1).numpy()
        return found

    return probabilities
