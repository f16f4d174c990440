"""A table of splits made by the user: columns `slide,split`, slide being the file name without its ending."""

from __future__ import annotations

import csv
from pathlib import Path

from ucc_path.errors import DatasetError
from ucc_path.tiles.splits import SPLITS


def read(path: Path) -> dict[str, str]:
    """The split of each slide named; a slide named twice is refused."""
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            table = csv.DictReader(file)
            if not {"slide", "split"} <= set(table.fieldnames or ()):
                raise DatasetError(f"{path} has no columns slide,split; write them in its first line")
            splits: dict[str, str] = {}
            for cells in table:
                slide, split = (cells["slide"] or "").strip(), (cells["split"] or "").strip()
                if split not in SPLITS:
                    raise DatasetError(f"{path} line {table.line_num}: split {split!r} is none of {', '.join(SPLITS)}")
                if slide in splits:
                    raise DatasetError(f"{path} line {table.line_num}: {slide} is named twice; keep one row")
                splits[slide] = split
            return splits
    except OSError as err:
        raise DatasetError(f"{path} cannot be read ({err.strerror}); check --split-csv") from err
    except (UnicodeDecodeError, csv.Error) as err:
        raise DatasetError(f"{path} is not a table of text ({err}); save it as UTF-8 CSV") from err
