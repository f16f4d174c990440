"""What can still be read of a slide with damaged parts.

A region that cannot be read is halved again and again until what is lost is no larger than a unit; the rest is as it
would be on a whole slide.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ucc_path.errors import SlideError
from ucc_path.geometry import scale_between
from ucc_path.slide.reader import Slide

UNIT_PX = 32


class Surviving(NamedTuple):
    """Pixels, white where they are lost."""

    rgb: NDArray[np.uint8]  # (height, width, 3)
    lost: NDArray[np.bool_] | None  # (height, width); None where nothing is


class _Box(NamedTuple):
    """A part of a region, in its pixels."""

    top: int
    left: int
    height: int
    width: int


def read_surviving(slide: Slide, corner_l0: tuple[float, float], size_px: tuple[int, int], mpp: float) -> Surviving:
    """As `Slide.read_rectangle`, of what can be read; the parts are `UNIT_PX` squares counted from the corner."""
    try:
        return Surviving(slide.read_rectangle(corner_l0, size_px, mpp), None)
    except SlideError:
        width, height = size_px
        rgb, lost = np.full((height, width, 3), 255, np.uint8), np.zeros((height, width), np.bool_)
        pixel_l0 = scale_between(mpp, slide.mpp)
        # A handle of our own: the damage met by another thread must not be taken for damage here.
        with slide.reopened() as own:
            pending = [_Box(0, 0, height, width)]
            while pending:
                box = pending.pop()
                corner = (corner_l0[0] + box.left * pixel_l0, corner_l0[1] + box.top * pixel_l0)
                window = slice(box.top, box.top + box.height), slice(box.left, box.left + box.width)
                try:
                    rgb[window] = own.read_rectangle(corner, (box.width, box.height), mpp)
                except SlideError:
                    halves = _halves(box)
                    lost[window] = not halves
                    pending += halves
        return Surviving(rgb, lost if lost.any() else None)


def _halves(box: _Box) -> list[_Box]:
    """Two parts on the grid of units; none where the box is a single unit."""
    if max(box.height, box.width) <= UNIT_PX:
        return []
    if box.height >= box.width:
        half = _half(box.height)
        return [box._replace(height=half), box._replace(top=box.top + half, height=box.height - half)]
    half = _half(box.width)
    return [box._replace(width=half), box._replace(left=box.left + half, width=box.width - half)]


def _half(side_px: int) -> int:
    """Half of a side in whole units, at least one."""
    return max(1, side_px // UNIT_PX // 2) * UNIT_PX
