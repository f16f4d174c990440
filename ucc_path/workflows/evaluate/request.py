"""What is asked of `evaluate`, and the tiles it is about."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ucc_path.errors import DatasetError, few
from ucc_path.evaluation.matching import MATCHES
from ucc_path.formats import labels_csv, tile_store, tiles_csv
from ucc_path.formats.tiles_csv import TileRow
from ucc_path.settings import EvaluationSettings, SegmentationSettings, TissueSettings
from ucc_path.workflows.events import Notice

SPLITS = ("test", "val")
"""Whose tiles are judged; the first unless told otherwise."""


@dataclass(frozen=True, slots=True)
class EvaluateRequest:
    """Paths, settings and wishes of one `ucc-path evaluate`."""

    dataset: Path
    models: tuple[Path, ...]  # runs, or the models in them
    output: Path
    split: str = SPLITS[0]
    match: str = MATCHES[0]
    device: str = "auto"
    overwrite: bool = False
    segmentation: SegmentationSettings = SegmentationSettings()
    tissue: TissueSettings = TissueSettings()
    evaluation: EvaluationSettings = EvaluationSettings()


def choose_tiles(request: EvaluateRequest) -> tuple[list[TileRow], list[Notice]]:
    """The tiles of the split that have masks, those of one slide together; labels that people gave win."""
    table = labels_csv.labelled_tiles(request.dataset)
    split = request.split
    rows = sorted((row for row in table if row.split == split), key=lambda row: row.slide)
    if not rows:
        there = sorted({row.split for row in table})
        raise DatasetError(
            f"{request.dataset} has no {split} tiles (only {', '.join(there) or 'an empty table'}); "
            f"make it anew with ucc-path tile --split and a share for {split}, from more slides"
        )
    known = [row for row in rows if row.tumour_fraction is not None]
    if not known:
        raise DatasetError(
            f"the {split} tiles of {request.dataset} have no masks to compare with; "
            "make the data set anew with ucc-path tile --annotations"
        )
    missing = [row.tile_id for row in known if not tiles_csv.mask_path(request.dataset, row).is_file()]
    if missing:
        raise DatasetError(
            f"{len(missing)} of {len(known)} {split} tiles of {request.dataset} lack their masks ({few(missing)}); "
            "copy its masks folder again, or make the data set anew with ucc-path tile"
        )
    tile_store.common_scale(known)
    notices = []
    if len(known) < len(rows):
        notices.append(Notice(f"{len(rows) - len(known)} of {len(rows)} {split} tiles have no mask and are left out"))
    if len({row.slide for row in known}) == 1:
        notices.append(Notice("all tiles are of one slide, so that nothing is known of how models do on others"))
    if split == "val":
        notices.append(Notice("val tiles choose when training stops: figures on them promise more than on test tiles"))
    return known, notices
