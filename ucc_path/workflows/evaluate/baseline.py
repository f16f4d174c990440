"""What a model must beat: clusters of raw pixels, and colour alone; neither needs a network or a mask."""

from __future__ import annotations

import math
from collections.abc import Generator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ucc_path.ahead import in_order
from ucc_path.clusters import UNKNOWN, fit
from ucc_path.errors import DatasetError
from ucc_path.formats import labels_csv, tile_store
from ucc_path.formats.tiles_csv import TileRow
from ucc_path.seeding import stream
from ucc_path.tiles.labelling import CLASSES, KINDS
from ucc_path.tiles.splits import SPLITS
from ucc_path.workflows.evaluate.judges import MeanColour, RawClusters, mean_colours, raw
from ucc_path.workflows.evaluate.request import EvaluateRequest
from ucc_path.workflows.evaluate.tiles import Reading, read_patches
from ucc_path.workflows.events import Event, Progress

_MOST_OF_TILE = 64  # patches, so that many tiles are seen
_STARTS = 4


@dataclass(frozen=True, slots=True)
class Baselines:
    """What needs no network; `colour` is None where the tiles are not of both kinds."""

    kmeans: RawClusters
    colour: MeanColour | None
    split: str  # whose tiles they are made of


def baselines(request: EvaluateRequest, reading: Reading, threads: int) -> Generator[Event, None, Baselines]:
    """Made of the train tiles: clusters of raw pixels, named by the pure tiles; and a classifier of those by colour.

    As many tiles of each kind as there are, in turn, so that the rare kinds are not lost among the others.
    """
    table = labels_csv.labelled_tiles(request.dataset)
    split = next(name for name in SPLITS if any(row.split == name for row in table))
    settings = request.evaluation
    rng = stream(settings.seed, "raw patches")
    chosen_rows = [row for row in table if row.split == split]
    _require_scale(chosen_rows, next(row for row in table if row.split == request.split), request)
    each = min(_MOST_OF_TILE, (reading.patch_side(chosen_rows[0])) ** 2)
    rows = _in_turn(chosen_rows, rng)[: -(-settings.kmeans_patches // each)]
    patches, kinds = [], []
    for done, (row, found) in enumerate(
        zip(rows, in_order(lambda row: read_patches(row, reading), rows, threads), strict=True), start=1
    ):
        chosen = found[rng.permutation(len(found))[:each]]
        patches.append(chosen)
        kinds.append(np.full(len(chosen), CLASSES.index(row.kind) if row.kind in CLASSES else UNKNOWN))
        yield Progress("making baselines", done, len(rows), "tiles")
    if sum(map(len, patches)) < len(CLASSES):
        raise DatasetError(f"the {split} tiles of {request.dataset} show no tissue; check its images")
    every, known = np.concatenate(patches), np.concatenate(kinds)
    clusters = fit(raw(every), known, clusters=len(CLASSES), seed=settings.seed, starts=_STARTS)
    return Baselines(RawClusters(clusters), _by_colour(every, known), split)


def _require_scale(rows: Sequence[TileRow], judged: TileRow, request: EvaluateRequest) -> None:
    for row in rows:
        if not math.isclose(row.mpp, judged.mpp, rel_tol=tile_store.SAME_MPP):
            raise DatasetError(
                f"{row.split} tiles of {request.dataset} are at {row.mpp:g} um/px and {judged.split} tiles at "
                f"{judged.mpp:g}; make the data set anew with ucc-path tile and one --mpp"
            )


def _by_colour(patches: NDArray[np.uint8], kinds: NDArray[np.int64]) -> MeanColour | None:
    """Logistic regression on the mean colour of the patches of pure tiles."""
    from sklearn.linear_model import LogisticRegression

    is_known = kinds != UNKNOWN
    if len(np.unique(kinds[is_known])) < len(CLASSES):
        return None
    model = LogisticRegression(class_weight="balanced").fit(mean_colours(patches[is_known]), kinds[is_known])
    return MeanColour(model.coef_[0], float(model.intercept_[0]))


def _in_turn(rows: Sequence[TileRow], rng: np.random.Generator) -> list[TileRow]:
    """Shuffled, the kinds taking turns; what has no kind comes last."""
    by_kind: list[list[TileRow]] = []
    for kind in (*KINDS, None):
        own = [row for row in rows if row.kind == kind]
        order: NDArray[np.int64] = rng.permutation(len(own))
        by_kind.append([own[place] for place in order])
    *known, unknown = by_kind
    longest = max(map(len, known), default=0)
    return [own[turn] for turn in range(longest) for own in known if turn < len(own)] + unknown
