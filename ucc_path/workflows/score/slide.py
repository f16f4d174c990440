"""What a worker of `score` does with one slide: its mask against its annotation, by area and by lesion."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from ucc_path.annotation import Annotation
from ucc_path.errors import OutputError
from ucc_path.evaluation.areas import bands_of_shares
from ucc_path.evaluation.counts import Counts, count
from ucc_path.evaluation.froc import CAMELYON_MPP, Lesions, SlideHits, detections_of, find_lesions, match
from ucc_path.evaluation.matching import by_names
from ucc_path.evaluation.summary import EMPTY, GRID_CEILING, REGIONS
from ucc_path.formats import label_raster, png
from ucc_path.formats.segmentation_json import ENDINGS
from ucc_path.geometry import Grid, PointL0, SizeL0
from ucc_path.report.comparison import agreement_map
from ucc_path.settings import AnnotationSettings
from ucc_path.workflows.outlines import read_outline
from ucc_path.workflows.score.request import Source

GRID, EXACT = "", "-exact"
"""The mask cell by cell; the same to the pixel, as are the rows that need no model."""
ROWS = (GRID, EXACT, EMPTY, GRID_CEILING)

_SURE = 255
_LARGEST_MAP_PX = 1200
_ORGANISERS_PIXEL_L0 = 32.0

Bools = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class ScoreJob:
    """A slide and where its picture is to go."""

    source: Source
    folder: Path
    picture: Path
    annotation: AnnotationSettings


@dataclass(frozen=True, slots=True, eq=False)
class SlideScore:
    """What is known of a slide then; areas in mm2."""

    name: str
    counts: dict[str, dict[str, Counts]]  # by row and region, (4,)
    tumour_mm2: float
    found_mm2: float  # what the mask takes for tumour
    left_out_mm2: float  # tissue of which the truth is not known
    outside_share: float  # of the outlined tumour that lies beyond the slide
    hits: SlideHits
    hits_as_organisers: SlideHits  # with their scale in place of the slide's own
    detections: int
    mpp: float


def score(job: ScoreJob) -> SlideScore:
    """Scores one slide, and draws where mask and truth agree."""
    record = job.source.record
    size_l0, mpp = SizeL0(*record["slide"]["size_l0"]), float(record["slide"]["mpp"])
    annotation, outside = read_outline(
        job.source.annotation, slide=str(job.folder / job.source.name), size_l0=size_l0, settings=job.annotation
    )
    labels, sure = _rasters(job)
    (tumour,) = by_names([found["name"] for found in record["classes"]])
    plan = record["grid"]
    grid = Grid(PointL0(0, 0), plan["cell_l0"], plan["rows"], plan["cols"])
    shares = np.concatenate([band.astype(np.float32) for _, band in bands_of_shares(annotation, grid)])
    mm2 = (grid.cell_l0 * mpp / 1000) ** 2
    beyond_l0 = size_l0.width * size_l0.height - grid.size_l0.width * grid.size_l0.height
    tumour_l0 = annotation.tumour_share((0, 0), size_l0) * size_l0.width * size_l0.height
    missed = max(0.0, tumour_l0 / grid.cell_l0**2 - float(shares.sum(dtype=np.float64)))  # beyond the last cells
    beyond = np.array([0, 0, max(0.0, beyond_l0 / grid.cell_l0**2 - missed), missed])
    counts = _counts(labels > 0, labels == tumour, shares, beyond, is_exhaustive=job.source.is_exhaustive)
    detections = detections_of(labels, sure, label=tumour, cell_l0=grid.cell_l0)
    _draw(job.picture, labels > 0, labels == tumour, shares >= 0.5)
    left_out = 0.0 if job.source.is_exhaustive else float((1 - shares)[labels > 0].sum(dtype=np.float64)) * mm2
    return SlideScore(
        name=job.source.name,
        counts={row: {region: own * mm2 for region, own in by_region.items()} for row, by_region in counts.items()},
        tumour_mm2=tumour_l0 * (mpp / 1000) ** 2,
        found_mm2=float(np.count_nonzero(labels == tumour)) * mm2,
        left_out_mm2=left_out,
        outside_share=outside,
        hits=match(_lesions(annotation, mpp, size_l0, None), detections),
        hits_as_organisers=match(_lesions(annotation, CAMELYON_MPP, size_l0, _ORGANISERS_PIXEL_L0), detections),
        detections=len(detections.score),
        mpp=mpp,
    )


def _lesions(annotation: Annotation, mpp: float, size_l0: SizeL0, pixel_l0: float | None) -> Lesions | None:
    return None if annotation.is_empty else find_lesions(annotation, mpp=mpp, size_l0=size_l0, pixel_l0=pixel_l0)


def _rasters(job: ScoreJob) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """The labels of cells, and how sure each is."""
    record, name = job.source.record, job.source.name
    grid = record["grid"]
    pixels = grid["cell_l0"] if record["settings"]["request"].get("full_size") else 1
    how = {"rows": grid["rows"], "cols": grid["cols"], "pixels_a_cell": pixels}
    labels = label_raster.read(job.folder / f"{name}{ENDINGS['labels']}", **how)
    if labels.max(initial=0) > len(record["classes"]):
        raise OutputError(f"{job.folder}/{name} has labels that no class has; segment it anew with --overwrite")
    return labels, _SURE - label_raster.read(job.folder / f"{name}{ENDINGS['uncertainty']}", **how)


def _counts(
    is_tissue: Bools, predicted: Bools, shares: NDArray[np.float32], beyond: Counts, *, is_exhaustive: bool
) -> dict[str, dict[str, Counts]]:
    """In cells; `beyond` is what lies at the edge of the slide where there are no cells."""
    truth = shares >= 0.5
    found: dict[str, dict[str, Counts]] = {row: {} for row in ROWS}
    nothing, ceiling = np.zeros_like(predicted), truth & is_tissue
    for region in REGIONS:
        where = is_tissue if region else np.ones_like(is_tissue)
        rest = np.zeros(4) if region else beyond
        found[GRID][region] = count(predicted[where], truth[where])
        for row, mask in ((EXACT, predicted), (EMPTY, nothing), (GRID_CEILING, ceiling)):
            found[row][region] = _by_area(mask[where], shares[where]) + rest
    if not is_exhaustive:  # of what is not outlined nothing is known
        unknown = np.array([1, np.nan, np.nan, 1])
        found = {row: {region: own * unknown for region, own in found[row].items()} for row in ROWS}
    return found


def _by_area(predicted: Bools, shares: NDArray[np.float32]) -> Counts:
    inside, outside = shares[predicted], shares[~predicted]
    tp, fn = float(inside.sum(dtype=np.float64)), float(outside.sum(dtype=np.float64))
    return np.array([tp, len(inside) - tp, len(outside) - fn, fn])


def _draw(path: Path, is_tissue: Bools, predicted: Bools, truth: Bools) -> None:
    step = -(-max(is_tissue.shape) // _LARGEST_MAP_PX)
    seen = (slice(None, None, step), slice(None, None, step))
    picture = agreement_map(predicted[seen], truth[seen], is_tissue[seen])
    if max(picture.shape) > _LARGEST_MAP_PX:
        small = Image.fromarray(picture)
        small.thumbnail((_LARGEST_MAP_PX, _LARGEST_MAP_PX), Image.Resampling.NEAREST)
        picture = np.asarray(small)
    png.write(path, picture)
