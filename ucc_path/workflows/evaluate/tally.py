"""What the judges say of each tile, counted as it comes; of a tile there remain a few numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ucc_path.evaluation.counts import ByLabel, Counts, confusion, count_by_label, counts_of
from ucc_path.evaluation.divergence import ClassDensities
from ucc_path.evaluation.matching import by_names, by_truth
from ucc_path.evaluation.summary import REGIONS
from ucc_path.features.heads import CountHead
from ucc_path.formats.tiles_csv import TileRow
from ucc_path.stain import Change
from ucc_path.tiles.labelling import CLASSES
from ucc_path.workflows.evaluate.judges import PixelJudge, Verdict
from ucc_path.workflows.evaluate.runs import PIXELS, Contestant
from ucc_path.workflows.evaluate.tiles import Tile

_NONE = -1


@dataclass(frozen=True, slots=True, eq=False)
class TileCounts:
    """Of one tile and one judge."""

    by_label: dict[str, ByLabel]  # by what is behind the name of the row: nothing, or PIXELS
    features: NDArray[np.float32] | None
    classes: NDArray[np.int64]  # the true class of each judged patch, a place in CLASSES
    label: int  # the likeliest label of the tile, of a model that counts; or -1
    ucc: int  # and its unique class count


@dataclass(frozen=True, slots=True, eq=False)
class Counting:
    """How well a model counts: over the tiles whose label is known."""

    labels: tuple[str, ...]
    confusion: NDArray[np.int64]  # (labels, labels), rows the truth
    accuracy: float  # share of the tiles whose unique class count is right
    balanced: float  # the mean of that share over the counts there are


@dataclass(slots=True, eq=False)
class Tally:
    """All that is kept of one judge."""

    contestant: Contestant
    by_label: dict[str, list[ByLabel]] = field(default_factory=dict)
    densities: ClassDensities | None = None
    _labels: list[tuple[int, int, int, int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        run = self.contestant.run
        if run is not None and not isinstance(self.contestant.judge, PixelJudge):
            settings = run.card.settings
            self.densities = ClassDensities(len(CLASSES), settings.features, bins=settings.bins, sigma=settings.sigma)

    def add(self, row: TileRow, found: TileCounts) -> None:
        for ending, table in found.by_label.items():
            self.by_label.setdefault(ending, []).append(table)
        if self.densities is not None and found.features is not None and len(found.features):
            self.densities.add(found.features, found.classes)
        if found.label != _NONE and row.ucc is not None and self.contestant.run is not None:
            names = self.contestant.run.card.labels
            truth = next((names.index(name) for name in (row.kind, f"ucc {row.ucc}") if name in names), _NONE)
            self._labels.append((truth, found.label, row.ucc, found.ucc))

    def tumour_labels(self, match: str) -> frozenset[int]:
        """The label values that mean tumour; by the truth only where they are clusters, and it is wished for."""
        if match == "oracle" and self.contestant.has_clusters:
            return by_truth(np.sum(self.by_label[""], axis=0).sum(axis=-1))
        return by_names(self.contestant.judge.classes)

    def counts(self, match: str) -> dict[str, dict[str, Counts]]:
        """By row of the table and by region, (tiles, 4)."""
        tumour = self.tumour_labels(match)
        return {
            self.contestant.name + ending: {
                region: counts_of(np.array(tables), tumour, tissue_only=bool(region)) for region in REGIONS
            }
            for ending, tables in self.by_label.items()
        }

    def counting(self) -> Counting | None:
        if not self._labels or self.contestant.run is None:
            return None
        truth, found, ucc, found_ucc = np.array(self._labels, np.int64).T
        names = self.contestant.run.card.labels
        is_right = ucc == found_ucc
        shares = [float(is_right[ucc == count].mean()) for count in np.unique(ucc)]
        known = truth != _NONE
        table = confusion(truth[known], found[known], len(names))
        return Counting(names, table, float(is_right.mean()), float(np.mean(shares)))


def count_tiles(
    tiles: Sequence[Tile], contestants: Sequence[Contestant], standard: Change | None
) -> list[list[TileCounts]]:
    """What each judge's verdicts come to: for each tile, for each contestant."""
    verdicts = [contestant.judge(tiles, standard) for contestant in contestants]
    return [
        [_counted(tile, contestant, given[place]) for contestant, given in zip(contestants, verdicts, strict=True)]
        for place, tile in enumerate(tiles)
    ]


def _counted(tile: Tile, contestant: Contestant, verdict: Verdict) -> TileCounts:
    masks = {"": tile.on_pixels(verdict.labels)}
    if verdict.pixels is not None:
        masks[PIXELS] = verdict.pixels
    classes = len(contestant.judge.classes)
    tables = {
        ending: count_by_label(labels, tile.tumour, tile.is_tissue, classes=classes) for ending, labels in masks.items()
    }
    true_classes = tile.is_tumour_patch[tile.is_judged].astype(np.int64)
    label, ucc = _count_of(contestant.head, verdict)
    return TileCounts(tables, verdict.features, true_classes, label, ucc)


def _count_of(head: CountHead | None, verdict: Verdict) -> tuple[int, int]:
    if head is None or verdict.counted is None:
        return _NONE, _NONE
    return int(verdict.counted.argmax()), int(head.predicted(verdict.counted[None])[0])
