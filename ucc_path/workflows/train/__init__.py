"""A data set becomes a trained model: the work of `ucc-path train`.

The tiles are read once into memory-mapped files; bags are drawn from them and learnt from until the validation loss
falls no more; the features of the best weights are clustered, the clusters named, and the model written. Whatever
happens on the way, the run can go on from its last saved state, to the very same model.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Generator
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ucc_path.clusters import Clusters
from ucc_path.errors import RunError
from ucc_path.formats import metrics_csv, model_safetensors, png, run_json
from ucc_path.formats.metrics_csv import MetricsRow
from ucc_path.model import UCC
from ucc_path.model.card import ModelCard
from ucc_path.model.devices import Ranks, in_words, joined, keep_memory
from ucc_path.model.recipes import ASSIGN_PIXELS, CENTROIDS, CLUSTERED, NETWORK, PIXELS, TEACHERS
from ucc_path.settings import ASSIGNMENTS
from ucc_path.tiles.labelling import CLASSES
from ucc_path.workflows.events import Detail, Event, Notice, Step
from ucc_path.workflows.train.assigning import Assignment, compare_assignments
from ucc_path.workflows.train.batches import bag_sampler
from ucc_path.workflows.train.data import choose_rows, read_tiles, tile_set
from ucc_path.workflows.train.learning import INTERRUPTED, Job, Lesson, Pace, learn, prepare
from ucc_path.workflows.train.outcome import advice_for, find_clusters, judge, loss_picture
from ucc_path.workflows.train.record import first_record, identity_of, last_record, second_record
from ucc_path.workflows.train.refining import Refined, refine, refines
from ucc_path.workflows.train.request import TrainRequest, checked
from ucc_path.workflows.train.run_folder import LOSS_PICTURE, RESUME, SECOND_ROUND, Run, clear, opened

__all__ = ["TrainReport", "TrainRequest", "train"]


@dataclass(frozen=True, slots=True)
class TrainReport:
    """What came of it."""

    run: Path
    step: int
    pace: Pace | None = None  # None where the run was finished before
    kept: MetricsRow | None = None  # the evaluation of the weights that were kept
    classes: tuple[str, ...] = ()
    second: Refined | None = None  # the second round, if there was one

    @property
    def is_interrupted(self) -> bool:
        """Whether the run was told to stop, and can go on."""
        return self.pace is not None and self.pace.stopped == INTERRUPTED


def train(
    request: TrainRequest, should_stop: Callable[[], bool] = lambda: False
) -> Generator[Event, None, TrainReport | None]:
    """Trains a model; None in the processes that only help the first one.

    `should_stop` is asked after every step; once it says so the state is saved and the run can go on later.
    """
    with joined(request.device) as (ranks, device), in_words():
        if device.type == "cpu":
            keep_memory()
        if ranks.is_first:
            return (yield from _lead(request, ranks, device, should_stop))
        yield from _follow(request, ranks, device, should_stop)
        return None


def _lead(
    request: TrainRequest, ranks: Ranks, device: torch.device, should_stop: Callable[[], bool]
) -> Generator[Event, None, TrainReport]:
    """The process that reads, writes and speaks; the others wait until it has made everything ready."""
    is_told = False

    def tell_the_others(is_over: bool) -> None:
        nonlocal is_told
        is_told = True
        ranks.any(is_over, device)

    try:
        asked, request = request, checked(request, ranks.world)
        if request.model != asked.model:
            yield Notice("with alpha 0 nothing is learnt from labels: this is the autoencoder")
        rows, notices = choose_rows(request)
        yield from notices
        identity = identity_of(request)
        with opened(request, identity) as run:
            if run.is_finished:
                clear(run.folder, (RESUME,))  # of a run killed just before it did
                return TrainReport(run.folder, int(run.record.get("steps") or 0))
            job = Job(request, rows, run, ranks, device)
            record = first_record(request, rows, run, identity, device=str(device), processes=ranks.world)
            yield from _what_is_new(run, record)
            lesson = yield from _begin(job, record, should_stop, lambda: tell_the_others(False))
            yield Step(_what_begins(job, lesson))
            pace = yield from learn(job, lesson, should_stop)
            record |= last_record(lesson.learner, pace)
            if pace.stopped == INTERRUPTED:
                run_json.write(run.folder, record)
                return TrainReport(run.folder, lesson.learner.step, pace)
            return (yield from _finish(job, lesson, pace, record, should_stop))
    finally:
        if not is_told:
            with suppress(RuntimeError):  # they may be gone, which is not what went wrong first
                tell_the_others(True)


def _begin(
    job: Job, record: dict[str, Any], should_stop: Callable[[], bool], when_ready: Callable[[], None]
) -> Generator[Event, None, Lesson]:
    """Reads the tiles and makes everything ready; where that fails the folder is left as it was."""
    has_begun = False

    def begin() -> None:
        nonlocal has_begun
        has_begun = True
        job.run.begin(record)
        when_ready()

    try:
        for progress in read_tiles(job.request, job.run.tiles, job.rows):
            yield progress
            if should_stop():
                raise KeyboardInterrupt
        return (yield from prepare(job, begin))
    finally:
        if not has_begun:
            job.run.leave()


def _what_is_new(run: Run, record: dict[str, Any]) -> Generator[Event, None, None]:
    """Where a run goes on in other circumstances, its weights can come out otherwise in their last digits."""
    for what in ("device", "processes", "versions") if run.record else ():
        before, now = run.record.get(what), record[what]
        if before != now and not isinstance(now, dict):
            yield Notice(
                f"the run was begun with {what} {before} and goes on with {now}: it may end slightly otherwise"
            )
        elif before != now:
            yield Notice("the run was begun with other versions of packages: it may end slightly otherwise")


def _follow(
    request: TrainRequest, ranks: Ranks, device: torch.device, should_stop: Callable[[], bool]
) -> Generator[Event, None, None]:
    """A process that helps: its own part of every batch."""
    if ranks.any(False, device):
        return
    request = checked(request, ranks.world)
    rows, _ = choose_rows(request)
    job = Job(request, rows, Run(Path(os.path.realpath(request.output)), {}), ranks, device)
    lesson = yield from prepare(job)
    with suppress(RunError):  # which the first process meets too, and tells of
        yield from learn(job, lesson, should_stop)


def _what_begins(job: Job, lesson: Lesson) -> str:
    train = ", ".join(f"{count} {name}" for name, count in job.rows["train"].counts().items())
    return (
        f"Training {job.request.model} on {job.device}"
        + (f", {job.ranks.world} processes" if job.ranks.world > 1 else "")
        + f": {lesson.learner.parameters:,} parameters, tiles: {train}"
    )


def _finish(
    job: Job, lesson: Lesson, pace: Pace, record: dict[str, Any], should_stop: Callable[[], bool]
) -> Generator[Event, None, TrainReport]:
    """Clusters, the second round, the model file, the picture of the loss; then no state is needed any more."""
    request, learner, folder = job.request, lesson.learner, job.run.folder
    rows = metrics_csv.read(folder)
    verdict = judge(rows, learner.best_step, lesson.guess, advice_for(request))
    tensors: dict[str, Tensor] = {NETWORK + name: value for name, value in learner.best_weights.items()}
    classes: tuple[str, ...] = CLASSES
    assignment, refined = None, None
    if request.model in CLUSTERED:
        yield Step("Clustering the features of the training patches")
        found = _clusters(job, lesson)
        tensors[CENTROIDS], classes = torch.from_numpy(found.centroids), found.names
        assignment = _assignment(job, lesson, found)
        if assignment:
            shares = ", ".join(f"by {name} {share:.3f}" for name, share in assignment.shares.items())
            yield Detail(f"patches of pure tiles that get their class {shares}")
        if pace.resumed_at_step != learner.step:
            clear(folder, (SECOND_ROUND,))  # which went on from other weights
        if refines(request):
            refined = yield from refine(job, lesson, found, should_stop)
    if refined is not None:
        record |= second_record(refined, pace)
        if refined.is_interrupted:
            run_json.write(folder, record)
            return TrainReport(folder, refined.steps, replace(pace, stopped=INTERRUPTED))
        tensors |= {PIXELS + name: value for name, value in refined.weights.items()}
        if request.supervision == "kind":  # the second round does not build on the first then
            verdict = judge(refined.rows, refined.best_step, refined.guess, advice_for(request))
    card = ModelCard(
        model=request.model,
        supervision=request.supervision,
        labels=request.label_names,
        settings=request.model_settings,
        alpha=request.training.alpha,
        mpp=job.rows["train"].rows[0].mpp,
        mean=lesson.colours[0],
        std=lesson.colours[1],
        classes=classes,
        converged=verdict.converged,
        versions=record["versions"],
        assign=ASSIGN_PIXELS if refined else assignment.chosen if assignment else ASSIGNMENTS[0],
    )
    model_safetensors.write(folder / model_safetensors.NAME, card, tensors)
    title = f"{folder.name}: model {request.model}, learnt from {TEACHERS[request.supervision]}"
    png.write(folder / LOSS_PICTURE, loss_picture(rows, learner.best_step, lesson.guess, title))
    last = {"converged": verdict.converged, "classes": classes, "finished": True}
    run_json.write(folder, record | last | {"assign": asdict(assignment) if assignment else None})
    clear(folder, (RESUME,))
    if verdict.advice:
        yield Notice(verdict.advice)
    kept = next((row for row in rows if row.step == learner.best_step), None)
    return TrainReport(folder, learner.step, pace, kept, classes, refined)


def _assignment(job: Job, lesson: Lesson, found: Clusters) -> Assignment | None:
    """What says the class of a patch better, by the val tiles, or by the train tiles where those lack a class."""
    network, request = lesson.learner.network, job.request
    if request.supervision != "kind" or not isinstance(network, UCC) or found.names != CLASSES:
        return None
    for split in ("val", "train"):
        rows = job.rows[split]
        tiles = tile_set(job.run.tiles, split, rows, request.model_settings.colours) if rows.rows else None
        compared = tiles and compare_assignments(
            network,
            request.label_names,
            found.centroids,
            tiles,
            rows.kinds(),
            request.model_settings,
            lesson.preparation,
            job.device,
            min_tissue=request.training.min_tissue,
        )
        if compared:
            return compared
    return None


def _clusters(job: Job, lesson: Lesson) -> Clusters:
    request, rows = job.request, job.rows["train"]
    lesson.learner.network.load_state_dict(dict(lesson.learner.best_weights))
    extractor = lesson.learner.network.get_submodule("extractor")
    sampler = bag_sampler(
        request, tile_set(job.run.tiles, "train", rows, request.model_settings.colours), rows.names, "clusters"
    )
    return find_clusters(
        sampler,
        rows.kinds(),
        extractor,
        lesson.preparation,
        job.device,
        clusters=request.model_settings.classes,
        seed=request.training.seed,
    )
