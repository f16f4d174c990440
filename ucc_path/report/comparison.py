"""What was found beside what is there, in pictures that can be read without colour."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from scipy import ndimage

from ucc_path.report.lettering import font_of, height_of, write_centred
from ucc_path.report.overlay import PALETTE, Colour
from ucc_path.tiles.labelling import METASTASES

# Told apart by their brightness alone as well: each two differ by 40 of 255 or more.
AGREEMENT: Mapping[str, Colour] = {
    "tumour found": (30, 30, 30),
    "tumour missed": PALETTE[METASTASES],
    "false alarm": (90, 185, 235),
    "not tumour, rightly": (212, 212, 212),
    "background": (255, 255, 255),
}
_FADE = 0.55  # share of white mixed into what is not tumour
_DARK: Colour = (20, 20, 20)
_DARK_PX, _LINE_PX = 1, 2
_LABEL_PX, _GAP_PX = 15, 8
_SQUARE = np.ones((3, 3), bool)


def tumour_view(rgb: NDArray[np.uint8], tumour: NDArray[np.bool_]) -> NDArray[np.uint8]:
    """The picture (rows, cols, 3) with its tumour as it is, all else faded, and a line between them.

    The line is drawn on the outside, so that nothing of the tumour is hidden; its dark part is what shows in grey.
    """
    picture: NDArray[np.uint8] = rgb.copy()
    rest = ~tumour
    picture[rest] = np.rint(rgb[rest] * (1 - _FADE) + 255 * _FADE).astype(np.uint8)
    near = ndimage.binary_dilation(tumour, _SQUARE, iterations=_DARK_PX)
    picture[ndimage.binary_dilation(near, _SQUARE, iterations=_LINE_PX) & ~near] = PALETTE[METASTASES]
    picture[near & rest] = _DARK
    return picture


def strip(pictures: Sequence[tuple[str, NDArray[np.uint8]]], *, side_px: int = 256) -> NDArray[np.uint8]:
    """Pictures (rows, cols, 3) of one square tile side by side, each with its name above: a figure for a paper."""
    if not pictures:
        raise ValueError("there are no pictures to show")
    font = font_of(_LABEL_PX)
    head_px, step_px = height_of(font) + _GAP_PX, side_px + _GAP_PX
    sheet = Image.new("RGB", (len(pictures) * step_px - _GAP_PX, head_px + side_px), (255, 255, 255))
    for index, (label, rgb) in enumerate(pictures):
        left = index * step_px
        write_centred(sheet, (left + side_px // 2, _GAP_PX // 2), label, font, side_px)
        resized = Image.fromarray(rgb).resize((side_px, side_px), Image.Resampling.LANCZOS)
        sheet.paste(resized, (left, head_px))
    return np.array(sheet)


def agreement_map(
    predicted: NDArray[np.bool_], truth: NDArray[np.bool_], is_tissue: NDArray[np.bool_], *, least_px: int = 480
) -> NDArray[np.uint8]:
    """RGB of a slide's cells (rows, cols) in the colours of AGREEMENT, the longer side `least_px` long or longer.

    A cell without tissue is background, whatever else is said of it.
    """
    colours = np.array(list(AGREEMENT.values()), np.uint8)
    place = np.select([~is_tissue, predicted & truth, truth, predicted], [4, 0, 1, 2], 3)
    factor = max(1, -(-least_px // max(1, *place.shape)))
    enlarged: NDArray[np.uint8] = colours[place].repeat(factor, axis=0).repeat(factor, axis=1)
    return enlarged
