"""The curve of quality against a person's work, with a logarithmic axis of time; the same as SVG and as pixels.

The charts of `ucc_path.report` have axes that are even, so this one is drawn here, in their colours and letters.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw

from comparison.label_cost import Point, duration
from ucc_path.report.chart import AXIS, COLOURS, GRID
from ucc_path.report.lettering import font_of, width_of
from ucc_path.report.overlay import Colour
from ucc_path.report.ticks import scale_of

WIDTH, HEIGHT = 760, 420
_LEFT, _RIGHT, _TOP, _BOTTOM = 60, 20, 78, 56
_TEXT_PX, _TITLE_PX = 13, 16
_FINER = 3  # times finer that pixels are drawn, then shrunk
_MINUTE_S, _HOUR_S = 60.0, 3600.0
_TICKS_S = [n * _MINUTE_S for n in (1, 2, 5, 10, 20, 30)] + [n * _HOUR_S for n in (1, 2, 5, 10, 20, 50, 100, 200, 500)]
_BLACK: Colour = (34, 34, 34)


@dataclass(frozen=True, slots=True)
class Stroke:
    places: tuple[tuple[float, float], ...]
    colour: Colour
    wide_px: float


@dataclass(frozen=True, slots=True)
class Dot:
    place: tuple[float, float]
    colour: Colour
    radius_px: float


@dataclass(frozen=True, slots=True)
class Words:
    place: tuple[float, float]  # of the base line
    text: str
    size_px: int = _TEXT_PX
    anchor: str = "start"


Shape = Stroke | Dot | Words


def shapes(points: Sequence[Point], *, title: str, subtitle: str, y_label: str) -> list[Shape]:
    """A curve a model, and a pale dot for each case."""
    spent = [point.seconds for point in points]
    low, high = math.log10(min(spent) / 1.4), math.log10(max(spent) * 1.4)
    y_scale = scale_of([value for point in points for value in point.cases.values()], most_ticks=7, is_round=True)
    right, bottom = WIDTH - _RIGHT, HEIGHT - _BOTTOM

    def x(seconds: float) -> float:
        return _LEFT + (math.log10(seconds) - low) / (high - low) * (right - _LEFT)

    def y(value: float) -> float:
        return bottom - y_scale.share(value) * (bottom - _TOP)

    drawn: list[Shape] = [Words((12, 24), title, _TITLE_PX), Words((12, 44), subtitle)]
    for tick, label in zip(y_scale.ticks, y_scale.labels, strict=True):
        drawn += [
            Stroke(((_LEFT, y(tick)), (right, y(tick))), GRID, 1),
            Words((_LEFT - 8, y(tick) + 4), label, anchor="end"),
        ]
    for tick in (tick for tick in _TICKS_S if low <= math.log10(tick) <= high):
        drawn.append(Stroke(((x(tick), _TOP), (x(tick), bottom)), GRID, 1))
        drawn.append(Words((x(tick), bottom + 18), duration(tick), anchor="middle"))
    drawn.append(Stroke(((_LEFT, _TOP), (_LEFT, bottom), (right, bottom)), AXIS, 1))
    words = f"{y_label}, against a person's work (logarithmic; val tiles included)"
    drawn.append(Words(((_LEFT + right) / 2, bottom + 42), words, anchor="middle"))
    col = 12.0
    for index, row in enumerate(dict.fromkeys(point.model for point in points)):
        colour, own = COLOURS[index], [point for point in points if point.model == row]
        pale = tuple(255 - (255 - part) // 3 for part in colour)
        for point in own:
            drawn += [Dot((x(point.seconds), y(v)), (pale[0], pale[1], pale[2]), 3) for v in point.cases.values()]
        places = tuple((x(point.seconds), y(point.value.mean)) for point in own)
        drawn += [Stroke(places, colour, 2), *(Dot(place, colour, 4) for place in places)]
        drawn += [Dot((col + 5, 60), colour, 4), Words((col + 16, 64), row)]
        drawn += [_beside(places, at, point.size) for at, point in enumerate(own)]
        col += 16 + width_of(row, font_of(_TEXT_PX)) + 24
    return drawn


def _beside(places: Sequence[tuple[float, float]], at: int, text: str) -> Words:
    """The words of a point of a curve, where the curve does not run."""
    col, row = places[at]
    before, after = (places[near][1] if 0 <= near < len(places) else row for near in (at - 1, at + 1))
    if row > before and row > after:  # rows count downwards: a valley
        return Words((col, row + 18), text, anchor="middle")
    aside = 5 * ((after > before) - (after < before))  # over the side to which the curve falls
    return Words((col + aside, row - 8), text, anchor={-5: "end", 0: "middle", 5: "start"}[aside])


def as_svg(drawn: Sequence[Shape]) -> str:
    parts = [f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>']
    for shape in drawn:
        if isinstance(shape, Stroke):
            places = " ".join(f"{col:.1f},{row:.1f}" for col, row in shape.places)
            parts.append(
                f'<polyline points="{places}" fill="none" stroke="rgb{shape.colour}" stroke-width="{shape.wide_px}"/>'
            )
        elif isinstance(shape, Dot):
            col, row = shape.place
            parts.append(f'<circle cx="{col:.1f}" cy="{row:.1f}" r="{shape.radius_px}" fill="rgb{shape.colour}"/>')
        else:
            col, row = shape.place
            start = f'<text x="{col:.1f}" y="{row:.1f}" font-size="{shape.size_px}" text-anchor="{shape.anchor}">'
            parts.append(f"{start}{shape.text.replace('&', '&amp;').replace('<', '&lt;')}</text>")
    font = 'font-family="Helvetica Neue, Arial, Liberation Sans, sans-serif" fill="#222"'
    box = f'width="{WIDTH}" height="{HEIGHT}" viewBox="0 0 {WIDTH} {HEIGHT}"'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {box} {font}>\n' + "\n".join(parts) + "\n</svg>\n"


def as_pixels(drawn: Sequence[Shape]) -> NDArray[np.uint8]:
    picture = Image.new("RGB", (WIDTH * _FINER, HEIGHT * _FINER), (255, 255, 255))
    draw = ImageDraw.Draw(picture)
    for shape in drawn:
        if isinstance(shape, Stroke):
            places = [(col * _FINER, row * _FINER) for col, row in shape.places]
            draw.line(places, shape.colour, round(shape.wide_px * _FINER), joint="curve")
        elif isinstance(shape, Dot):
            (col, row), radius = shape.place, shape.radius_px
            ends = (col - radius, row - radius, col + radius, row + radius)
            draw.ellipse([end * _FINER for end in ends], shape.colour)
        else:
            anchor = {"start": "ls", "middle": "ms", "end": "rs"}[shape.anchor]
            place = (shape.place[0] * _FINER, shape.place[1] * _FINER)
            draw.text(place, shape.text, _BLACK, font=font_of(shape.size_px * _FINER), anchor=anchor)
    return np.array(picture.resize((WIDTH, HEIGHT), Image.Resampling.BOX))
