"""What is known of a trained model besides its weights: all that is needed to use it on a slide."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ucc_path.settings import ASSIGNMENTS, ModelSettings


@dataclass(frozen=True, slots=True)
class ModelCard:
    """A model's own description, stored with its weights."""

    model: str  # one of MODELS
    supervision: str  # ucc, kind, mask or none
    labels: tuple[str, ...]  # what the outputs of its head mean, in order
    settings: ModelSettings
    alpha: float
    mpp: float
    mean: tuple[float, ...]  # of each channel's light or optical density in the training patches
    std: tuple[float, ...]
    classes: tuple[str, ...]  # names; the label value of a class is its place + 1
    converged: bool
    versions: Mapping[str, str]
    assign: str = ASSIGNMENTS[0]  # what says the class of a patch, unless it is wished otherwise
