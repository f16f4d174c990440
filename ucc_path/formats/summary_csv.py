"""`summary.csv`: all slides of a folder that `segment` has worked on, a row each, by name.

    slide,status,reason        status is done or failed; a reason where it failed
    patches,unreadable_patches,tissue_mm2,to_review
    mm2 NAME, ...              area of each class that any slide has, in mm2
    converged                  whether the model does better than guessing
    seconds,peak_memory_mb     the last ones, and all that differs between two runs

Empty where a slide has no such figure.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ucc_path.formats.atomic import replacing

NAME = "summary.csv"
DONE, FAILED = "done", "failed"
_FIRST = ("slide", "status", "reason", "patches", "unreadable_patches", "tissue_mm2", "to_review")
_LAST = ("converged", "seconds", "peak_memory_mb")


def write(folder: Path, records: Mapping[str, Mapping[str, Any]], failures: Mapping[str, str]) -> None:
    """`records` are those of finished slides (`segmentation_json`), `failures` the reasons of those that failed."""
    rows = [_row(name, record) for name, record in records.items() if name not in failures]
    rows += [{"slide": name, "status": FAILED, "reason": reason} for name, reason in failures.items()]
    areas = sorted({column for row in rows for column in row if column not in (*_FIRST, *_LAST)})
    # A slide's name need not be text: its odd bytes are written as they were.
    with (
        replacing(folder / NAME, durable=True) as partial,
        partial.open("w", encoding="utf-8", errors="surrogateescape", newline="") as file,
    ):
        table = csv.DictWriter(file, (*_FIRST, *areas, *_LAST), lineterminator="\n")
        table.writeheader()
        table.writerows(sorted(rows, key=lambda row: str(row["slide"])))


def _row(name: str, record: Mapping[str, Any]) -> dict[str, Any]:
    windows = record["windows"]
    return {
        "slide": name,
        "status": DONE,
        **{key: record[key] for key in ("patches", "unreadable_patches", "tissue_mm2", "seconds", "peak_memory_mb")},
        "to_review": windows["to_review"] if windows else None,
        "converged": str(record["model"]["converged"]).lower(),
        **{f"mm2 {found['name']}": found["area_mm2"] for found in record["classes"]},
    }
