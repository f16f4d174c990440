"""The figures of all reports in one long table, `quality.csv`.

    fold,case,seed,row,split,scope,averaging,TPR,FPR,PA,balanced,IoU,seconds,stopped

One line a fold, seed, row of a report and way of averaging. `case` is the slide that the figures are of. `scope` is
`tiles` (ucc-path evaluate) or `slide` (ucc-path score). `row` is the model as the report calls it, with `@25` behind it
where it had 25 train tiles; `seconds` and `stopped` are of its training. What is undefined is empty.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from comparison.label_sets import SIZES
from comparison.plan import LABEL_COST, SPLITS, WHOLE_SLIDES, Plan
from comparison.trainings import read_run

FIGURES = ("TPR", "FPR", "PA", "balanced", "IoU")
AVERAGINGS = ("pooled-tissue", "image")  # what is compared, and what the paper has
COLUMNS = ("fold", "case", "seed", "row", "split", "scope", "averaging", *FIGURES, "seconds", "stopped")
_FINER = ("-pixels", "-exact")


@dataclass(frozen=True, slots=True)
class Line:
    """The figures of one row of one report."""

    fold: int
    case: str
    seed: int
    row: str
    split: str
    scope: str
    averaging: str
    figures: tuple[float, ...]  # as FIGURES; nan where undefined
    seconds: float = math.nan
    stopped: str = ""

    def figure(self, name: str) -> float:
        return self.figures[FIGURES.index(name)]


def model_of(row: str) -> str:
    """The model behind a row: `unet` of `unet-pixels@25`."""
    name = row.split("@")[0]
    for ending in _FINER:
        name = name.removesuffix(ending)
    return name


def gather(plan: Plan) -> tuple[list[Line], list[str]]:
    """All lines there are, and what is missing."""
    # By what they are of: reports of one slide each have the same rows to compare with, which count once.
    lines: dict[tuple[object, ...], Line] = {}
    missing = []
    for report in _reports(plan):
        found = read_report(report)
        for line in found:
            key = (line.fold, line.case, line.seed, line.row, line.split, line.scope, line.averaging)
            lines.setdefault(key, line)
        there = {model_of(line.row) for line in found}
        lost = [run for run in report.runs if run.name not in there]
        missing += [f"{run.name} in {report.folder.relative_to(plan.root)}" for run in lost]
    return list(lines.values()), missing


@dataclass(frozen=True, slots=True)
class Report:
    """A folder that `ucc-path evaluate` or `ucc-path score` has made, or will make, and the runs it is of."""

    folder: Path
    runs: tuple[Path, ...]
    fold: int
    case: str
    seed: int
    split: str = "test"
    scope: str = "tiles"
    size: int | None = None  # train tiles; all of them unless given


def _reports(plan: Plan) -> Iterator[Report]:
    for fold in plan.folds:
        for seed in plan.seeds:
            runs = tuple(plan.run(fold, seed, row) for row in plan.rows(seed))
            for split in SPLITS:
                yield Report(plan.report(fold, seed, split), runs, fold, plan.case(fold, split), seed, split)
            for row in WHOLE_SLIDES:
                folder, run = plan.slide_report(fold, seed, row), plan.run(fold, seed, row)
                yield Report(folder, (run,), fold, plan.case(fold), seed, scope="slide")
        seed = plan.seeds[0]
        for size in SIZES if plan.label_cost else ():
            runs = tuple(plan.run(fold, seed, row, size) for row in LABEL_COST)
            yield Report(plan.report(fold, seed, "test", size), runs, fold, plan.case(fold), seed, size=size)


def read_report(report: Report) -> list[Line]:
    """The lines of its metrics.csv; none if it is not there."""
    if not (report.folder / "metrics.csv").exists():
        return []
    records = {run.name: read_run(run) for run in report.runs}
    behind = f"@{report.size}" if report.size else ""
    lines = []
    with (report.folder / "metrics.csv").open(newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            if row["averaging"] in AVERAGINGS:
                record = records.get(model_of(row["model"]), {})
                lines.append(
                    Line(
                        fold=report.fold,
                        case=report.case,
                        seed=report.seed,
                        row=row["model"] + behind,
                        split=report.split,
                        scope=report.scope,
                        averaging=row["averaging"],
                        figures=tuple(_number(row[name]) for name in FIGURES),
                        seconds=float(record.get("seconds") or math.nan),
                        stopped=str(record.get("stopped") or ""),
                    )
                )
    return lines


def write(path: Path, lines: Iterable[Line]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(COLUMNS)
        for line in lines:
            first = (line.fold, line.case, line.seed, line.row, line.split, line.scope, line.averaging)
            figures = [f"{value:.6f}" if math.isfinite(value) else "" for value in line.figures]
            seconds = f"{line.seconds:.1f}" if math.isfinite(line.seconds) else ""
            table.writerow([*first, *figures, seconds, line.stopped])


def read(path: Path) -> list[Line]:
    with path.open(newline="", encoding="utf-8") as file:
        return [
            Line(
                fold=int(row["fold"]),
                case=row["case"],
                seed=int(row["seed"]),
                row=row["row"],
                split=row["split"],
                scope=row["scope"],
                averaging=row["averaging"],
                figures=tuple(_number(row[name]) for name in FIGURES),
                seconds=_number(row["seconds"]),
                stopped=row["stopped"],
            )
            for row in csv.DictReader(file)
        ]


def _number(text: str) -> float:
    return float(text) if text else math.nan
