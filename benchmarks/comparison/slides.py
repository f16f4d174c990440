"""Slides with an annotation beside them, and who is test, val and train in which fold."""

from __future__ import annotations

from pathlib import Path

_SLIDES = (".tif", ".tiff", ".svs", ".ndpi", ".mrxs", ".scn", ".vms", ".vmu", ".bif", ".svslide")
_ANNOTATIONS = (".xml", ".geojson", ".geojson.gz", "_mask.png", "_mask.tif")
FEWEST = 3  # a slide each to train on, to stop by and to test


def find_slides(folder: Path) -> tuple[Path, ...]:
    """The annotated slides of a folder, sorted by name."""
    return tuple(
        path.resolve()
        for path in sorted(folder.iterdir(), key=lambda path: path.stem)
        if path.suffix.lower() in _SLIDES
        and not path.stem.endswith("_mask")
        and any((folder / f"{path.stem}{ending}").exists() for ending in _ANNOTATIONS)
    )


def split_of_fold(names: list[str], fold: int) -> dict[str, str]:
    """The split of each slide; every slide is the test slide of one fold."""
    if len(names) < FEWEST:
        raise ValueError(f"{len(names)} slides are too few for folds; {FEWEST} is the least")
    splits = dict.fromkeys(names, "train")
    splits[names[(fold + 2) % len(names)]] = "val"
    splits[names[fold]] = "test"
    return splits


def slide_in(splits: dict[str, str], split: str) -> str:
    """The one slide of a split that has one."""
    return next(name for name, its_split in splits.items() if its_split == split)


def split_csv(splits: dict[str, str]) -> str:
    return "slide,split\n" + "".join(f"{name},{split}\n" for name, split in splits.items())
