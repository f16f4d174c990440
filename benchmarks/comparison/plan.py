"""The jobs of a comparison: tiles, trainings, reports, whole slides, and fewer labels, of each fold and seed."""

from __future__ import annotations

import csv
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from comparison.jobs import CommandFailed, Job, Run
from comparison.label_sets import SIZES, make_smaller
from comparison.slides import slide_in, split_csv, split_of_fold
from comparison.trainings import (
    LABELLED,
    ROWS,
    TWICE,
    UNET_STEPS,
    allowance_of,
    has_had_its_time,
    is_trained,
    train_unet,
    train_unet_twice,
    train_words,
)

TILING = ("--tile-px", "256", "--per-slide", "400")
WHOLE_SLIDES = ("ucc-kinds", "ucc", "unet")
LABEL_COST = ("ucc-kinds", "unet")
SPLITS = ("test", "val")  # the figures, and what choices are made by


@dataclass(frozen=True, slots=True)
class Plan:
    """What is compared, and where everything of it lies."""

    slides: tuple[Path, ...]
    root: Path
    folds: tuple[int, ...]
    seeds: tuple[int, ...]
    steps: int | None = None  # of every training; those of the preset unless given
    label_cost: bool = False
    precision: str = "auto"  # of every training, as `ucc-path train` has it

    def splits(self, fold: int) -> dict[str, str]:
        return split_of_fold([slide.stem for slide in self.slides], fold)

    def case(self, fold: int, split: str = "test") -> str:
        return slide_in(self.splits(fold), split)

    def rows(self, seed: int) -> tuple[str, ...]:
        """What is trained: with the first seed everything, with others what is compared; all of it would take hours."""
        return tuple(row for row in ROWS if row in WHOLE_SLIDES or seed == self.seeds[0])

    def dataset(self, fold: int, size: int | None = None) -> Path:
        """That of a fold, or its part with that many train tiles."""
        folder = self.root / f"fold-{fold}"
        return folder / "dataset" if size is None else folder / f"labels-{size}" / "dataset"

    def run(self, fold: int, seed: int, row: str, size: int | None = None) -> Path:
        folder = self.root / f"fold-{fold}"
        return folder / f"seed-{seed}" / row if size is None else folder / f"labels-{size}" / row

    def report(self, fold: int, seed: int, split: str, size: int | None = None) -> Path:
        return self.run(fold, seed, f"report-{split}", size)

    def slide_report(self, fold: int, seed: int, row: str) -> Path:
        return self.run(fold, seed, "slides") / f"{row}-report"


def jobs_of(plan: Plan) -> list[Job]:
    """In the order in which they are begun: what is compared comes first, seed by seed, and makes a table by itself."""
    jobs = [_tiling(plan, fold) for fold in plan.folds]
    for seed in plan.seeds:
        for fold in plan.folds:
            jobs += [_training(plan, fold, seed, row) for row in WHOLE_SLIDES]
            jobs += [_whole_slide(plan, fold, seed, row) for row in WHOLE_SLIDES]
            jobs += [_report(plan, fold, seed, split, WHOLE_SLIDES) for split in SPLITS]
    for fold in plan.folds if plan.label_cost else ():
        for size in SIZES:
            jobs += _fewer_labels(plan, fold, size)
    first = plan.seeds[0]
    rows = plan.rows(first)
    for row in sorted(set(rows) - set(WHOLE_SLIDES), key=lambda row: row == TWICE):  # the dearest last
        jobs += [_training(plan, fold, first, row) for fold in plan.folds]
    for fold in plan.folds:
        jobs += [_report(plan, fold, first, split, rows, again=True) for split in SPLITS]
    return jobs


def _tiling(plan: Plan, fold: int) -> Job:
    dataset = plan.dataset(fold)
    table = plan.root / f"fold-{fold}" / "split.csv"

    def work(run: Run) -> None:
        table.parent.mkdir(parents=True, exist_ok=True)
        table.write_text(split_csv(plan.splits(fold)), encoding="utf-8")
        run("tile", *plan.slides, "-o", dataset, *TILING, "--split-csv", table, "--workers", 1)

    words = f"ucc-path tile; test {plan.case(fold)}, val {plan.case(fold, 'val')}"
    return Job(_name(fold, None, "tiles"), words, (dataset / "dataset.json").exists, work)


