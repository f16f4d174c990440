"""The slides that a command line names: files as they are, folders as the slides in them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from ucc_path.errors import SlideError

_SCANNERS = {".bif", ".czi", ".dcm", ".mrxs", ".ndpi", ".scn", ".svs", ".svslide", ".vms", ".vmu"}
_PICTURES = {".jpeg", ".jpg", ".png", ".tif", ".tiff"}
SLIDE_ENDINGS = frozenset(_SCANNERS | _PICTURES)


def expand(paths: Sequence[Path]) -> tuple[Path, ...]:
    """All slides named, each once; masks and hidden files that lie beside slides are not slides."""
    slides: dict[str, Path] = {}
    for path in paths:
        if path.is_dir():
            found = [file for file in sorted(path.iterdir()) if _is_slide(file)]
            if not found:
                raise SlideError(f"there is no slide in {path}; name a folder with files that OpenSlide reads")
        else:
            found = [path]
        for file in found:
            slides.setdefault(os.path.realpath(file), file)  # by whatever names or links it is reached
    return tuple(slides.values())


def _is_slide(file: Path) -> bool:
    is_hidden = file.name.startswith(".")  # `._S.tif` is what a Mac leaves beside `S.tif` on a foreign disk
    is_named_so = file.suffix.lower() in SLIDE_ENDINGS and not file.stem.endswith("_mask")
    return is_named_so and not is_hidden and file.is_file()
