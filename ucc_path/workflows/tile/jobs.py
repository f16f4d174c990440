"""What a worker of `tile` does with one slide: first survey it, then cut some of its tiles."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ucc_path.annotation import Annotation, AnnotationSummary
from ucc_path.coverage import Coverage
from ucc_path.formats import outline_npy, png
from ucc_path.formats.atomic import explaining
from ucc_path.formats.tiles_csv import TileRow, image_path, mask_path
from ucc_path.geometry import SizeL0, scale_between
from ucc_path.report.overlay import draw_preview
from ucc_path.seeding import stream
from ucc_path.settings import AnnotationSettings, TilingSettings, TissueSettings
from ucc_path.slide import Slide
from ucc_path.tiles.labelling import UNLABELLED
from ucc_path.tiles.sampling import Tile, TilePlane, find_tiles, find_unlabelled
from ucc_path.tissue import require_tissue, tissue_of
from ucc_path.workflows.outlines import read_outline


@dataclass(frozen=True, slots=True)
class SurveyJob:
    """A slide and what is wanted of it."""

    name: str
    slide: Path
    slide_mpp: float | None
    annotation: Path | None  # None: all of the tissue is normal
    wanted: dict[str, int]  # by kind
    wanted_unlabelled: int
    outline: Path  # where the outline is kept for cutting
    preview: Path | None
    tiling: TilingSettings
    tissue: TissueSettings
    annotation_settings: AnnotationSettings


@dataclass(frozen=True, slots=True)
class Survey:
    """What a slide is and the tiles that can be had of it."""

    name: str
    slide: Path
    annotation: Path | None
    vendor: str
    size_l0: SizeL0
    slide_mpp: float
    mpp_source: str
    tile_mpp: float
    tissue_mm2: float
    tumour_mm2: float
    outside_share: float
    summary: AnnotationSummary
    kinds: tuple[str, ...]  # that were looked for
    tiles: tuple[Tile, ...]


@dataclass(frozen=True, slots=True)
class CutJob:
    """Some tiles of one slide; without an outline they get no masks."""

    name: str
    slide: Path
    slide_mpp: float
    outline: Path | None
    dataset: Path
    rows: tuple[TileRow, ...]


def survey(job: SurveyJob) -> Survey:
    """Finds the tissue and the tiles of one slide."""
    with Slide(job.slide, job.slide_mpp) as slide:
        tile_mpp = job.tiling.mpp or slide.mpp
        slide.refuse_finer(tile_mpp)
        annotation, outside_share = read_outline(
            job.annotation, slide=str(job.slide), size_l0=slide.size_l0, settings=job.annotation_settings
        )
        tissue = tissue_of(slide.thumbnail(job.tissue.mpp), slide.size_l0, slide.mpp, job.tissue)
        tiles: list[Tile] = []
        try:
            require_tissue(tissue, job.name)
            tiles = _find_tiles(job, slide, tile_mpp, tissue, annotation)
        finally:
            if job.preview:
                # Read once more: kept meanwhile, the thumbnail of a large slide would be a tenth of the memory.
                _write_preview(job.preview, slide.thumbnail(job.tissue.mpp), tissue, tiles)
        outline_npy.write(job.outline, annotation)
        return Survey(
            name=job.name,
            slide=job.slide,
            annotation=job.annotation,
            vendor=slide.vendor,
            size_l0=slide.size_l0,
            slide_mpp=slide.mpp,
            mpp_source=slide.scale.source,
            tile_mpp=tile_mpp,
            tissue_mm2=tissue.area_l0 * _mm2_per_px(slide),
            tumour_mm2=annotation.area_l0 * _mm2_per_px(slide),
            outside_share=outside_share,
            summary=annotation.summary,
            kinds=tuple(job.wanted),
            tiles=tuple(tiles),
        )


def cut(job: CutJob) -> int:
    """Writes the pictures and masks of the job's tiles; returns how many.

    They take their names at once: the data set around them has not got its own yet.
    """
    outline = outline_npy.read(job.outline) if job.outline else None
    with Slide(job.slide, job.slide_mpp) as slide, explaining(job.dataset):
        for row in job.rows:
            rgb = slide.read((row.x_l0, row.y_l0), row.tile_px, row.mpp)
            image_path(job.dataset, row).write_bytes(png.encode(rgb))
            if outline is not None:
                pixel_l0 = scale_between(row.mpp, slide.mpp)
                side_l0 = row.tile_px * pixel_l0
                tumour = outline.tumour_mask((row.x_l0, row.y_l0), (side_l0, side_l0), downsample=pixel_l0)
                mask_path(job.dataset, row).write_bytes(png.encode(tumour * np.uint8(255)))
    return len(job.rows)


def _mm2_per_px(slide: Slide) -> float:
    return (slide.mpp / 1000) ** 2


def _find_tiles(job: SurveyJob, slide: Slide, tile_mpp: float, tissue: Coverage, annotation: Annotation) -> list[Tile]:
    pixel_l0 = scale_between(tile_mpp, slide.mpp)
    plane = TilePlane(
        size_l0=slide.size_l0,
        side_l0=job.tiling.tile_px * pixel_l0,
        pixel_l0=pixel_l0,
        alignment_l0=slide.alignment_l0(tile_mpp, job.tiling.tile_px),
    )
    rng = stream(job.tiling.seed, "tiles", job.name)
    if job.wanted_unlabelled:
        return find_unlabelled(plane, tissue, job.wanted_unlabelled, settings=job.tiling, rng=rng)
    return find_tiles(plane, tissue, annotation, job.wanted, settings=job.tiling, rng=rng)


def _write_preview(path: Path, thumbnail: NDArray[np.uint8], tissue: Coverage, tiles: list[Tile]) -> None:
    boxes: dict[str, list[tuple[float, float, float, float]]] = {}
    for tile in tiles:
        box = (tile.y_l0, tile.x_l0, tile.y_l0 + tile.side_l0, tile.x_l0 + tile.side_l0)
        boxes.setdefault(tile.kind or UNLABELLED, []).append(box)
    boxes_px = {kind: np.rint(np.array(rows) / tissue.grid.cell_l0).astype(np.int64) for kind, rows in boxes.items()}
    with explaining(path):
        path.parent.mkdir(parents=True, exist_ok=True)
    png.write(path, draw_preview(thumbnail, tissue.mask, boxes_px))
