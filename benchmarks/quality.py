"""Weak labels beside full masks, from slides to a table, by the public commands alone.

    python benchmarks/quality.py SLIDES -o DIR [--quick | --full] [--label-cost] [--jobs 2] [--folds 0,4] [--seeds 1]

SLIDES is a folder of slides with an annotation beside each; a slide is a case. In fold k of n the k-th slide is test,
the (k+2)-th val, and all others train. Rows: `ucc` (unique class counts), `ucc-kinds` (kinds of tiles), `unet` (masks;
at least the time of the longer of those two, the weights with the lowest loss on val tiles), `unet-twice` (twice the
steps) and `supervised` (a classifier of patches, masks), both with the first seed alone, and what `ucc-path evaluate`
puts beside them. DIR gets quality.md, quality.json, quality.csv and, with --label-cost, label-cost.svg and .png:
quality against a person's work.

Each command has one thread, and --jobs of them run side by side. What was finished is not done again, so a run that was
stopped is simply started again. A job that fails costs its own figures; the page says which are missing. Exit status 0:
all done; 1: some of it failed; 2: bad usage.

On two cores with --precision bfloat16, on a CPU that computes in it: 11 minutes with --quick, and by the seconds of
single jobs about 25 as it is and 140 with --full; --label-cost adds 14 minutes a fold. In float32 it is up to twice as
long.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from comparison import curve, figures, label_cost, page, tables
from comparison.jobs import Shell, run_all
from comparison.label_cost import SECONDS_A_LABEL, SECONDS_A_MASK, Point
from comparison.plan import TILING, Plan, jobs_of
from comparison.slides import FEWEST, find_slides
from comparison.trainings import TAUGHT_BY, is_trained, read_json, read_run, time_file, write_json

import ucc_path
from ucc_path.formats import png
from ucc_path.settings import PRECISIONS

QUICK_STEPS = 350  # about a third of what preset `fast` has
USUAL_FOLDS = (0, 4)
FULL_SEEDS = 3
INTERRUPTED = 130


def main() -> int:
    parser = _parser()
    asked = parser.parse_args()
    try:
        plan = make_plan(asked)
    except ValueError as err:
        parser.error(str(err))
    jobs = jobs_of(plan)
    if asked.dry_run:
        for job in jobs:
            waits = f" (after {', '.join((*job.needs, *job.after))})" if job.needs or job.after else ""
            print(f"{'done' if job.is_done() else 'to do':6}{job.name}: {job.words}{waits}")
        return 0
    _begin(parser, plan)
    shell, began = Shell(plan.root / "logs"), time.monotonic()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        failures = run_all(jobs, shell, side_by_side=asked.jobs)
    except KeyboardInterrupt:
        print("Stopped. Go on with the same command.", file=sys.stderr)
        return INTERRUPTED
    is_whole = _conclude(plan, asked, time.monotonic() - began)
    return 0 if is_whole and not failures else 1


def make_plan(asked: argparse.Namespace) -> Plan:
    """What the options ask for; ValueError where it cannot be had."""
    slides = find_slides(asked.slides) if asked.slides.is_dir() else ()
    if len(slides) < FEWEST:
        raise ValueError(
            f"{asked.slides} has {len(slides)} slides with an annotation beside them; {FEWEST} is the least"
        )
    n = len(slides)
    folds: tuple[int, ...] = tuple(fold for fold in USUAL_FOLDS if fold < n)
    if asked.quick or asked.full:
        folds = tuple(range(n)) if asked.full else (0,)
    if asked.folds is not None:
        folds = tuple(dict.fromkeys(asked.folds))
    if not folds or any(not 0 <= fold < n for fold in folds):
        raise ValueError(f"--folds: {n} slides have the folds 0 to {n - 1}")
    seeds = asked.seeds or (FULL_SEEDS if asked.full else 1)
    steps = asked.steps or (QUICK_STEPS if asked.quick else None)
    where = asked.output.resolve()
    return Plan(slides, where, folds, tuple(range(seeds)), steps, asked.label_cost, asked.precision)


def _begin(parser: argparse.ArgumentParser, plan: Plan) -> None:
    """Refuses a folder whose finished runs are of another comparison: they would be taken for this one's."""
    record: dict[str, Any] = {"slides": [str(slide) for slide in plan.slides], "tiling": list(TILING)}
    record |= {"steps": plan.steps, "precision": plan.precision}
    before = read_json(plan.root / "plan.json")
    differing = [name for name, value in record.items() if before and before.get(name) != value]
    if differing:
        parser.error(f"{plan.root} holds a comparison with other {' and '.join(differing)}; choose another folder")
    write_json(plan.root / "plan.json", {**record, "begun_at_commit": before.get("begun_at_commit") or _commit()})


def _conclude(plan: Plan, asked: argparse.Namespace, seconds: float) -> bool:
    """Writes and prints the tables; whether nothing is missing."""
    lines, missing = figures.gather(plan)
    about = page.About(_facts(plan, seconds), list(_trainings(plan)), missing)
    price = {"seconds_a_label": asked.seconds_a_label, "seconds_a_mask": asked.seconds_a_mask}
    points = label_cost.points(plan, lines, **price) if plan.label_cost else []
    words = (
        f"Assumed, not measured: {price['seconds_a_label']:g} s of a person for the kind of a tile, "
        f"{price['seconds_a_mask']:g} s to outline one. Val tiles are labelled too, and counted. Fewer tiles are drawn "
        "at random, each kind in its share but three at least, the fewer among the more. One seed; the Unet is allowed "
        "the steps that it was with all tiles. Masks on the grid, or as fine as pixels: as chosen by val tiles."
    )
    figures.write(plan.root / "quality.csv", lines)
    (plan.root / "quality.md").write_text(page.page(lines, about, points, words), encoding="utf-8")
    write_json(plan.root / "quality.json", _everything(plan, about, lines, points, price))
    if points:
        _draw(plan.root, points, price)
    print(page.short(lines, about, points))
    for one in missing:
        print(f"missing: {one}", file=sys.stderr)
    print(f"The page is {plan.root}/quality.md")
    return not missing


