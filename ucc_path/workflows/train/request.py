"""What is asked of a training, and whether it can be asked."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from ucc_path.errors import SettingsError
from ucc_path.formats import lite0_pth, tensorboard_log
from ucc_path.model.recipes import LEARNS_FROM_MASKS, check_shape
from ucc_path.settings import MODELS, ModelSettings, TissueSettings, TrainingSettings
from ucc_path.tiles.labelling import CLASSES, KINDS


@dataclass(frozen=True, slots=True)
class TrainRequest:
    """Paths, settings and wishes of one `ucc-path train`."""

    dataset: Path
    output: Path
    model: str = MODELS[0]
    model_settings: ModelSettings = ModelSettings()
    training: TrainingSettings = TrainingSettings()
    tissue: TissueSettings = TissueSettings()
    device: str = "auto"
    resume: bool = False
    overwrite: bool = False
    tensorboard: bool = False

    @property
    def supervision(self) -> str:
        """What the model learns from: ucc, kind, mask or none."""
        if self.model == "ucc":
            return self.training.supervision
        return "mask" if self.model in LEARNS_FROM_MASKS else "none"

    @property
    def label_names(self) -> tuple[str, ...]:
        """What the outputs of the model mean, in order; for a UCC model the labels of bags."""
        if self.supervision == "ucc":
            return tuple(f"ucc {count}" for count in self.model_settings.ucc_labels)
        return KINDS if self.supervision == "kind" else ()

    @property
    def refines(self) -> bool:
        """Whether there is a second round: for two classes, and labels that say which tiles hold both."""
        has_labels = self.supervision == "kind" or (
            self.supervision == "ucc" and tuple(self.model_settings.ucc_labels) == (1, 2)
        )
        return self.training.refine > 0 and has_labels and self.model_settings.classes == len(CLASSES)

    def settings(self) -> dict[str, Any]:
        """All that the weights depend on besides the data."""
        return {
            "model": asdict(self.model_settings),
            "training": asdict(self.training),
            "tissue": asdict(self.tissue),
        }


def checked(request: TrainRequest, processes: int) -> TrainRequest:
    """The request as it will be carried out; refuses settings that do not fit together."""
    training = request.training
    check_shape(request.model_settings)
    if request.resume and request.overwrite:
        raise SettingsError("--resume goes on with a run and --overwrite starts it anew; give one of them")
    if training.learning_rate <= 0:
        raise SettingsError(f"learning_rate is {training.learning_rate:g}; give more than 0")
    if training.bags_per_step % processes:
        raise SettingsError(
            f"{training.bags_per_step} bags a step cannot be shared evenly by {processes} processes; "
            f"give a multiple of {processes} with --bags-per-step"
        )
    if request.model_settings.norm == "batch" and processes > 1:
        raise SettingsError(
            "norm = batch looks at the whole batch, which several processes do not see; set norm = group"
        )
    if request.model in LEARNS_FROM_MASKS and request.model_settings.classes != 2:
        raise SettingsError(
            f"--model {request.model} tells tumour from the rest: classes is 2, not {request.model_settings.classes}"
        )
    if request.tensorboard:
        tensorboard_log.require()
    if request.model == "ucc" and training.alpha == 0:  # nothing is learnt from labels then
        request = replace(request, model="autoencoder")
    if request.model_settings.encoder == "lite0" and (request.model == "unet" or request.refines):
        lite0_pth.require()
    return request
