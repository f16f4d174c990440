"""What a worker of `segment` does with one slide: find its tissue, stream it through the model, decide, write."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from ucc_path.engine.local import say
from ucc_path.errors import SlideError
from ucc_path.features.cells import CellPlan, blocks, tissue_cells
from ucc_path.features.levels import table_of
from ucc_path.features.reading import Items, PatchReader
from ucc_path.features.staining import standard_of_slide
from ucc_path.features.streaming import Band, bands
from ucc_path.formats import segmentation_json
from ucc_path.formats.atomic import explaining, replacing_together
from ucc_path.formats.segmentation_json import ENDINGS
from ucc_path.geometry import Cell, Grid, scale_between
from ucc_path.mask.cleaning import clean
from ucc_path.mask.deciding import ByShare, decide
from ucc_path.mask.windows import WindowMap
from ucc_path.slide import Slide
from ucc_path.slide.damage import Surviving, read_surviving
from ucc_path.slide.reader import COARSER_TOLERANCE, MAX_THUMBNAIL_PX
from ucc_path.stain import Change
from ucc_path.tissue import require_tissue, tissue_of
from ucc_path.workflows.peak import forget_peak, peak_mb
from ucc_path.workflows.segment import memory
from ucc_path.workflows.segment.adapting import adapted
from ucc_path.workflows.segment.jobs import SlideJob
from ucc_path.workflows.segment.loading import Loaded, load
from ucc_path.workflows.segment.outputs import write_all
from ucc_path.workflows.segment.refitting import refitted, require_few
from ucc_path.workflows.segment.values import SlideMask, Survey

PICTURE_PX = 1600  # the longer side of the thumbnail that is drawn on
MOST_LOST_SHARE = 0.1  # of the patches; of a slide more damaged than that the rest is not to be trusted
_SOME_LOST = 500  # patches: less is a few stored tiles, of however small a slide
_SAY_EVERY_S = 0.3


def segment(job: SlideJob) -> dict[str, Any]:
    """Segments one slide and writes all its files; the record of it, which is written last."""
    began_s = time.perf_counter()
    forget_peak()
    with memory.in_words(str(job.slide)):
        loaded = load(job.model)
        if loaded.device.type == "cpu":  # a GPU's driver maps more than it uses
            memory.limit_this_process(job.bytes_each)
        with Slide(job.slide, job.slide_mpp) as slide, explaining(job.output):
            survey = _survey(job, loaded, slide)
            memory.give_back()  # to find tissue takes more than all that follows
            last = segmentation_json.path_of(job.output, job.name).name
            names = [f"{job.name}{ending}" for ending in ENDINGS.values()]
            with replacing_together(job.output, job.name, last=last, stale=names) as work:
                mask = _judge(job, loaded, slide, survey, work)
                record = write_all(job, loaded, slide, survey, mask, work)
                record |= {"seconds": round(time.perf_counter() - began_s, 2), "peak_memory_mb": peak_mb()}
                segmentation_json.write(work, job.name, record)
    return record


def _survey(job: SlideJob, loaded: Loaded, slide: Slide) -> Survey:
    card = loaded.model.card
    if slide.mpp > card.mpp * COARSER_TOLERANCE:
        raise SlideError(
            f"{job.slide} has {slide.mpp:.4g} um/px, coarser than the {card.mpp:.4g} um/px that the model was trained "
            "at; train one on coarser tiles (tile --mpp), or leave this slide out"
        )
    plan = CellPlan.of(
        slide.size_l0,
        slide.mpp,
        patch_px=card.settings.patch_px,
        stride_px=loaded.stride_px,
        mpp=card.mpp,
        name=str(job.slide),
    )
    thumbnail_grid = Grid.covering(slide.size_l0, max(1.0, scale_between(job.tissue.mpp, slide.mpp)))
    memory.require_room(
        job.bytes_each,
        threads=job.model.threads,
        cells=plan.grid.rows * plan.grid.cols,
        thumbnail_px=thumbnail_grid.rows * thumbnail_grid.cols,
        band_bytes=3 * plan.band_rows * plan.grid.cols * loaded.depth * 4,
        name=str(job.slide),
    )
    thumbnail = _thumbnail(job, slide, thumbnail_grid)
    tissue = require_tissue(
        tissue_of(thumbnail, slide.size_l0, slide.mpp, job.tissue, job.model.threads), str(job.slide)
    )
    is_tissue = tissue_cells(plan, tissue, job.segmentation.min_tissue)
    if not is_tissue.any():
        raise SlideError(
            f"{job.slide} has no patch that is at least {job.segmentation.min_tissue:.0%} tissue; "
            "lower min_tissue under [segmentation] in the settings file"
        )
    return Survey(plan, tissue, is_tissue, _small(thumbnail))


def _thumbnail(job: SlideJob, slide: Slide, grid: Grid) -> NDArray[np.uint8]:
    """The whole slide at the scale at which tissue is looked for; damaged parts are white, unless that is an error."""
    try:
        return slide.thumbnail(job.tissue.mpp)
    except SlideError:
        if job.is_strict or grid.cols * grid.rows > MAX_THUMBNAIL_PX:
            raise
        return read_surviving(slide, (0, 0), (grid.cols, grid.rows), grid.cell_l0 * slide.mpp).rgb


def _small(thumbnail: NDArray[np.uint8]) -> NDArray[np.uint8]:
    picture = Image.fromarray(thumbnail)
    picture.thumbnail((PICTURE_PX, PICTURE_PX), Image.Resampling.LANCZOS)
    return np.asarray(picture)


def _judge(job: SlideJob, loaded: Loaded, slide: Slide, survey: Survey, work: Path) -> SlideMask:
    """Everything that the model says of the slide."""
    plan, wishes = survey.plan, job.segmentation
    require_few(survey.patches, how=wishes.refit, name=str(job.slide))
    losses = _Losses(job, survey.patches)
    windows = None
    if loaded.head is not None:
        window_cells = max(1, round(wishes.window_px / plan.stride_px))
        windows = WindowMap(loaded.head, (plan.grid.rows, plan.grid.cols), window_cells=window_cells)
    told = _told(job, survey.patches, _bands(job, loaded, slide, survey, losses))
    stream = _passing(told, windows, loaded.first_feature)
    with ExitStack() as stack:
        decision = loaded.decision(plan, wishes.neighbours)
        if wishes.refit != "none" and loaded.model.centroids is not None:
            known = loaded.model.centroids.numpy()
            again = refitted(
                stream, known, how=wishes.refit, seed=wishes.seed, work=work, name=str(job.slide), head=loaded.head
            )
            stream, decision = stack.enter_context(again)
        elif isinstance(decision, ByShare):
            stream, decision = stack.enter_context(adapted(stream, work, strength=wishes.adapt))
        labels, sure = decide(stream, decision, (plan.grid.rows, plan.grid.cols))
    threshold = decision.threshold if isinstance(decision, ByShare) else None
    labels = clean(labels, wishes.clean_up)
    losses.tell()
    if windows is None:
        return SlideMask(labels, sure, None, None, threshold, losses.count)
    mixture, judged = windows.finish()
    mixture[labels == 0] = 0
    return SlideMask(labels, sure, mixture, judged, threshold, losses.count)


def _bands(job: SlideJob, loaded: Loaded, slide: Slide, survey: Survey, losses: _Losses) -> Iterator[Band]:
    card, threads = loaded.model.card, job.model.threads
    stain: Change | None = None
    seen: dict[Cell, Surviving] = {}
    if card.settings.colours == "slide":
        every = list(blocks(survey.plan, survey.is_tissue))
        sampler = PatchReader(slide, survey.plan, job.is_strict)
        # A picture has a margin, for which its block is read again anyway.
        stain, seen = standard_of_slide(sampler, survey.tissue, every, threads, keep=loaded.pictures is None)
    table = table_of(loaded.model.preparation, stain, card.settings.channels)
    return bands(
        survey.plan,
        blocks(survey.plan, survey.is_tissue),
        loaded.reader(slide, survey.plan, is_strict=job.is_strict, known=seen),
        lambda pictures: loaded.engine(pictures, table),
        batch_size=loaded.batch_size,
        readers=threads,
        threads=threads,
        on_read=losses.count_in,
    )


class _Losses:
    """Counts patches that cannot be read, and gives up where they are too many."""

    def __init__(self, job: SlideJob, patches: int) -> None:
        self._job, self._most = job, max(_SOME_LOST, int(MOST_LOST_SHARE * patches))
        self._patches = patches
        self.count = 0

    def count_in(self, items: Items) -> None:
        self.count += items.lost
        if self.count > self._most or self.count == self._patches:
            raise SlideError(
                f"{self._job.slide} is damaged: {self.count} of its {self._patches} patches and perhaps more cannot be "
                "read; copy the file again"
            )

    def tell(self) -> None:
        if self.count:
            say(
                (
                    self._job.name,
                    f"{self.count} of {self._patches} patches lie where the slide is damaged and are background; "
                    "copy the file again, or fail such slides with --strict",
                )
            )


def _told(job: SlideJob, patches: int, found: Iterator[Band]) -> Iterator[Band]:
    """The bands, with a word on how far they are now and then."""
    done, said_s = 0, 0.0
    say((job.name, 0, patches))
    for band in found:
        yield band
        done += int(np.count_nonzero(band.is_there))
        if time.monotonic() - said_s > _SAY_EVERY_S:
            said_s = time.monotonic()
            say((job.name, done, patches))
    say((job.name, patches, patches))


def _passing(found: Iterator[Band], windows: WindowMap | None, first_feature: int) -> Iterator[Band]:
    for band in found:
        if windows is not None:
            windows.take(replace(band, values=band.values[..., first_feature:]))
        yield band
