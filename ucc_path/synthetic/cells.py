"""Cells: small pictures of nuclei and cytoplasm to stamp, and where on the slide cells of each kind may sit.

A kind of cell has a lattice over the whole slide. Each lattice cell draws its own chance from the slide's seed and its
own place, so two regions that share a border agree on the cells that cross it, whoever renders them, in any order.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import gaussian_filter

from ucc_path.seeding import stream
from ucc_path.synthetic.scene import Float, Window

REACH_UM = 14.0  # no cell reaches further from its centre
ANGLES = 24


@dataclass(frozen=True, slots=True)
class CellKind:
    """The look of one kind of cell; lengths in um, dye in units of optical density."""

    name: str
    pitch_um: float
    radius_um: tuple[float, float]  # of the nucleus
    elongation: tuple[float, float]  # long over short axis
    ruggedness: float  # relative depth of the dents of the outline
    chromatin: tuple[float, float]  # haematoxylin, faintest to strongest nucleus
    clumping: float  # relative contrast within a nucleus
    rim: float  # how much more the membrane takes than the inside
    nucleoli: int  # at most
    cytoplasm_um: tuple[float, float]  # width of the cytoplasm around the nucleus
    eosin: tuple[float, float]
    is_aligned: bool = False  # variant v is turned by v % ANGLES of half a turn


SOLID = CellKind("solid", 12.2, (4.5, 5.9), (1.05, 1.45), 0.05, (0.62, 1.0), 0.30, 0.35, 2, (2.2, 3.6), (0.34, 0.56))
PLEOMORPHIC = CellKind(
    "pleomorphic", 16.0, (5.0, 8.4), (1.1, 1.9), 0.11, (0.65, 1.3), 0.42, 0.25, 3, (2.5, 4.5), (0.36, 0.64)
)
LYMPHOCYTE = CellKind("lymphocyte", 8.1, (2.9, 3.5), (1.0, 1.2), 0.04, (1.2, 1.75), 0.2, 0.0, 0, (0.5, 1.1), (0.2, 0.4))
BLAST = CellKind("blast", 11.0, (3.6, 4.3), (1.0, 1.3), 0.06, (0.6, 0.9), 0.3, 0.25, 1, (1.0, 2.0), (0.25, 0.45))
SPINDLE = CellKind(
    "spindle", 19.0, (2.6, 3.8), (3.2, 6.0), 0.06, (0.8, 1.35), 0.2, 0.1, 0, (0.4, 0.8), (0.5, 0.7), True
)
KINDS = (SOLID, PLEOMORPHIC, LYMPHOCYTE, BLAST, SPINDLE)
VARIANTS = 96


@dataclass(frozen=True, slots=True)
class Sprites:
    """Variants of one kind of cell, each (side, side) with the centre in the middle; side is odd."""

    nuclei: Float  # (variants, side, side), haematoxylin
    bodies: Float  # (variants, side, side), eosin

    @property
    def reach_px(self) -> int:
        return int(self.nuclei.shape[1]) // 2


def reach_px(mpp: float) -> int:
    """Half the side of the largest sprite."""
    return math.ceil(REACH_UM / mpp)


@functools.lru_cache(maxsize=2)
def bank(mpp: float) -> dict[str, Sprites]:
    """Sprites of every kind at a scale; the same for all slides."""
    return {kind.name: _sprites(kind, mpp) for kind in KINDS}


def _sprites(kind: CellKind, mpp: float) -> Sprites:
    longest = kind.radius_um[1] * math.sqrt(kind.elongation[1]) * (1 + kind.ruggedness) + kind.cytoplasm_um[1]
    reach = math.ceil(min(REACH_UM, longest + 1) / mpp)
    rng = stream(0, "cells", kind.name)
    pairs = [_sprite(kind, rng, variant, reach, mpp) for variant in range(VARIANTS)]
    nuclei, bodies = zip(*pairs, strict=True)
    return Sprites(np.stack(nuclei).astype(np.float32), np.stack(bodies).astype(np.float32))


def _sprite(
    kind: CellKind, rng: np.random.Generator, variant: int, reach: int, mpp: float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    y, x = np.mgrid[-reach : reach + 1, -reach : reach + 1] * mpp  # um from the centre
    turn = variant % ANGLES * math.pi / ANGLES if kind.is_aligned else rng.uniform(0, math.pi)
    radius, elongation = rng.uniform(*kind.radius_um), rng.uniform(*kind.elongation)
    along = (x * math.cos(turn) + y * math.sin(turn)) / math.sqrt(elongation)
    across = (y * math.cos(turn) - x * math.sin(turn)) * math.sqrt(elongation)
    angle, distance = np.arctan2(across, along), np.hypot(across, along)
    outline = radius * (1 + _waves(angle, rng, kind.ruggedness))
    inward = outline - distance  # um, positive inside the nucleus
    nucleus = rng.uniform(*kind.chromatin) * _chromatin(kind, rng, inward, x, y) * _soft(inward, 0.45)
    width = rng.uniform(*kind.cytoplasm_um)
    edge = inward + width * (1 + 2 * _waves(angle, rng, 0.14))
    body = rng.uniform(*kind.eosin) * _soft(edge, 0.8)
    return nucleus, body


def _waves(angle: NDArray[np.float64], rng: np.random.Generator, depth: float) -> NDArray[np.float64]:
    phases, weights = rng.uniform(0, 2 * math.pi, 4), rng.normal(0, depth, 4) / np.sqrt(np.arange(1, 5))
    return np.asarray(
        sum(w * np.cos((n + 2) * angle + p) for n, (w, p) in enumerate(zip(weights, phases, strict=True)))
    )


def _soft(inward: NDArray[np.float64], width_um: float) -> NDArray[np.float64]:
    return np.clip(0.5 + inward / (2 * width_um), 0, 1)


def _chromatin(
    kind: CellKind,
    rng: np.random.Generator,
    inward: NDArray[np.float64],
    x: NDArray[np.float64],
    y: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Relative dye within a nucleus: clumps, a darker membrane, nucleoli."""
    blur_px = 0.55 / (x[0, 1] - x[0, 0])
    clumps = gaussian_filter(rng.standard_normal(x.shape), blur_px) * 2 * math.sqrt(math.pi) * max(blur_px, 0.3)
    inside = 1 - kind.rim + kind.clumping * clumps
    membrane = kind.rim * 1.25 * np.exp(-((inward - 0.5) ** 2) / 0.8)
    dye = np.maximum(inside, 0.25) + membrane
    for _ in range(rng.integers(1, kind.nucleoli + 1) if kind.nucleoli else 0):
        cx, cy = rng.normal(0, 1.5, 2)
        size = rng.uniform(0.7, 1.25)
        dye += 0.8 * np.exp(-((x - cx) ** 2 + (y - cy) ** 2) / (2 * size**2))
    return np.asarray(dye, np.float64)


