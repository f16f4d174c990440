"""The table of a report: each model's figures by every way of averaging, with how far they would vary."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ucc_path.evaluation.counts import Counts
from ucc_path.evaluation.intervals import intervals
from ucc_path.evaluation.scores import AVERAGINGS, Figures, average
from ucc_path.settings import EvaluationSettings

EMPTY, GRID_CEILING = "empty", "grid-ceiling"
"""Rows that need no model: nothing is tumour; the truth, on the grid."""

REGIONS = ("", "-tissue")
"""Over all pixels, as the paper; or over tissue alone. Behind the name of an averaging."""


@dataclass(frozen=True, slots=True, eq=False)
class Summary:
    """The figures of one model by one averaging; all (8,), nan where undefined."""

    value: Figures
    low: Figures  # of images drawn again
    high: Figures
    low_slides: Figures  # of whole slides drawn again; nan where there is only one, or each image is one
    high_slides: Figures


Table = dict[str, dict[str, Summary]]  # model -> averaging -> figures


def summarise(
    counts: Mapping[str, Mapping[str, Counts]], slides: NDArray[np.int64], settings: EvaluationSettings
) -> Table:
    """`counts` has for each model and region (images, 4); `slides` (images,) numbers the slide of each image from 0."""
    places = [(model, region) for model in counts for region in REGIONS]
    tables = [counts[model][region] for model, region in places]
    how = {"resamples": settings.resamples, "confidence": settings.confidence, "seed": settings.seed}
    by_image = intervals(tables, np.arange(len(slides)), **how)  # type: ignore[arg-type]
    by_slide = np.full_like(by_image, np.nan)
    if 1 < slides.max() + 1 < len(slides):
        by_slide = intervals(tables, slides, **how)  # type: ignore[arg-type]
    found: Table = {model: {} for model in counts}
    for place, (model, region) in enumerate(places):
        for way, averaging in enumerate(AVERAGINGS):
            value = average(tables[place], averaging)
            found[model][averaging + region] = Summary(value, *by_image[place, way], *by_slide[place, way])
    return found
