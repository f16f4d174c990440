"""The tiles that a model learns from: which rows of the data set, with which labels, as memory-mapped arrays."""

from __future__ import annotations

import hashlib
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ucc_path.bags import TileSet
from ucc_path.clusters import UNKNOWN
from ucc_path.errors import DatasetError
from ucc_path.formats import labels_csv, tile_store, tiles_csv
from ucc_path.formats.tiles_csv import TileRow
from ucc_path.stain import standard_of
from ucc_path.tiles.labelling import CLASSES, KINDS
from ucc_path.workflows.events import Event, Notice, Progress
from ucc_path.workflows.train.request import TrainRequest

SPLITS = ("train", "val")
NO_LABEL = -1


@dataclass(frozen=True, slots=True)
class Rows:
    """The tiles of one split that are used, and the label of each."""

    rows: tuple[TileRow, ...]
    labels: tuple[int, ...]  # places in `names`
    names: tuple[str, ...]

    def counts(self) -> dict[str, int]:
        """Tiles by label."""
        return {name: self.labels.count(place) for place, name in enumerate(self.names)} or {"tiles": len(self.rows)}

    def kinds(self) -> NDArray[np.int64]:
        """The class of each pure tile, as a place in CLASSES; the others are UNKNOWN."""
        return np.array([CLASSES.index(row.kind) if row.kind in CLASSES else UNKNOWN for row in self.rows], np.int64)


def fingerprint(dataset: Path) -> str:
    """What tells one data set from another, wherever it lies."""
    tables = [dataset / tiles_csv.NAME, dataset / labels_csv.NAME]
    return hashlib.sha256(b"\0".join(path.read_bytes() for path in tables if path.exists())).hexdigest()


def choose_rows(request: TrainRequest) -> tuple[dict[str, Rows], list[Notice]]:
    """The rows of each split that a model of this kind can learn from; the labels that people gave win."""
    table = labels_csv.labelled_tiles(request.dataset)
    if not table:
        raise DatasetError(f"{request.dataset} holds no tiles; make it anew with ucc-path tile")
    chosen, notices = {}, []
    for split in SPLITS:
        rows = [row for row in table if row.split == split]
        names = request.label_names or _names_for_balance(request, rows)
        labels = [_label(row, names) for row in rows]
        kept = [(row, label) for row, label in zip(rows, labels, strict=True) if label != NO_LABEL or not names]
        if len(kept) < len(rows):
            notices.append(
                Notice(f"{len(rows) - len(kept)} of {len(rows)} {split} tiles have no label for this and are not used")
            )
        chosen[split] = Rows(tuple(row for row, _ in kept), tuple(label for _, label in kept), names)
    _require(request, chosen["train"])
    return chosen, notices


def _names_for_balance(request: TrainRequest, rows: Sequence[TileRow]) -> tuple[str, ...]:
    """A model that learns from masks sees as many tiles of each kind there is; the autoencoder takes what comes."""
    if request.supervision != "mask":
        return ()
    return tuple(kind for kind in KINDS if any(row.kind == kind for row in rows))


def _label(row: TileRow, names: Sequence[str]) -> int:
    """The place of a row's kind or count among the names."""
    for name in (row.kind, f"ucc {row.ucc}"):
        if name in names:
            return names.index(name)
    return NO_LABEL


def _require(request: TrainRequest, train: Rows) -> None:
    if not train.rows:
        raise DatasetError(
            f"{request.dataset} has no train tiles with a label; "
            "give ucc-path tile annotations, or write labels into its labels.csv"
        )
    there = train.counts()
    missing = [name for name, count in there.items() if not count]
    if missing:
        found = ", ".join(f"{count} of {name}" for name, count in there.items() if count)
        raise DatasetError(
            f"the train tiles of {request.dataset} hold none of {' and '.join(missing)} (only {found}); "
            "a model learns from the difference: add slides or labels"
        )


def read_tiles(request: TrainRequest, folder: Path, rows: Mapping[str, Rows]) -> Generator[Event, None, None]:
    """Reads the tiles into the memory-mapped store in `folder`, unless an earlier run of the same data has."""
    tile_store.common_scale([row for split in SPLITS for row in rows[split].rows])
    todo = [split for split in SPLITS if rows[split].rows and not tile_store.is_whole(folder, split)]
    total = sum(len(rows[split].rows) for split in todo)
    done = 0
    for split in todo:
        for _ in tile_store.write(
            folder,
            request.dataset,
            rows[split].rows,
            split=split,
            patch_px=request.model_settings.patch_px,
            tissue=request.tissue,
            with_masks=request.supervision == "mask",
        ):
            done += 1
            yield Progress("reading tiles", done, total, "tiles")


def tile_set(folder: Path, split: str, rows: Rows, colours: str) -> TileSet:
    """The tiles of a split, as they lie in the store, each with the standard of its slide."""
    tiles = tile_store.read(folder, split, np.array(rows.labels, np.int64))
    if colours != "slide":
        return tiles
    levels = tile_store.read_levels(folder, split)
    slides = np.array([row.slide for row in rows.rows])
    standard = np.empty((len(slides), 3, 4), np.float32)
    for slide in sorted(set(slides)):
        standard[slides == slide] = standard_of(levels[slides == slide].sum(axis=0))
    return replace(tiles, standard=standard)
