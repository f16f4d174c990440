"""`runs/NAME.json` of a reproduction: everything that was measured of one model with one seed.

    format       "ucc-path reproduction run"
    version      1
    experiment   mnist, cifar10 or cifar100
    variant      model, ucc_labels, pooling, seed
    settings     those in force, by table
    data         fingerprint of the images, and how many there were of each split
    figures      the columns of metrics.csv
    counting     test bags by their count and by the count that was said of them
    divergence   of each pair of classes
    densities    of each class and feature, at the bins
    clusters     by way of clustering: test images by class and by the class of their cluster
    curve        of evaluations on the way: step, ucc accuracy and clustering accuracy on val images
    training     the rows of training, as in metrics.csv of a run
    best_step    whose weights were kept
    parameters   that were learnt
    device, versions

By this file a run is known to be finished: it is written last. What a model lacks is null. Beside it stands
`NAME.png`, the images drawn of the mean features of each class, where the model has a decoder.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ucc_path.errors import OutputError
from ucc_path.formats import record_json
from ucc_path.formats.record_json import RecordFormat
from ucc_path.formats.report_json import plain

FOLDER = "runs"
ENDING = ".json"
PICTURE_ENDING = ".png"
FORMAT = RecordFormat(
    "ucc-path reproduction run", 1, OutputError, "a run of reproduce", "remove it, or make it anew with --overwrite"
)


def path_of(folder: Path, key: str) -> Path:
    return folder / FOLDER / f"{key}{ENDING}"


def picture_of(folder: Path, key: str) -> Path:
    return folder / FOLDER / f"{key}{PICTURE_ENDING}"


def write(folder: Path, key: str, record: Mapping[str, Any]) -> None:
    record_json.write(path_of(folder, key), FORMAT, plain(record))


def read(folder: Path, key: str) -> dict[str, Any]:
    return record_json.read(path_of(folder, key), FORMAT)


def keys(folder: Path) -> list[str]:
    """The runs that are finished."""
    return sorted(path.name.removesuffix(ENDING) for path in (folder / FOLDER).glob(f"*{ENDING}"))
