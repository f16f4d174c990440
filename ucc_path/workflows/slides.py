"""The slides that a command line names: files as they are, folders as the slides in them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ucc_path.errors import SlideError

_SCANNERS = {".bif", ".czi", ".dcm", ".mrxs", ".ndpi", ".scn", ".svs", ".svslide", ".vms", ".vmu"}
_PICTURES = {".jpeg", ".jpg", ".png", ".tif", ".tiff"}
SLIDE_ENDINGS = frozenset(_SCANNERS | _PICTURES)


def expand(paths: Sequence[Path]) -> tuple[Path, ...]:
    """All slides named, each once; masks that lie beside slides are not slides."""
    slides: dict[Path, None] = {}
    for path in paths:
        if path.is_dir():
            found = [file for file in sorted(path.iterdir()) if _is_slide(file)]
            if not found:
                raise SlideError(f"there is no slide in {path}; name a folder with files that OpenSlide reads")
            slides.update(dict.fromkeys(found))
        else:
            slides[path] = None
    return tuple(slides)


def _is_slide(file: Path) -> bool:
    return file.is_file() and file.suffix.lower() in SLIDE_ENDINGS and not file.stem.endswith("_mask")
