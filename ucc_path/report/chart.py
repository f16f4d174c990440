"""Line charts, such as the losses of a training run: panels one below the other, drawn with Pillow alone.

Nothing is written over a curve: names stand in the legend, what a dashed line means stands outside the frame.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw

from ucc_path.report import lettering
from ucc_path.report.lettering import Font, fitting, font_of, height_of, width_of
from ucc_path.report.overlay import OUTLINE, PALETTE, Colour
from ucc_path.report.ticks import Scale, scale_of
from ucc_path.tiles.labelling import METASTASES, NORMAL

# Okabe and Ito, the two that differ most in brightness first; their yellow is lost on white.
COLOURS: tuple[Colour, ...] = (
    OUTLINE,
    PALETTE[METASTASES],
    PALETTE[NORMAL],
    (204, 121, 167),
    (230, 159, 0),
    (86, 180, 233),
    (0, 0, 0),
)
AXIS: Colour = (90, 90, 90)
GRID: Colour = (230, 230, 230)
DASHES: Colour = (120, 120, 120)
_WHITE: Colour = (255, 255, 255)

SMALLEST_PX = (320, 200)  # width and height of a panel below which there is no room for the words
_TITLE_PX, _TEXT_PX = 17, 13
_MARGIN_PX, _GAP_PX = 14, 8
_LINE_PX, _DOT_PX = 2, 3
_FINER = 3  # times finer that curves are drawn, then shrunk
_OVERHANG_PX = 4  # a curve along the frame keeps its width
_DASH_PX = 5
_SWATCH_PX = 18
_ROOM_PX = 12


@dataclass(frozen=True, slots=True)
class Series:
    """A curve; values that are not finite leave a gap."""

    name: str
    x: Sequence[float]
    y: Sequence[float]


@dataclass(frozen=True, slots=True)
class Mark:
    """A place on the x axis, drawn as a dashed line with its text above."""

    x: float
    text: str


@dataclass(frozen=True, slots=True)
class Guide:
    """A value to compare with, drawn as a dashed line with its text at the right."""

    y: float
    text: str


@dataclass(frozen=True, slots=True)
class Panel:
    """One chart."""

    title: str
    x_label: str
    series: tuple[Series, ...]
    mark: Mark | None = None
    guides: tuple[Guide, ...] = ()


@dataclass(frozen=True, slots=True)
class _Frame:
    """Where the curves go: the pixels of the box, and the scales along its sides."""

    left: int
    top: int
    right: int
    bottom: int
    x_scale: Scale
    y_scale: Scale

    def col(self, x: float) -> float:
        return self.left + self.x_scale.share(x) * (self.right - self.left)

    def row(self, y: float) -> float:
        return self.bottom - self.y_scale.share(y) * (self.bottom - self.top)


def line_chart(
    panels: Sequence[Panel], *, title: str = "", width_px: int = 900, panel_height_px: int = 320
) -> NDArray[np.uint8]:
    """RGB (rows, width_px, 3) of the panels, one below the other; sizes below SMALLEST_PX are raised to it."""
    width_px, panel_height_px = max(width_px, SMALLEST_PX[0]), max(panel_height_px, SMALLEST_PX[1])
    font = font_of(_TITLE_PX)
    head_px = _MARGIN_PX + height_of(font) if title else 0
    picture = Image.new("RGB", (width_px, max(1, head_px + len(panels) * panel_height_px)), _WHITE)
    if title:
        lettering.write_centred(picture, (width_px // 2, _MARGIN_PX), title, font, width_px - 2 * _MARGIN_PX)
    for index, panel in enumerate(panels):
        picture.paste(_draw_panel(panel, width_px, panel_height_px), (0, head_px + index * panel_height_px))
    return np.array(picture)


def _draw_panel(panel: Panel, width_px: int, height_px: int) -> Image.Image:
    picture = Image.new("RGB", (width_px, height_px), _WHITE)
    font = font_of(_TEXT_PX)
    guides = [guide for guide in panel.guides if math.isfinite(guide.y)]
    mark = panel.mark if panel.mark and math.isfinite(panel.mark.x) else None
    top = _draw_legend(picture, panel) + (height_of(font) + 4 if mark and mark.text else 0)
    frame = _frame(panel, mark, guides, (width_px, height_px), top, font)
    _draw_axes(picture, frame, panel.x_label, font)
    _draw_guides(picture, frame, guides, font)
    if mark:
        _draw_mark(picture, frame, mark, font)
    for index, series in enumerate(panel.series):
        _draw_curve(picture, frame, series, COLOURS[index % len(COLOURS)])
    return picture


def _frame(panel: Panel, mark: Mark | None, guides: list[Guide], size: tuple[int, int], top: int, font: Font) -> _Frame:
    """The largest box that leaves room for the labels around it."""
    points = [point for series in panel.series for run in runs_of(series) for point in run]
    xs = [x for x, _ in points] + ([mark.x] if mark else [])
    ys = [y for _, y in points] + [guide.y for guide in guides]
    line_px = height_of(font)
    bottom = size[1] - _MARGIN_PX - 2 * line_px - _GAP_PX
    y_scale = scale_of(ys, most_ticks=max(2, (bottom - top) // 40), is_round=True)
    left = _MARGIN_PX + _rounded_up(max(width_of(label, font) for label in y_scale.labels)) + _GAP_PX
    words_px = max((width_of(fitting(guide.text, font, size[0] // 4), font) for guide in guides), default=0)
    right = size[0] - _MARGIN_PX - _GAP_PX - _rounded_up(words_px)
    is_whole = all(float(x).is_integer() for x in xs)
    for most_ticks in (10, 8, 6, 5, 4, 3, 2, 1):
        x_scale = scale_of(xs, most_ticks=most_ticks, is_round=False, is_whole=is_whole)
        widest = max((width_of(label, font) for label in x_scale.labels), default=0)
        if (right - left) * x_scale.step / (x_scale.high - x_scale.low) > widest + 2 * _GAP_PX:
            break
    return _Frame(left, top, right, bottom, x_scale, y_scale)


def _rounded_up(words_px: int) -> int:
    """Room for words of about the same width is the same, so that panels below each other line up."""
    return -(-words_px // _ROOM_PX) * _ROOM_PX


def _draw_axes(picture: Image.Image, frame: _Frame, x_label: str, font: Font) -> None:
    draw = ImageDraw.Draw(picture)
    line_px = height_of(font)
    for value, label in zip(frame.y_scale.ticks, frame.y_scale.labels, strict=True):
        row = round(frame.row(value))
        draw.line((frame.left, row, frame.right, row), GRID)
        lettering.write(picture, (frame.left - _GAP_PX - width_of(label, font), row - line_px // 2), label, font)
    for value, label in zip(frame.x_scale.ticks, frame.x_scale.labels, strict=True):
        col = round(frame.col(value))
        draw.line((col, frame.top, col, frame.bottom), GRID)
        lettering.write_centred(picture, (col, frame.bottom + 5), label, font, picture.width)
    draw.line([(frame.left, frame.top), (frame.left, frame.bottom), (frame.right, frame.bottom)], AXIS)
    below = ((frame.left + frame.right) // 2, frame.bottom + 5 + line_px + 3)
    lettering.write_centred(picture, below, x_label, font, frame.right - frame.left)


def _draw_legend(picture: Image.Image, panel: Panel) -> int:
    """The title and, where there is room beside it or else below, the names; returns the row below them."""
    title_font, font = font_of(_TITLE_PX - 2), font_of(_TEXT_PX)
    widest = picture.width - 2 * _MARGIN_PX
    title = fitting(panel.title, title_font, widest)
    lettering.write(picture, (_MARGIN_PX, _MARGIN_PX), title, title_font)
    entry_px = _SWATCH_PX + 6
    names = [fitting(series.name, font, widest - entry_px) for series in panel.series]
    widths = [entry_px + width_of(name, font) for name in names]
    row = _MARGIN_PX
    col = picture.width - _MARGIN_PX - sum(widths) - 2 * _GAP_PX * (len(widths) - 1)
    if col < _MARGIN_PX + width_of(title, title_font) + 3 * _GAP_PX:
        row, col = _MARGIN_PX + height_of(title_font) + 4, _MARGIN_PX
    for index, (name, width) in enumerate(zip(names, widths, strict=True)):
        if col > _MARGIN_PX and col + width > picture.width - _MARGIN_PX:
            if row + 2 * height_of(font) > picture.height // 3:  # the curves need their room too
                break
            row, col = row + height_of(font) + 4, _MARGIN_PX
        middle = row + height_of(font) // 2
        swatch = (col, middle - 1, col + _SWATCH_PX - 1, middle + 1)
        ImageDraw.Draw(picture).rectangle(swatch, COLOURS[index % len(COLOURS)])
        lettering.write(picture, (col + entry_px, row), name, font)
        col += width + 2 * _GAP_PX
    return row + height_of(title_font) + _GAP_PX + 4


def _draw_guides(picture: Image.Image, frame: _Frame, guides: list[Guide], font: Font) -> None:
    free = picture.height  # rows above this one have no words yet
    for guide in sorted(guides, key=lambda guide: guide.y):  # from the bottom up
        row = round(frame.row(guide.y))
        _draw_dashes(picture, (frame.left, row), (frame.right, row))
        top = min(row - height_of(font) // 2, free - height_of(font))
        free = top
        lettering.write(picture, (frame.right + _GAP_PX, top), fitting(guide.text, font, picture.width // 4), font)


def _draw_mark(picture: Image.Image, frame: _Frame, mark: Mark, font: Font) -> None:
    col = round(frame.col(mark.x))
    _draw_dashes(picture, (col, frame.top), (col, frame.bottom))
    above = (col, frame.top - height_of(font) - 3)
    lettering.write_centred(picture, above, mark.text, font, picture.width - 2 * _MARGIN_PX)


def _draw_dashes(picture: Image.Image, start_px: tuple[int, int], end_px: tuple[int, int]) -> None:
    """A dashed line along a row or a column; positions are (column, row)."""
    length = max(end_px[0] - start_px[0], end_px[1] - start_px[1])
    along = (int(end_px[0] > start_px[0]), int(end_px[1] > start_px[1]))
    for first in range(0, length, 2 * _DASH_PX):
        last = min(first + _DASH_PX - 1, length)
        ends = [(start_px[0] + along[0] * at, start_px[1] + along[1] * at) for at in (first, last)]
        ImageDraw.Draw(picture).line(ends, DASHES)


def _draw_curve(picture: Image.Image, frame: _Frame, series: Series, colour: Colour) -> None:
    corner = (frame.left - _OVERHANG_PX, frame.top - _OVERHANG_PX)
    size = (frame.right + 1 + _OVERHANG_PX - corner[0], frame.bottom + 1 + _OVERHANG_PX - corner[1])
    fine = Image.new("L", (size[0] * _FINER, size[1] * _FINER))
    draw = ImageDraw.Draw(fine)
    for run in runs_of(series):
        # Measured from the middle of a pixel, which is the middle of _FINER fine ones.
        points = [(frame.col(x) - corner[0] + 0.5, frame.row(y) - corner[1] + 0.5) for x, y in run]
        places = [(col * _FINER - 0.5, row * _FINER - 0.5) for col, row in points]
        if len(places) > 1:
            draw.line(places, 255, _LINE_PX * _FINER, joint="curve")
        radius = (_DOT_PX if len(places) == 1 else _LINE_PX / 2) * _FINER  # ends are round
        for col, row in (places[0], places[-1]):
            draw.ellipse((col - radius, row - radius, col + radius, row + radius), 255)
    picture.paste(colour, corner, fine.resize(size, Image.Resampling.BOX))


def runs_of(series: Series) -> list[list[tuple[float, float]]]:
    """The points between the gaps; each run has one at least."""
    points = [(float(x), float(y)) for x, y in zip(series.x, series.y, strict=False)]
    grouped = groupby(points, key=lambda point: math.isfinite(point[0]) and math.isfinite(point[1]))
    return [list(run) for is_finite, run in grouped if is_finite]
