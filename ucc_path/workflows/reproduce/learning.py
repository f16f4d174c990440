"""A network learns from bags of labelled images; how well it clusters is looked at on the way."""

from __future__ import annotations

import math
import time
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from ucc_path.bags import LabelledImages, PowerSet
from ucc_path.clusters import kmeans, nearest
from ucc_path.evaluation.clustering import clustering_accuracy
from ucc_path.features import features_of
from ucc_path.formats.metrics_csv import MetricsRow
from ucc_path.model import training
from ucc_path.model.devices import mixed_precision
from ucc_path.model.feeding import Feed
from ucc_path.model.losses import Batch
from ucc_path.model.preparing import Preparation
from ucc_path.model.recipes import LOSSES, build
from ucc_path.model.training import Evaluation, Learner
from ucc_path.stain import count_levels, mean_and_spread
from ucc_path.workflows.events import Detail, Event, Progress
from ucc_path.workflows.reproduce.request import Variant
from ucc_path.workflows.train.learning import SHOW_EVERY_S, metrics_row

_STARTS_ON_THE_WAY = 3  # of k-means, which at the end has more
_MIN_STD = 1e-3


@dataclass(frozen=True, slots=True)
class CurvePoint:
    """How well a network counts and clusters at a step, on val images."""

    step: int
    ucc_accuracy: float | None
    clustering: float


@dataclass(frozen=True, slots=True, eq=False)
class Learnt:
    """A network with its best weights, and how it came to them."""

    network: nn.Module
    preparation: Preparation
    rows: tuple[MetricsRow, ...]
    curve: tuple[CurvePoint, ...]
    best_step: int
    parameters: int
    seconds: float


class _Drawn(NamedTuple):
    """A pool as tensors."""

    images: Tensor
    targets: Tensor
    shares: Tensor


def learn(
    variant: Variant, train: LabelledImages, val: LabelledImages, device: torch.device
) -> Generator[Event, None, Learnt]:
    """Trains a variant until the validation loss falls no more."""
    began_s = time.perf_counter()
    settings = variant.training
    preparation = preparation_of(train).to(device)
    torch.manual_seed(settings.seed)
    network = build(
        variant.kind,
        variant.model,
        outputs=len(variant.model.ucc_labels),
        alpha=settings.alpha,
        decode_every=settings.decode_every,
    )
    learner = Learner(network, LOSSES[variant.kind], settings, device)
    lesson = _Lesson(variant, train, val, preparation, device)
    rows: list[MetricsRow] = []
    curve: list[CurvePoint] = []
    shown_s = 0.0
    with Feed(lesson.drawn, 0, settings.steps) as feed:
        steps = training.train(learner, lambda: lesson.batch(feed.take()), lesson.validation, settings)
        for evaluation in steps:
            if evaluation:
                rows.append(metrics_row(evaluation))
                if variant.reproduction.curve_images:
                    curve.append(lesson.point(learner, evaluation))
                yield Detail(_words(variant, rows[-1], curve))
            if time.perf_counter() - shown_s >= SHOW_EVERY_S or evaluation:
                shown_s = time.perf_counter()
                yield _progress(variant, learner)
    network.load_state_dict(dict(learner.best_weights))
    seconds = time.perf_counter() - began_s
    return Learnt(
        network.eval(), preparation, tuple(rows), tuple(curve), learner.best_step, learner.parameters, seconds
    )


def preparation_of(images: LabelledImages) -> Preparation:
    """Light less its mean and divided by its spread over the train images."""
    mean, std = mean_and_spread(count_levels(images.images), np.arange(256) / 255)
    return Preparation("light", mean.tolist(), np.maximum(std, _MIN_STD).tolist())


class _Lesson:
    """What one variant learns from and is judged by on the way."""

    def __init__(
        self,
        variant: Variant,
        train: LabelledImages,
        val: LabelledImages,
        preparation: Preparation,
        device: torch.device,
    ) -> None:
        self._variant, self._preparation, self._device = variant, preparation, device
        parts = (variant.model, variant.training, variant.reproduction)
        self._train = PowerSet(train, *parts, purpose="train", augmented=True)
        self._val = PowerSet(val, *parts, purpose="val")
        self._few = val.chosen(np.arange(min(len(val), variant.reproduction.curve_images)))

    def drawn(self, number: int) -> _Drawn:
        """The pool of a step; called in a thread."""
        return self._tensors(self._train, number)

    def batch(self, drawn: _Drawn) -> Batch:
        """As the network takes it: one large bag, of which the others are parts."""
        images, targets, shares = (value.to(self._device, non_blocking=True) for value in drawn)
        return Batch(self._preparation(images[None]), targets, self._preparation.variance, shares)

    def validation(self) -> Iterator[Batch]:
        """The same bags at every evaluation."""
        settings = self._variant.training
        for number in range(math.ceil(settings.validation_bags / settings.bags_per_step)):
            yield self.batch(self._tensors(self._val, number))

    def point(self, learner: Learner, evaluation: Evaluation) -> CurvePoint:
        """How well the network clusters now."""
        variant, classes = self._variant, self._variant.model.classes
        with learner.averaged():
            extractor = learner.network.get_submodule("extractor")
            features = features_of(self._few.images, extractor, self._preparation, self._device)
        assigned = nearest(features, kmeans(features, classes, variant.seed, _STARTS_ON_THE_WAY))
        accuracy = clustering_accuracy(assigned, self._few.classes, count=classes)
        counted = evaluation.val.accuracy if evaluation.val and variant.kind == "ucc" else None
        return CurvePoint(evaluation.step, counted, accuracy)

    def _tensors(self, sampler: PowerSet, number: int) -> _Drawn:
        pool = sampler.draw(number, self._variant.training.bags_per_step)
        targets = pool.classes[None] if self._variant.kind == "supervised" else pool.labels
        return _Drawn(*(torch.from_numpy(np.ascontiguousarray(part)) for part in (pool.images, targets, pool.shares)))


def drawn_again(learnt: Learnt, features: Tensor) -> Tensor | None:
    """Images (n, side, side, channels) from 0 to 255 that the decoder draws of features; None without a decoder."""
    decoder = getattr(learnt.network, "decoder", None)
    if decoder is None:
        return None
    with torch.no_grad(), mixed_precision(features.device):
        drawn: Tensor = decoder(features).float().movedim(1, -1)
    return ((drawn * learnt.preparation.std + learnt.preparation.mean) * 255).clamp(0, 255).round()


def _words(variant: Variant, row: MetricsRow, curve: list[CurvePoint]) -> str:
    accuracy = "" if row.val_accuracy is None else f", accuracy {row.val_accuracy:.3f}"
    clustering = f", clusters {curve[-1].clustering:.3f}" if curve else ""
    return f"{variant.key} step {row.step}: val loss {row.val_loss or math.nan:.4f}{accuracy}{clustering}"


def _progress(variant: Variant, learner: Learner) -> Progress:
    recent = learner.recent()
    note = f"loss {recent.loss:.3f}" if recent else ""
    note += f", accuracy {recent.accuracy:.2f}" if recent and recent.accuracy is not None else ""
    return Progress(f"training {variant.key}", learner.step, variant.training.steps, "steps", note)
