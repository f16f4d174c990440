"""Slides and their annotations become a labelled data set: the work of `ucc-path tile`.

Every slide is surveyed first (tissue, outline, where tiles can be had); then slides are given to splits and tiles to
slides; then the tiles are cut. The data set appears under its name only when all of it is there.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ucc_path.engine.sites import site_of
from ucc_path.engine.values import Crew, Remark, Said, Seats, Site
from ucc_path.errors import DatasetError, OutputError, UccPathError, WorkerError
from ucc_path.formats import dataset_json, png, tiles_csv
from ucc_path.formats.atomic import lock_of, replacing_folder
from ucc_path.formats.tiles_csv import TileRow
from ucc_path.report.contact_sheet import Picture, contact_sheet
from ucc_path.tiles.camelyon import kinds_allowed
from ucc_path.tiles.labelling import KINDS, UNLABELLED
from ucc_path.tiles.splits import SPLITS
from ucc_path.workflows.events import Detail, Event, Failure, Notice, Progress
from ucc_path.workflows.slides import folders_of, largest_first
from ucc_path.workflows.tile.jobs import CutJob, Survey, SurveyJob, cut, survey
from ucc_path.workflows.tile.plan import plan
from ucc_path.workflows.tile.record import record
from ucc_path.workflows.tile.request import Source, TileRequest, preview_path, sources_of

__all__ = ["CONTACT_SHEET", "TileReport", "TileRequest", "tile"]

TILES_PER_JOB = 64
TILES_SHOWN = 16  # of each kind, on the contact sheet
CONTACT_SHEET = "contact_sheet.png"
_WORK = ".work"
_NO_LIMIT = 2**20  # of workers


@dataclass(frozen=True, slots=True)
class TileReport:
    """What came of it: tiles by split and kind, and the slides that failed with their reasons."""

    output: Path
    counts: Mapping[str, Mapping[str, int]]
    failures: tuple[Failure, ...]


def tile(request: TileRequest) -> Generator[Event, None, TileReport]:
    """Makes the data set; raises what concerns it as a whole, reports what concerns one slide."""
    sources = sources_of(request)
    for source in sources:
        if source.rule:
            yield Notice(f"{source.name}: {source.rule.reason}")
    with (
        replacing_folder(request.output, marker=dataset_json.NAME, overwrite=request.overwrite) as folder,
        site_of(request.cluster, request.workers) as site,
        site.crew(_seats(site), _needed(request, sources)) as crew,
    ):
        work = folder / _WORK
        work.mkdir()
        surveys, failures = yield from _survey(request, sources, work, crew)
        for found in surveys:
            yield from _remarks(found)
        rows = yield from plan(request, surveys)
        failures += yield from _cut(request, _cut_jobs(request, folder, surveys, rows), crew)
        failed = {failure.item for failure in failures}
        kept = [row for name, slide_rows in rows.items() if name not in failed for row in slide_rows]
        if not kept:
            raise DatasetError("no slide gave a tile that was asked for, so nothing was written; check --totals")
        tiles_csv.write(folder, kept)
        dataset_json.write(folder, record(request, sources, surveys, kept, failures))
        png.write(folder / CONTACT_SHEET, contact_sheet(_samples(folder, kept)))
        shutil.rmtree(work)
    return TileReport(request.output, _count(kept, request.unlabelled), tuple(failures))


def _seats(site: Site) -> Seats:
    """A worker a core, on all machines that there are or will be."""
    return Seats(threads=1, most_each=max(machine.cores for machine in site.machines), most=_NO_LIMIT)


def _needed(request: TileRequest, sources: Sequence[Source]) -> list[Path]:
    """What every machine must have: the output, and the folders of slides and annotations."""
    annotations = {source.annotation.parent for source in sources if source.annotation}
    here = [Path()] if request.preview and not request.preview.is_absolute() else []
    output = Path(os.path.realpath(request.output))
    return [lock_of(output), *here, *folders_of(source.slide for source in sources), *sorted(annotations)]


def _survey(
    request: TileRequest, sources: Sequence[Source], work: Path, crew: Crew
) -> Generator[Event, None, tuple[list[Survey], list[Failure]]]:
    usable = {source.name: source for source in sources if kinds_allowed(source.rule)}
    order = largest_first(usable, {name: source.slide for name, source in usable.items()})
    jobs = [_survey_job(request, work, usable[name]) for name in order]
    surveys: list[Survey] = []
    failures: list[Failure] = []
    stage = "finding tissue and tiles"
    yield Progress(stage, 0, len(jobs), "slides")
    for heard in crew.listen(survey, jobs):
        if isinstance(heard, Said | Remark):
            yield from _remarked(heard)
            continue
        job, found = heard
        if isinstance(found, UccPathError):
            if isinstance(found, OutputError) or len(jobs) == 1:
                raise _named(found, job.name)
            failures.append(Failure(job.name, str(found)))
            yield failures[-1]
        else:
            surveys.append(found)
        yield Progress(stage, len(surveys) + len(failures), len(jobs), "slides")
    if not surveys:
        raise DatasetError(f"none of the {len(sources)} slides could be used; nothing was written")
    return sorted(surveys, key=lambda found: found.name), sorted(failures, key=lambda failure: failure.item)


def _named(err: UccPathError, name: str) -> UccPathError:
    """The error, with the slide it is about: a process that died could not say what it was working on."""
    return WorkerError(f"{name}: {err}") if isinstance(err, WorkerError) else err


def _survey_job(request: TileRequest, work: Path, source: Source) -> SurveyJob:
    kinds = kinds_allowed(source.rule)
    if request.totals:
        most = {kind: max(totals[kind] for totals in request.totals.values()) for kind in kinds}
    else:
        most = dict.fromkeys(kinds, request.tiling.per_slide)
    return SurveyJob(
        name=source.name,
        slide=source.slide,
        slide_mpp=request.slide_mpp,
        annotation=source.annotation,
        wanted=most,
        wanted_unlabelled=request.tiling.per_slide if request.unlabelled else 0,
        outline=work / f"{source.name}.npy",
        preview=preview_path(request.preview, source.name) if request.preview else None,
        tiling=request.tiling,
        tissue=request.tissue,
        annotation_settings=request.annotation,
    )


def _remarks(found: Survey) -> Iterator[Event]:
    yield Detail(
        f"{found.name}: {found.slide_mpp:.4g} um/px ({found.mpp_source}), tissue {found.tissue_mm2:.1f} mm2, "
        f"tumour {found.tumour_mm2:.2f} mm2"
    )
    if found.outside_share:
        yield Notice(f"{found.name}: {found.outside_share:.1%} of the outlined tumour lies beyond the slide")
    if found.summary.repaired_outlines:
        yield Detail(f"{found.name}: {found.summary.repaired_outlines} outlines crossed themselves and were repaired")
    if found.summary.without_area:
        yield Detail(f"{found.name}: {found.summary.without_area} dots or lines have no area and were left out")


def _cut_jobs(
    request: TileRequest, folder: Path, surveys: Sequence[Survey], rows: Mapping[str, Sequence[TileRow]]
) -> list[CutJob]:
    return [
        CutJob(
            name=found.name,
            slide=found.slide,
            slide_mpp=found.slide_mpp,
            outline=None if request.unlabelled else folder / _WORK / f"{found.name}.npy",
            dataset=folder,
            rows=tuple(rows[found.name][first : first + TILES_PER_JOB]),
        )
        for found in surveys
        for first in range(0, len(rows.get(found.name, ())), TILES_PER_JOB)
    ]


def _remarked(heard: Said | Remark) -> Iterator[Event]:
    if isinstance(heard, Remark):
        yield Notice(heard.text)


def _cut(request: TileRequest, jobs: Sequence[CutJob], crew: Crew) -> Generator[Event, None, list[Failure]]:
    """Cuts all tiles; of a slide that turns out to be damaged nothing is kept."""
    for job in jobs:
        tiles_csv.image_path(job.dataset, job.rows[0]).parent.mkdir(parents=True, exist_ok=True)
        if job.outline:
            tiles_csv.mask_path(job.dataset, job.rows[0]).parent.mkdir(parents=True, exist_ok=True)
    done, total = 0, sum(len(job.rows) for job in jobs)
    failures: dict[str, Failure] = {}
    stage = "cutting tiles"
    yield Progress(stage, 0, total, "tiles")
    for heard in crew.listen(cut, jobs):
        if isinstance(heard, Said | Remark):
            yield from _remarked(heard)
            continue
        job, result = heard
        if isinstance(result, UccPathError):
            if isinstance(result, OutputError) or len(request.slides) == 1:
                raise _named(result, job.name)
            if job.name not in failures:
                failures[job.name] = Failure(job.name, str(result))
                yield failures[job.name]
        done += len(job.rows)
        yield Progress(stage, done, total, "tiles")
    for job in jobs:
        for row in job.rows if job.name in failures else ():
            tiles_csv.image_path(job.dataset, row).unlink(missing_ok=True)
            tiles_csv.mask_path(job.dataset, row).unlink(missing_ok=True)
    return sorted(failures.values(), key=lambda failure: failure.item)


def _samples(folder: Path, rows: Sequence[TileRow]) -> dict[str, list[Picture]]:
    """Some tiles of each kind, taken evenly from all slides."""
    pictures: dict[str, list[Picture]] = {}
    for kind in (*KINDS, None):
        ordered = sorted((row for row in rows if row.kind == kind), key=lambda row: row.tile_id)
        every = max(1, len(ordered) // TILES_SHOWN)
        pictures[kind or UNLABELLED] = [_picture(folder, row) for row in ordered[::every][:TILES_SHOWN]]
    return pictures


def _picture(folder: Path, row: TileRow) -> Picture:
    rgb = png.read(tiles_csv.image_path(folder, row))
    return rgb, None if row.kind is None else png.read(tiles_csv.mask_path(folder, row)) > 0


def _count(rows: Sequence[TileRow], unlabelled: bool) -> dict[str, dict[str, int]]:
    kinds: tuple[str, ...] = (UNLABELLED,) if unlabelled else KINDS
    counts = {split: dict.fromkeys(kinds, 0) for split in SPLITS}
    for row in rows:
        counts[row.split][row.kind or UNLABELLED] += 1
    return counts
