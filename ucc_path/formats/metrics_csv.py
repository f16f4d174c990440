"""`metrics.csv`: how the training of a run went, one row an evaluation.

    step,train_loss,train_cross_entropy,train_mse,train_accuracy,val_loss,val_cross_entropy,val_mse,val_accuracy

ASCII, comma, one header line. The training figures are means since the row before; `mse` is that of the decoder. What
is undefined, such as a validation loss without validation tiles, is empty. Rows are added as training goes and are on
the disk when `append` returns. A line without its end is what a killed run was about to write; it does not count.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import astuple, dataclass, fields
from itertools import pairwise
from pathlib import Path

from ucc_path.errors import RunError
from ucc_path.formats.atomic import explaining, replacing

NAME = "metrics.csv"


@dataclass(frozen=True, slots=True)
class MetricsRow:
    """One evaluation."""

    step: int
    train_loss: float | None = None
    train_cross_entropy: float | None = None
    train_mse: float | None = None
    train_accuracy: float | None = None
    val_loss: float | None = None
    val_cross_entropy: float | None = None
    val_mse: float | None = None
    val_accuracy: float | None = None


COLUMNS = tuple(field.name for field in fields(MetricsRow))
_HEADER = ",".join(COLUMNS) + "\n"


def append(run: Path, row: MetricsRow) -> None:
    """Adds a row, and the header before the first."""
    path = run / NAME
    with explaining(path), path.open("a", encoding="ascii", newline="") as file:
        file.write((_HEADER if file.tell() == 0 else "") + _line(row))
        file.flush()
        os.fsync(file.fileno())


def read(run: Path) -> list[MetricsRow]:
    """The rows of a run, in order."""
    path = run / NAME
    try:
        text = path.read_bytes().decode("ascii")
    except OSError as err:
        raise RunError(f"{path} cannot be read ({err.strerror}); {run} is not a run of training") from err
    except UnicodeDecodeError as err:
        raise RunError(f"{path} is not a table ({err.reason}); start the run anew with --overwrite") from err
    *lines, _unfinished = text.split("\n")
    if not lines and _HEADER.startswith(text):
        return []
    if not lines or lines[0] + "\n" != _HEADER:
        raise RunError(f"{path} has not the columns {','.join(COLUMNS)}; start the run anew with --overwrite")
    rows = [_row(line, f"{path} line {number}") for number, line in enumerate(lines[1:], 2)]
    if any(later.step <= earlier.step for earlier, later in pairwise(rows)):
        raise RunError(f"{path} has steps that do not rise; start the run anew with --overwrite")
    return rows


def keep_until(run: Path, step: int) -> None:
    """Drops the rows after `step` and an unfinished last line, so that a resumed run can add its own.

    A run that was killed before its first evaluation has no table, and needs none.
    """
    if (run / NAME).exists():
        _write(run, [row for row in read(run) if row.step <= step])


def _write(run: Path, rows: Sequence[MetricsRow]) -> None:
    with replacing(run / NAME, durable=True) as partial:
        partial.write_text(_HEADER + "".join(_line(row) for row in rows), encoding="ascii", newline="")


def _line(row: MetricsRow) -> str:
    step, *figures = astuple(row)
    # float(): a number of NumPy or of torch would say its type too.
    return ",".join([str(int(step)), *("" if figure is None else repr(float(figure)) for figure in figures)]) + "\n"


def _row(line: str, where: str) -> MetricsRow:
    cells = line.split(",")
    try:
        if len(cells) != len(COLUMNS):
            raise ValueError(f"{len(cells)} cells instead of {len(COLUMNS)}")
        step = int(cells[0])
        if step < 0:
            raise ValueError(f"step {step}")
        return MetricsRow(step, *(float(cell) if cell else None for cell in cells[1:]))
    except ValueError as err:
        raise RunError(f"{where} is not an evaluation ({err}); start the run anew with --overwrite") from err
