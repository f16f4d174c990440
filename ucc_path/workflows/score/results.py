"""What comes of all slides together: the table, lesions found at rates of false alarms, and the record of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from ucc_path.evaluation.counts import Counts
from ucc_path.evaluation.froc import FALSE_POSITIVES, SIZES, Froc, froc
from ucc_path.evaluation.paper import PAPER
from ucc_path.evaluation.summary import EMPTY, GRID_CEILING, REGIONS, Table, summarise
from ucc_path.workflows.events import Failure
from ucc_path.workflows.score.request import ScoreRequest, Sources
from ucc_path.workflows.score.slide import EXACT, GRID, SlideScore
from ucc_path.workflows.versions import versions


@dataclass(frozen=True, slots=True, eq=False)
class Results:
    """All that is known in the end."""

    request: ScoreRequest
    sources: Sources
    slides: tuple[SlideScore, ...]
    counts: Mapping[str, Mapping[str, Counts]]  # by row of the table, by region: (slides, 4), mm2
    table: Table
    froc: Froc  # over the slides whose tumour is all outlined
    froc_by_size: Mapping[str, Froc]
    froc_as_organisers: Froc
    froc_slides: int
    failures: tuple[Failure, ...]

    @property
    def remarks(self) -> tuple[str, ...]:
        beyond = [
            f"{slide.name}: {slide.outside_share:.1%} of the outlined tumour lies beyond the slide"
            for slide in self.slides
            if slide.outside_share
        ]
        failed = [f"{failure.item} failed and is not in the figures: {failure.reason}" for failure in self.failures]
        return (*self.sources.remarks, *beyond, *failed)


def results_of(
    request: ScoreRequest, sources: Sources, slides: Sequence[SlideScore], failures: Sequence[Failure]
) -> Results:
    names = {sources.model + GRID: GRID, sources.model + EXACT: EXACT, EMPTY: EMPTY, GRID_CEILING: GRID_CEILING}
    counts = {
        name: {region: np.stack([slide.counts[row][region] for slide in slides]) for region in REGIONS}
        for name, row in names.items()
    }
    exhaustive = {source.name for source in sources.slides if source.is_exhaustive}
    judged = [slide for slide in slides if slide.name in exhaustive]
    hits = [slide.hits for slide in judged]
    return Results(
        request=request,
        sources=sources,
        slides=tuple(slides),
        counts=counts,
        table=summarise(counts, np.arange(len(slides)), request.evaluation),
        froc=froc(hits),
        froc_by_size={size: froc(hits, among=among) for size, among in SIZES.items()},
        froc_as_organisers=froc([slide.hits_as_organisers for slide in judged]),
        froc_slides=len(judged),
        failures=tuple(failures),
    )


def record_of(results: Results) -> dict[str, Any]:
    """As `metrics.json` holds it."""
    request, sources = results.request, results.sources
    records = [source.record for source in sources.slides]
    models = {name: {"name": name, "scores": scores} for name, scores in results.table.items()}
    models[sources.model] |= {
        key: records[0]["model"][key] for key in ("path", "sha256", "model", "supervision", "converged")
    }
    return {
        "command": "score",
        "data": {
            "path": request.folder,
            "annotations": request.annotations,
            "images": len(results.slides),
            "slides": [_slide(slide) for slide in results.slides],
            "not_exhaustive": [source.name for source in sources.slides if not source.is_exhaustive],
            "left_out_mm2": sum(slide.left_out_mm2 for slide in results.slides),
        },
        "match": "names",
        "models": list(models.values()),
        "paper": PAPER,
        "froc": {
            "slides": results.froc_slides,
            "false_positives_a_slide": FALSE_POSITIVES,
            "all": results.froc,
            "by_size": dict(results.froc_by_size),
            "as_organisers": results.froc_as_organisers,
        },
        "notes": list(results.remarks),
        "failed": [asdict(failure) for failure in results.failures],
        "settings": settings_of(results),
        "versions": versions(),
    }


def settings_of(results: Results) -> dict[str, Any]:
    """Those that the figures depend on; of the mask those that it was made with."""
    made_with = results.sources.slides[0].record["settings"]
    return {
        "segmentation": made_with["segmentation"],
        "tissue": made_with["tissue"],
        "annotation": asdict(results.request.annotation),
        "evaluation": asdict(results.request.evaluation),
    }


def _slide(slide: SlideScore) -> dict[str, Any]:
    lesions = ~slide.hits.is_itc
    return {
        "name": slide.name,
        "mpp": slide.mpp,
        "tumour_mm2": slide.tumour_mm2,
        "found_mm2": slide.found_mm2,
        "left_out_mm2": slide.left_out_mm2,
        "lesions": int(np.count_nonzero(lesions)),
        "lesions_hit": int(np.count_nonzero(np.isfinite(slide.hits.best_score[lesions]))),
        "isolated_tumour_cells": int(np.count_nonzero(slide.hits.is_itc)),
        "detections": slide.detections,
        "false_positives": len(slide.hits.false_scores),
    }
