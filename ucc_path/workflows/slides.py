"""The slides that a command line names: files as they are, folders as the slides in them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from ucc_path.errors import SlideError
from ucc_path.formats.annotation_files import annotation_stem
from ucc_path.formats.segmentation_json import ENDING, ENDINGS

_SCANNERS = {".bif", ".czi", ".dcm", ".mrxs", ".ndpi", ".scn", ".svs", ".svslide", ".vms", ".vmu"}
_PICTURES = {".jpeg", ".jpg", ".png", ".tif", ".tiff"}
SLIDE_ENDINGS = frozenset(_SCANNERS | _PICTURES)


def expand(paths: Sequence[Path]) -> tuple[Path, ...]:
    """All slides named, each once.

    Masks, hidden files and results of `segment` that lie beside slides in a folder are not slides.
    """
    slides: dict[str, Path] = {}
    for path in paths:
        if path.is_dir():
            files = sorted(path.iterdir())
            results = _results({file.name for file in files})
            found = [file for file in files if _is_slide(file) and file.name not in results]
            if not found:
                raise SlideError(f"there is no slide in {path}; name a folder with files that OpenSlide reads")
        else:
            found = [path]
        for file in found:
            slides.setdefault(os.path.realpath(file), file)  # by whatever names or links it is reached
    return tuple(slides.values())


def by_name(paths: Sequence[Path]) -> dict[str, Path]:
    """Slides by the names of their files, without ending, which stand for them in tables and in results.

    `S_mask.png` beside `S.png` is the mask of that slide, caught by the same wildcard.
    """
    stems = {path.stem for path in paths}
    slides: dict[str, Path] = {}
    for path in paths:
        if path.stem.endswith("_mask") and annotation_stem(path) in stems:
            continue
        if not path.stem.isprintable():
            raise SlideError(
                f"the name {path.stem!r} has characters that cannot be written to a table; rename the slide"
            )
        if slides.setdefault(path.stem, path) is not path:
            raise SlideError(
                f"{slides[path.stem]} and {path} have one name, {path.stem}; rename one, or work on them apart"
            )
    return slides


def largest_first(names: Iterable[str], slides: Mapping[str, Path]) -> list[str]:
    """By the bytes of their files, so that the last to end is not a large one that began last."""
    return sorted(names, key=lambda name: (-bytes_of(slides[name]), name))


def folders_of(slides: Iterable[Path]) -> list[Path]:
    """The folders in which those of them lie that are there."""
    return sorted({slide.parent for slide in slides if bytes_of(slide)})


def bytes_of(slide: Path) -> int:
    """Of a MIRAX slide also those in the folder beside it, which hold its pixels; 0 where nothing can be seen."""
    try:
        parts = [slide]
        if slide.suffix.lower() == ".mrxs" and slide.with_suffix("").is_dir():
            parts += slide.with_suffix("").iterdir()
        return sum(part.stat().st_size for part in parts)
    except OSError:
        return 0


def _results(names: set[str]) -> set[str]:
    """What a folder holds of finished slides `S`, each known by its `S.json`."""
    stems = [name.removesuffix(ENDING) for name in names if name.endswith(ENDING)]
    return {f"{stem}{ending}" for stem in stems for ending in ENDINGS.values() if f"{stem}_labels.tif" in names}


def _is_slide(file: Path) -> bool:
    is_hidden = file.name.startswith(".")  # `._S.tif` is what a Mac leaves beside `S.tif` on a foreign disk
    is_named_so = file.suffix.lower() in SLIDE_ENDINGS and not file.stem.endswith("_mask")
    return is_named_so and not is_hidden and file.is_file()
