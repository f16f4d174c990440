"""A data set becomes a trained model: the work of `ucc-path train`.

The tiles are read once into memory-mapped files; bags are drawn from them and learnt from until the validation loss
falls no more; the features of the best weights are clustered, the clusters named, a second round teaches a network of
pixels, and the model is written. Whatever happens on the way, the run can go on from its last saved state, to the very
same model.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Generator
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch

from ucc_path.errors import RunError
from ucc_path.formats import run_json
from ucc_path.model.devices import Ranks, emulates_bfloat16, in_words, joined, keep_memory
from ucc_path.workflows.events import Event, Notice, Step
from ucc_path.workflows.train.data import choose_rows, read_tiles
from ucc_path.workflows.train.finishing import TrainReport, finish
from ucc_path.workflows.train.learning import INTERRUPTED, Job, Lesson, learn, prepare
from ucc_path.workflows.train.record import first_record, identity_of, last_record
from ucc_path.workflows.train.request import TrainRequest, checked
from ucc_path.workflows.train.run_folder import RESUME, Run, clear, opened

__all__ = ["TrainReport", "TrainRequest", "train"]


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
        if request.training.precision == "bfloat16" and emulates_bfloat16(device):
            yield Notice(f"this {device.type} only emulates bfloat16; --precision float32 is quicker here")
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
            return (yield from finish(job, lesson, pace, record, should_stop))
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
