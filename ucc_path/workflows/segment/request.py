"""What is asked of `segment`, checked before any work is done; what makes two requests the same."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ucc_path.engine.values import Cluster
from ucc_path.errors import ModelError, OutputError, SettingsError
from ucc_path.formats.segmentation_json import ENDINGS
from ucc_path.settings import SegmentationSettings, TissueSettings
from ucc_path.tissue import check_tissue_settings
from ucc_path.workflows.segment.memory import GB

MODEL_NAME = "model.safetensors"


@dataclass(frozen=True, slots=True)
class SegmentRequest:
    """Paths, settings and wishes of one `ucc-path segment`."""

    slides: tuple[Path, ...]
    model: Path  # a run, or the model in it
    output: Path
    slide_mpp: float | None = None
    device: str = "auto"
    workers: int = 1
    cluster: Cluster | None = None  # None: processes of this machine
    max_memory: int = 4 * GB
    full_size: bool = False
    strict: bool = False
    overwrite: bool = False
    segmentation: SegmentationSettings = SegmentationSettings()
    tissue: TissueSettings = TissueSettings()


def model_file(model: Path) -> Path:
    """The file of a model, given itself or by its run; refuses where there is none."""
    path = model / MODEL_NAME if model.is_dir() else model
    if not path.exists():
        where = f"{model} holds no {MODEL_NAME}" if model.is_dir() else f"there is no model {model}"
        raise ModelError(f"{where}; train one with ucc-path train DATASET -o {model}, or name one with -m RUN")
    return path


def sha256_of(path: Path) -> str:
    digest = hashlib.sha256()
    try:
        with path.open("rb") as file:
            while part := file.read(2**20):
                digest.update(part)
    except OSError as err:
        raise ModelError(f"{path} cannot be read ({err.strerror}); check the path and its permissions") from err
    return digest.hexdigest()


def identity_of(request: SegmentRequest, model_sha256: str) -> dict[str, Any]:
    """All that a mask depends on besides its slide, as the record has it."""
    return {
        "model": {"sha256": model_sha256},
        "settings": {
            "segmentation": asdict(request.segmentation),
            "tissue": asdict(request.tissue),
            "request": {"slide_mpp": request.slide_mpp, "full_size": request.full_size},
        },
    }


def check(request: SegmentRequest, slides: Mapping[str, Path]) -> None:
    """Refuses what cannot be meant; no file that is written may take the place of a slide."""
    check_tissue_settings(request.tissue)
    if request.cluster is not None and ":" in request.device:
        raise SettingsError(f"--device {request.device} names a GPU of one machine; with --engine ray give cuda")
    if not request.output.is_dir():
        return
    for name, slide in slides.items():
        for ending in ENDINGS.values():
            written = request.output / f"{name}{ending}"
            if written.exists() and slide.exists() and written.samefile(slide):
                raise OutputError(f"{written.name} of the result would replace the slide {slide}; choose another -o")
