"""Quality against the work of a person: so many tiles, at so many seconds a label or a mask."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from operator import methodcaller

import numpy as np

from comparison.figures import Line, model_of
from comparison.intervals import Estimate, estimate
from comparison.label_sets import SIZES
from comparison.plan import LABEL_COST, Plan
from comparison.tables import chosen_form, pick, values_of
from comparison.trainings import read_run

# Assumed, not measured: a key pressed for a tile that is looked at, and the tumour of a tile outlined.
SECONDS_A_LABEL = 3.0
SECONDS_A_MASK = 180.0
FIGURE = "balanced"


@dataclass(frozen=True, slots=True)
class Point:
    """A model taught by a number of tiles: the means over the folds, and the figure of each case."""

    row: str
    size: str  # as asked for: a number, or all
    train_tiles: float
    val_tiles: float
    seconds: float  # of a person's work, the val tiles included
    value: Estimate
    cases: dict[str, float]

    @property
    def model(self) -> str:
        return model_of(self.row)


def points(plan: Plan, lines: Sequence[Line], *, seconds_a_label: float, seconds_a_mask: float) -> list[Point]:
    """Those of which there are figures, by model and then by size; all with the first seed."""
    tested = [line for line in pick(lines) if line.seed == plan.seeds[0]]
    price = {"ucc-kinds": seconds_a_label, "unet": seconds_a_mask}
    found = []
    for model in LABEL_COST:
        form = chosen_form(lines, model)
        for size in (*SIZES, None):
            row = f"{form}@{size}" if size else form
            by_case = values_of(tested, row, methodcaller("figure", FIGURE))
            if by_case:
                folds = [fold for fold in plan.folds if plan.case(fold) in by_case]
                train, val = np.mean([_tiles(plan, fold, model, size) for fold in folds], axis=0).tolist()
                cases = {case: float(values[0]) for case, values in by_case.items()}
                cost_s = (train + val) * price[model]
                found.append(Point(row, str(size or "all"), train, val, cost_s, estimate(by_case), cases))
    return found


def _tiles(plan: Plan, fold: int, model: str, size: int | None) -> tuple[int, int]:
    """Train and val tiles that a run had labels or masks of."""
    tiles = read_run(plan.run(fold, plan.seeds[0], model, size))["data"]["tiles"]
    return sum(tiles["train"].values()), sum(tiles["val"].values())


def duration(seconds: float) -> str:
    """As a person would say it.

    >>> duration(564), duration(111_060)
    ('9.4 min', '30.9 h')
    """
    amount, unit = (seconds / 3600, "h") if seconds >= 3600 else (seconds / 60, "min")
    return f"{amount:.0f} {unit}" if float(amount).is_integer() else f"{amount:.1f} {unit}"
