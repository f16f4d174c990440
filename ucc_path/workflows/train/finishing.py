"""The end of a training: clusters, the second round, the model file; then the run is finished."""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ucc_path.clusters import Clusters
from ucc_path.formats import metrics_csv, model_safetensors, png, run_json
from ucc_path.formats.metrics_csv import MetricsRow
from ucc_path.model import UCC
from ucc_path.model.card import ModelCard
from ucc_path.model.recipes import ASSIGN_PIXELS, CENTROIDS, CLUSTERED, NETWORK, PIXELS, TEACHERS
from ucc_path.settings import ASSIGNMENTS
from ucc_path.tiles.labelling import CLASSES
from ucc_path.workflows.events import Detail, Event, Notice, Step
from ucc_path.workflows.train.assigning import Assignment, compare_assignments
from ucc_path.workflows.train.batches import bag_sampler
from ucc_path.workflows.train.data import tile_set
from ucc_path.workflows.train.learning import INTERRUPTED, Job, Lesson, Pace
from ucc_path.workflows.train.outcome import advice_for, find_clusters, judge, loss_picture
from ucc_path.workflows.train.record import second_record
from ucc_path.workflows.train.refining import Refined, refine
from ucc_path.workflows.train.run_folder import LOSS_PICTURE, RESUME, SECOND_ROUND, clear


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


def finish(
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
        if request.refines:
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
