"""Batches for each model: what its samplers draw, as the tensors that its network takes."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ucc_path.bags import Bags, BagSampler, Crops, CropSampler, TileSet, Wholes, WholeSampler
from ucc_path.model.devices import Ranks
from ucc_path.model.feeding import Feed
from ucc_path.model.losses import Batch
from ucc_path.model.preparing import Preparation, blurred
from ucc_path.settings import ModelSettings, TrainingSettings
from ucc_path.stain import DENSITY_OF_LEVEL, count_levels, mean_and_spread
from ucc_path.workflows.train.request import TrainRequest

Sampler = BagSampler | CropSampler | WholeSampler
Drawn = Bags | Crops | Wholes

_BAGS_FOR_COLOURS = 100
_MIN_STD = 1e-3  # a data set of one colour is no reason to divide by zero


def make_sampler(request: TrainRequest, tiles: TileSet, names: tuple[str, ...], purpose: str) -> Sampler:
    """What draws this model's batches from the tiles; only those to learn from are augmented."""
    if request.model != "unet":
        return bag_sampler(request, tiles, names, purpose)
    return CropSampler(tiles, *_settings(request), purpose=purpose, label_names=names, augmented=purpose == "train")


def bag_sampler(request: TrainRequest, tiles: TileSet, names: tuple[str, ...], purpose: str) -> BagSampler:
    return BagSampler(tiles, *_settings(request), purpose=purpose, label_names=names, augmented=purpose == "train")


def _settings(request: TrainRequest) -> tuple[ModelSettings, TrainingSettings]:
    return request.model_settings, request.training


def colours_of(sampler: Sampler, colours: str) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Mean and standard deviation of each channel of what a network will see: its light, or its optical density."""
    pixels = _pixels(sampler.draw(0, _BAGS_FOR_COLOURS))
    values = np.arange(256) / 255 if colours == "light" else DENSITY_OF_LEVEL
    mean, std = mean_and_spread(count_levels(pixels), values)
    return tuple(mean.tolist()), tuple(np.maximum(std, _MIN_STD).tolist())


def _pixels(drawn: Drawn) -> NDArray[np.uint8]:
    return drawn.patches if isinstance(drawn, Bags) else drawn.images


def tumour_share(sampler: Sampler) -> float:
    """The share of what a network learns from masks to call tumour."""
    drawn = sampler.draw(0, _BAGS_FOR_COLOURS)
    truth = drawn.masks if isinstance(drawn, Crops) else drawn.tumour if isinstance(drawn, Bags) else None
    return 0.0 if truth is None else float(truth.mean())


def grafted(images: Tensor, partners: Tensor, is_grafted: Tensor) -> Tensor:
    """Images (tiles, channels, side, side) with the parts that each takes from its partner."""
    return torch.where(is_grafted.unsqueeze(1), images[partners], images)


@dataclass(frozen=True, slots=True)
class Tensors:
    """A batch as it leaves the thread that draws: in memory from which it reaches a GPU without being waited for."""

    pixels: Tensor
    targets: Tensor
    stain: Tensor | None
    blur_px: Tensor | None = None  # stays on the CPU
    tissue: Tensor | None = None
    partners: Tensor | None = None
    is_grafted: Tensor | None = None


@dataclass(frozen=True, slots=True)
class Batches:
    """From the number of a step to its batch on the device; of several processes each gets its part."""

    request: TrainRequest
    preparation: Preparation
    device: torch.device
    ranks: Ranks

    def drawing(self, sampler: Sampler) -> Callable[[int], Tensors]:
        """What a thread calls for the batch of a step."""
        count = self.request.training.bags_per_step
        if isinstance(sampler, WholeSampler):  # for one process, since tiles of a step exchange parts
            return lambda number: self._tensors(sampler.draw(number, count))
        part = self.ranks.part(count)
        return lambda number: self._tensors(sampler.draw(number, count, part))

    def prepared(self, tensors: Tensors) -> Batch:
        """The batch on the device, as the network takes it."""
        pixels, targets = (self._moved(value) for value in (tensors.pixels, tensors.targets))
        stain = None if tensors.stain is None else self._moved(tensors.stain)
        images = self.preparation(pixels, stain)
        if tensors.tissue is None or tensors.partners is None or tensors.is_grafted is None:
            return Batch(self._focused(images, tensors), targets, self.preparation.variance)
        tissue, partners, is_grafted = (
            self._moved(value) for value in (tensors.tissue, tensors.partners, tensors.is_grafted)
        )
        # What was exchanged is out of focus with the rest, which would otherwise give it away.
        images = self._focused(grafted(images, partners, is_grafted), tensors)
        return Batch(images, targets, self.preparation.variance, tissue=tissue, is_grafted=is_grafted)

    def _focused(self, images: Tensor, tensors: Tensors) -> Tensor:
        return images if tensors.blur_px is None else blurred(images, tensors.blur_px)

    def validation(self, sampler: Sampler | None, on_wait: Callable[[float], None]) -> Iterator[Batch]:
        """The same batches at every evaluation, none without validation tiles; at the end the seconds waited for."""
        if sampler is None:
            return
        training = self.request.training
        count = math.ceil(training.validation_bags / training.bags_per_step)
        with Feed(self.drawing(sampler), 0, count) as feed:
            for _ in range(count):
                yield self.prepared(feed.take())
            on_wait(feed.waited_s)

    def _tensors(self, drawn: Drawn) -> Tensors:
        stain = None if drawn.stain is None else self._pinned(drawn.stain)
        blur_px = None if isinstance(drawn, Bags) else torch.from_numpy(drawn.blur_px)
        tensors = Tensors(self._pinned(_pixels(drawn)), self._pinned(self._truth(drawn)), stain, blur_px)
        if not isinstance(drawn, Wholes):
            return tensors
        tissue, partners, is_grafted = (
            self._pinned(values) for values in (drawn.tissue, drawn.partners, drawn.is_grafted)
        )
        return replace(tensors, tissue=tissue, partners=partners, is_grafted=is_grafted)

    def _truth(self, drawn: Drawn) -> NDArray[np.int64] | NDArray[np.bool_]:
        if isinstance(drawn, Crops):
            return drawn.masks
        if isinstance(drawn, Bags) and self.request.model == "supervised" and drawn.tumour is not None:
            return drawn.tumour.astype(np.int64)
        return drawn.labels

    def _pinned(self, values: NDArray[np.generic]) -> Tensor:
        tensor = torch.from_numpy(values)
        return tensor.pin_memory() if self.device.type == "cuda" else tensor

    def _moved(self, tensor: Tensor) -> Tensor:
        return tensor.to(self.device, non_blocking=True)
