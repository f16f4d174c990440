"""Segmented slides are compared with their annotations, and a report is written: the work of `ucc-path score`.

Each slide is scored in a process of its own, band by band; of a slide there remain a few numbers and a picture.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from ucc_path.engine.local import Workers
from ucc_path.errors import OutputError, UccPathError, WorkerError
from ucc_path.evaluation.scores import FIGURES, figures_of
from ucc_path.evaluation.summary import Table
from ucc_path.formats import image_scores_csv, png, report_csv, report_html, report_json
from ucc_path.formats.atomic import replacing_folder
from ucc_path.formats.image_scores_csv import ImageName
from ucc_path.formats.segmentation_json import ENDINGS
from ucc_path.report.svg import drawing
from ucc_path.workflows.events import Event, Failure, Notice, Progress, Step
from ucc_path.workflows.score.page import SlidePicture, froc_panel, page_of
from ucc_path.workflows.score.request import ScoreRequest, Sources, sources_of
from ucc_path.workflows.score.results import Results, record_of, results_of
from ucc_path.workflows.score.slide import EXACT, ScoreJob, SlideScore, score

__all__ = ["ScoreReport", "ScoreRequest", "score_slides"]

FIGURES_FOLDER = "figures"
_SHOWN_PX = 700  # the longer side of a picture in the page


@dataclass(frozen=True, slots=True, eq=False)
class ScoreReport:
    """What came of it."""

    output: Path
    table: Table
    froc: float  # the score; nan where there are no lesions
    slides: int
    failures: tuple[Failure, ...]


def score_slides(request: ScoreRequest) -> Generator[Event, None, ScoreReport]:
    """Scores all slides that have an annotation, and writes the report."""
    sources = sources_of(request)
    yield from sources.notices()
    with replacing_folder(request.output, marker=report_json.NAME, overwrite=request.overwrite) as folder:
        figures = folder / FIGURES_FOLDER
        figures.mkdir()
        slides, failures = yield from _score_all(request, sources, figures)
        yield Step("Writing the report")
        results = results_of(request, sources, slides, failures)
        _write(folder, results)
    return ScoreReport(request.output, results.table, results.froc.score, len(slides), tuple(failures))


def _score_all(
    request: ScoreRequest, sources: Sources, figures: Path
) -> Generator[Event, None, tuple[list[SlideScore], list[Failure]]]:
    jobs = [
        ScoreJob(source, request.folder, _agreement_path(figures, source.name), request.annotation)
        for source in sources.slides
    ]
    slides: list[SlideScore] = []
    failures: list[Failure] = []
    yield Progress("scoring", 0, len(jobs), "slides")
    with Workers(min(request.workers, len(jobs))) as workers:
        for job, found in workers.run(score, jobs):
            if isinstance(found, UccPathError):
                if len(jobs) == 1:
                    raise WorkerError(f"{job.source.name}: {found}") if isinstance(found, WorkerError) else found
                failures.append(Failure(job.source.name, str(found)))
                yield failures[-1]
            else:
                slides.append(found)
                if found.outside_share:
                    yield Notice(
                        f"{found.name}: {found.outside_share:.1%} of the outlined tumour lies beyond the slide"
                    )
            yield Progress("scoring", len(slides) + len(failures), len(jobs), "slides")
    if not slides:
        raise OutputError(f"none of the {len(jobs)} slides could be scored; nothing was written")
    return sorted(slides, key=lambda found: found.name), sorted(failures, key=lambda failure: failure.item)


def _write(folder: Path, results: Results) -> None:
    report_csv.write(folder, results.table)
    names = [ImageName(slide.name, slide.name) for slide in results.slides]
    image_scores_csv.write(folder, names, results.counts)
    pictures = {
        slide.name: _pictures(results.request.folder, folder / FIGURES_FOLDER, slide.name)
        for slide in _chosen(results.slides, results.request.evaluation.pictures)
    }
    if results.froc.lesions:
        report_html.write(folder / FIGURES_FOLDER / "froc.svg", drawing(froc_panel(results), y_range=(0.0, 1.0)))
    report_html.write(folder / report_html.NAME, page_of(results, pictures))
    report_json.write(folder, record_of(results))


def _chosen(slides: Sequence[SlideScore], each: int) -> list[SlideScore]:
    """The best, the typical and the worst by balanced accuracy on tissue, or PA where there is no tumour."""

    def worth(slide: SlideScore) -> float:
        values = dict(zip(FIGURES, figures_of(slide.counts[EXACT]["-tissue"]), strict=True))
        return float(values["PA"] if np.isnan(values["balanced"]) else values["balanced"])

    ordered = sorted(slides, key=worth, reverse=True)
    if len(ordered) <= 3 * each:
        return ordered
    middle = (len(ordered) - each) // 2
    return [*ordered[:each], *ordered[middle : middle + each], *ordered[len(ordered) - each :]]


def _agreement_path(figures: Path, name: str) -> Path:
    return figures / f"{name}_agreement.png"


def _pictures(segmented: Path, figures: Path, name: str) -> list[SlidePicture]:
    """The slide with its mask, as `segment` drew it, if it is still there; and where mask and truth agree."""
    pictures = [("agreement with the outlines", _small(_agreement_path(figures, name)))]
    drawn = segmented / f"{name}{ENDINGS['picture']}"
    return [("mask on the slide", _small(drawn)), *pictures] if drawn.is_file() else pictures


def _small(path: Path) -> NDArray[np.uint8]:
    picture = Image.fromarray(png.read(path))
    picture.thumbnail((_SHOWN_PX, _SHOWN_PX), Image.Resampling.LANCZOS)
    return np.asarray(picture.convert("RGB"))
