"""Textures that repeat without a seam: fibres, grain, red cells, and the walls between nests and between fat cells.

They depend on the scale alone, not on the slide, so a process makes them once; a slide bends and shifts them.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import cKDTree

from ucc_path.seeding import stream
from ucc_path.synthetic.scene import Float

PERIOD_PX = 1024  # a power of two: a place is wrapped by masking bits
WIDE_PERIOD_PX = 2048


@dataclass(frozen=True, slots=True)
class Textures:
    """Square arrays that wrap; noise has mean 0 and variance 1, walls are distances."""

    fibres: Float
    grain: Float
    mottle: Float
    sensor: Float
    red_cells: Float  # 0 between cells to 1
    nest_wall_um: NDArray[np.float16]  # nearly twice the distance to the nearest wall between nests
    fat_wall_um: NDArray[np.float16]  # half precision: these are the largest things a worker holds


@functools.lru_cache(maxsize=2)
def textures(mpp: float) -> Textures:
    """The textures at a scale."""
    bundles = 0.85 * _noise("fibres", 18 / mpp, 0.9 / mpp) + 0.55 * _noise("bundles", 45 / mpp, 4.5 / mpp)
    return Textures(
        fibres=bundles.astype(np.float32),
        grain=_noise("grain", 0.8 / mpp, 0.8 / mpp),
        mottle=_noise("mottle", 4 / mpp, 4 / mpp),
        sensor=_noise("sensor", 0.5, 0.5),
        red_cells=_red_cells(mpp),
        nest_wall_um=_walls("nests", 85.0, mpp),
        fat_wall_um=_walls("fat", 62.0, mpp),
    )


def _noise(name: str, along_px: float, across_px: float) -> Float:
    """Gaussian noise, blurred with these standard deviations along x and y around the torus."""
    white = stream(0, "texture", name).standard_normal((PERIOD_PX, PERIOD_PX), np.float32)
    frequency = np.fft.fftfreq(PERIOD_PX).astype(np.float32) * np.float32(2 * np.pi)
    across = np.exp(-0.5 * (across_px * frequency) ** 2)[:, None]
    along = np.exp(-0.5 * (along_px * np.abs(frequency[: PERIOD_PX // 2 + 1])) ** 2)
    blurred = np.fft.irfft2(np.fft.rfft2(white) * across * along, s=white.shape)
    blurred -= blurred.mean()
    return np.asarray(blurred / blurred.std(), np.float32)


def _walls(name: str, cell_um: float, mpp: float) -> NDArray[np.float16]:
    """Distance to the second nearest seed less that to the nearest, in um: 0 on the walls between cells."""
    seeds = _scattered(name, WIDE_PERIOD_PX, cell_um / mpp, jitter=0.85)
    tree = cKDTree(seeds, boxsize=WIDE_PERIOD_PX)
    centres = np.arange(0, WIDE_PERIOD_PX, 4) + 0.5  # every fourth pixel is enough: the distance is smooth
    y, x = np.meshgrid(centres, centres, indexing="ij")
    distances, _ = tree.query(np.stack([y, x], axis=-1), k=2)
    wall_um = ((distances[..., 1] - distances[..., 0]) * mpp).astype(np.float32)
    return _doubled(_doubled(wall_um)).astype(np.float16)


def _doubled(small: Float) -> Float:
    """Twice the size by linear interpolation around the torus."""
    wide = np.empty((small.shape[0] * 2, small.shape[1]), np.float32)
    wide[0::2], wide[1::2] = small, (small + np.roll(small, -1, axis=0)) / 2
    whole = np.empty((wide.shape[0], wide.shape[1] * 2), np.float32)
    whole[:, 0::2], whole[:, 1::2] = wide, (wide + np.roll(wide, -1, axis=1)) / 2
    return whole


def _red_cells(mpp: float) -> Float:
    """Packed discs of about 7 um, paler in the middle."""
    side = PERIOD_PX // 2  # red cells are too alike for anyone to notice that they repeat
    tree = cKDTree(_scattered("red cells", side, 6.4 / mpp, jitter=0.8), boxsize=side)
    centres = np.arange(side) + 0.5
    y, x = np.meshgrid(centres, centres, indexing="ij")
    distance_um = tree.query(np.stack([y, x], axis=-1))[0] * mpp
    disc = np.clip((3.5 - distance_um) / 0.6, 0, 1)
    return np.tile((disc * (0.72 + 0.28 * np.clip(distance_um / 2.2, 0, 1))).astype(np.float32), (2, 2))


def _scattered(name: str, period_px: int, pitch_px: float, jitter: float) -> NDArray[np.float64]:
    """Points of a lattice, each moved by up to half of `jitter` pitches, shape (n, 2)."""
    n = max(3, round(period_px / pitch_px))
    y, x = np.meshgrid(np.arange(n) + 0.5, np.arange(n) + 0.5, indexing="ij")
    y = y + 0.5 * (np.arange(n) % 2)[None, :] * (n % 2 == 0)
    moved = np.stack([y, x], axis=-1) + stream(0, "texture", name).uniform(-jitter / 2, jitter / 2, (n, n, 2))
    return np.asarray((moved * (period_px / n) % period_px).reshape(-1, 2))
