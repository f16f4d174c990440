"""Whether a slide needs to be worked on: what stands in the folder is finished, of another request, or not ours."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from ucc_path.errors import OutputError
from ucc_path.formats import segmentation_json
from ucc_path.formats.atomic import together
from ucc_path.formats.segmentation_json import ENDINGS


def is_finished(folder: Path, name: str, slide: Path, identity: Mapping[str, Any]) -> bool:
    """Whether all files of a slide are there, by the same model and settings; OutputError where they are others'."""
    record_path = segmentation_json.path_of(folder, name)
    if not record_path.exists():
        _refuse_strangers(folder, name)
        return False
    record = segmentation_json.read(folder, name)
    for what, before, now in _differences(record, identity):
        raise OutputError(
            f"{record_path} is of another {what} ({before}, now {now}); "
            "replace it with --overwrite, or choose another folder with -o"
        )
    if slide.exists() and record["slide"]["bytes"] != slide.stat().st_size:
        raise OutputError(
            f"{record_path} is of another file called {name}; replace it with --overwrite, or choose another -o"
        )
    return all(_size(folder / file) == size for file, size in record["files"].items())


def clear_leftovers(folder: Path, name: str) -> None:
    """Takes away what a worker that was killed has left, unless files without a record are known by it."""
    if segmentation_json.path_of(folder, name).exists() or not _files(folder, name):
        shutil.rmtree(together(folder, name), ignore_errors=True)


def _files(folder: Path, name: str) -> list[Path]:
    return [path for path in (folder / f"{name}{ending}" for ending in ENDINGS.values()) if path.exists()]


def _refuse_strangers(folder: Path, name: str) -> None:
    """Files without a record are of a run that was killed, which has left its folder too, or not ours."""
    there = _files(folder, name)
    if there and not together(folder, name).exists():
        raise OutputError(
            f"{there[0]} exists and is not known to be ours; replace it with --overwrite, or choose another -o"
        )


def _differences(record: Mapping[str, Any], identity: Mapping[str, Any]) -> Iterable[tuple[str, str, str]]:
    """What differs, the model first: (what, before, now)."""
    before, now = record["model"]["sha256"], identity["model"]["sha256"]
    if before != now:
        yield "model", f"sha256 {before[:12]}", now[:12]
    for table, settings in identity["settings"].items():
        for key, value in settings.items():
            was = record["settings"].get(table, {}).get(key)
            if was != value:
                yield "setting", f"{key} {was}", str(value)


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return -1
