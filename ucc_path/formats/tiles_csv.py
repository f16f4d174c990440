"""`tiles.csv`: the table of a data set, one row a tile.

    tile_id,slide,split,x_l0,y_l0,tile_px,mpp,tumour_fraction,kind,ucc

UTF-8, comma, one header line, rows sorted by split, slide and place. `x_l0`, `y_l0` is the tile's top left corner in
level-0 pixels of the slide, `mpp` its scale in um/px. `kind` is normal, metastases or mixture; `kind`, `ucc` and
`tumour_fraction` are empty where unknown. The tile's picture is `images/SPLIT/TILE_ID.png`, its mask (255 = tumour)
`masks/SPLIT/TILE_ID.png`.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Sequence
from dataclasses import astuple, dataclass, fields
from pathlib import Path

from ucc_path.errors import DatasetError
from ucc_path.formats.atomic import replacing
from ucc_path.tiles.labelling import KINDS, UCC_OF_KIND
from ucc_path.tiles.splits import SPLITS

NAME = "tiles.csv"


@dataclass(frozen=True, slots=True)
class TileRow:
    """One tile of a data set."""

    tile_id: str
    slide: str
    split: str
    x_l0: int
    y_l0: int
    tile_px: int
    mpp: float
    tumour_fraction: float | None
    kind: str | None
    ucc: int | None


COLUMNS = tuple(field.name for field in fields(TileRow))


def image_path(dataset: Path, row: TileRow) -> Path:
    return dataset / "images" / row.split / f"{row.tile_id}.png"


def mask_path(dataset: Path, row: TileRow) -> Path:
    return dataset / "masks" / row.split / f"{row.tile_id}.png"


def write(dataset: Path, rows: Sequence[TileRow]) -> None:
    ordered = sorted(rows, key=lambda row: (SPLITS.index(row.split), row.slide, row.y_l0, row.x_l0))
    with replacing(dataset / NAME) as partial, partial.open("w", newline="", encoding="utf-8") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(COLUMNS)
        table.writerows(["" if value is None else value for value in astuple(row)] for row in ordered)


def read(dataset: Path) -> list[TileRow]:
    """The rows of a data set's table, checked."""
    path = dataset / NAME
    try:
        with path.open(newline="", encoding="utf-8") as file:
            table = csv.DictReader(file)
            if tuple(table.fieldnames or ()) != COLUMNS:
                raise DatasetError(f"{path} has not the columns {','.join(COLUMNS)}; make it anew with ucc-path tile")
            return [_row(cells, f"{path} line {table.line_num}") for cells in table]
    except OSError as err:
        raise DatasetError(f"{path} cannot be read ({err.strerror}); {dataset} is not a data set") from err
    except (UnicodeDecodeError, csv.Error) as err:
        raise DatasetError(f"{path} is not a table ({err}); make it anew with ucc-path tile") from err


def _row(cells: dict[str, str], where: str) -> TileRow:
    if None in cells:  # where csv puts cells beyond the last column
        raise DatasetError(f"{where} has too many cells; make the table anew with ucc-path tile")
    try:
        row = TileRow(
            tile_id=cells["tile_id"],
            slide=cells["slide"],
            split=cells["split"],
            x_l0=int(cells["x_l0"]),
            y_l0=int(cells["y_l0"]),
            tile_px=int(cells["tile_px"]),
            mpp=float(cells["mpp"]),
            tumour_fraction=float(cells["tumour_fraction"]) if cells["tumour_fraction"] else None,
            kind=cells["kind"] or None,
            ucc=int(cells["ucc"]) if cells["ucc"] else None,
        )
    except (ValueError, TypeError, AttributeError) as err:
        raise DatasetError(f"{where} is not a tile ({err}); make the table anew with ucc-path tile") from err
    is_contained = "/" not in row.tile_id and row.tile_id not in ("", ".", "..") and row.split in SPLITS
    is_labelled_alike = row.kind is None or (row.kind in KINDS and row.ucc == UCC_OF_KIND[row.kind])
    is_possible = row.tile_px > 0 and 0 < row.mpp < math.inf and 0 <= (row.tumour_fraction or 0) <= 1
    if not (is_contained and is_labelled_alike and is_possible):
        raise DatasetError(f"{where} holds no possible tile, split or kind; make the table anew with ucc-path tile")
    return row
