"""What a synthetic slide is made of, as plain values small enough to send to workers: outlines, fields, stains."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Float = NDArray[np.float32]
Rings = tuple[NDArray[np.float64], ...]  # each (n, 2), (x, y) in level-0 pixels, not closed


@dataclass(frozen=True, slots=True)
class Window:
    """A rectangle of whole level-0 pixels."""

    x_l0: int
    y_l0: int
    width_px: int
    height_px: int

    def padded(self, by_px: int) -> Window:
        return Window(self.x_l0 - by_px, self.y_l0 - by_px, self.width_px + 2 * by_px, self.height_px + 2 * by_px)


@dataclass(frozen=True, slots=True)
class Field:
    """A slowly varying quantity of the slide, known at the centres of coarse cells."""

    values: Float  # (rows, cols)
    cell_l0: float

    def over(self, window: Window) -> Float:
        """Bilinear values at the pixel centres of a window, also beyond the edge of the slide."""
        y0, ty = self._places(window.y_l0, window.height_px, axis=0)
        x0, tx = self._places(window.x_l0, window.width_px, axis=1)
        rows = self.values[y0] * (1 - ty)[:, None] + self.values[y0 + 1] * ty[:, None]
        return np.asarray(rows[:, x0] * (1 - tx) + rows[:, x0 + 1] * tx, np.float32)

    def _places(self, start_l0: int, count: int, axis: int) -> tuple[NDArray[np.intp], Float]:
        last = self.values.shape[axis] - 1
        place = np.clip((start_l0 + np.arange(count) + 0.5) / self.cell_l0 - 0.5, 0, last)
        low = np.minimum(place.astype(np.intp), last - 1)
        return low, (place - low).astype(np.float32)


@dataclass(frozen=True, slots=True)
class Stain:
    """How dyes and glass look: optical density per unit of dye, and the light that passes where there is none."""

    haematoxylin: Float  # (3,), RGB
    eosin: Float
    glass: Float  # (3,), 0-255


@dataclass(frozen=True, slots=True)
class InkStroke:
    """One stroke of a pen and the share of light it lets through."""

    rings: Rings
    passes: Float  # (3,), RGB, 0-1


@dataclass(frozen=True, slots=True)
class Scene:
    """All that decides the pixels of one slide."""

    seed: int
    size_px: tuple[int, int]
    mpp: float
    tissue: Rings  # outlines and holes; a place inside an odd number of rings is inside
    tumour: Rings
    ink: tuple[InkStroke, ...]
    fields: dict[str, Field]
    stain: Stain