def _training(plan: Plan, fold: int, seed: int, row: str) -> Job:
    dataset, folder = plan.dataset(fold), plan.run(fold, seed, row)
    name, tiles = _name(fold, seed, row), _name(fold, None, "tiles")
    words = f"ucc-path train {' '.join(ROWS[row])} --seed {seed}"
    if row == "unet":
        steps = plan.steps or UNET_STEPS
        work = _taught(plan, partial(train_unet, dataset=dataset, folder=folder, seed=seed, least_steps=steps))
        needs = (tiles, *(_name(fold, seed, other) for other in LABELLED))
        words += f" with at least {steps} steps and the time of {' and '.join(LABELLED)}"
        return Job(name, words, partial(has_had_its_time, folder), work, needs)
    if row == TWICE:
        words += " with twice the steps and the patience of unet"
        again = _taught(plan, partial(train_unet_twice, dataset=dataset, folder=folder, seed=seed))
        return Job(name, words, partial(is_trained, folder), again, (_name(fold, seed, "unet"),))

    def train(run: Run) -> None:
        run(*train_words(dataset, folder, row, seed, steps=plan.steps))

    return Job(name, words, partial(is_trained, folder), _taught(plan, train), (tiles,))


def _taught(plan: Plan, work: Callable[[Run], None]) -> Callable[[Run], None]:
    """The same work, whose trainings compute in the precision of the plan."""
    return lambda run: work(lambda *words: run(*words, "--precision", plan.precision))


def _report(
    plan: Plan, fold: int, seed: int, split: str, rows: tuple[str, ...], size: int | None = None, *, again: bool = False
) -> Job:
    """Of all models that there are: one that failed does not cost the figures of the others.

    `again` is a second one, in place of the first, once there are more of them.
    """
    output = plan.report(fold, seed, split, size)
    runs = [plan.run(fold, seed, row, size) for row in rows]

    def work(run: Run) -> None:
        models = [word for folder in runs if is_trained(folder) for word in ("-m", folder)]
        if not models:
            raise CommandFailed("no model was trained")
        # What is there already was made before some model came.
        run("evaluate", plan.dataset(fold, size), *models, "-o", output, "--split", split, "--overwrite")

    def is_done() -> bool:
        return (output / "metrics.csv").exists() and _models_in(output) >= {f.name for f in runs if is_trained(f)}

    after = tuple(_name(fold, seed, row, size) for row in rows)
    words = f"ucc-path evaluate --split {split}"
    name = _name(fold, seed, f"report-{split}{'-again' if again else ''}", size)
    return Job(name, words, is_done, work, after=after)


def _models_in(report: Path) -> set[str]:
    with (report / "metrics.csv").open(newline="", encoding="utf-8") as file:
        return {row["model"] for row in csv.DictReader(file)}


def _whole_slide(plan: Plan, fold: int, seed: int, row: str) -> Job:
    slide = next(path for path in plan.slides if path.stem == plan.case(fold))
    model, report = plan.run(fold, seed, row), plan.slide_report(fold, seed, row)
    masks = report.with_name(row)

    def work(run: Run) -> None:
        run("segment", slide, "-m", model, "-o", masks, "--workers", 1, "--device", "cpu")
        run("score", masks, "--annotations", slide.parent, "-o", report, "--workers", 1, "--overwrite")

    words = f"ucc-path segment {slide.name}, then ucc-path score"
    done = (report / "metrics.csv").exists
    return Job(_name(fold, seed, f"slide-{row}"), words, done, work, (_name(fold, seed, row),))


def _fewer_labels(plan: Plan, fold: int, size: int) -> list[Job]:
    """With that many train tiles, of the first seed. The Unet has the steps that it had with all of them."""
    seed, dataset = plan.seeds[0], plan.dataset(fold, size)
    tiles = _name(fold, seed, "tiles", size)

    def choose(run: Run) -> None:
        make_smaller(plan.dataset(fold), dataset, size, seed=0)

    def train(row: str, run: Run) -> None:
        allowed = {"steps": plan.steps}
        if row == "unet":
            allowed = {**allowed, **allowance_of(plan.run(fold, seed, row))}
        run(*train_words(dataset, plan.run(fold, seed, row, size), row, seed, **allowed))

    done = (dataset / "tiles.csv").exists
    jobs = [Job(tiles, f"{size} of the train tiles", done, choose, (_name(fold, None, "tiles"),))]
    for row in LABEL_COST:
        is_done = partial(is_trained, plan.run(fold, seed, row, size))
        words = f"ucc-path train {' '.join(ROWS[row])} --seed {seed} on {size} tiles"
        needs = (tiles, _name(fold, seed, row))
        jobs.append(Job(_name(fold, seed, row, size), words, is_done, _taught(plan, partial(train, row)), needs))
    jobs.append(_report(plan, fold, seed, "test", LABEL_COST, size))
    return jobs


def _name(fold: int, seed: int | None, what: str, size: int | None = None) -> str:
    part = [f"seed-{seed}"] if seed is not None and size is None else [f"labels-{size}"] if size else []
    return "/".join([f"fold-{fold}", *part, what])
