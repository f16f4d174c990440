"""What `tile` leaves for the record: the settings in force, the slides, what failed."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Sequence
from typing import Any

from ucc_path.formats.tiles_csv import TileRow
from ucc_path.workflows.events import Failure
from ucc_path.workflows.tile.jobs import Survey
from ucc_path.workflows.tile.request import Source, TileRequest
from ucc_path.workflows.versions import versions

_ASKED = ("split", "unannotated", "totals", "unlabelled", "slide_mpp", "use_camelyon_rules")


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
    counts = Counter(row.slide for row in rows)
    splits = {row.slide: row.split for row in rows}
    return {
        "settings": {
            "tiling": dataclasses.asdict(request.tiling),
            "tissue": dataclasses.asdict(request.tissue),
            "annotation": dataclasses.asdict(request.annotation),
            "request": {name: getattr(request, name) for name in _ASKED},
        },
        "slides": [
            {
                "name": found.name,
                "path": str(found.slide),
                "annotation": None if found.annotation is None else str(found.annotation),
                "split": splits.get(found.name),
                "tiles": counts[found.name],
                "mpp": found.slide_mpp,
                "mpp_source": found.mpp_source,
                "vendor": found.vendor,
                "size_l0": list(found.size_l0),
                "tissue_mm2": round(found.tissue_mm2, 4),
                "tumour_mm2": round(found.tumour_mm2, 4),
                "outlines": dataclasses.asdict(found.summary),
                "rule": rules[found.name].reason if found.name in rules else None,
            }
            for found in surveys
            if found.name not in failed
        ],
        "left_out": {name: rule.reason for name, rule in sorted(rules.items()) if not rule.kinds},
        "failed": [{"slide": failure.item, "reason": failure.reason} for failure in failures],
        "versions": versions("numpy", "openslide-python", "openslide-bin", "pillow", "scipy", "shapely"),
    }
