"""The records of finished runs, read back; their figures beside the paper's."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np

from ucc_path.errors import OutputError
from ucc_path.evaluation.paper import PUBLISHED, Published
from ucc_path.formats import reproduction_json
from ucc_path.formats.reproduction_csv import ReproductionRow
from ucc_path.settings import POOLINGS
from ucc_path.workflows.reproduce.request import NAMES

FIGURES = ("ucc_accuracy", "min_js", "clustering_kmeans", "clustering_spectral", "clustering_merge", "clustering_best")
Group = tuple[str, str, str]  # model, ucc_labels, pooling


@dataclass(frozen=True, slots=True)
class Result:
    """A finished run: its record, and the picture that was drawn by it."""

    key: str
    record: Mapping[str, Any]
    picture: bytes | None

    @property
    def group(self) -> Group:
        """All but the seed."""
        variant = self.record["variant"]
        return variant["model"], variant["ucc_labels"], variant["pooling"]

    @property
    def name(self) -> str:
        """As it is read."""
        return name_of(self.group)


def name_of(group: Group) -> str:
    """
    >>> name_of(("ucc", "1-4", "kde")), name_of(("ucc", "1-10", "average")), name_of(("kmeans", "", ""))
    ('ucc', 'ucc, 1-10, average', 'kmeans')
    """
    model, labels, pooling = group
    usual = {"ucc2+": "2-4", "ucc2+-alpha1": "2-4"}.get(model, "1-4")
    return ", ".join(
        [model, *([labels] if labels not in ("", usual) else []), *([pooling] if pooling == "average" else [])]
    )


def read_results(folder: Path, experiment: str, *, but_for: Collection[str] = ()) -> list[Result]:
    """All finished runs of a folder, in the order of the paper's tables, the seeds of a model side by side."""
    found = []
    for key in reproduction_json.keys(folder):
        if key in but_for:
            continue
        record = reproduction_json.read(folder, key)
        if record.get("experiment") != experiment:
            raise OutputError(f"{folder} holds runs of {record.get('experiment')!r}; choose another folder with -o")
        picture = reproduction_json.picture_of(folder, key)
        result = Result(key, record, picture.read_bytes() if picture.exists() else None)
        with usable(folder, result):
            _require_order(result)
            row_of(record)
        found.append(result)
    return sorted(found, key=_order)


@contextmanager
def usable(folder: Path, result: Result) -> Iterator[None]:
    """OutputError where a table or a page cannot be made of a record: it is not as it was written."""
    try:
        yield
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError) as err:
        raise OutputError(
            f"{reproduction_json.path_of(folder, result.key)} is not as it was written; "
            f"{reproduction_json.FORMAT.make_anew}"
        ) from err


def _order(result: Result) -> tuple[int, str, int, Group, int]:
    """By model, then averaging after the density, then fewer counts before more."""
    model, labels, pooling = result.group
    seed = result.record["variant"]["seed"]
    return NAMES.index(model), "" if pooling == POOLINGS[0] else pooling, len(labels), result.group, seed


def _require_order(result: Result) -> None:
    *_, group, seed = _order(result)
    if not all(isinstance(part, str) for part in group) or type(seed) is not int:
        raise TypeError("variant")


def grouped(results: list[Result]) -> Iterator[tuple[Group, list[Result]]]:
    """The runs of each model, one a seed."""
    for group, own in groupby(results, key=lambda result: result.group):
        yield group, list(own)


def row_of(record: Mapping[str, Any]) -> ReproductionRow:
    """A run as a row of the table."""
    figures: dict[str, Any] = {name: math.nan if value is None else value for name, value in record["figures"].items()}
    peak = int(figures.pop("peak_mb"))
    ways = [figures.get(f"clustering_{way}", math.nan) for way in ("kmeans", "spectral")]
    best = max((value for value in ways if math.isfinite(value)), default=math.nan)
    return ReproductionRow(**record["variant"], **figures, peak_mb=peak, clustering_best=best)


def paper_rows(experiment: str) -> list[ReproductionRow]:
    """What the paper reports, in the same columns."""
    return [_published(line) for line in PUBLISHED[experiment]]


def _published(line: Published) -> ReproductionRow:
    ways = [value for value in (line.kmeans, line.spectral, line.best) if math.isfinite(value)]
    return ReproductionRow(
        line.model,
        line.ucc_labels,
        line.pooling,
        ucc_accuracy=line.ucc_accuracy,
        min_js=line.min_js,
        clustering_kmeans=line.kmeans,
        clustering_spectral=line.spectral,
        clustering_best=max(ways),
    )


def spread(results: list[Result], figure: str) -> tuple[float, float, float]:
    """The mean of a figure over the seeds, the lowest and the highest; nan where there is none."""
    values = np.array([getattr(row_of(result.record), figure) for result in results])
    known = values[np.isfinite(values)]
    return (float(known.mean()), float(known.min()), float(known.max())) if len(known) else (math.nan,) * 3
