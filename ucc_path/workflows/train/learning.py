"""The training loop at work: batches in, weights out, a saved state now and then."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass

import numpy as np
import torch

from ucc_path.errors import DatasetError, DivergedError, RunError
from ucc_path.formats import metrics_csv, resume_state
from ucc_path.formats.metrics_csv import MetricsRow
from ucc_path.formats.tensorboard_log import TensorBoardLog
from ucc_path.model import training
from ucc_path.model.devices import Ranks
from ucc_path.model.feeding import Feed
from ucc_path.model.preparing import Preparation
from ucc_path.model.recipes import CLUSTERED, LOSSES, build
from ucc_path.model.training import Evaluation, Learner
from ucc_path.workflows.events import Detail, Event, Notice, Progress, Step
from ucc_path.workflows.train.batches import Batches, Sampler, colours_of, make_sampler, tumour_share
from ucc_path.workflows.train.data import Rows, tile_set
from ucc_path.workflows.train.first_weights import begin
from ucc_path.workflows.train.outcome import BAGS_OF_TILE, entropy_of
from ucc_path.workflows.train.request import TrainRequest
from ucc_path.workflows.train.run_folder import Run

SHOW_EVERY_S = 0.5
_GO_ON, _SAVE, _STOP = range(3)
_ASK_EVERY = 10  # steps

EARLY, STEPS, DIVERGED, INTERRUPTED = "early", "steps", "diverged", "interrupted"
"""Why a training stopped."""


@dataclass(frozen=True, slots=True)
class Job:
    """One process's part in a training."""

    request: TrainRequest
    rows: dict[str, Rows]
    run: Run
    ranks: Ranks
    device: torch.device
    what: str = "training"
    unit: str = "bags"
    share: float = 1.0  # of --steps that it takes


@dataclass(frozen=True, slots=True, eq=False)
class Lesson:
    """A network with all it learns from."""

    learner: Learner
    preparation: Preparation
    colours: tuple[tuple[float, ...], tuple[float, ...]]
    train: Sampler
    val: Sampler | None
    guess: float  # the loss of a guess that looks at nothing


@dataclass(frozen=True, slots=True)
class Pace:
    """How a training went."""

    stopped: str
    resumed_at_step: int | None
    seconds: float
    bags_per_s: float
    waiting_share: float  # of the time, for batches


@dataclass(frozen=True, slots=True)
class _Spent:
    """Time, of all processes that worked on a run one after the other."""

    seconds: float
    waited_s: float  # for batches


def prepare(job: Job, when_ready: Callable[[], None] = lambda: None) -> Generator[Event, None, Lesson]:
    """The network with its first weights, and its samplers.

    `when_ready` is called once the data are found to be usable: what comes then is done by all processes together.
    """
    request, rows, settings = job.request, job.rows, job.request.model_settings
    tiles = tile_set(job.run.tiles, "train", rows["train"], settings.colours)
    train = make_sampler(request, tiles, rows["train"].names, "train")
    left_out = len(rows["train"].rows) - len(train.usable)
    if left_out:
        yield Notice(
            f"{left_out} of {len(rows['train'].rows)} train tiles have too little tissue for a bag and are not used"
        )
    if request.model in CLUSTERED and BAGS_OF_TILE * len(train.usable) * request.training.bag_size < settings.classes:
        raise DatasetError(f"there are fewer train patches than the {settings.classes} classes; add slides or labels")
    val = yield from _validation(job)
    plain = make_sampler(request, tiles, rows["train"].names, "colours")
    levels = colours_of(plain, settings.colours)
    when_ready()
    torch.manual_seed(request.training.seed)
    network = build(
        request.model,
        settings,
        outputs=len(request.label_names),
        alpha=request.training.alpha,
        decode_every=request.training.decode_every,
    )
    begin(network)
    learner = Learner(network, LOSSES[request.model], request.training, job.device, job.ranks)
    preparation = Preparation(settings.colours, *levels).to(job.device)
    return Lesson(learner, preparation, levels, train, val, _guess(request, val or plain, preparation))


def _validation(job: Job) -> Generator[Event, None, Sampler | None]:
    rows = job.rows["val"]
    without = "all --steps are taken and the last weights are kept, since nothing tells the best ones"
    if not rows.rows:
        yield Notice(f"there are no val tiles: {without}")
        return None
    try:
        tiles = tile_set(job.run.tiles, "val", rows, job.request.model_settings.colours)
        sampler = make_sampler(job.request, tiles, rows.names, "val")
    except DatasetError as err:
        yield Notice(f"{err}. Without them {without}")
        return None
    if job.request.supervision == "mask" and tumour_share(sampler) in (0, 1):
        yield Notice(f"the val tiles are all of one class, which is no test: {without}")
        return None
    return sampler


def _guess(request: TrainRequest, sampler: Sampler, preparation: Preparation) -> float:
    if request.supervision == "mask":
        share = tumour_share(sampler)
        return entropy_of(np.array([share, 1 - share]))
    outputs = len(request.label_names)
    # The autoencoder's guess is the mean of all patches, which is wrong by their variance.
    return entropy_of(np.full(outputs, 1 / outputs)) if outputs else preparation.variance


