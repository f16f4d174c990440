"""`metrics.csv` and `paper.csv` of a reproduction: what was measured, and what the paper reports, in the same columns.

    model,ucc_labels,pooling,seed,ucc_accuracy,min_js,clustering_kmeans,clustering_spectral,clustering_merge,
    seconds,peak_mb,clustering_best

UTF-8, comma, one header line, six decimals; what does not apply or is not known is empty. `model` is `ucc`, `ucc2+`
(taught by no pure bag), `ucc-alpha1` and `ucc2+-alpha1` (without a decoder), `autoencoder`, `supervised`, or `kmeans`
and `spectral` of raw pixels. `ucc_labels` are the counts taught, such as `1-4`; `pooling` is `kde` or `average`.
`ucc_accuracy` is of test bags with even shares; `min_js` the least Jensen-Shannon divergence of two classes;
`clustering_*` the share of test images in the cluster that stands for their class, and `clustering_best` the better
of k-means and spectral, which is what the paper's main table has. `seconds` is the time of training, `peak_mb` the most
memory of the process.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Iterable
from dataclasses import dataclass, fields
from pathlib import Path

from ucc_path.formats.atomic import replacing

NAME = "metrics.csv"
PAPER_NAME = "paper.csv"


@dataclass(frozen=True, slots=True)
class ReproductionRow:
    """One model with one seed, or one published line."""

    model: str
    ucc_labels: str = ""
    pooling: str = ""
    seed: int | None = None
    ucc_accuracy: float = math.nan
    min_js: float = math.nan
    clustering_kmeans: float = math.nan
    clustering_spectral: float = math.nan
    clustering_merge: float = math.nan
    seconds: float = math.nan
    peak_mb: int | None = None
    clustering_best: float = math.nan


COLUMNS = tuple(field.name for field in fields(ReproductionRow))


def write(path: Path, rows: Iterable[ReproductionRow]) -> None:
    with replacing(path) as partial, partial.open("w", newline="", encoding="utf-8") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(COLUMNS)
        for row in rows:
            table.writerow([_cell(getattr(row, name)) for name in COLUMNS])


def _cell(value: str | float | None) -> str:
    if isinstance(value, float):
        return f"{value:.6f}" if math.isfinite(value) else ""
    return "" if value is None else str(value)
