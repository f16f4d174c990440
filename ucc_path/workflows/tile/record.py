"""What `tile` leaves for the record: the settings in force, the slides, what failed."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ucc_path.formats.tiles_csv import TileRow
from ucc_path.tiles.camelyon import SlideRule
from ucc_path.workflows.events import Failure
from ucc_path.workflows.tile.jobs import Survey
from ucc_path.workflows.tile.request import Source, TileRequest
from ucc_path.workflows.versions import versions

_ASKED = ("split", "unannotated", "totals", "unlabelled", "slide_mpp", "camelyon_rules")


def record(
    request: TileRequest,
    sources: Sequence[Source],
    surveys: Sequence[Survey],
    rows: Sequence[TileRow],
    failures: Sequence[Failure],
) -> dict[str, Any]:
    """The content of `dataset.json`; nothing in it depends on time or on the number of workers."""
    rules = {source.name: source.rule for source in sources if source.rule}
    failed = {failure.item for failure in failures}
    rows_of: dict[str, list[TileRow]] = {found.name: [] for found in surveys}
    for row in rows:
        rows_of[row.slide].append(row)
    return {
        "settings": {
            "tiling": dataclasses.asdict(request.tiling),
            "tissue": dataclasses.asdict(request.tissue),
            "annotation": dataclasses.asdict(request.annotation),
            "request": {
                **{name: getattr(request, name) for name in _ASKED},
                "split_csv": _text(request.split_csv),
            },
        },
        "slides": [
            _slide(found, rules.get(found.name), rows_of[found.name]) for found in surveys if found.name not in failed
        ],
        "left_out": {name: rule.reason for name, rule in sorted(rules.items()) if not rule.kinds},
        "failed": [{"slide": failure.item, "reason": failure.reason} for failure in failures],
        "versions": versions(),
    }


def _slide(found: Survey, rule: SlideRule | None, rows: Sequence[TileRow]) -> dict[str, Any]:
    return {
        "name": found.name,
        "path": str(found.slide),
        "annotation": _text(found.annotation),
        "split": rows[0].split if rows else None,
        "tiles": len(rows),
        "mpp": found.slide_mpp,
        "mpp_source": found.mpp_source,
        "vendor": found.vendor,
        "size_l0": list(found.size_l0),
        "tissue_mm2": round(found.tissue_mm2, 4),
        "tumour_mm2": round(found.tumour_mm2, 4),
        "outlines": dataclasses.asdict(found.summary),
        "rule": rule.reason if rule else None,
    }


def _text(path: Path | None) -> str | None:
    return None if path is None else str(path)
