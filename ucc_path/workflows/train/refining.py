"""The second round: a network of pixels, a Unet, learns from the labels of tiles where in them the classes are.

A patch by itself shows a few cells; a Unet sees what lies around them, and draws finer masks. It needs to be told the
class of whole tiles: where kinds are taught they say it, and where only counts are, `sorting` finds it.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ucc_path.bags import TileSet, WholeSampler, tiles_a_step
from ucc_path.clusters import Clusters
from ucc_path.errors import DatasetError, DivergedError
from ucc_path.formats import metrics_csv, png, resume_state
from ucc_path.formats.metrics_csv import MetricsRow
from ucc_path.model import network_of_pixels
from ucc_path.model.devices import ALONE
from ucc_path.model.losses import UNCLEAR, label_losses
from ucc_path.model.training import Learner
from ucc_path.settings import TrainingSettings
from ucc_path.tiles.labelling import CLASSES
from ucc_path.workflows.events import Event, Notice, Step
from ucc_path.workflows.train.data import tile_set
from ucc_path.workflows.train.first_weights import begin
from ucc_path.workflows.train.learning import INTERRUPTED, Job, Lesson, Pace, learn
from ucc_path.workflows.train.outcome import entropy_of, loss_picture
from ucc_path.workflows.train.request import TrainRequest
from ucc_path.workflows.train.run_folder import LOSS_PICTURE, RESUME, SECOND_ROUND, Run, clear
from ucc_path.workflows.train.sorting import classes_of_tiles

_NAMES = (*CLASSES, "mixture", "unclear")
_RISING_STEPS, _FALLING_SHARE = 50, 0.5


@dataclass(frozen=True, slots=True, eq=False)
class Refined:
    """What came of a second round."""

    weights: dict[str, Tensor]  # those of the last evaluation; none before the first
    parameters: int
    pace: Pace
    steps: int
    best_step: int
    rows: tuple[MetricsRow, ...]  # none where it was interrupted
    guess: float

    @property
    def is_interrupted(self) -> bool:
        return self.pace.stopped == INTERRUPTED


def refine(
    job: Job, first: Lesson, clusters: Clusters, should_stop: Callable[[], bool]
) -> Generator[Event, None, Refined | None]:
    """Teaches the network of pixels; None where the tiles cannot teach it, with a word on why.

    `first` has the best weights of the first round. One process does it, whatever the number that did the first.
    """
    request, folder = job.request, job.run.folder / SECOND_ROUND
    classes = classes_of_tiles(job, first, clusters)
    tiles = {split: _tiles(job, split, classes[split]) for split in classes}
    training = _settings(request.training, tiles["train"].images.shape[1])
    second = replace(job, ranks=ALONE, run=Run(folder, {}), request=_request(request, training, folder))
    second = replace(second, what="second round", unit="tiles", share=training.refine)
    try:
        sampler = _sampler(second, tiles, "train")
    except DatasetError as err:
        yield Notice(f"there is no second round: {err}")
        return None
    val = None
    if "val" in tiles:
        try:
            val = _sampler(second, tiles, "val")
        except DatasetError as err:
            yield Notice(f"{err}. Without them nothing tells how well the second round does")
    folder.mkdir(exist_ok=True)
    torch.manual_seed(training.seed)
    losses = label_losses(training.sure_pure, training.sure_mixed, training.sure_rest)
    # The step size falls to nothing, so the last weights are the steadiest; a few val labels would choose by chance.
    network = network_of_pixels(request.model_settings)
    begin(network)
    learner = Learner(network, losses, training, job.device, keeps_last=True)
    guess = entropy_of(np.full(len(CLASSES), 1 / len(CLASSES)))
    lesson = replace(first, learner=learner, train=sampler, val=val, guess=guess)
    yield Step(f"Second round: {learner.parameters:,} parameters learn where in the tiles the classes are")
    try:
        pace = yield from learn(second, lesson, should_stop)
    except DivergedError as err:
        yield Notice(f"there is no second round: {err}")
        clear(job.run.folder, (SECOND_ROUND,))
        return None
    rows: tuple[MetricsRow, ...] = ()  # none may be there yet, where it was stopped
    if pace.stopped != INTERRUPTED:
        rows = tuple(metrics_csv.read(folder))
        title = f"{job.run.folder.name}: second round, learnt from labels of tiles"
        png.write(folder / LOSS_PICTURE, loss_picture(rows, learner.best_step, guess, title))
        clear(folder, (RESUME,))
    weights = dict(learner.best_weights)
    return Refined(weights, learner.parameters, pace, learner.step, learner.best_step, rows, guess)


def _settings(training: TrainingSettings, side_px: int) -> TrainingSettings:
    """Of the second round: fewer and larger pictures, and a step size that rises first and falls in the end."""
    steps = max(1, round(training.refine * training.steps))
    return replace(
        training,
        steps=steps,
        warm_up=min(_RISING_STEPS, steps // 4),
        decay=_FALLING_SHARE,
        bags_per_step=tiles_a_step(side_px, len(CLASSES) + 1),
        evaluate_every=2 * training.evaluate_every,
        validation_bags=max(1, training.validation_bags // 2),
    )


def _request(request: TrainRequest, training: TrainingSettings, folder: Path) -> TrainRequest:
    is_begun = request.resume and (folder / resume_state.FOLDER / resume_state.NAME).exists()
    return replace(request, training=training, resume=is_begun, tensorboard=False)


def _sampler(job: Job, tiles: dict[str, TileSet], split: str) -> WholeSampler:
    return WholeSampler(
        tiles[split],
        job.request.model_settings,
        job.request.training,
        purpose=split,
        label_names=_NAMES if (tiles[split].labels == UNCLEAR).any() else _NAMES[:UNCLEAR],
        augmented=split == "train",
    )


def _tiles(job: Job, split: str, classes: NDArray[np.int64]) -> TileSet:
    return replace(tile_set(job.run.tiles, split, job.rows[split], job.request.model_settings.colours), labels=classes)
