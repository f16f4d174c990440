"""`dataset.json`: how a data set came about.

    format      "ucc-path data set"
    version     1
    settings    {tiling, tissue, annotation, request}: everything in force that the tiles depend on
    slides      one object a slide that was worked on: name, path, annotation, split (null if it gave no tiles), tiles,
                mpp, mpp_source, vendor, size_l0, tissue_mm2, tumour_mm2, outlines, rule
    left_out    {slide: reason} of the slides that a rule leaves out
    failed      [{slide, reason}] of the slides that gave nothing because of an error
    versions    of ucc-path, of Python and of the packages that decode and draw

It holds neither the time nor the number of workers: the same slides, settings and seed give the same bytes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ucc_path.errors import DatasetError
from ucc_path.formats.atomic import replacing

NAME = "dataset.json"
FORMAT = "ucc-path data set"
VERSION = 1


def write(dataset: Path, record: Mapping[str, Any]) -> None:
    text = json.dumps({"format": FORMAT, "version": VERSION, **record}, indent=2, ensure_ascii=False, sort_keys=False)
    with replacing(dataset / NAME) as partial:
        # A path need not be text: its odd bytes become \\udcXX, which JSON reads back as they were.
        partial.write_text(text + "\n", encoding="utf-8", errors="backslashreplace")


def read(dataset: Path) -> dict[str, Any]:
    path = dataset / NAME
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
    except OSError as err:
        raise DatasetError(f"{path} cannot be read ({err.strerror}); {dataset} is not a data set") from err
    except ValueError as err:
        raise DatasetError(f"{path} is not JSON ({err}); make the data set anew with ucc-path tile") from err
    if not isinstance(record, dict) or record.get("format") != FORMAT:
        raise DatasetError(f"{path} does not describe a data set of ucc-path; make it with ucc-path tile")
    if record.get("version") != VERSION:
        raise DatasetError(
            f"{path} is of version {record.get('version')}, this program reads {VERSION}; "
            "make it anew with ucc-path tile"
        )
    return record
