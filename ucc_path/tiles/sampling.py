"""Where on a slide tiles are cropped: at random over the tissue, in the kinds asked for, without undue overlap.

The tumour share of every possible place is first estimated at once, from the tumour mask at the scale of the tissue
map. That lists the places along outlines (mixtures) and inside them (metastases), so nothing is found by blind
rejection. Each place taken is then labelled exactly, from the outlines themselves.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ucc_path.annotation import Annotation
from ucc_path.coverage import Coverage
from ucc_path.geometry import SizeL0
from ucc_path.settings import TilingSettings
from ucc_path.tiles.labelling import kind_of, kind_ranges

STEPS_PER_TILE = 16  # places are considered this densely: a sixteenth of a tile apart
MAX_PLACES = 2**20  # on a large slide places for small tiles lie further apart, so that memory stays bounded
WORTH_MOVING = 0.02  # share of tissue that a tile must gain to be moved from where it was found
ESTIMATE_MARGIN = (0.03, 0.25)  # how far an estimated share may be from the exact one and still be looked at


@dataclass(frozen=True, slots=True)
class Tile:
    """A square of the slide; kind and tumour fraction are None where nobody has labelled it."""

    x_l0: int
    y_l0: int
    side_l0: float
    kind: str | None
    tumour_fraction: float | None


@dataclass(frozen=True, slots=True)
class TilePlane:
    """The slide as tiles see it: its size, how wide a tile and one of its pixels are, where corners may lie."""

    size_l0: SizeL0
    side_l0: float
    pixel_l0: float
    alignment_l0: int


@dataclass(frozen=True, slots=True)
class _Places:
    """Candidate corners, (n,) each, in the order in which they are tried."""

    xs_l0: NDArray[np.int64]
    ys_l0: NDArray[np.int64]

    def take(self, chosen: NDArray[np.bool_] | NDArray[np.intp]) -> _Places:
        return _Places(self.xs_l0[chosen], self.ys_l0[chosen])


def find_tiles(
    plane: TilePlane,
    tissue: Coverage,
    annotation: Annotation,
    wanted: Mapping[str, int],
    *,
    settings: TilingSettings,
    rng: np.random.Generator,
) -> list[Tile]:
    """Labelled tiles, up to `wanted` of each kind, no two of which overlap beyond the setting."""
    tumour = Coverage(
        annotation.tumour_mask(tissue.grid.corner, tissue.grid.size_l0, downsample=tissue.grid.cell_l0), tissue.grid
    )
    scattered = _on_tissue(_scattered_places(plane, rng), plane, tissue, settings)
    by_rows = _on_tissue(_regular_places(plane), plane, tissue, settings)
    by_columns = by_rows.take(np.lexsort((by_rows.ys_l0, by_rows.xs_l0)))
    candidates = {kind: _of_kind(scattered, kind, tumour, plane, settings) for kind in wanted}
    pick = functools.partial(_pick, plane=plane, annotation=annotation, settings=settings)
    tiles: list[Tile] = []
    # The scarcest kind first: what it leaves free is enough for the others, but not the other way round.
    for kind in sorted(wanted, key=lambda kind: (len(candidates[kind].xs_l0), kind)):
        picked = pick(candidates[kind], kind, wanted[kind], tiles)
        if len(picked) < wanted[kind]:
            # Scattered squares waste half of the room between them; squares set side by side do not.
            for places in (by_rows, by_columns):
                packed = _of_kind(places, kind, tumour, plane, settings)
                picked = max(picked, pick(packed, kind, wanted[kind], tiles), key=len)
            picked = _moved_onto_tissue(
                picked, tiles, packed, plane=plane, tissue=tissue, annotation=annotation, settings=settings
            )
        tiles += picked
    return tiles


def find_unlabelled(
    plane: TilePlane, tissue: Coverage, wanted: int, *, settings: TilingSettings, rng: np.random.Generator
) -> list[Tile]:
    """Tiles of tissue with no label, up to `wanted`, no two of which overlap beyond the setting."""
    tiles: list[Tile] = []
    for places in (_scattered_places(plane, rng), _regular_places(plane)):
        on_tissue = _on_tissue(places, plane, tissue, settings)
        picked = _pick(on_tissue, None, wanted, [], plane=plane, annotation=None, settings=settings)
        tiles = max(tiles, picked, key=len)
        if len(tiles) >= wanted:
            break
    return tiles


def _regular_places(plane: TilePlane) -> _Places:
    """All places of a lattice, row by row."""
    step = _step_l0(plane)
    xs = _aligned(np.arange(0, plane.size_l0.width - plane.side_l0 + 1e-6, step, dtype=np.float64), plane)
    ys = _aligned(np.arange(0, plane.size_l0.height - plane.side_l0 + 1e-6, step, dtype=np.float64), plane)
    grid_y, grid_x = np.meshgrid(ys, xs, indexing="ij")
    return _Places(grid_x.ravel(), grid_y.ravel())


def _step_l0(plane: TilePlane) -> float:
    """The distance of places: a whole number of them to the next tile that is free of this one, so that tiles pack."""
    pitch_l0 = math.ceil(plane.side_l0 / plane.alignment_l0 - 1e-9) * plane.alignment_l0
    room = max(plane.size_l0.width, pitch_l0) * max(plane.size_l0.height, pitch_l0)
    densest = math.sqrt(MAX_PLACES * pitch_l0**2 / room)
    steps = min(STEPS_PER_TILE, pitch_l0 // plane.alignment_l0, max(1, int(densest)))
    return pitch_l0 / steps * max(1, math.ceil(1 / densest))


def _scattered_places(plane: TilePlane, rng: np.random.Generator) -> _Places:
    """The lattice with each place moved by chance within its step, in an order of chance."""
    lattice = _regular_places(plane)
    count = len(lattice.xs_l0)
    step = _step_l0(plane)
    # A side of 512 * 3.5000000000000004 may be longer than the slide by nothing: the corner is then 0, not -1.
    xs = np.minimum(lattice.xs_l0 + rng.random(count) * step, max(0.0, plane.size_l0.width - plane.side_l0))
    ys = np.minimum(lattice.ys_l0 + rng.random(count) * step, max(0.0, plane.size_l0.height - plane.side_l0))
    return _Places(_aligned(xs, plane), _aligned(ys, plane)).take(rng.permutation(count))


def _aligned(values_l0: NDArray[np.float64], plane: TilePlane) -> NDArray[np.int64]:
    return (np.floor(values_l0 / plane.alignment_l0 + 1e-6) * plane.alignment_l0).astype(np.int64)


def _on_tissue(places: _Places, plane: TilePlane, tissue: Coverage, settings: TilingSettings) -> _Places:
    shares = tissue.shares(places.xs_l0, places.ys_l0, plane.side_l0)
    return places.take(shares >= settings.min_tissue - 1e-9)


def _of_kind(places: _Places, kind: str, tumour: Coverage, plane: TilePlane, settings: TilingSettings) -> _Places:
    low, high = kind_ranges(settings)[kind]
    shares = tumour.shares(places.xs_l0, places.ys_l0, plane.side_l0)
    # An upright outline may be off by half a cell on both sides of a band of tumour: one cell in a side.
    margin = min(max(ESTIMATE_MARGIN[0], tumour.grid.cell_l0 / plane.side_l0), ESTIMATE_MARGIN[1])
    return places.take((shares > low - margin) & (shares < high + margin))


def _pick(
    places: _Places,
    kind: str | None,
    wanted: int,
    taken: list[Tile],
    *,
    plane: TilePlane,
    annotation: Annotation | None,
    settings: TilingSettings,
) -> list[Tile]:
    """Places in their order, each taken if it is of the kind and free of those taken before."""
    is_free = np.ones(len(places.xs_l0), bool)
    for tile in taken:
        is_free &= ~_overlapping(places, tile, settings.max_overlap)
    picked: list[Tile] = []
    index = _next_true(is_free, 0)
    while len(picked) < wanted and index is not None:
        is_free[index] = False
        tile = _labelled(int(places.xs_l0[index]), int(places.ys_l0[index]), plane, annotation, settings)
        if tile.kind == kind:
            picked.append(tile)
            is_free &= ~_overlapping(places, tile, settings.max_overlap)
        index = _next_true(is_free, index)
    return picked


def _moved_onto_tissue(
    picked: list[Tile],
    taken: list[Tile],
    places: _Places,
    *,
    plane: TilePlane,
    tissue: Coverage,
    annotation: Annotation,
    settings: TilingSettings,
) -> list[Tile]:
    """The tiles, each moved within the room it has to where it holds most tissue.

    Squares set side by side begin at the very edge of the tissue, with as much glass as a tile may have.
    """
    tiles = list(picked)
    for index, tile in enumerate(tiles):
        room = places.take(_overlapping(places, tile, 0.0))
        for other in (*taken, *tiles[:index], *tiles[index + 1 :]):
            if max(abs(other.x_l0 - tile.x_l0), abs(other.y_l0 - tile.y_l0)) < 2 * plane.side_l0:
                room = room.take(~_overlapping(room, other, settings.max_overlap))
        here = tissue.shares(np.array([tile.x_l0]), np.array([tile.y_l0]), plane.side_l0)[0]
        there = tissue.shares(room.xs_l0, room.ys_l0, plane.side_l0)
        if len(there) and there.max() > here + WORTH_MOVING:
            best = int(np.argmax(there))
            moved = _labelled(int(room.xs_l0[best]), int(room.ys_l0[best]), plane, annotation, settings)
            tiles[index] = moved if moved.kind == tile.kind else tile
    return tiles


def _labelled(x_l0: int, y_l0: int, plane: TilePlane, annotation: Annotation | None, settings: TilingSettings) -> Tile:
    """The tile with its exact label; none where the share by area and by the pixels of its mask would differ."""
    if annotation is None:
        return Tile(x_l0, y_l0, plane.side_l0, None, None)
    corner_l0, size_l0 = (x_l0, y_l0), (plane.side_l0, plane.side_l0)
    kind = kind_of(annotation.tumour_share(corner_l0, size_l0), settings)
    if kind is None:
        return Tile(x_l0, y_l0, plane.side_l0, None, None)
    fraction = float(annotation.tumour_mask(corner_l0, size_l0, downsample=plane.pixel_l0).mean())
    return Tile(x_l0, y_l0, plane.side_l0, kind if kind_of(fraction, settings) == kind else None, fraction)


def _overlapping(places: _Places, tile: Tile, max_overlap: float) -> NDArray[np.bool_]:
    """Which places would share more than `max_overlap` of their area with the tile."""
    across = np.maximum(0.0, tile.side_l0 - np.abs(places.xs_l0 - tile.x_l0))
    down = np.maximum(0.0, tile.side_l0 - np.abs(places.ys_l0 - tile.y_l0))
    return np.asarray(across * down > max_overlap * tile.side_l0**2 + 1e-6, np.bool_)


def _next_true(flags: NDArray[np.bool_], start: int) -> int | None:
    offset = int(np.argmax(flags[start:])) if start < len(flags) else 0
    return start + offset if start < len(flags) and flags[start + offset] else None
