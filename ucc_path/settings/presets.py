"""The tables of a settings file, and whole sets of settings by name."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ucc_path.settings.stages import (
    AnnotationSettings,
    EvaluationSettings,
    ModelSettings,
    ReproductionSettings,
    SegmentationSettings,
    TilingSettings,
    TissueSettings,
    TrainingSettings,
)

TABLES: dict[str, type[Any]] = {
    "tiling": TilingSettings,
    "tissue": TissueSettings,
    "annotation": AnnotationSettings,
    "model": ModelSettings,
    "training": TrainingSettings,
    "segmentation": SegmentationSettings,
    "evaluation": EvaluationSettings,
    "reproduction": ReproductionSettings,
}
"""The name of each stage's table in a settings file."""

PRESETS: dict[str, dict[str, Any]] = {
    "fast": {"model": ModelSettings(), "training": TrainingSettings()},
    "paper": {
        "model": ModelSettings(width=16, stem_stride=1, encoder="blocks", normalise=True),
        "training": TrainingSettings(
            learning_rate=1e-4,
            steps=200_000,
            decode_every=1,
            averaging=0.0,
            evaluate_every=500,
            patience=20,
            refine=0.05,
        ),
    },
}
"""Whole sets of settings for training; the first unless told otherwise. `paper` is the authors' architecture."""

DEFAULT_SPLIT = "train=0.6,val=0.2,test=0.2"
UNANNOTATED = ("error", "normal", "skip")
"""What a slide without an annotation may mean; the first unless told otherwise."""

EXPERIMENTS = ("mnist", "cifar10", "cifar100")
"""The paper's experiments on labelled images."""
REPRODUCED = ("ucc", "ucc2+", "ucc-alpha1", "ucc2+-alpha1", "autoencoder", "supervised", "kmeans", "spectral")
"""The models of those experiments, the last two being clusters of the raw pixels."""

_IMAGES: dict[str, dict[str, Any]] = {
    # Counts are learnt from digits in minutes by batches that are normed, many bags a step and a step size that falls.
    "fast": {
        "model": ModelSettings(
            channels=1,
            colours="light",
            norm="batch",
            encoder="blocks",
            features=10,
            ucc_labels=(1, 2, 3, 4),
            classes=10,
        ),
        "training": TrainingSettings(
            learning_rate=1e-3,
            warm_up=100,
            decay=0.7,
            steps=3600,
            bags_per_step=768,
            averaging=0.99,
            evaluate_every=150,
            validation_bags=768,
        ),
        "reproduction": ReproductionSettings(),
    },
    "paper": {
        "model": ModelSettings(
            patch_px=28,
            channels=1,
            colours="light",
            width=16,
            stem_stride=1,
            encoder="blocks",
            normalise=True,
            features=10,
            ucc_labels=(1, 2, 3, 4),
            classes=10,
        ),
        "training": TrainingSettings(
            learning_rate=1e-4, steps=100_000, decode_every=1, averaging=0.0, evaluate_every=500, patience=20
        ),
        "reproduction": ReproductionSettings(min_share=1.0, shift_px=0),
    },
}


def reproduction_preset(experiment: str, preset: str) -> dict[str, Any]:
    """The settings of an experiment, by table: digits as above; photographs have colours and are mirrored.

    CIFAR-100 has 20 classes, so that its bags are larger and its patches have more features, as in the paper.
    """
    tables = dict(_IMAGES[preset])
    if experiment == "mnist":
        return tables
    has_many = experiment == "cifar100"
    model, training, reproduction = tables["model"], tables["training"], tables["reproduction"]
    return {
        "model": replace(
            model, patch_px=32, channels=3, features=16 if has_many else 10, classes=20 if has_many else 10
        ),
        "training": replace(training, bag_size=128 if has_many else 32),
        "reproduction": replace(reproduction, mirror=preset == "fast"),
    }