def learn(job: Job, lesson: Lesson, should_stop: Callable[[], bool]) -> Generator[Event, None, Pace]:
    """Trains from where the run stands to its end, or until it is told to stop; saves the state on the way."""
    learner, settings = lesson.learner, job.request.training
    resumed_at_step, earlier = yield from _restore(job, learner)
    batches = Batches(job.request, lesson.preparation, job.device, job.ranks)
    began_s = saved_s = shown_s = time.perf_counter()
    stopped = ""
    waits_s: list[float] = []

    def spent() -> _Spent:
        return _Spent(earlier.seconds + time.perf_counter() - began_s, earlier.waited_s + feed.waited_s + sum(waits_s))

    def save() -> None:
        numbers, tensors = learner.state()
        if job.ranks.is_first:
            resume_state.write(job.run.folder, {**numbers, **asdict(spent())}, tensors)

    with Feed(batches.drawing(lesson.train), learner.step, settings.steps) as feed, _log(job, resumed_at_step) as log:
        steps = training.train(
            learner,
            lambda: batches.prepared(feed.take()),
            lambda: batches.validation(lesson.val, waits_s.append),
            settings,
        )
        yield _progress(learner, job)
        try:
            for evaluation in steps:
                now_s = time.perf_counter()
                if evaluation:
                    yield from _tell(job, evaluation, log)
                wish = _STOP if should_stop() else _SAVE if now_s - saved_s >= settings.save_every_s else _GO_ON
                wish = _agreed(job, learner.step, wish)
                if wish == _STOP:
                    stopped = INTERRUPTED
                    break
                if wish == _SAVE:
                    save()
                    saved_s = time.perf_counter()
                if now_s - shown_s >= SHOW_EVERY_S:
                    shown_s = now_s
                    yield _progress(learner, job)
        except DivergedError as err:
            if not learner.best_weights or lesson.val is None:
                raise
            yield Notice(f"{err}. The best weights before that, of step {learner.best_step}, are kept")
            stopped = DIVERGED
        if stopped != DIVERGED:
            save()
            yield _progress(learner, job)
        stopped = stopped or (STEPS if learner.step >= settings.steps else EARLY)
        bags, total = learner.step * settings.bags_per_step, spent()
        return Pace(stopped, resumed_at_step, total.seconds, bags / total.seconds, total.waited_s / total.seconds)


def _agreed(job: Job, step: int, wish: int) -> int:
    """What all processes do after this step; asked every so often, since for that their GPUs wait for each other."""
    if job.ranks.world > 1 and step % _ASK_EVERY:
        return _GO_ON
    return job.ranks.highest(wish, job.device)


def _restore(job: Job, learner: Learner) -> Generator[Event, None, tuple[int | None, _Spent]]:
    """Brings the learner to the saved state; the step it goes on from, and the time that it took to get there."""
    saved = resume_state.read(job.run.folder) if job.request.resume else None
    spent = _Spent(0.0, 0.0)
    if saved:
        numbers, tensors = saved
        try:
            learner.restore(numbers, tensors)
            spent = _Spent(float(numbers["seconds"]), float(numbers["waited_s"]))
        except (KeyError, TypeError, ValueError, RuntimeError) as err:
            raise RunError(
                f"the saved state in {job.run.folder} is not of this model; start anew with --overwrite"
            ) from err
    if learner.step > job.request.training.steps:
        least = math.ceil(learner.step / job.share)
        raise RunError(f"{job.run.folder} has taken {learner.step} steps; give --steps {least} or more")
    if job.request.resume:
        yield Step(f"Going on at step {learner.step}" if saved else "Nothing was saved: starting at step 0")
    if job.ranks.is_first:
        metrics_csv.keep_until(job.run.folder, learner.step)
    return learner.step if saved else None, spent


@contextmanager
def _log(job: Job, resumed_at_step: int | None) -> Iterator[TensorBoardLog | None]:
    if job.request.tensorboard and job.ranks.is_first:
        with TensorBoardLog(job.run.folder, resumed_at_step=resumed_at_step) as log:
            yield log
    else:
        yield None


def _tell(job: Job, evaluation: Evaluation, log: TensorBoardLog | None) -> Generator[Event, None, None]:
    row = metrics_row(evaluation)
    if job.ranks.is_first:
        metrics_csv.append(job.run.folder, row)
        if log:
            log.add(row)
    val = "" if row.val_loss is None else f", val loss {row.val_loss:.4f}"
    accuracy = row.train_accuracy if row.val_accuracy is None else row.val_accuracy
    yield Detail(
        f"step {row.step}: loss {row.train_loss:.4f}{val}" + ("" if accuracy is None else f", accuracy {accuracy:.3f}")
    )


def metrics_row(evaluation: Evaluation) -> MetricsRow:
    """An evaluation as a row of the table."""
    train, val = evaluation.train, evaluation.val
    return MetricsRow(
        evaluation.step,
        train.loss,
        train.cross_entropy,
        train.mse,
        train.accuracy,
        val.loss if val else None,
        val.cross_entropy if val else None,
        val.mse if val else None,
        val.accuracy if val else None,
    )


def _progress(learner: Learner, job: Job) -> Progress:
    bags, recent = job.request.training.bags_per_step, learner.recent()
    note = f"step {learner.step}" + (f", loss {recent.loss:.3f}" if recent else "")
    note += f", accuracy {recent.accuracy:.2f}" if recent and recent.accuracy is not None else ""
    return Progress(job.what, learner.step * bags, job.request.training.steps * bags, job.unit, note)
