"""Which file annotates which slide, told by names alone.

A slide with stem `S` (its file name without its last ending) is annotated by `S.xml`, `S.geojson`, `S.geojson.gz`,
`S.json`, `S_mask.png`, `S_mask.tif` or `S_mask.tiff`, upper or lower case. In a folder `S.json` does not count, since
too many other things are called so, our own `S.json` among them; it must be named itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from ucc_path.errors import AnnotationError

ANNOTATION_ENDINGS = (".xml", ".geojson", ".geojson.gz", "_mask.png", "_mask.tif", "_mask.tiff")
_NAMED_ONLY = ".json"


def annotation_stem(path: Path) -> str | None:
    """The stem of the slide that a file annotates; None where its name is not that of an annotation."""
    for ending in (*ANNOTATION_ENDINGS, _NAMED_ONLY):
        if path.name.lower().endswith(ending) and len(path.name) > len(ending):
            return path.name[: -len(ending)]
    return None


def index_annotations(path: Path) -> dict[str, list[Path]]:
    """Stem of a slide → its annotations, sorted by name, from a file or from a folder; folders within are not read."""
    try:
        if path.is_dir():
            files = sorted(p for p in path.iterdir() if not p.name.lower().endswith(_NAMED_ONLY) and p.is_file())
        else:
            path.stat()
            files = [path]
    except OSError as err:
        raise AnnotationError(f"{path} cannot be read ({err.strerror}); check the path and its permissions") from err
    index: dict[str, list[Path]] = {}
    for file in files:
        stem = annotation_stem(file)
        if stem is not None:
            index.setdefault(stem, []).append(file)
    if not index and files == [path]:
        raise AnnotationError(f"{path} does not end as an annotation; rename it to SLIDE + {_endings()}")
    return index


def annotation_for(index: Mapping[str, Sequence[Path]], slide_stem: str) -> Path | None:
    """The one annotation of a slide, None where there is none; two are an error, for neither is known to be right."""
    found = index.get(slide_stem, ())
    if len(found) > 1:
        raise AnnotationError(
            f"{slide_stem} has more than one annotation, {' and '.join(map(str, found))}; keep one, or name it itself"
        )
    return found[0] if found else None


def find_annotation(folder_or_file: Path, slide_stem: str) -> Path | None:
    """The annotation of one slide; for many slides, make the index once."""
    return annotation_for(index_annotations(folder_or_file), slide_stem)


def _endings() -> str:
    return " or ".join((*ANNOTATION_ENDINGS, _NAMED_ONLY))
