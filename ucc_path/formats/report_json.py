"""`metrics.json` of a report: every figure in it, and how they came about. By it a folder is known to be a report.

    format       "ucc-path report"
    version      1
    command      evaluate or score
    data         what was judged: the data set and split, or the folder of slides; how many images; scale, grid
    match        names or oracle: how clusters were matched to classes
    models       one object a row of the table: name; scores {averaging: {figure: {value, low, high, low_slides,
                 high_slides}}}; of a trained model also its file, what it learnt from, time, `converged`, how well it
                 counts (ucc), how far its features lie apart (divergence), the rows of its training, and above
                 what probability the tissue of each slide is tumour, where it adapts to that (thresholds)
    paper        the figures of the paper, for reference
    froc         of `score`: lesions, and sensitivity at rates of false positives, by size
    notes        what was said on the way
    settings     everything in force
    versions     of ucc-path, of Python and of the packages that decode and compute

What is undefined is null.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ucc_path.errors import OutputError
from ucc_path.evaluation.scores import FIGURES
from ucc_path.evaluation.summary import Summary
from ucc_path.formats import record_json
from ucc_path.formats.record_json import RecordFormat

NAME = "metrics.json"
FORMAT = RecordFormat("ucc-path report", 1, OutputError, "a report", "make it anew with --overwrite")
_DIGITS = 6
_PARTS = ("value", "low", "high", "low_slides", "high_slides")


def write(folder: Path, record: Mapping[str, Any]) -> None:
    record_json.write(folder / NAME, FORMAT, plain(record))


def read(folder: Path) -> dict[str, Any]:
    return record_json.read(folder / NAME, FORMAT)


def plain(value: Any) -> Any:
    """Values as JSON has them: arrays as lists, numbers with six decimals, null for what is not a number."""
    if isinstance(value, Summary):
        return {
            figure: {part: plain(float(getattr(value, part)[place])) for part in _PARTS}
            for place, figure in enumerate(FIGURES)
        }
    if is_dataclass(value) and not isinstance(value, type):
        return plain(asdict(value))
    if isinstance(value, Mapping):
        return {str(key): plain(part) for key, part in value.items()}
    if isinstance(value, (np.ndarray, np.generic)):
        return plain(value.tolist())
    if isinstance(value, (list, tuple, frozenset)):
        return [plain(part) for part in (sorted(value) if isinstance(value, frozenset) else value)]
    if isinstance(value, float):
        return round(value, _DIGITS) if math.isfinite(value) else None
    return str(value) if isinstance(value, Path) else value
