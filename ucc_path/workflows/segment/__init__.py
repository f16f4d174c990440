"""Slides become masks, overlays and polygons: the work of `ucc-path segment`.

Each slide is worked on in a process of its own, so that none can take the others down, and its files appear together.
What is finished is left alone: a cohort that was interrupted is simply run again.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ucc_path.engine.sites import site_of
from ucc_path.engine.values import Crew, Remark, Said
from ucc_path.errors import OutputError, UccPathError, WorkerError
from ucc_path.formats import segmentation_json, summary_csv
from ucc_path.formats.atomic import explaining, lock_of, locked_folder
from ucc_path.workflows.events import Detail, Event, Failure, Notice, Step
from ucc_path.workflows.segment.finished import clear_leftovers, is_finished
from ucc_path.workflows.segment.jobs import Facts, ModelSpec, SlideJob, examine, segment_slide
from ucc_path.workflows.segment.memory import Share
from ucc_path.workflows.segment.progress import Cohort
from ucc_path.workflows.segment.request import SegmentRequest, check, identity_of, model_file, sha256_of
from ucc_path.workflows.segment.seating import seating
from ucc_path.workflows.slides import by_name, folders_of, largest_first

__all__ = ["SegmentReport", "SegmentRequest", "segment"]


@dataclass(frozen=True, slots=True)
class SegmentReport:
    """What came of it."""

    output: Path
    done: Mapping[str, Mapping[str, Any]]  # records of the slides that were segmented now, by name
    skipped: tuple[str, ...]  # that were finished before
    failures: tuple[Failure, ...]


def segment(request: SegmentRequest) -> Generator[Event, None, SegmentReport]:
    """Segments all slides; raises what concerns them all, reports what concerns one."""
    slides = by_name(request.slides)
    check(request, slides)
    model = model_file(request.model)
    identity = identity_of(request, sha256_of(model))
    with locked_folder(request.output) as folder:
        with explaining(folder):
            folder.mkdir(exist_ok=True)
        todo, skipped, failures = _sorted_out(request, folder, slides, identity)
        yield from failures
        if skipped:
            yield Step(f"{len(skipped)} of {len(slides)} slides are finished and are left as they are")
        done: dict[str, Mapping[str, Any]] = {}
        if todo:
            with site_of(request.cluster, request.workers) as site:
                share, seats, remark = seating(request, site.machines, len(todo))
                if remark:
                    yield Notice(remark)
                sees = [lock_of(folder), model, *folders_of(slides[name] for name in todo)]
                with site.crew(seats, sees) as crew:
                    mpix_a_cell = yield from _describe(crew, _spec(request, model, share))
                    cohort = Cohort(len(todo), mpix_a_cell)
                    jobs = [_job(request, folder, name, slides[name], model, share, identity) for name in todo]
                    yield from _work(crew, jobs, cohort, done, failures, is_only=len(slides) == 1)
        summary_csv.write(folder, segmentation_json.all_in(folder), {found.item: found.reason for found in failures})
    return SegmentReport(request.output, done, tuple(skipped), tuple(failures))


def _sorted_out(
    request: SegmentRequest, folder: Path, slides: Mapping[str, Path], identity: Mapping[str, Any]
) -> tuple[list[str], list[str], list[Failure]]:
    """Slides to be worked on, the largest first; those that are finished; and those whose place is taken."""
    todo, skipped, failures = [], [], []
    for name, slide in sorted(slides.items()):
        try:
            if request.overwrite or not is_finished(folder, name, slide, identity):
                todo.append(name)
            else:
                clear_leftovers(folder, name)  # of a run killed before it replaced anything
                skipped.append(name)
        except OutputError as err:
            if len(slides) == 1:
                raise
            failures.append(Failure(name, str(err)))
    return largest_first(todo, slides), skipped, failures


def _spec(request: SegmentRequest, model: Path, share: Share) -> ModelSpec:
    return ModelSpec(model, request.device, share.threads, request.segmentation)


def _job(
    request: SegmentRequest,
    folder: Path,
    name: str,
    slide: Path,
    model: Path,
    share: Share,
    identity: dict[str, Any],
) -> SlideJob:
    return SlideJob(
        name=name,
        slide=slide,
        slide_mpp=request.slide_mpp,
        output=folder,
        model=_spec(request, model, share),
        tissue=request.tissue,
        full_size=request.full_size,
        is_strict=request.strict,
        bytes_each=share.bytes_each,
        identity=identity,
    )


def _describe(crew: Crew, spec: ModelSpec) -> Generator[Event, None, float]:
    """What is used; a model that cannot be used is an error of the whole command, before any slide is touched.

    Returns the megapixels of a cell.
    """
    mpix_a_cell = 0.0
    for heard in crew.listen(examine, [spec]):
        if isinstance(heard, Remark):
            yield Notice(heard.text)
        elif not isinstance(heard, Said):
            facts = heard[1]
            if isinstance(facts, UccPathError):
                raise facts
            mpix_a_cell = facts.mpix_a_cell
            yield from _words(facts)
    return mpix_a_cell


def _words(facts: Facts) -> Generator[Event, None, None]:
    yield Detail(f"classes {', '.join(facts.classes)} at {facts.mpp:g} um/px, computed by {facts.computed_by}")
    if facts.remark:
        yield Notice(facts.remark)
    if not facts.is_converged:
        yield Notice("this model did no better than guessing when it was trained: its masks mean nothing")


def _work(
    crew: Crew,
    jobs: list[SlideJob],
    cohort: Cohort,
    done: dict[str, Mapping[str, Any]],
    failures: list[Failure],
    *,
    is_only: bool,
) -> Generator[Event, None, None]:
    for heard in crew.listen(segment_slide, jobs):
        if isinstance(heard, Remark):
            yield Notice(heard.text)
            continue
        if isinstance(heard, Said):
            yield from _told(heard.message, cohort)
            continue
        job, result = heard
        cohort.end(job.name, is_done=not isinstance(result, UccPathError))
        if isinstance(result, WorkerError):
            clear_leftovers(job.output, job.name)
        if isinstance(result, UccPathError):
            if is_only or isinstance(result, OutputError):  # a full disk is full for all of them
                raise WorkerError(f"{job.slide}: {result}") if isinstance(result, WorkerError) else result
            failures.append(Failure(job.name, str(result)))
            yield failures[-1]
        else:
            done[job.name] = result
            yield Detail(f"{job.name}: {result['patches']} patches in {result['seconds']:.1f} s")
        yield cohort.progress()


def _told(message: Any, cohort: Cohort) -> Generator[Event, None, None]:
    """A worker says how far a slide is, or something about it."""
    match message:
        case (str(name), int(patches), int(total)):
            cohort.hear(name, patches, total)
            yield cohort.progress()
        case (str(name), str(text)):
            yield Notice(f"{name}: {text}")
