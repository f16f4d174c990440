"""`images.csv` of a report: the figures of each image, one row a model and an image; an image is a tile or a slide.

    model,image,slide,x_l0,y_l0,kind,tumour_fraction
    TP,FP,TN,FN                            pixels of a tile, or mm2 of a slide
    TPR,FPR,TNR,FNR,PA,balanced,IoU,Dice
    TP_tissue, ... Dice_tissue             the same over tissue alone

UTF-8, comma, one header line; what is undefined, or has no meaning for a whole slide, is empty.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ucc_path.evaluation.counts import Counts
from ucc_path.evaluation.scores import FIGURES, figures_of
from ucc_path.evaluation.summary import REGIONS
from ucc_path.formats.atomic import replacing
from ucc_path.formats.report_csv import cell

NAME = "images.csv"
_COUNTS = ("TP", "FP", "TN", "FN")
_FIRST = ("model", "image", "slide", "x_l0", "y_l0", "kind", "tumour_fraction")
_ENDINGS = dict(zip(REGIONS, ("", "_tissue"), strict=True))
COLUMNS = (*_FIRST, *(f"{name}{ending}" for ending in _ENDINGS.values() for name in (*_COUNTS, *FIGURES)))


@dataclass(frozen=True, slots=True)
class ImageName:
    """Which image a row is of."""

    image: str
    slide: str
    x_l0: int | None = None
    y_l0: int | None = None
    kind: str | None = None
    tumour_fraction: float | None = None


def write(folder: Path, images: Sequence[ImageName], counts: Mapping[str, Mapping[str, Counts]]) -> None:
    """`counts` has for each model and region (images, 4)."""
    with replacing(folder / NAME) as partial, partial.open("w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file, lineterminator="\n")
        rows.writerow(COLUMNS)
        for model, by_region in counts.items():
            rows.writerows(_rows(model, images, by_region))


def _rows(model: str, images: Sequence[ImageName], by_region: Mapping[str, Counts]) -> Iterable[list[str]]:
    for place, name in enumerate(images):
        known = (name.image, name.slide, name.x_l0, name.y_l0, name.kind, name.tumour_fraction)
        row = [model, *("" if value is None else str(value) for value in known)]
        for region in _ENDINGS:
            own = by_region[region][place]
            row += ["" if math.isnan(value) else f"{value:.10g}" for value in own]
            row += [cell(value) for value in figures_of(own)]
        yield row
