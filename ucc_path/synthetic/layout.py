"""Where things lie on a synthetic slide: pieces of tissue, tumour with its cut-outs, ink, and the slow fields."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import shapely
from numpy.typing import NDArray
from shapely import MultiPolygon

from ucc_path.errors import SettingsError
from ucc_path.seeding import stream
from ucc_path.synthetic import outlines, raster
from ucc_path.synthetic.scene import Field, Float, InkStroke, Scene, Stain, Window

CAPSULE_UM = 8.0  # a rim of normal tissue around every piece, so that no tumour outline runs along glass
MIDDLES = {  # of the pieces of tissue, as shares of width and height
    1: ((0.5, 0.5),),
    2: ((0.28, 0.45), (0.74, 0.55)),
    3: ((0.27, 0.3), (0.73, 0.36), (0.5, 0.76)),
    4: ((0.27, 0.27), (0.74, 0.3), (0.3, 0.74), (0.75, 0.75)),
}
PENS = ((0.12, 0.2, 0.55), (0.1, 0.42, 0.25), (0.22, 0.22, 0.25))  # blue, green, black: RGB let through


@dataclass(frozen=True, slots=True)
class Plan:
    """The polygons of a slide, in level-0 pixels, and the scene to render from them."""

    tissue: MultiPolygon
    tumour: MultiPolygon
    ink: MultiPolygon
    scene: Scene


@dataclass(frozen=True, slots=True)
class _Canvas:
    """The coarse cells on which fields are drawn, and how large things are on this slide."""

    seed: int
    size_px: tuple[int, int]
    mpp: float

    @property
    def cell_l0(self) -> float:
        return max(max(self.size_px) / 512, 6.0 / self.mpp)

    @property
    def shape(self) -> tuple[int, int]:
        return math.ceil(self.size_px[1] / self.cell_l0) + 1, math.ceil(self.size_px[0] / self.cell_l0) + 1

    @property
    def scale(self) -> float:
        """1 on slides of 3 mm and more; on smaller ones outlines shrink, so that there is still something to see."""
        return min(1.0, max(0.2, min(self.size_px) * self.mpp / 3000))

    def noise(self, name: str, sigma_um: float) -> Float:
        return outlines.smooth_noise(stream(self.seed, name), self.shape, sigma_um / self.mpp / self.cell_l0)

    def area_l0(self, side_um: float) -> float:
        return (side_um * self.scale / self.mpp) ** 2


def plan(
    *, seed: int, size_px: tuple[int, int], mpp: float, tissue_share: float, tumour_share: float, ink: bool
) -> Plan:
    """Lay out a slide; the same arguments give the same plan."""
    canvas = _Canvas(seed, size_px, mpp)
    tissue = _tissue(canvas, tissue_share)
    tumour = _tumour(canvas, tissue, tumour_share) if tumour_share else MultiPolygon()
    strokes = _ink(canvas, tissue) if ink else ()
    scene = Scene(
        seed=seed,
        size_px=size_px,
        mpp=mpp,
        tissue=sum(outlines.rings(tissue), ()),
        tumour=sum(outlines.rings(tumour), ()),
        ink=tuple(stroke for _, stroke in strokes),
        fields=_fields(canvas),
        stain=_stain(seed),
    )
    inked = outlines.simple(shapely.union_all([shape for shape, _ in strokes]))
    return Plan(tissue, tumour, inked, scene)


def _tissue(canvas: _Canvas, share: float) -> MultiPolygon:
    rng = stream(canvas.seed, "pieces")
    height, width = canvas.shape
    y, x = np.mgrid[:height, :width] / np.array([height, width]).reshape(2, 1, 1)
    count = 1 if canvas.scale < 0.6 else int(rng.integers(2, 5))
    nearest: NDArray[np.float64] = np.full((2, height, width), 9.0)  # distance to the nearest piece and to the next
    for number, middle in enumerate(MIDDLES[count]):
        at = np.array(middle) + rng.normal(0, 0.04, 2)
        stretch = rng.uniform(0.75, 1.35)
        distance = np.hypot((x - at[0]) * stretch, (y - at[1]) / stretch)
        distance = distance + 0.025 * canvas.noise(f"piece {number}", 200 * canvas.scale)
        nearest = np.sort(np.concatenate([nearest, distance[None]]), axis=0)[:2]
    wobble = 0.10 * canvas.noise("outline", 260 * canvas.scale) + 0.02 * canvas.noise("fray", 45 * canvas.scale)
    gap = 5 * np.clip(1 - (nearest[1] - nearest[0]) / 0.035, 0, 1)  # glass between two pieces
    to_edge = np.minimum(np.minimum(x, 1 - x), np.minimum(y, 1 - y))
    values = (wobble - nearest[0] - gap - 1.2 * (np.maximum(0, 0.15 - to_edge) / 0.15) ** 2).astype(np.float32)

    glass = shapely.box(0, 0, *canvas.size_px)
    inner = glass.buffer(-0.02 * min(canvas.size_px))

    def shape_at(threshold: float) -> MultiPolygon:
        pieces = outlines.above(values, threshold, cell_l0=canvas.cell_l0, min_area_l0=canvas.area_l0(160))
        return outlines.simple(pieces.intersection(inner))

    return outlines.with_share(shape_at, within=glass, share=share)


def _tumour(canvas: _Canvas, tissue: MultiPolygon, share: float) -> MultiPolygon:
    """Organic blobs over `share` of the tissue, with a few cut-outs of normal tissue."""
    room = tissue.buffer(-CAPSULE_UM / canvas.mpp)
    best, best_error = MultiPolygon(), math.inf
    for attempt in range(4):
        values = canvas.noise(f"tumour {attempt}", 230 * canvas.scale)
        values = values + 0.16 * canvas.noise(f"tumour edge {attempt}", 40 * canvas.scale)
        cut = MultiPolygon()
        for _ in range(2):  # first without cut-outs, to see where there is room for them

            def shape_at(threshold: float, values: Float = values, cut: MultiPolygon = cut) -> MultiPolygon:
                blobs = outlines.above(values, threshold, cell_l0=canvas.cell_l0, min_area_l0=canvas.area_l0(150))
                return outlines.simple(blobs.intersection(room).difference(cut))

            tumour = outlines.with_share(shape_at, within=tissue, share=share)
            cut = cut or _cut_outs(canvas, tumour)
        error = abs(tumour.area / tissue.area - share)
        if error < best_error:
            best, best_error = tumour, error
        if best_error < 0.02:
            break
    if best_error > outlines.SHARE_TOLERANCE:
        raise SettingsError(f"tumour_share {share} does not fit on this slide; give another size_px, share or seed")
    return best


def _cut_outs(canvas: _Canvas, tumour: MultiPolygon) -> MultiPolygon:
    rng = stream(canvas.seed, "cut-outs")
    radius_l0 = rng.uniform(70, 110) * canvas.scale / canvas.mpp
    cells = Window(0, 0, canvas.shape[1], canvas.shape[0])
    inside = raster.fill(raster.edges(sum(outlines.rings(tumour), ())) / canvas.cell_l0, cells)
    spots = outlines.spots_within(rng, inside, 1.7 * radius_l0 / canvas.cell_l0, count=4)
    at = [((col + 0.5) * canvas.cell_l0, (row + 0.5) * canvas.cell_l0) for row, col in spots]
    return outlines.simple(shapely.union_all([outlines.blob(rng, centre, radius_l0) for centre in at]))


def _ink(canvas: _Canvas, tissue: MultiPolygon) -> tuple[tuple[MultiPolygon, InkStroke], ...]:
    """Strokes beside the tissue: ink upon it would hide what the truth says is there."""
    rng = stream(canvas.seed, "ink")
    keep_off = tissue.buffer(10 / canvas.mpp)
    glass = shapely.box(0, 0, *canvas.size_px)
    pen = np.array(PENS[int(rng.integers(len(PENS)))], np.float32)
    strokes: list[tuple[MultiPolygon, InkStroke]] = []
    wanted = int(rng.integers(2, 5))
    for _ in range(150):  # a small slide may have no room for any
        if len(strokes) == wanted:
            break
        width_l0 = rng.uniform(120, 260) * canvas.scale / canvas.mpp
        shape = outlines.pen_stroke(rng, canvas.size_px, width_l0).intersection(glass).difference(keep_off)
        clear = outlines.simple(shape)
        if clear.area > canvas.area_l0(250):
            strokes.append((clear, InkStroke(sum(outlines.rings(clear), ()), pen)))
    return tuple(strokes)


def _fields(canvas: _Canvas) -> dict[str, Field]:
    """Slow fields of mean 0 and variance 1; `bend_*` are in level-0 pixels."""
    sigmas_um = {
        "lymphoid": 110 * canvas.scale**0.5,
        "fat": 120 * canvas.scale**0.5,
        "blood": 45 * canvas.scale**0.5,
        "look": 260 * canvas.scale**0.5,
        "haematoxylin": 90,
        "eosin": 90,
        "density": 140,
    }
    noise = {name: canvas.noise(name, sigma_um) for name, sigma_um in sigmas_um.items()}
    noise["bend_x"] = canvas.noise("bend_x", 100) * np.float32(42 / canvas.mpp)
    noise["bend_y"] = canvas.noise("bend_y", 100) * np.float32(42 / canvas.mpp)
    return {name: Field(values, canvas.cell_l0) for name, values in noise.items()}


def _stain(seed: int) -> Stain:
    """Dyes differ between laboratories in hue and strength, and glass in tint."""
    rng = stream(seed, "stain")

    def dye(rgb: tuple[float, float, float], strength: float) -> Float:
        hue = np.maximum(np.array(rgb) + rng.normal(0, (0.035, 0.035, 0.022), 3), 0.02)
        return np.asarray(hue / np.linalg.norm(hue) * strength * math.exp(rng.normal(0, 0.1)), np.float32)

    glass = 242 + rng.uniform(-4, 5) + rng.uniform(-2, 2, 3)
    return Stain(dye((0.62, 0.70, 0.36), 1.0), dye((0.18, 0.84, 0.44), 0.8), np.asarray(glass, np.float32))
