"""What says the class of a patch, by the model and by what is wished."""

from __future__ import annotations

import pytest
import torch

from ucc_path.errors import SettingsError
from ucc_path.features.heads import CountHead
from ucc_path.model import UCC
from ucc_path.model.card import ModelCard
from ucc_path.model.preparing import Preparation
from ucc_path.model.recipes import TrainedModel
from ucc_path.settings import ModelSettings, SegmentationSettings
from ucc_path.tiles.labelling import CLASSES, KINDS
from ucc_path.workflows.assignment import assignment_of

SETTINGS = ModelSettings(patch_px=16, width=2, features=3)


def make_model(assign: str) -> tuple[TrainedModel, CountHead]:
    """A model that was taught kinds, and which of the two says classes better."""
    network = UCC(SETTINGS, outputs=len(KINDS))
    card = ModelCard("ucc", "kind", KINDS, SETTINGS, 0.5, 1.0, (0.0,) * 3, (1.0,) * 3, CLASSES, True, {}, assign)
    model = TrainedModel(card, network, Preparation("slide", card.mean, card.std), torch.zeros(2, 3))
    return model, CountHead(network, KINDS, SETTINGS.features)


@pytest.mark.parametrize("assign", ["centroids", "head"])
def test_the_better_one_by_the_model_is_used_unless_told_otherwise(assign: str) -> None:
    assert assignment_of(*make_model(assign), SegmentationSettings()) == assign
    for wish in ("centroids", "head"):
        assert assignment_of(*make_model(assign), SegmentationSettings(assign=wish)) == wish


@pytest.mark.parametrize("how", ["kmeans", "spectral", "merge"])
def test_who_asks_for_clusters_anew_gets_them_whatever_the_model_would_use(how: str) -> None:
    assert assignment_of(*make_model("head"), SegmentationSettings(refit=how)) == "centroids"


def test_clusters_anew_and_the_head_together_are_refused() -> None:
    with pytest.raises(SettingsError, match="--refit makes clusters anew, which --assign head does not look at"):
        assignment_of(*make_model("head"), SegmentationSettings(refit="kmeans", assign="head"))
