"""The files of a segmented slide."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ucc_path.ahead import in_order
from ucc_path.formats import label_tiff, png, qupath_geojson, review_csv
from ucc_path.formats.segmentation_json import ENDINGS
from ucc_path.mask.polygons import regions
from ucc_path.mask.windows import disagreements
from ucc_path.report.overlay import Colour, class_colours, draw_mask, with_legend
from ucc_path.slide import Slide
from ucc_path.workflows.segment.jobs import SlideJob
from ucc_path.workflows.segment.loading import Loaded
from ucc_path.workflows.segment.values import SlideMask, Survey
from ucc_path.workflows.versions import versions

_WHITE: Colour = (255, 255, 255)
_SUREST = 255


def write_all(
    job: SlideJob, loaded: Loaded, slide: Slide, survey: Survey, mask: SlideMask, work: Path
) -> dict[str, Any]:
    """Writes all files of a slide but its record, which it returns."""
    path = {what: work / f"{job.name}{ending}" for what, ending in ENDINGS.items()}
    classes, cell_l0 = loaded.model.card.classes, int(survey.plan.grid.cell_l0)
    mm2_per_cell = (cell_l0 * slide.mpp / 1000) ** 2
    areas = _areas(mask.labels, classes, mm2_per_cell)
    colours: list[Colour] = [found["color"] for found in areas]
    found: dict[str, Any] = {"classes": areas, "windows": None}

    def write_polygons() -> None:
        every = regions(mask.labels, mask.sure, cell_l0=cell_l0)
        found["regions"] = qupath_geojson.write(path["polygons"], every, classes, colours, mm2_per_cell=mm2_per_cell)

    def write_review() -> None:
        if mask.windows is not None:
            to_review = disagreements(mask.windows, mask.labels, job.segmentation.min_class_share)
            review_csv.write(path["review"], review_csv.rows_of(to_review, cell_l0))
            found["windows"] = {"judged": len(mask.windows.cells), "to_review": len(to_review.cells)}

    pictures: list[Callable[[], None]] = [lambda: _write_picture(path["picture"], survey, mask, slide, areas)]
    writes = [write_polygons, *pictures, *_rasters(job, slide, cell_l0, mask, path, colours), write_review]
    for _ in in_order(lambda write: write(), writes, job.model.threads):
        pass
    return _record(job, loaded, slide, survey, mask) | {
        **found,
        "files": {file.name: file.stat().st_size for file in sorted(work.iterdir())},
        "versions": versions(),
    }


def _areas(labels: NDArray[np.uint8], classes: Sequence[str], mm2_per_cell: float) -> list[dict[str, Any]]:
    counts = np.bincount(labels.ravel(), minlength=len(classes) + 1)
    return [
        {
            "label": label,
            "name": name,
            "color": colour,
            "patches": int(counts[label]),
            "area_mm2": round(float(counts[label] * mm2_per_cell), 6),
        }
        for label, (name, colour) in enumerate(zip(classes, class_colours(classes), strict=True), start=1)
    ]


def _rasters(
    job: SlideJob, slide: Slide, cell_l0: int, mask: SlideMask, path: dict[str, Path], colours: list[Colour]
) -> list[Callable[[], None]]:
    """What writes each TIFF; they do not depend on each other."""
    size_l0 = (int(slide.size_l0.width), int(slide.size_l0.height))
    pixel_l0 = 1 if job.full_size else cell_l0
    how: dict[str, Any] = {"mpp": pixel_l0 * slide.mpp, "enlarge": cell_l0 // pixel_l0}
    if job.full_size:
        how["size_px"] = size_l0
    highest, write = len(colours), label_tiff.write
    asap_l0 = 1 if job.full_size else asap_pixel_l0(size_l0, cell_l0)
    for_asap: dict[str, Any] = {
        "mpp": asap_l0 * slide.mpp,
        "enlarge": cell_l0 // asap_l0,
        "size_px": (size_l0[0] // asap_l0, size_l0[1] // asap_l0),
    }

    def write_overlay() -> None:
        write(path["overlay"], np.array([_WHITE, *colours], np.uint8)[mask.labels], **how)

    def write_uncertainty() -> None:
        uncertainty = np.where(mask.labels > 0, _SUREST - mask.sure, 0).astype(np.uint8)
        write(path["uncertainty"], uncertainty, highest=_SUREST, **how)

    writes: list[Callable[[], None]] = [
        lambda: write(path["labels"], mask.labels, highest=highest, **how),
        lambda: write(path["likelihood"], mask.labels, highest=highest, **for_asap),
        write_overlay,
        write_uncertainty,
    ]
    if mask.mixture is not None:
        mixture = mask.mixture
        writes.append(lambda: write(path["mixture"], mixture, highest=_SUREST, **how))
    if job.full_size:
        writes.append(lambda: write(path["ome"], mask.labels, highest=highest, as_ome=True, **how))
    return writes


def asap_pixel_l0(size_l0: tuple[int, int], cell_l0: int) -> int:
    """Level-0 pixels of the largest pixel with which ASAP shows a mask of this slide, and in its place.

    It divides the slide's width and height by the mask's, drops what is left over, and shows nothing where the two
    differ. On a small slide a pixel a cell leaves too much over; cells are then drawn with several pixels.

    >>> asap_pixel_l0((97792, 221184), 128), asap_pixel_l0((1000, 2000), 128)
    (128, 32)
    """
    for pixel_l0 in range(cell_l0, 0, -1):
        if cell_l0 % pixel_l0 == 0 and all(side // max(1, side // pixel_l0) == pixel_l0 for side in size_l0):
            return pixel_l0
    return 1


def _write_picture(path: Path, survey: Survey, mask: SlideMask, slide: Slide, areas: list[dict[str, Any]]) -> None:
    """The thumbnail with the mask drawn on it, and below it what the colours mean."""
    rows, cols = survey.thumbnail.shape[:2]
    cell_rows = _cells_under(rows, slide.size_l0.height, survey.plan.grid.cell_l0, survey.plan.grid.rows)
    cell_cols = _cells_under(cols, slide.size_l0.width, survey.plan.grid.cell_l0, survey.plan.grid.cols)
    framed = np.pad(mask.labels, ((0, 1), (0, 1)))  # what lies beyond the last cell has no label
    labels = framed[cell_rows[:, None], cell_cols]
    entries = [(f"{found['name']} {found['area_mm2']:.4g} mm2", found["color"]) for found in areas]
    picture = draw_mask(survey.thumbnail, labels, [found["color"] for found in areas])
    png.write(path, with_legend(picture, entries))


def _cells_under(pixels: int, side_l0: float, cell_l0: float, cells: int) -> NDArray[np.int64]:
    """The cell under the middle of each pixel of the thumbnail, along one side."""
    middles_l0 = (np.arange(pixels) + 0.5) * (side_l0 / pixels)
    return np.minimum((middles_l0 // cell_l0).astype(np.int64), cells)


def _record(job: SlideJob, loaded: Loaded, slide: Slide, survey: Survey, mask: SlideMask) -> dict[str, Any]:
    card, grid = loaded.model.card, survey.plan.grid
    return {
        "slide": {
            "name": job.name,
            "path": str(job.slide),
            "bytes": job.slide.stat().st_size,
            "vendor": slide.vendor,
            "size_l0": [int(side) for side in slide.size_l0],
            "mpp": slide.mpp,
            "mpp_source": slide.scale.source,
        },
        "model": {
            "path": str(job.model.path),
            **job.identity["model"],
            "model": card.model,
            "supervision": card.supervision,
            "mpp": card.mpp,
            "patch_px": card.settings.patch_px,
            "converged": card.converged,
        },
        "settings": job.identity["settings"],
        "grid": {"cell_l0": int(grid.cell_l0), "rows": grid.rows, "cols": grid.cols},
        "patches": int(np.count_nonzero(mask.labels)),
        "unreadable_patches": mask.lost,
        "tissue_mm2": round(survey.tissue.area_l0 * (slide.mpp / 1000) ** 2, 4),
        "assigned_by": loaded.assign,
        "threshold": None if mask.threshold is None else round(mask.threshold, 4),
        "inference": {
            "engine": loaded.engine.name,
            "device": loaded.device.type,
            "batch_size": loaded.batch_size,
        },
    }
