"""`S.json`: how the mask of slide `S` came about. It is written last: where it stands, the slide is finished.

    format              "ucc-path segmentation"
    version             1
    slide               {name, path, bytes, vendor, size_l0, mpp, mpp_source}
    model               {path, sha256, model, supervision, mpp, patch_px, converged}
    settings            {segmentation, tissue, request}: everything in force that the mask depends on
    grid                {cell_l0, rows, cols}: the mask's cells, in level-0 pixels from the slide's top left corner
    patches             how many were judged
    unreadable_patches  how many lie where the slide is damaged; they are background
    classes             [{label, name, color, patches, area_mm2}]; label 0 is background
    tissue_mm2          area of the tissue that was found
    regions             polygons in S.geojson.gz
    windows             {judged, to_review}: where the model has counted, and disagrees with the mask; or null
    assigned_by         centroids, head, pixels or probability: what said the class of a patch
    threshold           above what probability a cell is tumour on this slide; null where that does not decide
    inference           {engine, device, batch_size}: what has computed
    files               {name: bytes} of all that was written beside it
    versions            of ucc-path, of Python and of the packages that decode and compute
    seconds             how long it took
    peak_memory_mb      resident, of the process that did it

Time and memory are all that differs between two runs.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ucc_path.errors import OutputError
from ucc_path.formats import record_json
from ucc_path.formats.record_json import RecordFormat

ENDING = ".json"
ENDINGS = {
    "labels": "_labels.tif",
    "overlay": "_overlay.tif",
    "uncertainty": "_uncertainty.tif",
    "mixture": "_mixture.tif",
    "likelihood": "_likelihood_map.tif",
    "polygons": ".geojson.gz",
    "review": "_review.csv",
    "picture": ".png",
    "ome": "_labels.ome.tif",
    "record": ENDING,
}
"""What the files of a slide `S` are called, behind its name."""
FORMAT = RecordFormat("ucc-path segmentation", 1, OutputError, "a segmented slide", "segment it anew with --overwrite")


def path_of(folder: Path, name: str) -> Path:
    return folder / f"{name}{ENDING}"


def write(folder: Path, name: str, record: Mapping[str, Any]) -> None:
    record_json.write(path_of(folder, name), FORMAT, record)


def read(folder: Path, name: str) -> dict[str, Any]:
    return record_json.read(path_of(folder, name), FORMAT)


def all_in(folder: Path) -> dict[str, dict[str, Any]]:
    """The records of all finished slides of a folder, by name; other JSON there is not ours and passed over."""
    found = {}
    for path in sorted(folder.glob(f"*{ENDING}")):
        try:
            found[path.name.removesuffix(ENDING)] = record_json.read(path, FORMAT)
        except OutputError:
            continue
    return found
