"""`quality.md`: the tables of a comparison as a page of Markdown, ready for the docs."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from comparison.figures import Line, model_of
from comparison.intervals import CONFIDENCE, DRAWS, Estimate
from comparison.label_cost import Point, duration
from comparison.tables import SHOWN, Difference, all_tiles, by_case, differences, estimates, pick
from comparison.trainings import ROWS

NOTHING = "–"
_TITLES = {"balanced": "balanced accuracy"}
_PAPER = ("TPR", "FPR", "PA")
_WORDS = (
    "Each row was trained and judged by the public commands alone. A case is a slide that was in no training of its "
    "fold. Figures are over tissue, of all tiles of a slide together: the mean over cases, and over the seeds of a "
    f"case. In brackets: {CONFIDENCE:.0%} intervals, from cases, and seeds within a case, drawn {DRAWS:,} times again. "
    "With few cases they are rough; of a single value there is none. `-pixels` is a model's mask as fine as pixels, "
    "without it on the grid of patches."
)
_AIMS = (
    "Of the same case and seed. The aims: ucc-kinds is below the Unet by no more than 0.01 in PA and 0.02 in balanced "
    "accuracy. `not surely`: the interval holds the aim, or there is none. In bold: the form of each model's mask, on "
    "the grid or as fine as pixels, that does better on val tiles, on the mean over all folds."
)
_TIME_WORDS = (
    "Seconds of training on one thread, all rounds together, with other jobs beside. `early`: the loss on val tiles "
    "fell no more; `steps`: all steps allowed were done. The Unet had at least the seconds due to it, those of the "
    "longer of ucc-kinds and ucc, and did not stop early before. `unet-twice` had twice its steps and patience; "
    "it and `supervised` are of the first seed alone."
)
_TIME_COLUMNS = {
    "fold": "fold",
    "seed": "seed",
    "row": "row",
    "train tiles": "tiles",
    "steps": "steps",
    "allowed": "allowed",
    "kept": "best_step",
    "stopped": "stopped",
    "second round": "second_round",
    "seconds": "seconds",
    "due": "due_s",
}


@dataclass(frozen=True, slots=True)
class About:
    """How the figures came about: a few facts, a record of each training, and what could not be had."""

    facts: Mapping[str, str]
    trainings: Sequence[Mapping[str, Any]]  # fold, seed, row, tiles, steps, best_step, seconds, stopped, due_s
    missing: Sequence[str]


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table of Markdown whose columns line up in plain text too.

    >>> print(table(["row", "PA"], [["unet", "0.9"]]))
    | row  | PA  |
    |------|-----|
    | unet | 0.9 |
    """
    body = [list(row) for row in rows]
    widths = [max(len(row[column]) for row in [list(head), *body]) for column in range(len(head))]
    lines = [
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) + " |" for row in body
    ]
    first = "| " + " | ".join(cell.ljust(width) for cell, width in zip(head, widths, strict=True)) + " |"
    return "\n".join([first, "|" + "|".join("-" * (width + 2) for width in widths) + "|", *lines])


def shown(value: Estimate, *, sign: str = "") -> str:
    """A mean with its interval."""
    if not value.values:
        return NOTHING
    ends = f" ({value.low:{sign}.3f} to {value.high:{sign}.3f})" if value.has_interval else ""
    return f"{value.mean:{sign}.3f}{ends}"


def short(lines: Sequence[Line], about: About, points: Sequence[Point] = ()) -> str:
    """What is said at the end of a run: the main table, the aims, and what labels cost."""
    parts = [tiles_table(lines, about), differences_table(differences(lines))]
    return "\n\n".join([*parts, *([cost_table(points)] if points else [])])


def page(lines: Sequence[Line], about: About, points: Sequence[Point], cost_words: str) -> str:
    tested = all_tiles(pick(lines))
    parts = ["# Weak labels beside full masks", table(["", ""], about.facts.items()), _WORDS]
    if about.missing:
        parts += ["## Missing", "These figures are not in the tables:", "\n".join(f"- {one}" for one in about.missing)]
    parts += ["## Tiles of slides that no model has seen", tiles_table(lines, about)]
    parts += [
        "## Differences",
        _AIMS,
        differences_table(differences(lines)),
    ]
    parts += ["## Each case", case_table(tested)]
    parts += [
        "## As the paper averages",
        "Means over tiles, all pixels.",
        plain_table(all_tiles(pick(lines, averaging="image")), _PAPER),
    ]
    exact = [line for line in pick(lines, scope="slide") if not _has_finer(line, lines)]
    exact.sort(key=lambda line: model_of(line.row) not in ROWS)  # models first
    parts += [
        "## Whole slides",
        "All tissue of the test slides, masks as `ucc-path segment` makes them unless asked otherwise. `-exact`: "
        "compared pixel by pixel, as the tiles are.",
        plain_table(exact),
        differences_table(differences(lines, "slide")),
    ]
    parts += [
        "## Val tiles",
        "What choices were made by; not a result.",
        plain_table(all_tiles(pick(lines, split="val"))),
    ]
    parts += ["## Time", _TIME_WORDS, time_table(about.trainings)]
    if points:
        parts += [
            "## What labels cost",
            cost_words,
            cost_table(points),
            "![Balanced accuracy against a person's work](label-cost.svg)",
        ]
    return "\n\n".join(part for part in parts if part) + "\n"


