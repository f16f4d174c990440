"""`S_review.csv`: windows of a slide in which the model counts other classes than the mask holds, for a person to see.

    x_l0,y_l0         top left corner of the window, in level-0 pixels
    side_l0           its side
    predicted_ucc     unique classes that the model counts in it
    classes_in_mask   classes that have their share of it in the mask

A row a window, from the top left, by rows; only the header where nothing disagrees.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from ucc_path.errors import OutputError
from ucc_path.formats.atomic import replacing
from ucc_path.mask.windows import Disagreements

COLUMNS = ("x_l0", "y_l0", "side_l0", "predicted_ucc", "classes_in_mask")


class ReviewRow(NamedTuple):
    """A window."""

    x_l0: int
    y_l0: int
    side_l0: int
    predicted_ucc: int
    classes_in_mask: int


def rows_of(found: Disagreements, cell_l0: int) -> Iterator[ReviewRow]:
    for (row, col), predicted, in_mask in zip(found.cells.tolist(), found.predicted, found.in_mask, strict=True):
        yield ReviewRow(col * cell_l0, row * cell_l0, found.side_cells * cell_l0, int(predicted), int(in_mask))


def write(path: Path, rows: Iterator[ReviewRow]) -> None:
    with replacing(path) as partial, partial.open("w", encoding="ascii", newline="") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(COLUMNS)
        table.writerows(rows)


def read(path: Path) -> list[ReviewRow]:
    try:
        with path.open(encoding="ascii", newline="") as file:
            header, *rows = list(csv.reader(file)) or [[]]
            if tuple(header) == COLUMNS:
                return [ReviewRow(*map(int, row)) for row in rows]
    except OSError as err:
        raise OutputError(f"{path} cannot be read ({err.strerror}); segment the slide anew") from err
    except (ValueError, TypeError, csv.Error) as err:
        raise OutputError(f"{path} is damaged ({err}); segment the slide anew with --overwrite") from err
    raise OutputError(f"{path} has not the columns {','.join(COLUMNS)}; segment the slide anew with --overwrite")
