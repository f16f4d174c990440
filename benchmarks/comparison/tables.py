"""From the long table to estimates: rows with their intervals, the same of each case, and paired differences."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from operator import methodcaller

from comparison.figures import FIGURES, Line
from comparison.intervals import Estimate, estimate

# What is compared. Of ucc-kinds it is to be shown that it is not worse by more than this, in PA and balanced accuracy.
PAIRS = (
    ("ucc-kinds", "unet"),
    ("ucc-kinds", "unet-twice"),
    ("ucc", "ucc-kinds"),
    ("ucc", "unet"),
    ("ucc", "kmeans"),
    ("ucc", "empty"),
)
AIMS = {pair: {"PA": -0.01, "balanced": -0.02} for pair in PAIRS if pair[0] == "ucc-kinds"}
COMPARED = ("PA", "balanced")
SHOWN = ("balanced", "PA", "TPR", "FPR", "IoU")
FINER = {"tiles": "-pixels", "slide": "-exact"}
"""By scope, what is behind the name of a row whose mask is not on the grid of patches, or not compared on it."""


@dataclass(frozen=True, slots=True)
class Difference:
    """How much higher the first row is than the second, of the same case and seed."""

    first: str
    second: str
    figure: str
    value: Estimate
    aim: float | None  # the least it should be
    is_chosen: bool  # whether each of the two is the form of its mask that does better on val tiles

    @property
    def verdict(self) -> str:
        if self.aim is None or not self.value.values:
            return ""
        reached = self.value.mean >= self.aim
        is_sure = self.value.has_interval and (self.value.low >= self.aim) == reached == (self.value.high >= self.aim)
        return f"{'reached' if reached else 'missed'}{'' if is_sure else ', not surely'}"


def pick(
    lines: Iterable[Line], *, split: str = "test", scope: str = "tiles", averaging: str = "pooled-tissue"
) -> list[Line]:
    return [line for line in lines if (line.split, line.scope, line.averaging) == (split, scope, averaging)]


def all_tiles(lines: Iterable[Line]) -> list[Line]:
    """Without the models that had fewer train tiles."""
    return [line for line in lines if "@" not in line.row]


def rows_in(lines: Iterable[Line]) -> list[str]:
    """In the order of the reports."""
    return list(dict.fromkeys(line.row for line in lines))


def estimates(lines: Sequence[Line], figures: Sequence[str] = FIGURES) -> dict[str, dict[str, Estimate]]:
    """By row and figure."""
    return {
        row: {name: estimate(values_of(lines, row, methodcaller("figure", name))) for name in figures}
        for row in rows_in(lines)
    }


def by_case(lines: Sequence[Line]) -> dict[str, dict[str, dict[str, Estimate]]]:
    """The same of each case alone; intervals are then over its seeds."""
    cases = sorted({line.case for line in lines})
    return {case: estimates([line for line in lines if line.case == case]) for case in cases}


def differences(lines: Sequence[Line], scope: str = "tiles") -> list[Difference]:
    """Of each pair the forms chosen by val tiles, then both on the grid of patches, then the finest masks of each.

    No val slide is segmented as a whole, so of whole slides nothing is chosen.
    """
    tested = all_tiles(pick(lines, scope=scope))
    there = set(rows_in(tested))
    found = []
    for pair in PAIRS:
        chosen = (chosen_form(lines, pair[0]), chosen_form(lines, pair[1])) if scope == "tiles" else None
        fine = (_finest(there, pair[0], FINER[scope]), _finest(there, pair[1], FINER[scope]))
        for first, second in dict.fromkeys([chosen or pair, pair, fine]):
            for figure in COMPARED:
                value, aim = _paired(tested, first, second, figure), AIMS.get(pair, {}).get(figure)
                if value.values:
                    found.append(Difference(first, second, figure, value, aim, (first, second) == chosen))
    return found


def chosen_form(lines: Sequence[Line], model: str) -> str:
    """The row of a model that has the higher balanced accuracy on val tiles: on the grid, or as fine as pixels."""
    forms = (model, model + FINER["tiles"])
    val = estimates([line for line in pick(lines, split="val") if line.row in forms], ("balanced",))
    return max(val, key=lambda row: val[row]["balanced"].mean, default=model)


def _finest(there: set[str], model: str, ending: str) -> str:
    return model + ending if model + ending in there else model


def values_of(lines: Iterable[Line], row: str, value: Callable[[Line], float]) -> dict[str, list[float]]:
    """Of each case, a value a seed."""
    found = defaultdict(list)
    for line in lines:
        if line.row == row:
            found[line.case].append(value(line))
    return dict(found)


def _paired(lines: Sequence[Line], first: str, second: str, figure: str) -> Estimate:
    others = {(line.case, line.seed): line.figure(figure) for line in lines if line.row == second}
    both = [line for line in lines if line.row == first and (line.case, line.seed) in others]
    return estimate(values_of(both, first, lambda line: line.figure(figure) - others[line.case, line.seed]))
