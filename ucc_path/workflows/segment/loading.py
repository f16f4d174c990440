"""A model file becomes what a worker segments with: a network on its engine, a way to read, a way to decide.

Loaded once in a process, however many slides it works on.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import nn

from ucc_path.errors import ModelError, SettingsError
from ucc_path.features.cells import CellPlan
from ucc_path.features.engines import Engine, make_engine
from ucc_path.features.heads import CountHead
from ucc_path.features.levels import FromLevels
from ucc_path.features.pairing import PairedEngine
from ucc_path.features.reading import PatchReader, PictureReader, PictureShape
from ucc_path.features.smoothing import engine_of_shares
from ucc_path.formats import model_safetensors
from ucc_path.geometry import Cell
from ucc_path.mask.deciding import Decision
from ucc_path.model import UCC, PixelNetwork
from ucc_path.model.devices import choose_device
from ucc_path.model.recipes import TrainedModel, assemble
from ucc_path.slide import Slide
from ucc_path.slide.damage import Surviving
from ucc_path.workflows.assignment import PIXELS, assignment_of, decision_of, smoothing_px
from ucc_path.workflows.segment import memory
from ucc_path.workflows.segment.jobs import ModelSpec

# How far a network of pixels looks around a pixel. lite0 looks twice as far, and beyond this it hardly shows: of the
# pixels of a mask one in five thousand was of another class than with all around it, and no cell.
MARGIN_PX = {"blocks": 64, "lite0": 96}
_BEYOND_PX = 32  # that it looks around the places that are smoothed with those of a picture's inner part
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
    assign: str  # centroids, head, pixels or probability

    @property
    def depth(self) -> int:
        """How many values it gives for a cell."""
        return self.first_feature + (self.model.card.settings.features if self.head or not self.pictures else 0)

    @property
    def first_feature(self) -> int:
        """Which of a cell's values is the first of its features; before them is its share of the second class."""
        return 1 if self.pictures else 0

    def reader(
        self, slide: Slide, plan: CellPlan, *, is_strict: bool, known: dict[Cell, Surviving]
    ) -> PatchReader | PictureReader:
        """What reads blocks for it; `known` are those whose patches were read before."""
        if self.pictures:
            return PictureReader(slide, plan, self.pictures, is_strict)
        return PatchReader(slide, plan, is_strict, known)

    def decision(self, plan: CellPlan, neighbours: int) -> Decision:
        """How cells get their classes."""
        return decision_of(self.model, self.head, self.assign, neighbours=neighbours, cells_a_patch=plan.cells_a_patch)


@lru_cache(maxsize=1)
def load(spec: ModelSpec) -> Loaded:
    """The model of a file on its engine; refuses one that cannot do what is asked."""
    memory.keep_no_large_buffers()
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
    assign = assignment_of(model, head, wishes)
    if wishes.refit != "none" and model.centroids is None:
        raise SettingsError(
            f"--refit is for models with clusters, and {spec.path} is a model {card.model}; leave it out"
        )
    if wishes.refit == "merge" and head is None:
        raise SettingsError(
            f"--refit-merge is for models that count classes, and {spec.path} is a model {card.model}; give --refit"
        )
    unet = model.network if isinstance(model.network, PixelNetwork) else model.pixels if assign == PIXELS else None

    def make(network: nn.Module, side_px: int, at_once: int = 1) -> tuple[Engine, str]:
        shape = (at_once, side_px, side_px, _CHANNELS)
        return make_engine(wishes.inference, FromLevels(network, _CHANNELS), device, shape=shape, threads=spec.threads)

    if unet is None:
        engine, remark = make(model.network.get_submodule("extractor"), settings.patch_px, wishes.batch_size)
        return Loaded(model, engine, remark, device, wishes.batch_size, stride_px, None, head, assign)
    reach_px = smoothing_px(card, wishes)
    # A patch may reach further than a Unet looks, and so may what is smoothed.
    margin_px = max(MARGIN_PX[settings.encoder], settings.patch_px - stride_px, math.ceil(reach_px) + _BEYOND_PX)
    pictures = PictureShape.of(settings.patch_px, stride_px, margin_px=margin_px, multiple_px=settings.picture_multiple)
    engine, remark = engine_of_shares(unet, pictures, cell_px=stride_px, reach_px=reach_px, make=make)
    if unet is model.pixels:
        at_once = min(wishes.batch_size, (pictures.core_px // stride_px) ** 2)
        features, other = make(model.network.get_submodule("extractor"), settings.patch_px, at_once)
        engine = PairedEngine(engine, features, pictures, settings.patch_px, stride_px, at_once)
        remark = remark or other
    return Loaded(model, engine, remark, device, 1, stride_px, pictures, head, assign)
