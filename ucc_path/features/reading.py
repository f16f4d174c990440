"""Blocks of a slide become what a network takes: patches, one a cell, or whole pictures with a margin."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray

from ucc_path.features.cells import Block, CellPlan, block_cells
from ucc_path.geometry import Cell, PointL0
from ucc_path.slide import Slide
from ucc_path.slide.damage import Surviving, read_surviving

T = TypeVar("T", bound=np.generic)


@dataclass(frozen=True, slots=True, eq=False)
class Items:
    """Pictures for a network, and the cells of each; cells that lie on lost pixels have no say."""

    pictures: NDArray[np.uint8]  # (n, side, side, 3)
    cells: NDArray[np.int64]  # (n, 2) of (row, col), the cell of a patch or the first one of a picture
    wanted: NDArray[np.bool_]  # (n,) or (n, rows, cols): cells with a result
    lost: int  # cells that could not be read


@dataclass(frozen=True, slots=True)
class PatchReader:
    """A patch for each wanted cell of a block."""

    slide: Slide
    plan: CellPlan
    is_strict: bool  # whether damage is an error
    known: dict[Cell, Surviving] = field(default_factory=dict)
    """Blocks that were read before, by their first cell: no stored tile need be decoded again for them."""

    def __call__(self, block: Block) -> Items:
        region = self.known.pop(block.first, None) or self.region(block)
        rows, cols = block.wanted.shape
        tops, lefts = self.plan.offsets_px(rows), self.plan.offsets_px(cols)
        side = self.plan.patch_px
        row, col = np.nonzero(block.wanted)
        patches = cut(region.rgb, tops[row], lefts[col], side)
        if region.lost is None:
            return Items(patches, block.cells, np.ones(len(patches), np.bool_), 0)
        lost = cut(region.lost[..., None], tops[row], lefts[col], side).reshape(len(patches), -1)
        whole = np.flatnonzero(~lost.any(axis=1))
        return Items(patches[whole], block.cells[whole], np.ones(len(whole), np.bool_), len(patches) - len(whole))

    def region(self, block: Block) -> Surviving:
        """The pixels of all patches of a block."""
        rows, cols = (int(self.plan.offsets_px(count)[-1]) + self.plan.patch_px for count in block.wanted.shape)
        return _read(self.slide, self.plan.corner(block.first), (cols, rows), self.plan.mpp, self.is_strict)


@dataclass(frozen=True, slots=True)
class PictureShape:
    """The inner part of a picture that has results, a block as large as it can be, and the margin around it."""

    core_px: int
    margin_px: int
    side_px: int  # of the whole

    @classmethod
    def of(cls, patch_px: int, stride_px: int, *, margin_px: int, multiple_px: int) -> PictureShape:
        """The shape for cells of this size; networks take sides that are a multiple of `multiple_px`."""
        core_px = block_cells(patch_px, stride_px) * stride_px
        return cls(core_px, margin_px, -(-(core_px + 2 * margin_px) // multiple_px) * multiple_px)


@dataclass(frozen=True, slots=True)
class PictureReader:
    """One picture of a block, with a margin for what a network of pixels looks at around them.

    Its cells are whole pixels wide, so its scale may differ from the model's by the rounding of a cell.
    """

    slide: Slide
    plan: CellPlan
    shape: PictureShape
    is_strict: bool

    def __call__(self, block: Block) -> Items:
        plan, stride, shape = self.plan, self.plan.stride_px, self.shape
        pixel_l0 = plan.grid.cell_l0 / stride
        x, y = plan.grid.origin(block.first)
        corner = PointL0(x - shape.margin_px * pixel_l0, y - shape.margin_px * pixel_l0)
        region = _read(self.slide, corner, (shape.side_px, shape.side_px), pixel_l0 * self.slide.mpp, self.is_strict)
        wanted = np.zeros((plan.band_rows, plan.band_rows), np.bool_)
        wanted[: block.wanted.shape[0], : block.wanted.shape[1]] = block.wanted
        asked = np.count_nonzero(wanted)
        if region.lost is not None:
            core = slice(shape.margin_px, shape.margin_px + shape.core_px)
            wanted &= ~region.lost[core, core].reshape(plan.band_rows, stride, plan.band_rows, stride).any(axis=(1, 3))
        first = np.array([[block.first.row, block.first.col]], np.int64)
        return Items(region.rgb[None], first, wanted[None], int(asked - np.count_nonzero(wanted)))


def _read(slide: Slide, corner: PointL0, size_px: tuple[int, int], mpp: float, is_strict: bool) -> Surviving:
    if is_strict:
        return Surviving(slide.read_rectangle(corner, size_px, mpp), None)
    return read_surviving(slide, corner, size_px, mpp)


def cut(picture: NDArray[T], tops: NDArray[np.int64], lefts: NDArray[np.int64], side: int) -> NDArray[T]:
    """Squares (n, side, side, channels) of a picture (rows, cols, channels), wherever they begin."""
    picture = np.ascontiguousarray(picture)
    rows, cols, channels = picture.shape
    down, right, deep = picture.strides
    windows = as_strided(
        picture, (rows - side + 1, cols - side + 1, side, side, channels), (down, right, down, right, deep)
    )
    return windows[tops, lefts]
