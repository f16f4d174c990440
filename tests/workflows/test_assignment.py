"""What says the class of a patch, by the model and by what is wished."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from ucc_path.errors import SettingsError
from ucc_path.features.heads import CountHead
from ucc_path.model import UCC, Unet
from ucc_path.model.card import ModelCard
from ucc_path.model.preparing import Preparation
from ucc_path.model.recipes import TrainedModel
from ucc_path.settings import ModelSettings, SegmentationSettings
from ucc_path.tiles.labelling import CLASSES, KINDS
from ucc_path.workflows.assignment import assignment_of, smoothing_px

SETTINGS = ModelSettings(patch_px=16, width=2, features=3)


def make_model(assign: str) -> tuple[TrainedModel, CountHead]:
    """A model that was taught kinds, and what says its classes best: after a second round the network of pixels."""
    network = UCC(SETTINGS, outputs=len(KINDS))
    card = ModelCard("ucc", "kind", KINDS, SETTINGS, 0.5, 1.0, (0.0,) * 3, (1.0,) * 3, CLASSES, True, {}, assign)
    pixels = Unet(SETTINGS) if assign == "pixels" else None
    model = TrainedModel(card, network, Preparation("slide", card.mean, card.std), torch.zeros(2, 3), pixels)
    return model, CountHead(network, KINDS, SETTINGS.features)


@pytest.mark.parametrize("assign", ["centroids", "head", "pixels"])
def test_the_better_one_by_the_model_is_used_unless_told_otherwise(assign: str) -> None:
    assert assignment_of(*make_model(assign), SegmentationSettings()) == assign
    for wish in ("centroids", "head"):
        assert assignment_of(*make_model(assign), SegmentationSettings(assign=wish)) == wish


@pytest.mark.parametrize("assign", ["head", "pixels"])
@pytest.mark.parametrize("how", ["kmeans", "spectral", "merge"])
def test_who_asks_for_clusters_anew_gets_them_whatever_the_model_would_use(how: str, assign: str) -> None:
    assert assignment_of(*make_model(assign), SegmentationSettings(refit=how)) == "centroids"


@pytest.mark.parametrize("assign", ["head", "pixels"])
def test_clusters_anew_and_something_else_together_are_refused(assign: str) -> None:
    with pytest.raises(SettingsError, match=f"--refit makes clusters anew, which --assign {assign} does not look at"):
        assignment_of(*make_model(assign), SegmentationSettings(refit="kmeans", assign=assign))


@pytest.mark.parametrize("assign", ["centroids", "head"])
def test_pixels_are_refused_for_a_model_without_a_second_round(assign: str) -> None:
    with pytest.raises(SettingsError, match="--assign pixels is for models with a second round"):
        assignment_of(*make_model(assign), SegmentationSettings(assign="pixels"))


@pytest.mark.parametrize(("supervision", "width_px"), [("ucc", 7.0), ("kind", 7.0), ("mask", 0.0)])
def test_what_masks_have_taught_is_not_smoothed(supervision: str, width_px: float) -> None:
    card = replace(make_model("pixels")[0].card, supervision=supervision)
    assert smoothing_px(card, SegmentationSettings(smooth_px=7.0)) == width_px
