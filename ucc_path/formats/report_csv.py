"""`metrics.csv` of a report: the figures of each model, one row a model and a way of averaging.

    model,averaging,TPR,FPR,TNR,FNR,PA,balanced,IoU,Dice
    TPR_low,TPR_high, ...              of each figure, with images drawn again
    TPR_low_slides,TPR_high_slides, ...    the same with whole slides drawn again; empty where there is only
                                           one, or each image is a slide

UTF-8, comma, one header line, six decimals; what is undefined is empty. `model` is the name of the run's folder, with
`-pixels` behind it where a mask is as fine as pixels (`-exact` in `score`); also `kmeans` (raw patches), `colour` (a
line between mean colours), `empty` (nothing is tumour) and `grid-ceiling` (the truth, on the grid). `averaging` is
`image`, the mean over images, or `pooled`, over all pixels; `-tissue` is appended where only tissue counts.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Iterator
from pathlib import Path

from ucc_path.evaluation.scores import FIGURES
from ucc_path.evaluation.summary import Summary, Table
from ucc_path.formats.atomic import replacing

NAME = "metrics.csv"
COLUMNS = (
    "model",
    "averaging",
    *FIGURES,
    *(f"{figure}_{end}" for figure in FIGURES for end in ("low", "high")),
    *(f"{figure}_{end}_slides" for figure in FIGURES for end in ("low", "high")),
)


def write(folder: Path, table: Table) -> None:
    with replacing(folder / NAME) as partial, partial.open("w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file, lineterminator="\n")
        rows.writerow(COLUMNS)
        for model, by_averaging in table.items():
            for averaging, summary in by_averaging.items():
                rows.writerow([model, averaging, *map(cell, _values(summary))])


def cell(value: float) -> str:
    """A figure as it stands in a table.

    >>> cell(0.5), cell(math.nan)
    ('0.500000', '')
    """
    return f"{value:.6f}" if math.isfinite(value) else ""


def _values(summary: Summary) -> Iterator[float]:
    yield from summary.value
    for low, high in ((summary.low, summary.high), (summary.low_slides, summary.high_slides)):
        for pair in zip(low, high, strict=True):
            yield from pair
