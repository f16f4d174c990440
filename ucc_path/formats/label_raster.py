"""The raster of one label a cell, read back from the TIFF that `label_tiff` made of it.

8-bit grey, zero black. Level 0 has a pixel for each cell of the grid, or `pixels_a_cell` each way, and then may go
beyond the grid. Pixel (r, c) of level n is pixel (r * 2^n, c * 2^n) of level 0: where cells are many pixels wide, a
coarse level tells as much as level 0.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from tifffile import TiffFile, TiffFileError, TiffFrame, TiffPage

from ucc_path.errors import OutputError, OverlayError
from ucc_path.formats import tiff_images
from ucc_path.formats.tiff_images import Image

MAX_TILE_PX = 4096  # of a side; more is damage that would cost memory

_BUFFER_BYTES = 2**20  # of packed tiles that are read at once
# What decoders raise of damaged tiles; RuntimeError is that of imagecodecs.
_DAMAGE = (ArithmeticError, EOFError, LookupError, OSError, RuntimeError, TiffFileError, TypeError, ValueError)
_WHAT_NOW = "segment the slide anew with --overwrite"


def read(path: Path, *, rows: int, cols: int, pixels_a_cell: int = 1) -> NDArray[np.uint8]:
    """Labels of the cells, (rows, cols); OutputError where the file is not whole, or not of this grid.

    The pixel in the top left corner speaks for its cell. Holds the result, and a few tiles.
    """
    if pixels_a_cell < 1:
        raise ValueError(f"pixels_a_cell is {pixels_a_cell}; a cell has at least one")
    levels = _levels(path)
    _refuse_other_size(path, levels[0], cols, rows, pixels_a_cell)
    level = _coarsest(len(levels), pixels_a_cell)
    _refuse_strange(path, levels[level], (levels[0].width_px >> level, levels[0].height_px >> level))
    try:
        with TiffFile(path) as tiff:
            return _sampled(tiff.pages[level], rows, cols, pixels_a_cell >> level)
    except _DAMAGE as err:
        raise OutputError(f"{path} is damaged ({' '.join(str(err).split())}); {_WHAT_NOW}") from err


def _levels(path: Path) -> tuple[Image, ...]:
    try:
        return tiff_images.read(path).chain
    except OverlayError as err:
        what, _, _ = str(err).rpartition(";")  # its advice is for the files of others
        raise OutputError(f"{what}; {_WHAT_NOW}") from err


def _refuse_other_size(path: Path, image: Image, cols: int, rows: int, pixels_a_cell: int) -> None:
    over_px = (image.width_px - cols * pixels_a_cell, image.height_px - rows * pixels_a_cell)
    if min(over_px) < 0 or (pixels_a_cell == 1 and max(over_px) > 0):
        raise OutputError(
            f"{path} is {image.width_px} x {image.height_px} px, but its grid has {cols} x {rows} cells of "
            f"{pixels_a_cell} px; {_WHAT_NOW}"
        )


def _coarsest(levels: int, pixels_a_cell: int) -> int:
    """The last level that has a pixel for the corner of every cell.

    >>> _coarsest(10, 48), _coarsest(2, 64), _coarsest(10, 33)
    (4, 1, 0)
    """
    return max(level for level in range(levels) if pixels_a_cell % 2**level == 0)


def _refuse_strange(path: Path, image: Image, size_px: tuple[int, int]) -> None:
    """OutputError where a level is none that `label_tiff` writes."""
    if (image.photometric, image.samples, image.bits, image.sample_format) != (1, 1, 8, 1):
        raise OutputError(f"{path} is not 8-bit grey, as label images are; {_WHAT_NOW}")
    if image.tile_px is None or max(image.tile_px) > MAX_TILE_PX:
        raise OutputError(f"{path} is not in tiles of up to {MAX_TILE_PX} px, as label images are; {_WHAT_NOW}")
    if (image.width_px, image.height_px) != size_px:
        raise OutputError(f"{path} has a level that is not half of the one before; {_WHAT_NOW}")


def _sampled(page: TiffPage | TiffFrame, rows: int, cols: int, step: int) -> NDArray[np.uint8]:
    """Every `step`-th pixel of a page in either direction, (rows, cols), gathered tile by tile."""
    labels: NDArray[np.uint8] = np.empty((rows, cols), np.uint8)
    for data, (_, _, top, left, _), _ in page.segments(maxworkers=1, buffersize=_BUFFER_BYTES):
        if data is None:
            raise ValueError("a tile was never written")
        row, col = -(-top // step), -(-left // step)  # the first cell whose corner is not before the tile's
        tile = data[0, row * step - top :: step, col * step - left :: step, 0]
        here = labels[row : row + tile.shape[0], col : col + tile.shape[1]]
        here[:] = tile[: here.shape[0], : here.shape[1]]
    return labels
