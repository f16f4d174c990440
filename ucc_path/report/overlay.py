"""What a mask or a choice of tiles looks like, drawn on the thumbnail."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw
from scipy import ndimage

from ucc_path.report.lettering import font_of, width_of, write
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

# Of classes without a name; none is that of a class with one, and a mixture, whose yellow is the last, is no class.
_TURNS: tuple[Colour, ...] = ((204, 121, 167), (230, 159, 0), (86, 180, 233), (0, 114, 178), (240, 228, 66))
_TINT = 0.3  # of the class's colour: nuclei stay visible under it
_LEGEND_PX = 16  # height of its letters

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


def class_colours(classes: Sequence[str]) -> list[Colour]:
    """A colour for each class, the same wherever it is drawn; classes without a name of their own take turns."""
    return [PALETTE.get(name, _TURNS[place % len(_TURNS)]) for place, name in enumerate(classes)]


def draw_mask(thumbnail: NDArray[np.uint8], labels: NDArray[np.uint8], colours: Sequence[Colour]) -> NDArray[np.uint8]:
    """The thumbnail (rows, cols, 3) tinted by the label of each pixel, 0 none, with a line around each class."""
    picture: NDArray[np.uint8] = thumbnail.copy()
    for label, colour in enumerate(colours, start=1):
        mask = labels == label
        picture[mask] = np.rint(picture[mask] * (1 - _TINT) + np.array(colour) * _TINT).astype(np.uint8)
        picture[mask & ~ndimage.binary_erosion(mask, np.ones((3, 3), bool), border_value=1)] = colour
    return picture


def with_legend(picture: NDArray[np.uint8], entries: Sequence[tuple[str, Colour]]) -> NDArray[np.uint8]:
    """The picture with a line of words below it, each beside its colour; what does not fit is left out."""
    font = font_of(_LEGEND_PX)
    strip = Image.new("RGB", (picture.shape[1], 2 * _LEGEND_PX), (255, 255, 255))
    col, top = _LEGEND_PX // 2, _LEGEND_PX // 2
    for text, colour in entries:
        width_px = _LEGEND_PX + 6 + width_of(text, font)
        if col + width_px > strip.width:
            break
        ImageDraw.Draw(strip).rectangle((col, top, col + _LEGEND_PX - 1, top + _LEGEND_PX - 1), colour)
        write(strip, (col + _LEGEND_PX + 6, top - 1), text, font)
        col += width_px + _LEGEND_PX
    return np.concatenate([picture, np.asarray(strip)])


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
