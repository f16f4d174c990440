"""Many tiles at a glance: a row or more a kind, each tile framed in the colour of its kind and its tumour outlined."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from scipy import ndimage

from ucc_path.report.overlay import OTHER, PALETTE

THUMBNAIL_PX = 160
TILES_A_ROW = 8
_FRAME_PX = 4
_GAP_PX = 6
_TUMOUR_OUTLINE = (0, 0, 0)

Picture = tuple[NDArray[np.uint8], NDArray[np.bool_] | None]  # RGB and the mask of its tumour


def contact_sheet(pictures: Mapping[str, Sequence[Picture]]) -> NDArray[np.uint8]:
    """RGB of all pictures, kind after kind; a kind without pictures takes no room."""
    bands = [_band(kind, tiles) for kind, tiles in pictures.items() if tiles]
    if not bands:
        raise ValueError("there are no pictures to show")
    gap = np.full((_GAP_PX, bands[0].shape[1], 3), 255, np.uint8)
    return np.concatenate([part for band in bands for part in (band, gap)][:-1])


def _band(kind: str, pictures: Sequence[Picture]) -> NDArray[np.uint8]:
    framed_px = THUMBNAIL_PX + 2 * _FRAME_PX
    step = framed_px + _GAP_PX
    rows = -(-len(pictures) // TILES_A_ROW)
    band = np.full((rows * step - _GAP_PX, TILES_A_ROW * step - _GAP_PX, 3), 255, np.uint8)
    for index, picture in enumerate(pictures):
        top, left = index // TILES_A_ROW * step, index % TILES_A_ROW * step
        cell = band[top : top + framed_px, left : left + framed_px]
        cell[:] = PALETTE.get(kind, OTHER)
        cell[_FRAME_PX:-_FRAME_PX, _FRAME_PX:-_FRAME_PX] = _thumbnail(*picture)
    return band


def _thumbnail(rgb: NDArray[np.uint8], tumour: NDArray[np.bool_] | None) -> NDArray[np.uint8]:
    size = (THUMBNAIL_PX, THUMBNAIL_PX)
    small: NDArray[np.uint8] = np.array(Image.fromarray(rgb).resize(size, Image.Resampling.LANCZOS))
    if tumour is not None:
        mask = np.asarray(Image.fromarray(tumour).resize(size, Image.Resampling.NEAREST))
        small[mask & ~ndimage.binary_erosion(mask, border_value=1)] = _TUMOUR_OUTLINE
    return small
