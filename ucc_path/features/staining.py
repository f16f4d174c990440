"""The standard of a slide's own stain, from a sample of its tissue, taken before any patch is computed."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ucc_path.ahead import in_order
from ucc_path.bags import cell_px, pixels_of_cells
from ucc_path.coverage import Coverage
from ucc_path.features.cells import Block, CellPlan
from ucc_path.slide import Slide
from ucc_path.slide.damage import read_surviving
from ucc_path.stain import Change, count_levels, standard_of

SAMPLED_BLOCKS = 32  # evenly over the tissue; of a large slide one in hundreds
EVERY_PX = 2  # along both sides: a quarter of the pixels tell as much


def standard_of_slide(slide: Slide, plan: CellPlan, tissue: Coverage, blocks: Sequence[Block], threads: int) -> Change:
    """The change of optical density that makes this slide like those a model was trained on, (3, 4)."""
    chosen = np.unique(np.linspace(0, len(blocks) - 1, min(SAMPLED_BLOCKS, len(blocks))).astype(np.int64))

    def count(number: int) -> NDArray[np.int64]:
        return _count(slide, plan, tissue, blocks[number])

    levels = np.zeros((3, 256), np.int64)
    for counts in in_order(count, chosen.tolist(), threads):
        levels += counts
    return standard_of(levels)


def _count(slide: Slide, plan: CellPlan, tissue: Coverage, block: Block) -> NDArray[np.int64]:
    """Levels of the tissue in a block; what is tissue is asked for every quarter of a patch, as in training."""
    rows, cols = (int(plan.offsets_px(count)[-1]) + plan.patch_px for count in block.wanted.shape)
    corner = plan.corner(block.first)
    region = read_surviving(slide, corner, (cols, rows), plan.mpp)
    cell = cell_px(plan.patch_px)
    xs, ys = np.meshgrid(np.arange(cols // cell), np.arange(rows // cell))
    side_l0 = cell * plan.pixel_l0
    is_tissue = tissue.shares(corner.x + xs * side_l0, corner.y + ys * side_l0, side_l0) >= 0.5
    if region.lost is not None:
        whole = region.lost[: rows // cell * cell, : cols // cell * cell]
        is_tissue &= ~whole.reshape(rows // cell, cell, cols // cell, cell).any(axis=(1, 3))
    if cell % EVERY_PX == 0:
        return count_levels(pixels_of_cells(region.rgb[::EVERY_PX, ::EVERY_PX], is_tissue, cell // EVERY_PX))
    return count_levels(pixels_of_cells(region.rgb, is_tissue, cell))
