"""The standard of a slide's own stain, from a sample of its tissue, taken before any patch is computed."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ucc_path.ahead import in_order
from ucc_path.bags import cell_px, pixels_of_cells
from ucc_path.coverage import Coverage
from ucc_path.features.cells import Block, CellPlan
from ucc_path.features.reading import PatchReader
from ucc_path.geometry import Cell, Grid
from ucc_path.slide.damage import Surviving
from ucc_path.stain import Change, count_levels, standard_of

SAMPLED_BLOCKS = 128  # evenly over the tissue: all of a small slide, and of a large one enough, 100 MB of pixels
EVERY_PX = 4  # along both sides: one pixel in sixteen tells as much


def standard_of_slide(
    reader: PatchReader, tissue: Coverage, blocks: Sequence[Block], threads: int, *, keep: bool = True
) -> tuple[Change, dict[Cell, Surviving]]:
    """The change of optical density that makes this slide like those a model was trained on, (3, 4).

    And, to `keep`, what was read for it, by the first cell of each block, so that it need not be read again.
    """
    chosen = np.unique(np.linspace(0, len(blocks) - 1, min(SAMPLED_BLOCKS, len(blocks))).astype(np.int64))

    def look(number: int) -> tuple[Block, Surviving, NDArray[np.int64]]:
        region = reader.region(blocks[number])
        return blocks[number], region, _count(reader.plan, tissue, blocks[number], region)

    levels = np.zeros((3, 256), np.int64)
    seen = {}
    for block, region, counts in in_order(look, chosen.tolist(), threads):
        levels += counts
        if keep:
            seen[block.first] = region
    return standard_of(levels), seen


def _count(plan: CellPlan, tissue: Coverage, block: Block, region: Surviving) -> NDArray[np.int64]:
    """Levels of the tissue in a block; what is tissue is asked for every quarter of a patch, as in training."""
    rows, cols = region.rgb.shape[:2]
    cell = cell_px(plan.patch_px)
    grid = Grid(plan.corner(block.first), cell * plan.pixel_l0, rows // cell, cols // cell)
    is_tissue = tissue.share_per_cell(grid) >= 0.5
    if region.lost is not None:
        whole = region.lost[: rows // cell * cell, : cols // cell * cell]
        is_tissue &= ~whole.reshape(rows // cell, cell, cols // cell, cell).any(axis=(1, 3))
    if cell % EVERY_PX == 0:
        return count_levels(pixels_of_cells(region.rgb[::EVERY_PX, ::EVERY_PX], is_tissue, cell // EVERY_PX))
    return count_levels(pixels_of_cells(region.rgb, is_tissue, cell))
