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

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ucc_path.errors import DatasetError
from ucc_path.formats import record_json
from ucc_path.formats.record_json import RecordFormat

NAME = "dataset.json"
FORMAT = RecordFormat("ucc-path data set", 1, DatasetError, "a data set", "make the data set anew with ucc-path tile")


def write(dataset: Path, record: Mapping[str, Any]) -> None:
    record_json.write(dataset / NAME, FORMAT, record)


def read(dataset: Path) -> dict[str, Any]:
    return record_json.read(dataset / NAME, FORMAT)
