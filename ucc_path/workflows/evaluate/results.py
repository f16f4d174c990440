"""What comes of the counts: the table and what is known of each row of it, as `metrics.json` and the page hold it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ucc_path.evaluation.counts import FN, TP, Counts
from ucc_path.evaluation.divergence import Densities, jensen_shannon
from ucc_path.evaluation.paper import PAPER
from ucc_path.evaluation.summary import EMPTY, Table, summarise
from ucc_path.formats.image_scores_csv import ImageName
from ucc_path.formats.tiles_csv import TileRow
from ucc_path.model.recipes import NETWORK, PIXELS, TEACHERS
from ucc_path.tiles.labelling import KINDS
from ucc_path.workflows.evaluate.adapting import pixel_judge_of
from ucc_path.workflows.evaluate.request import EvaluateRequest
from ucc_path.workflows.evaluate.runs import Run
from ucc_path.workflows.evaluate.tally import Counting, Tally
from ucc_path.workflows.versions import versions


@dataclass(frozen=True, slots=True, eq=False)
class Features:
    """How far the features of the two classes lie apart, over patches of tissue; a patch is what most of it is."""

    densities: Densities  # (classes, features, bins)
    patches: NDArray[np.int64]  # of each class
    divergence: float  # Jensen-Shannon, in nats; nan where a class has no patches


@dataclass(frozen=True, slots=True, eq=False)
class Cost:
    """What a model needed."""

    learnt_from: str
    tiles: int | None
    parameters: int
    seconds: float | None
    device: str
    best_step: int | None


@dataclass(frozen=True, slots=True, eq=False)
class ModelResult:
    """A trained model in the report."""

    run: Run
    matched_by: str  # names, oracle, or classes: what says which label is tumour
    cost: Cost
    counting: Counting | None
    features: Features | None
    thresholds: Mapping[str, float]  # by slide, where a network of pixels adapts to it

    @property
    def trained_with(self) -> Mapping[str, Mapping[str, Any]]:
        """Its settings, by table; nothing where a model came without its run."""
        found: Mapping[str, Mapping[str, Any]] = (self.run.record or {}).get("settings", {})
        return found


@dataclass(frozen=True, slots=True, eq=False)
class Results:
    """All that is known in the end."""

    request: EvaluateRequest
    rows: tuple[TileRow, ...]
    patch_px: int
    counts: Mapping[str, Mapping[str, Counts]]  # by row of the table, by region: (tiles, 4)
    table: Table
    models: tuple[ModelResult, ...]
    baseline_split: str
    remarks: tuple[str, ...]

    @property
    def slides(self) -> list[str]:
        return sorted({row.slide for row in self.rows})

    def tumour_share(self, region: str) -> float:
        """Of all pixels of the tiles, or of their tissue."""
        counts = self.counts[EMPTY][region].sum(axis=0)
        return float((counts[TP] + counts[FN]) / max(counts.sum(), 1))

    def tissue_share(self) -> float:
        over_all, over_tissue = (self.counts[EMPTY][region].sum() for region in ("", "-tissue"))
        return float(over_tissue / max(over_all, 1))


def results_of(
    request: EvaluateRequest,
    rows: Sequence[TileRow],
    tallies: Sequence[Tally],
    *,
    patch_px: int,
    baseline_split: str,
    remarks: Sequence[str],
) -> Results:
    counts = {name: found for tally in tallies for name, found in tally.counts(request.match).items()}
    _, slides = np.unique([row.slide for row in rows], return_inverse=True)
    table = summarise(counts, slides, request.evaluation)
    models = tuple(_model(request, tally, tally.contestant.run) for tally in tallies if tally.contestant.run)
    return Results(request, tuple(rows), patch_px, counts, table, models, baseline_split, tuple(remarks))


def _model(request: EvaluateRequest, tally: Tally, run: Run) -> ModelResult:
    matched_by = request.match if tally.contestant.has_clusters else "classes"
    judge = pixel_judge_of(tally.contestant)
    thresholds = dict(judge.thresholds) if judge else {}
    return ModelResult(run, matched_by, _cost(run), tally.counting(), _features(tally), thresholds)


def _features(tally: Tally) -> Features | None:
    if tally.densities is None:
        return None
    densities = tally.densities.result()
    return Features(densities, tally.densities.patches, float(jensen_shannon(densities)[0, 1]))


def _cost(run: Run) -> Cost:
    record = run.record or {}
    tiles = record.get("data", {}).get("tiles", {}).get("train")
    return Cost(
        learnt_from=TEACHERS[run.card.supervision],
        tiles=sum(tiles.values()) if tiles else None,
        parameters=sum(tensor.numel() for name, tensor in run.tensors.items() if name.startswith((NETWORK, PIXELS))),
        seconds=record.get("seconds"),
        device=str(record.get("device") or ""),
        best_step=record.get("best_step"),
    )


def image_names(rows: Sequence[TileRow]) -> list[ImageName]:
    return [ImageName(row.tile_id, row.slide, row.x_l0, row.y_l0, row.kind, row.tumour_fraction) for row in rows]


def record_of(results: Results) -> dict[str, Any]:
    """As `metrics.json` holds it."""
    request, rows = results.request, results.rows
    own = {model.run.name: _facts(model) for model in results.models}
    return {
        "command": "evaluate",
        "data": {
            "path": request.dataset,
            "split": request.split,
            "images": len(rows),
            "slides": results.slides,
            "kinds": {kind: sum(row.kind == kind for row in rows) for kind in KINDS},
            "tile_px": rows[0].tile_px,
            "mpp": rows[0].mpp,
            "patch_px": results.patch_px,
            "tumour_share": results.tumour_share(""),
            "tumour_share_of_tissue": results.tumour_share("-tissue"),
            "tissue_share": results.tissue_share(),
        },
        "match": request.match,
        "baselines_made_of": results.baseline_split,
        "models": [{"name": name, "scores": scores, **own.get(name, {})} for name, scores in results.table.items()],
        "paper": PAPER,
        "notes": list(results.remarks),
        "settings": settings_of(request),
        "versions": versions(),
    }


def settings_of(request: EvaluateRequest) -> dict[str, Any]:
    """Those that the figures depend on."""
    segmentation = asdict(request.segmentation)
    used = ("min_tissue", "assign", "smooth_px", "adapt", "neighbours", "inference", "batch_size")
    return {
        "segmentation": {name: segmentation[name] for name in used},
        "tissue": asdict(request.tissue),
        "evaluation": asdict(request.evaluation),
    }


def _facts(model: ModelResult) -> dict[str, Any]:
    card = model.run.card
    features = model.features
    return {
        "path": model.run.path,
        "sha256": model.run.sha256,
        "model": card.model,
        "supervision": card.supervision,
        "converged": card.converged,
        "matched_by": model.matched_by,
        "thresholds": model.thresholds or None,
        "cost": model.cost,
        "ucc": model.counting,
        "divergence": features.divergence if features else None,
        "features": features,
        "trained_with": model.trained_with,
        "training": [asdict(row) for row in model.run.metrics],
    }