@dataclass(frozen=True, slots=True)
class Places:
    """Where cells of one kind could sit; whether one does is for the tissue to say."""

    x_px: NDArray[np.intp]  # (n,), within the window
    y_px: NDArray[np.intp]
    chance: Float  # (n,), 0-1, to compare with the density of the tissue
    variant: NDArray[np.intp]


def places(seed: int, kind: CellKind, window: Window, mpp: float) -> Places:
    """The lattice points of a kind that fall on a window, moved by their own chance."""
    pitch = kind.pitch_um / mpp
    row = np.arange(math.floor(window.y_l0 / pitch) - 1, math.ceil((window.y_l0 + window.height_px) / pitch) + 2)
    col = np.arange(math.floor(window.x_l0 / pitch) - 1, math.ceil((window.x_l0 + window.width_px) / pitch) + 2)
    rows, cols = (a.ravel() for a in np.meshgrid(row, col, indexing="ij"))
    salt = int(stream(seed, "cells", kind.name).integers(2**63))
    draws = [_uniform(salt, rows, cols, n) for n in range(4)]
    x = (cols + 0.5 * (rows % 2) + 0.72 * (draws[0] - 0.5)) * pitch  # every other row is shifted: hexagons, not squares
    y = (rows + 0.72 * (draws[1] - 0.5)) * pitch
    x_px = np.floor(x).astype(np.intp) - window.x_l0
    y_px = np.floor(y).astype(np.intp) - window.y_l0
    on = (x_px >= 0) & (x_px < window.width_px) & (y_px >= 0) & (y_px < window.height_px)
    variant = (draws[3][on] * VARIANTS).astype(np.intp)
    return Places(x_px[on], y_px[on], draws[2][on].astype(np.float32), variant)


def _uniform(salt: int, rows: NDArray[np.int64], cols: NDArray[np.int64], draw: int) -> NDArray[np.float64]:
    """A number in [0, 1) for each lattice cell (splitmix64 of salt, place and draw): a stream without a state."""
    start = np.uint64((salt + draw * 0xD1B54A32D192ED03) % 2**64)
    z = start + (rows.astype(np.uint64) << np.uint64(32)) + (cols.astype(np.uint64) & np.uint64(0xFFFFFFFF))
    for _ in range(2):
        z = z + np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        z = z ^ (z >> np.uint64(31))
    return np.asarray((z >> np.uint64(11)) / 2.0**53)
