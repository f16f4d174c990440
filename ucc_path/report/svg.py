"""Small line charts as SVG, sharp on any screen and on paper, whose curves are told apart by their dashes as well.

Nothing in them has an id, so that any number can stand on one page.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ucc_path.report.chart import AXIS, COLOURS, DASHES, GRID, Guide, Mark, Panel, Series, runs_of
from ucc_path.report.lettering import font_of, width_of
from ucc_path.report.overlay import Colour
from ucc_path.report.page import Html, charts, escaped, legend
from ucc_path.report.ticks import Scale, nice_step, scale_of

# Of the curves in turn. Their number has no factor in common with that of the colours, so that pairs repeat late.
DASH_PATTERNS = ("", "7 3", "2 2.5", "9 3 2 3", "14 4", "5 2 1.5 2 1.5 2")
# Of points that stand alone, around (0, 0).
_DISC, _SQUARE, _TRIANGLE = "M-3 0a3 3 0 1 0 6 0a3 3 0 1 0 -6 0z", "M-3 -3h6v6h-6z", "M0 -4l4 7h-8z"
_DIAMOND, _CROSS, _PLUS = "M0 -4l4 4l-4 4l-4 -4z", "M-3 -3l6 6m0 -6l-6 6", "M0 -4v8m-4 -4h8"
MARKERS = (_DISC, _SQUARE, _TRIANGLE, _DIAMOND, _CROSS, _PLUS)
_FONT = "Helvetica Neue, Arial, Liberation Sans, sans-serif"
_WIDER = 1.1  # than Pillow's letters those of a browser may be
_TITLE_PX, _TEXT_PX, _LINE_PX = 14, 12, 16
_SAMPLE_PX, _GAP_PX, _OVERHANG_PX = 30, 6, 4
_LEAST_PX, _TINY_PX = 90, (150, 100)  # the least height of a frame, however many names it has, and a tiny chart
_FURTHEST = 1000.0  # frames away that a point outside is drawn: browsers lose their way with larger numbers

Pair = tuple[float, float]  # the ends of a range, or a point


@dataclass(frozen=True, slots=True)
class _Frame:
    """Where the curves go, and the scales along its sides."""

    left: float
    top: float
    right: float
    bottom: float
    x_scale: Scale
    y_scale: Scale

    def x(self, value: float) -> float:
        return self.left + (self.right - self.left) * min(max(self.x_scale.share(value), -_FURTHEST), _FURTHEST)

    def y(self, value: float) -> float:
        return self.bottom - (self.bottom - self.top) * min(max(self.y_scale.share(value), -_FURTHEST), _FURTHEST)


def drawing(
    panel: Panel, *, width: int = 340, height: int = 230, x_range: Pair | None = None, y_range: Pair | None = None
) -> Html:
    """One chart, taller than `height` if the names of its curves need the room; what is outside a range is cut off."""
    mark = panel.mark if panel.mark and math.isfinite(panel.mark.x) else None
    panel = replace(panel, mark=mark, guides=tuple(guide for guide in panel.guides if math.isfinite(guide.y)))
    names, top = _names(panel.series, width)
    top += _LINE_PX if mark and mark.text else 0
    height = max(height, top + _LEAST_PX + 2 * _LINE_PX)
    frame = _frame(panel, (top, width, height - 2 * _LINE_PX - 2), x_range, y_range)
    parts = [_title(panel.title, _TITLE_PX, width), *names, *_axes(frame, panel.x_label)]
    parts += _guides(frame, panel.guides) + _mark(frame, mark, width)
    label = ": ".join(filter(None, [panel.title, ", ".join(series.name for series in panel.series)]))
    return _svg((width, height), label, [*parts, _curves(frame, panel.series)])


def distributions(
    densities: NDArray[np.floating], class_names: Sequence[str], *, titles: Sequence[str] | None = None
) -> Html:
    """A tiny chart for each feature, with a curve for each class, and one legend for all.

    `densities` is (classes, features, bins); the bins are places from 0 to 1, both ends included. All charts have one
    scale, so that heights can be compared.
    """
    bins = densities.shape[2]
    places = np.linspace(0, 1, bins).tolist() if bins > 1 else [0.5] * bins
    highest = float(densities[np.isfinite(densities)].max(initial=0.0)) or 1.0
    shown = [str(number) for number in range(1, densities.shape[1] + 1)] if titles is None else titles
    drawings = []
    for title, curves in zip(shown, densities.transpose(1, 0, 2).tolist(), strict=True):
        series = [Series(name, places, curve) for name, curve in zip(class_names, curves, strict=True)]
        drawings.append(_tiny(title, series, Scale(0.0, highest, highest)))
    key = legend({name: _svg((_SAMPLE_PX, 10), "line", [_sample(at, (0, 5))]) for at, name in enumerate(class_names)})
    return Html(f"<div>{key}{charts(drawings, least_px=_TINY_PX[0] - 10)}</div>")


def _tiny(title: str, series: Sequence[Series], y_scale: Scale) -> Html:
    width, height = _TINY_PX
    frame = _Frame(4, _LINE_PX + 4, width - 4, height - _LINE_PX, Scale(0.0, 1.0, 0.5), y_scale)
    parts = [_title(title, _TEXT_PX, width)]
    for value in frame.x_scale.ticks:
        parts.append(_line([(frame.x(value), frame.top), (frame.x(value), frame.bottom)], GRID))
        parts.append(_text(frame.x(value), height - 3, f"{value:g}", "middle"))
    parts.append(_line([(frame.left, frame.bottom), (frame.right, frame.bottom)], AXIS))
    return _svg(_TINY_PX, title, [*parts, _curves(frame, series)])


def _frame(panel: Panel, sides: tuple[int, int, int], x_range: Pair | None, y_range: Pair | None) -> _Frame:
    """The largest frame that leaves room for the words around it; `sides` are its top, the width of all, its bottom."""
    points = [point for series in panel.series for run in runs_of(series) for point in run]
    xs = [x for x, _ in points] + ([panel.mark.x] if panel.mark else [])
    ys = [y for _, y in points] + [guide.y for guide in panel.guides]
    top, width, bottom = sides
    y_scale = _ranged(y_range, 5) or scale_of(ys, most_ticks=max(2, (bottom - top) // 35), is_round=True)
    left = _GAP_PX + max((_width(label) for label in y_scale.labels), default=0.0)
    words = [_width(line) for guide in panel.guides for line in _guide_lines(guide)]
    right = width - _GAP_PX - max(words, default=0.0)
    is_whole = all(float(x).is_integer() for x in xs)
    for most in (6, 5, 4, 3, 2, 1):
        x_scale = _ranged(x_range, most) or scale_of(xs, most_ticks=most, is_round=False, is_whole=is_whole)
        widest = max((_width(label) for label in x_scale.labels), default=0.0)
        if (right - left) * x_scale.step / (x_scale.high - x_scale.low) > widest + 2 * _GAP_PX:
            break
    return _Frame(left, top, min(right, width - widest / 2), bottom, x_scale, y_scale)  # half a label hangs over


def _ranged(ends: Pair | None, most_ticks: int) -> Scale | None:
    if ends is None:
        return None
    length = ends[1] - ends[0]
    if not 0 < length < math.inf:
        raise ValueError(f"a scale cannot run from {ends[0]} to {ends[1]}")
    return Scale(*ends, nice_step(length / most_ticks))


def _names(series: Sequence[Series], width: int) -> tuple[list[str], int]:
    """The names beside pieces of their lines, in rows below the title; and where the rows end."""
    parts: list[str] = []
    row, col = _TITLE_PX + 6, 0.0
    for index, one in enumerate(series):
        name = _fitting(one.name, width - _SAMPLE_PX - _GAP_PX)
        taken = _SAMPLE_PX + _GAP_PX + _width(name)
        if col and col + taken > width:
            row, col = row + _LINE_PX, 0.0
        has_points = any(len(run) == 1 for run in runs_of(one))
        parts.append(_sample(index, (col, row + _LINE_PX / 2), has_points=has_points))
        parts.append(_text(col + _SAMPLE_PX + _GAP_PX, row + _TEXT_PX, name))
        col += taken + 2 * _GAP_PX
    return parts, row + (_LINE_PX if series else 0) + 8


def _axes(frame: _Frame, x_label: str) -> list[str]:
    parts, words = [], []
    for tick, label in zip(frame.y_scale.ticks, frame.y_scale.labels, strict=True):
        parts.append(_line([(frame.left, frame.y(tick)), (frame.right, frame.y(tick))], GRID))
        words.append(_text(frame.left - _GAP_PX, frame.y(tick) + 4, label, "end"))
    for tick, label in zip(frame.x_scale.ticks, frame.x_scale.labels, strict=True):
        parts.append(_line([(frame.x(tick), frame.top), (frame.x(tick), frame.bottom)], GRID))
        words.append(_text(frame.x(tick), frame.bottom + _LINE_PX, label, "middle"))
    parts.append(_line([(frame.left, frame.top), (frame.left, frame.bottom), (frame.right, frame.bottom)], AXIS))
    middle, below = (frame.left + frame.right) / 2, frame.bottom + 2 * _LINE_PX - 1
    return [*parts, *words, _text(middle, below, _fitting(x_label, frame.right - frame.left), "middle")]


def _guides(frame: _Frame, guides: Iterable[Guide]) -> list[str]:
    parts = []
    free = math.inf  # rows above this one have no words yet
    for guide in sorted(guides, key=lambda guide: guide.y):  # from the bottom up
        if 0 <= frame.y_scale.share(guide.y) <= 1:
            row, lines = frame.y(guide.y), _guide_lines(guide)
            parts.append(_line([(frame.left, row), (frame.right, row)], DASHES, "4 4"))
            free = min(row - len(lines) * _TEXT_PX / 2, free - len(lines) * _TEXT_PX)
            for index, line in enumerate(lines):
                parts.append(_text(frame.right + _GAP_PX, free + (index + 0.85) * _TEXT_PX, line))
    return parts


def _guide_lines(guide: Guide) -> list[str]:
    return textwrap.wrap(guide.text, width=13, max_lines=3, placeholder="…")


def _mark(frame: _Frame, mark: Mark | None, width: int) -> list[str]:
    if mark is None or not 0 <= frame.x_scale.share(mark.x) <= 1:
        return []
    col, text = frame.x(mark.x), _fitting(mark.text, width)
    middle = min(max(col, _width(text) / 2), width - _width(text) / 2)
    dashes = _line([(col, frame.top), (col, frame.bottom)], DASHES, "4 4")
    return [dashes, _text(middle, frame.top - 5, text, "middle")]


def _curves(frame: _Frame, series: Sequence[Series]) -> str:
    """The curves in a drawing of their own, which cuts off what is outside, but for the width of a line."""
    left, top = frame.left - _OVERHANG_PX, frame.top - _OVERHANG_PX
    wide, tall = frame.right - left + _OVERHANG_PX, frame.bottom - top + _OVERHANG_PX
    parts = []
    for index, one in enumerate(series):
        for run in runs_of(one):
            points = [(frame.x(x) - left, frame.y(y) - top) for x, y in run]
            parts.append(_line(points, *_pen(index)) if len(points) > 1 else _marker(index, points[0]))
    return f'<svg x="{left:.1f}" y="{top:.1f}" width="{wide:.1f}" height="{tall:.1f}">{"".join(parts)}</svg>'


def _sample(index: int, start: Pair, *, has_points: bool = False) -> str:
    """A piece of a curve's line, from its left end, with its marker if points of it stand alone."""
    line = _line([start, (start[0] + _SAMPLE_PX, start[1])], *_pen(index))
    return line + (_marker(index, (start[0] + _SAMPLE_PX / 2, start[1])) if has_points else "")