def _draw(folder: Path, points: list[Point], price: dict[str, float]) -> None:
    subtitle = f"Assumed: {price['seconds_a_label']:g} s a label, {price['seconds_a_mask']:g} s a mask. "
    subtitle += "Numbers: train tiles. Pale dots: each case."
    title = "What a label is worth, and what a mask"
    shapes = curve.shapes(points, title=title, subtitle=subtitle, y_label="Balanced accuracy on tissue")
    (folder / "label-cost.svg").write_text(curve.as_svg(shapes), encoding="utf-8")
    png.write(folder / "label-cost.png", curve.as_pixels(shapes))


def _facts(plan: Plan, seconds: float) -> dict[str, str]:
    begun, now = read_json(plan.root / "plan.json").get("begun_at_commit"), _commit()
    return {
        "command": f"`python benchmarks/quality.py {' '.join(sys.argv[1:])}`",
        "commit": now if begun == now else f"{now}, begun at {begun}",
        "date": datetime.now(timezone.utc).strftime("%Y-%m-%d %H:%M UTC"),
        "machine": f"{os.cpu_count()} cores ({platform.machine()}), one thread a command",
        "folds (test slide)": ", ".join(f"{fold} ({plan.case(fold)})" for fold in plan.folds),
        "seeds": ", ".join(map(str, plan.seeds)),
        "steps": str(plan.steps or "those of the preset"),
        "precision of training": plan.precision,
        "time": f"{seconds:.0f} s, without what was finished before",
    }


def _trainings(plan: Plan) -> Iterator[dict[str, Any]]:
    """How each training went; with what the Unet was due."""
    for fold in plan.folds:
        for seed in plan.seeds:
            for row in plan.rows(seed):
                run = plan.run(fold, seed, row)
                if is_trained(run):
                    record, account = read_run(run), read_json(time_file(run))
                    yield {
                        "fold": fold,
                        "seed": seed,
                        "row": row,
                        "taught_by": TAUGHT_BY[row],
                        "tiles": sum(record["data"]["tiles"]["train"].values()),
                        "allowed": record["settings"]["training"]["steps"],
                        "patience": record["settings"]["training"]["patience"],
                        **{key: record[key] for key in ("steps", "best_step", "seconds", "stopped", "converged")},
                        "second_round": record.get("second_round"),  # where a model learns in two; seconds has both
                        "due_s": account.get("due_s"),
                        "account": account or None,
                    }


def _everything(
    plan: Plan, about: page.About, lines: list[figures.Line], points: list[Point], price: dict[str, float]
) -> dict[str, Any]:
    """Every figure; what is undefined is null."""
    groups = {(line.split, line.scope, line.averaging) for line in lines}
    estimates = {
        "/".join(group): tables.estimates(tables.pick(lines, split=group[0], scope=group[1], averaging=group[2]))
        for group in sorted(groups)
    }
    record = {
        "facts": dict(about.facts),
        "missing": list(about.missing),
        "trainings": list(about.trainings),
        "figures": figures.FIGURES,
        "lines": [asdict(line) for line in lines],
        "estimates": {
            group: {row: {n: asdict(e) for n, e in of.items()} for row, of in e.items()}
            for group, e in estimates.items()
        },
        "differences": [
            {"scope": scope, **asdict(one), "verdict": one.verdict}
            for scope in tables.FINER
            for one in tables.differences(lines, scope)
        ],
        "label_cost": {**price, "points": [asdict(point) for point in points]} if points else None,
    }
    return dict(json.loads(json.dumps(_without_nan(record))))


def _without_nan(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nan(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [_without_nan(part) for part in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _commit() -> str:
    """Of the package that the commands run, which need not be the one beside this file."""
    command = ["git", "-C", str(Path(ucc_path.__file__).parent), "describe", "--always", "--dirty"]
    said = subprocess.run(command, capture_output=True, text=True, check=False)
    return said.stdout.strip() or f"unknown (ucc-path {ucc_path.__version__})"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("slides", type=Path, metavar="SLIDES")
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="DIR")
    extent = parser.add_mutually_exclusive_group()
    extent.add_argument("--quick", action="store_true", help="fold 0 and a third of the steps")
    extent.add_argument("--full", action="store_true", help=f"all folds, {FULL_SEEDS} seeds")
    parser.add_argument("--label-cost", action="store_true", help="also with fewer train tiles")
    parser.add_argument("--seconds-a-label", type=float, default=SECONDS_A_LABEL, help="of a person; assumed")
    parser.add_argument("--seconds-a-mask", type=float, default=SECONDS_A_MASK, help="of a person; assumed")
    parser.add_argument("--jobs", type=int, default=2, help="commands side by side")
    parser.add_argument("--folds", type=lambda text: [int(part) for part in text.split(",")], help="such as 0,4")
    parser.add_argument("--seeds", type=int, help="how many: 0, 1, ...")
    parser.add_argument("--steps", type=int, help="of every training, to try this out; the preset's unless given")
    parser.add_argument("--precision", choices=PRECISIONS, default=PRECISIONS[0], help="of every training")
    parser.add_argument("--dry-run", action="store_true", help="print the jobs and do nothing")
    return parser


if __name__ == "__main__":
    sys.exit(main())
