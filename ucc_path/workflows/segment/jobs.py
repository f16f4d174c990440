"""What is sent to the workers of `segment`. PyTorch is imported there, and not in the process that leads them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ucc_path.settings import SegmentationSettings, TissueSettings


@dataclass(frozen=True, slots=True)
class ModelSpec:
    """Which model, computed how."""

    path: Path
    device: str
    threads: int
    segmentation: SegmentationSettings


@dataclass(frozen=True, slots=True)
class Facts:
    """What the user should know of a model before it is used."""

    classes: tuple[str, ...]
    mpp: float
    is_converged: bool
    mpix_a_cell: float  # at the model's scale
    computed_by: str
    remark: str  # on that, where it is not the usual


@dataclass(frozen=True, slots=True)
class SlideJob:
    """A slide, and all that is needed to segment it in another process."""

    name: str
    slide: Path
    slide_mpp: float | None
    output: Path
    model: ModelSpec
    tissue: TissueSettings
    full_size: bool
    is_strict: bool
    bytes_each: int  # that the process may take
    identity: dict[str, Any]  # of the request

    @property
    def segmentation(self) -> SegmentationSettings:
        return self.model.segmentation


def examine(spec: ModelSpec) -> Facts:
    """Loads a model; refuses one that cannot be used, or not so."""
    from ucc_path.workflows.segment.loading import load

    loaded = load(spec)
    card = loaded.model.card
    computed_by = f"{loaded.engine.name} on {loaded.device}"
    return Facts(card.classes, card.mpp, card.converged, loaded.stride_px**2 / 1e6, computed_by, loaded.remark)


def segment_slide(job: SlideJob) -> dict[str, Any]:
    """Segments one slide and writes all its files; the record of it."""
    from ucc_path.workflows.segment.slide import segment

    return segment(job)