def _pen(index: int) -> tuple[Colour, str, float]:
    return COLOURS[index % len(COLOURS)], DASH_PATTERNS[index % len(DASH_PATTERNS)], 1.8


def _marker(index: int, place: Pair) -> str:
    shape = f'd="{MARKERS[index % len(MARKERS)]}" transform="translate({place[0]:.1f} {place[1]:.1f})"'
    return f'<path {shape} fill="rgb{_pen(index)[0]}" stroke="rgb{_pen(index)[0]}"/>'


def _line(points: Iterable[Pair], colour: Colour, dashes: str = "none", wide_px: float = 1) -> str:
    places = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    pen = f'stroke="rgb{colour}" stroke-width="{wide_px}" stroke-dasharray="{dashes or "none"}"'
    return f'<polyline points="{places}" fill="none" stroke-linejoin="round" {pen}/>'


def _title(text: str, size_px: int, width: int) -> str:
    shown = escaped(_fitting(text, width, size_px))
    return f'<text x="0" y="{size_px}" font-size="{size_px}" font-weight="bold">{shown}</text>'


def _text(x: float, y: float, text: str, anchor: str = "start") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escaped(text)}</text>'


def _svg(size: tuple[int, int], label: str, parts: Iterable[str]) -> Html:
    start = f'<svg xmlns="http://www.w3.org/2000/svg" width="{size[0]}" height="{size[1]}"'
    box = f'viewBox="0 0 {size[0]} {size[1]}" font-family="{_FONT}" font-size="{_TEXT_PX}" fill="#222"'
    return Html(f'{start} {box} role="img" aria-label="{escaped(label)}">{"".join(parts)}</svg>')


def _fitting(text: str, most_px: float, size_px: int = _TEXT_PX) -> str:
    wide_px = _width(text, size_px)
    return text if wide_px <= most_px else text[: max(0, int(len(text) * most_px / wide_px) - 2)] + "…"


def _width(text: str, size_px: int = _TEXT_PX) -> float:
    """About how wide the text will be: the browser has letters of its own."""
    return width_of(text, font_of(size_px)) * _WIDER