def tiles_table(lines: Sequence[Line], about: About) -> str:
    found = all_tiles(pick(lines))
    head = ["row", "taught by", *(_TITLES.get(name, name) for name in SHOWN), "seconds", "stopped"]
    rows = [
        [row, _taught(row, about), *(shown(values[name]) for name in SHOWN), *_training_cells(row, found)]
        for row, values in estimates(found).items()
    ]
    return table(head, rows)


def plain_table(lines: Sequence[Line], figures: Sequence[str] = SHOWN) -> str:
    rows = [[row, *(shown(values[name]) for name in figures)] for row, values in estimates(lines, figures).items()]
    return table(["row", *(_TITLES.get(name, name) for name in figures)], rows) if rows else "No figures."


def case_table(lines: Sequence[Line]) -> str:
    rows = [
        [case, row, *(shown(values[name]) for name in SHOWN)]
        for case, by_row in by_case(lines).items()
        for row, values in by_row.items()
    ]
    return table(["case", "row", *(_TITLES.get(name, name) for name in SHOWN)], rows)


def differences_table(found: Sequence[Difference]) -> str:
    if not found:
        return ""
    rows = [
        [
            f"**{one.first} - {one.second}**" if one.is_chosen else f"{one.first} - {one.second}",
            _TITLES.get(one.figure, one.figure),
            shown(one.value, sign="+"),
            NOTHING if one.aim is None else f"{one.aim:+.2f} or more",
            one.verdict or NOTHING,
        ]
        for one in found
    ]
    return table(["difference", "of", "mean (interval)", "aim", "is"], rows)


def time_table(trainings: Sequence[Mapping[str, Any]]) -> str:
    rows = [[_cell(one.get(key)) for key in _TIME_COLUMNS.values()] for one in trainings]
    short_of = [one for one in trainings if (one.get("account") or {}).get("enough") is False]
    words = [f"In fold {one['fold']}, seed {one['seed']} the Unet did NOT get its time." for one in short_of]
    return "\n\n".join([table(list(_TIME_COLUMNS), rows), *words])


def cost_table(points: Sequence[Point]) -> str:
    head = ["row", "train tiles", "val tiles", "a person's work", _TITLES["balanced"]]
    rows = [
        [
            point.row.split("@")[0],
            f"{point.train_tiles:.0f}",
            f"{point.val_tiles:.0f}",
            duration(point.seconds),
            shown(point.value),
        ]
        for point in points
    ]
    return table(head, rows)


def _taught(row: str, about: About) -> str:
    own = [one for one in about.trainings if one["row"] == model_of(row)]
    tiles = sorted({one["tiles"] for one in own})
    return f"{'–'.join(str(n) for n in dict.fromkeys([tiles[0], tiles[-1]]))} {own[0]['taught_by']}" if own else NOTHING


def _training_cells(row: str, lines: Sequence[Line]) -> list[str]:
    """How long a row was trained, on the mean, and what ended it."""
    own = [line for line in lines if line.row == row and line.stopped]
    if not own or model_of(row) not in ROWS:
        return [NOTHING, NOTHING]
    ends = [line.stopped for line in own]
    kinds = [f"{ends.count(end)} {end}" if len(set(ends)) > 1 else end for end in dict.fromkeys(ends)]
    return [f"{sum(line.seconds for line in own) / len(own):.0f}", ", ".join(kinds)]


def _has_finer(line: Line, lines: Sequence[Line]) -> bool:
    return any(other.row == f"{line.row}-exact" and other.scope == line.scope for other in lines)


def _cell(value: Any) -> str:
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        return NOTHING
    if isinstance(value, dict):  # of a second round
        return f"{value.get('steps', NOTHING)} steps, {value.get('stopped', NOTHING)}"
    return f"{value:.0f}" if isinstance(value, float) else str(value)
