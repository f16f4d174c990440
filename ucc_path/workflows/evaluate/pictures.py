"""Which tiles a report shows, and what they look like: the image, the truth, and each model's mask beside it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ucc_path.evaluation.counts import FN, TP, Counts
from ucc_path.evaluation.scores import FIGURES, figures_of
from ucc_path.formats.tiles_csv import TileRow
from ucc_path.report.comparison import tumour_view
from ucc_path.stain import Change
from ucc_path.workflows.evaluate.judges import Labels, Verdict
from ucc_path.workflows.evaluate.runs import PIXELS
from ucc_path.workflows.evaluate.tally import Tally
from ucc_path.workflows.evaluate.tiles import Tile

BEST, TYPICAL, WORST, WORST_PURE = "best", "typical", "worst", "worst of one kind"
_PURE_BELOW = 0.1  # share of tumour, or of what is not: such a tile is of one kind to the eye

Picture = NDArray[np.uint8]


@dataclass(frozen=True, slots=True, eq=False)
class Shown:
    """A tile in the report."""

    sort: str  # BEST ...
    row: TileRow
    accuracy: float  # of the first model
    pictures: tuple[tuple[str, Picture], ...]  # what each shows


def choose(counts: Counts, each: int) -> dict[str, list[int]]:
    """Places of the tiles to show by the first model's counts (tiles, 4), as many of each sort as wished for.

    Of tiles that hold both kinds, those with the highest, the middle and the lowest pixel accuracy; of tiles of one
    kind those with the lowest, since a good one shows nothing.
    """
    accuracy = figures_of(counts)[:, FIGURES.index("PA")]
    share = counts[:, [TP, FN]].sum(axis=1) / np.maximum(counts.sum(axis=1), 1)
    is_mixed = (share > _PURE_BELOW) & (share < 1 - _PURE_BELOW)
    order = np.argsort(accuracy, kind="stable")[: np.count_nonzero(np.isfinite(accuracy))]  # without tissue it has none
    mixed, pure = order[is_mixed[order]], order[~is_mixed[order]]
    middle = max(0, (len(mixed) - each) // 2)
    found: dict[str, list[int]] = {BEST: [], TYPICAL: [], WORST: [], WORST_PURE: pure[:each].tolist()}
    taken: set[int] = set()
    for sort, places in ((WORST, mixed[:each]), (BEST, mixed[::-1][:each]), (TYPICAL, mixed[middle : middle + each])):
        found[sort] = [place for place in places.tolist() if place not in taken]  # few tiles are shown once
        taken.update(found[sort])
    return found


def draw(tile: Tile, tallies: Sequence[Tally], standard: Change | None, match: str) -> list[tuple[str, Picture]]:
    """The tile, its truth, and the tumour that each judge sees."""
    pictures = [("image", tile.image), ("truth", tumour_view(tile.image, tile.tumour))]
    for tally in tallies:
        verdict = tally.contestant.judge([tile], standard)[0]
        tumour = list(tally.tumour_labels(match))
        for ending, labels in _masks(tile, verdict).items():
            view = tumour_view(tile.image, np.isin(labels, tumour))
            pictures.append((tally.contestant.name + ending, view))
    return pictures


def _masks(tile: Tile, verdict: Verdict) -> dict[str, Labels]:
    """The mask of a judge, or the finer of two."""
    return {"": tile.on_pixels(verdict.labels)} if verdict.pixels is None else {PIXELS: verdict.pixels}
