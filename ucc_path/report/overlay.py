"""What a mask or a choice of tiles looks like, drawn on the thumbnail without fonts: the same bytes anywhere."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage

from ucc_path.tiles.labelling import METASTASES, MIXTURE, NORMAL, UNLABELLED

Colour = tuple[int, int, int]

# Okabe and Ito: told apart with any common colour blindness, and none of them a colour of H&E.
OUTLINE: Colour = (0, 114, 178)
PALETTE: Mapping[str, Colour] = {
    NORMAL: (0, 158, 115),
    METASTASES: (213, 94, 0),
    MIXTURE: (240, 228, 66),
    UNLABELLED: (86, 180, 233),
}
OTHER: Colour = (0, 0, 0)

# Share of white mixed into what is not tissue: its pen and shadows stay visible, since they explain the outline.
_FADE = 0.5
# One pixel is lost among nuclei.
_FRAME_PX = 2


def draw_preview(
    thumbnail: NDArray[np.uint8],
    tissue_mask: NDArray[np.bool_],
    boxes_px: Mapping[str, NDArray[np.integer]],
    colours: Mapping[str, Colour] = PALETTE,
) -> NDArray[np.uint8]:
    """The thumbnail (rows, cols, 3) with all but the tissue faded, the tissue outlined, and tiles framed by kind.

    `boxes_px` holds per kind a table (n, 4) of thumbnail pixels, columns (top, left, bottom, right), bottom and right
    not included. Parts of a frame outside the picture are not drawn; a kind without a colour is drawn black.
    """
    picture: NDArray[np.uint8] = thumbnail.copy()
    background = ~tissue_mask
    picture[background] = np.rint(picture[background] * (1 - _FADE) + 255 * _FADE).astype(np.uint8)
    # Drawn on the outside, so that nothing of the tissue is hidden.
    picture[background & ndimage.binary_dilation(tissue_mask, np.ones((3, 3), bool))] = OUTLINE
    for kind, boxes in boxes_px.items():
        for top, left, bottom, right in boxes.tolist():
            _draw_frame(picture, (top, left, bottom, right), colours.get(kind, OTHER))
    return picture


def _draw_frame(picture: NDArray[np.uint8], box_px: tuple[int, int, int, int], colour: Colour) -> None:
    """Just inside the box, in place."""
    top, left, bottom, right = box_px
    first_row, first_col = max(0, top), max(0, left)
    shown = picture[first_row : max(0, bottom), first_col : max(0, right)]
    rows = first_row + np.arange(shown.shape[0])
    cols = first_col + np.arange(shown.shape[1])
    on_row = (rows < top + _FRAME_PX) | (rows >= bottom - _FRAME_PX)
    on_col = (cols < left + _FRAME_PX) | (cols >= right - _FRAME_PX)
    shown[on_row[:, None] | on_col[None, :]] = colour
