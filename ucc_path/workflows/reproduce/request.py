"""What is asked of `reproduce`: an experiment, and which models of it; checked before any work is done."""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from ucc_path.bags.power_set import check_counts
from ucc_path.errors import SettingsError
from ucc_path.model.recipes import check_shape
from ucc_path.settings import REPRODUCED, ModelSettings, ReproductionSettings, TrainingSettings

NAMES = REPRODUCED
RAW = ("kmeans", "spectral")


@dataclass(frozen=True, slots=True)
class ReproduceRequest:
    """Paths, settings and wishes of one `ucc-path reproduce`."""

    experiment: str
    data: Path
    output: Path
    models: tuple[str, ...] = NAMES
    seeds: int = 1
    model: ModelSettings = ModelSettings()
    training: TrainingSettings = TrainingSettings()
    reproduction: ReproductionSettings = ReproductionSettings()
    device: str = "auto"
    overwrite: bool = False


@dataclass(frozen=True, slots=True)
class Variant:
    """One model with one seed, and all that it depends on besides the images."""

    name: str
    model: ModelSettings
    training: TrainingSettings
    reproduction: ReproductionSettings

    @property
    def kind(self) -> str:
        """Which network it is: ucc, autoencoder or supervised; none for raw pixels."""
        if self.name in RAW:
            return ""
        return self.name if self.name in ("autoencoder", "supervised") else "ucc"

    @property
    def labels(self) -> str:
        """The counts it is taught, `1-4`; empty where it is taught none."""
        return f"{self.model.ucc_labels[0]}-{self.model.ucc_labels[-1]}" if self.kind == "ucc" else ""

    @property
    def pooling(self) -> str:
        return self.model.pooling if self.kind == "ucc" else ""

    @property
    def seed(self) -> int:
        return self.training.seed

    @property
    def key(self) -> str:
        """A name for its files."""
        return "_".join(filter(None, (self.name, self.labels, self.pooling, f"seed{self.seed}")))

    def settings(self) -> dict[str, Any]:
        """Those that it depends on, as they are recorded."""
        if not self.kind:
            return {"model": {"patch_px": self.model.patch_px, "classes": self.model.classes}}
        return {
            "model": asdict(self.model),
            "training": asdict(self.training),
            "reproduction": asdict(self.reproduction),
        }


def variants_of(request: ReproduceRequest) -> list[Variant]:
    """All that is to be done; refuses what does not fit together."""
    check_shape(request.model)
    check_counts(request.model, request.training)
    if request.training.learning_rate <= 0:
        raise SettingsError(f"learning_rate is {request.training.learning_rate:g}; give more than 0")
    labels = request.model.ucc_labels
    if labels != tuple(range(labels[0], labels[-1] + 1)):
        raise SettingsError(f"ucc_labels is {list(labels)}; give counts without a gap, such as [1, 2, 3, 4]")
    unknown = [name for name in request.models if name not in NAMES]
    if unknown or not request.models:
        raise SettingsError(f"--models has no {unknown[0] if unknown else 'name'!r}; it can be {', '.join(NAMES)}")
    found = []
    for name in sorted(set(request.models), key=NAMES.index):
        for seed in range(request.training.seed, request.training.seed + request.seeds):
            found.append(_variant(request, name, seed))
    return found


def _variant(request: ReproduceRequest, name: str, seed: int) -> Variant:
    labels = request.model.ucc_labels
    if name.startswith("ucc2+"):
        labels = tuple(label for label in labels if label > 1)
        if len(labels) < 2:
            raise SettingsError(f"{name} counts from 2 on; give --ucc-labels up to 3 or more, such as 1-4")
    alpha = 1.0 if name.endswith("alpha1") else request.training.alpha
    training = replace(request.training, alpha=alpha, seed=seed)
    variant = Variant(name, replace(request.model, ucc_labels=labels), training, request.reproduction)
    if variant.kind == "ucc":
        return variant
    usual = ModelSettings()  # counts nothing, and is the same run whatever is counted beside it
    return replace(variant, model=replace(request.model, ucc_labels=usual.ucc_labels, pooling=usual.pooling))


def labels_from(text: str) -> tuple[int, ...]:
    """`1-4` as its numbers.

    >>> labels_from("2-4")
    (2, 3, 4)
    """
    found = re.fullmatch(r"(\d{1,3})-(\d{1,3})", text)
    if not found or not 0 < int(found[1]) < int(found[2]):
        raise SettingsError(f"--ucc-labels {text!r} is no range of counts; give one such as 1-4")
    return tuple(range(int(found[1]), int(found[2]) + 1))
