"""`labels.csv` of a data set: what people said about tiles; it wins over `tiles.csv`.

    tile_id,kind,ucc,who,when

UTF-8, comma, one header line, one row a decision; of several rows for one tile the last counts, for people change their
mind. `kind` is normal, metastases or mixture, or empty where only the count is known; `ucc` may be empty beside a kind,
which implies it. Both empty: the label is taken back, and the tile has none. Without the file nobody has labelled.
"""

from __future__ import annotations

import csv
import dataclasses
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path

from ucc_path.errors import DatasetError, few
from ucc_path.formats import tiles_csv
from ucc_path.formats.tiles_csv import TileRow
from ucc_path.tiles.labelling import KINDS, UCC_OF_KIND

NAME = "labels.csv"

# int() alone would also take 1_0, +1 and digits of other scripts.
_COUNT = re.compile("[1-9][0-9]{0,5}")


@dataclass(frozen=True, slots=True)
class TileLabel:
    """What a person said about a tile."""

    kind: str | None
    ucc: int | None  # always given where the kind is
    who: str
    when: str


COLUMNS = ("tile_id", *(field.name for field in fields(TileLabel)))


def read(dataset: Path) -> dict[str, TileLabel]:
    """The label of each tile that was looked at, by tile_id, checked; nothing where there is no file."""
    path = dataset / NAME
    try:
        # A spreadsheet program saves a byte order mark.
        with path.open(newline="", encoding="utf-8-sig") as file:
            table = csv.DictReader(file)
            if tuple(table.fieldnames or ()) != COLUMNS:
                raise DatasetError(f"{path} has not the columns {','.join(COLUMNS)}; write them in its first line")
            return {cells["tile_id"]: _label(cells, f"{path} line {table.line_num}") for cells in table}
    except FileNotFoundError:
        return {}
    except OSError as err:
        raise DatasetError(f"{path} cannot be read ({err.strerror}); check the file, or take it away") from err
    except (UnicodeDecodeError, csv.Error) as err:
        raise DatasetError(f"{path} is not a table of text ({err}); save it as UTF-8 CSV") from err


def labelled_tiles(dataset: Path) -> list[TileRow]:
    """The tiles of a data set with the labels that people gave."""
    return apply(tiles_csv.read(dataset), read(dataset))


def apply(rows: Sequence[TileRow], labels: Mapping[str, TileLabel]) -> list[TileRow]:
    """The rows with the labels that people gave; a label for a tile that is not there is refused.

    A label that says only the count leaves a kind of that count as it is.
    """
    unknown = sorted(set(labels) - {row.tile_id for row in rows})
    if unknown:
        raise DatasetError(
            f"{NAME} labels {few(unknown)}, which {tiles_csv.NAME} does not hold; "
            f"take those lines out, or use the {NAME} of this data set"
        )
    return [_labelled(row, labels[row.tile_id]) if row.tile_id in labels else row for row in rows]


def _labelled(row: TileRow, label: TileLabel) -> TileRow:
    kind = row.kind if label.kind is None and label.ucc == row.ucc else label.kind
    return dataclasses.replace(row, kind=kind, ucc=label.ucc)


def _label(cells: Mapping[str, str | None], where: str) -> TileLabel:
    if None in cells or None in cells.values():  # how csv tells of cells too many, and of cells missing
        raise DatasetError(f"{where} has not {len(COLUMNS)} cells; write {','.join(COLUMNS)}")
    kind, ucc_text, who, when = ((cells[name] or "").strip() for name in COLUMNS[1:])
    if not cells["tile_id"]:
        raise DatasetError(f"{where} names no tile; write its tile_id, or take the line out")
    if kind and kind not in KINDS:
        raise DatasetError(f"{where}: kind {kind!r} is none of {', '.join(KINDS)}; write one, or leave it empty")
    if ucc_text and not _COUNT.fullmatch(ucc_text):
        raise DatasetError(f"{where}: ucc {ucc_text!r} is no count of classes; write 1 or 2, or leave it empty")
    ucc = int(ucc_text) if ucc_text else UCC_OF_KIND.get(kind)
    if kind and ucc != UCC_OF_KIND[kind]:
        raise DatasetError(f"{where}: {kind} has ucc {UCC_OF_KIND[kind]}, not {ucc}; leave one of the two empty")
    return TileLabel(kind or None, ucc, who, when)
