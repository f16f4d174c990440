"""One region of a synthetic slide as pixels, from its scene and its place alone."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ucc_path.synthetic import cells, raster
from ucc_path.synthetic.scene import Float, Scene, Window
from ucc_path.synthetic.texture import PERIOD_PX, WIDE_PERIOD_PX, Textures, textures

Mask = NDArray[np.bool_]

SEPTUM_UM = 7.0  # `nest_wall_um` below this is the strand of stroma between two nests
CELL_CLEAR_UM = 13.0  # and above this there is room for a tumour cell
FAT_MEMBRANE_UM = 1.9

_GROUND_FIELDS = ("lymphoid", "fat", "blood", "look", "bend_x", "bend_y")


class Renderer:
    """Renders regions of one scene; what all regions share is prepared once."""

    def __init__(self, scene: Scene) -> None:
        self._scene = scene
        self._sides = {"tissue": raster.edges(scene.tissue), "tumour": raster.edges(scene.tumour)}
        self._ink = [(raster.edges(stroke.rings), stroke.passes) for stroke in scene.ink]
        self._reach = cells.reach_px(scene.mpp)

    def region(self, window: Window) -> NDArray[np.uint8]:
        """RGB of a window, shape (height, width, 3); the same for any way of cutting the slide into windows."""
        wide = window.padded(self._reach)
        tissue = raster.fill(self._sides["tissue"], wide)
        core = (slice(self._reach, -self._reach),) * 2
        light = self._scene.stain.glass[:, None, None]  # (3, 1, 1) -> (3, height, width)
        if tissue[core].any():
            tumour = raster.fill(self._sides["tumour"], wide)
            light = light * self._passed(_Ground.of(self._scene, wide, tissue, tumour), core)
        for sides, passes in self._ink:
            inked = raster.fill(sides, window)
            if inked.any():
                light = light * self._pen(inked, passes, window)
        noisy = light + (1.3 * _tiled(textures(self._scene.mpp).sensor, window) + 0.5)
        rgb = np.clip(noisy, 0, 255).astype(np.uint8)
        return np.ascontiguousarray(rgb.transpose(1, 2, 0))

    def _passed(self, ground: _Ground, core: tuple[slice, slice]) -> Float:
        """The share of light that passes the stained tissue, shape (3, height, width)."""
        blue, pink = _stroma_and_spaces(ground)
        nuclei, bodies = self._stamped(ground)
        pink = np.maximum(pink, bodies)
        pink *= 1 + 0.13 * _tiled(ground.textures.grain, ground.window)
        pink *= 1 - 0.45 * np.minimum(nuclei * 2, 1)  # a nucleus keeps the eosin of the cytoplasm away
        blue += 0.10 * bodies
        blue = np.maximum(blue, nuclei)
        blue *= ground.dye("haematoxylin", 0.38) * ground.tissue
        pink *= ground.dye("eosin", 0.44) * ground.tissue
        dyes = zip(self._scene.stain.haematoxylin, self._scene.stain.eosin, strict=True)
        return np.stack([np.exp(-(blue[core] * h + pink[core] * e)) for h, e in dyes])

    def _stamped(self, ground: _Ground) -> tuple[Float, Float]:
        """Haematoxylin of all nuclei and eosin of all cell bodies that touch the window.

        Stamping keeps the larger value, so that the order of cells does not matter.
        """
        sprites = cells.bank(self._scene.mpp)
        height, width = ground.tissue.shape
        reach = self._reach
        nuclei = np.zeros((height + 2 * reach, width + 2 * reach), np.float32)
        bodies = np.zeros_like(nuclei)
        for kind in cells.KINDS:
            at = cells.places(self._scene.seed, kind, ground.window, self._scene.mpp)
            here = at.chance < _density(ground, kind, at)
            variant = _aligned(ground, at) if kind.is_aligned else at.variant
            bank, first = sprites[kind.name], reach - sprites[kind.name].reach_px
            side = 2 * bank.reach_px + 1
            for x, y, v in zip(
                (at.x_px[here] + first).tolist(), (at.y_px[here] + first).tolist(), variant[here].tolist(), strict=True
            ):
                place = (slice(y, y + side), slice(x, x + side))
                np.maximum(nuclei[place], bank.nuclei[v], out=nuclei[place])
                np.maximum(bodies[place], bank.bodies[v], out=bodies[place])
        inner = (slice(reach, -reach),) * 2
        return nuclei[inner], bodies[inner]

    def _pen(self, inked: Mask, passes: Float, window: Window) -> Float:
        streaks = _tiled(textures(self._scene.mpp).fibres, window)
        through = np.clip(passes[:, None, None] * (1 + 0.18 * streaks), 0.02, 1)
        return np.where(inked, through, np.float32(1))


@dataclass(frozen=True, slots=True)
class _Ground:
    """What lies at each pixel of a window, before cells are put there."""

    scene: Scene
    window: Window
    textures: Textures
    tissue: Mask
    tumour: Mask
    lymphoid: Float  # 0 stroma to 1 packed lymphocytes; 0 in tumour
    fat: Mask
    blood: Mask
    solid: Mask  # tumour of the first look; the rest of the tumour has the second
    nest_wall_um: Float
    bent: tuple[NDArray[np.intp], NDArray[np.intp]]  # where each pixel falls on a bent texture: row, col

    @classmethod
    def of(cls, scene: Scene, window: Window, tissue: Mask, tumour: Mask) -> _Ground:
        made = textures(scene.mpp)
        fields = {name: field.over(window) for name, field in scene.fields.items() if name in _GROUND_FIELDS}
        fray = 0.25 * _tiled(made.mottle, window)
        normal = tissue & ~tumour
        blood = normal & (fields["blood"] + fray > 1.85)
        fat = normal & ~blood & (fields["fat"] + 0.3 * fray > 1.35)
        row = np.arange(window.height_px)[:, None] + window.y_l0 + fields["bend_y"]
        col = np.arange(window.width_px)[None, :] + window.x_l0 + fields["bend_x"]
        bent = row.astype(np.intp), col.astype(np.intp)
        lymphoid = np.asarray(1 / (1 + np.exp(-3.0 * (fields["lymphoid"] + fray))), np.float32)
        lymphoid[tumour | fat | blood] = 0
        solid = tumour & (fields["look"] + 0.3 * fray < 0)
        walls = _bent(made.nest_wall_um, bent, WIDE_PERIOD_PX) + 8 * fray  # nests are round, cells of a mosaic are not
        return cls(scene, window, made, tissue, tumour, lymphoid, fat, blood, solid, walls, bent)

    def dye(self, name: str, spread: float) -> Float:
        """How strongly a dye took at each pixel; both dyes share the thickness of the section."""
        own, shared = self.scene.fields[name].over(self.window), self.scene.fields["density"].over(self.window)
        return np.exp(spread * own + 0.16 * shared)


def _stroma_and_spaces(ground: _Ground) -> tuple[Float, Float]:
    """Haematoxylin and eosin of everything that is not a cell."""
    made, window = ground.textures, ground.window
    fibres = _bent(made.fibres, ground.bent, PERIOD_PX)
    mottle = _tiled(made.mottle, window)
    stroma = np.clip(0.64 + 0.22 * fibres, 0.06, 1.2)
    between_lymphocytes = np.clip(0.34 + 0.14 * mottle, 0, 1)
    pink = stroma + (between_lymphocytes - stroma) * np.minimum(1.25 * ground.lymphoid, 1)
    in_nest = np.clip((ground.nest_wall_um - SEPTUM_UM) / 5, 0, 1) * ground.tumour
    pink += (np.clip(np.where(ground.solid, 0.24, 0.31) + 0.10 * mottle, 0.05, 1) - pink) * in_nest
    if ground.blood.any():
        red = _tiled(made.red_cells, window)
        pink = np.where(ground.blood, 0.15 + 1.0 * red, pink)
    if ground.fat.any():
        wall_um = np.abs(_bent(made.fat_wall_um, ground.bent, WIDE_PERIOD_PX) + 0.5 * mottle)
        pink = np.where(ground.fat, 0.01 + 0.6 * np.clip(1.5 - wall_um / FAT_MEMBRANE_UM, 0, 1), pink)
    return np.asarray(0.07 * pink + 0.02, np.float32), np.asarray(pink, np.float32)


def _density(ground: _Ground, kind: cells.CellKind, at: cells.Places) -> Float:
    """The share of places of a kind that hold a cell there, shape (n,)."""
    y, x = at.y_px, at.x_px
    tumour, solid = ground.tumour[y, x], ground.solid[y, x]
    lymphoid, wall_um = ground.lymphoid[y, x], ground.nest_wall_um[y, x]
    normal = ground.tissue[y, x] & ~tumour & ~ground.fat[y, x] & ~ground.blood[y, x]
    strand = tumour & (wall_um < SEPTUM_UM)
    if kind is cells.SOLID:
        return np.asarray(0.95 * (solid & (wall_um > CELL_CLEAR_UM)), np.float32)
    if kind is cells.PLEOMORPHIC:
        return np.asarray(0.9 * (tumour & ~solid & (wall_um > CELL_CLEAR_UM)), np.float32)
    if kind is cells.LYMPHOCYTE:
        return np.asarray(np.where(normal, 0.03 + 0.92 * lymphoid**1.2, 0.06 * strand), np.float32)
    if kind is cells.BLAST:
        return np.asarray(0.12 * lymphoid * normal, np.float32)
    return np.asarray(np.where(normal, 0.75 * (1 - lymphoid), 0.35 * strand), np.float32)


def _aligned(ground: _Ground, at: cells.Places) -> NDArray[np.intp]:
    """Variants turned along the fibres, which run where the bent row stays the same."""
    row = ground.bent[0]
    y, x = np.clip(at.y_px, 4, row.shape[0] - 5), np.clip(at.x_px, 4, row.shape[1] - 5)
    down, right = row[y + 4, x] - row[y - 4, x], row[y, x + 4] - row[y, x - 4]
    angle = np.arctan2(-right, down) % np.pi
    turned = np.rint(angle * cells.ANGLES / np.pi).astype(np.intp) % cells.ANGLES
    return np.asarray(at.variant // cells.ANGLES * cells.ANGLES + turned, np.intp)


def _bent(
    texture: Float | NDArray[np.float16], bent: tuple[NDArray[np.intp], NDArray[np.intp]], period_px: int
) -> Float:
    place = (bent[0] & (period_px - 1)) * period_px + (bent[1] & (period_px - 1))
    return texture.ravel().take(place).astype(np.float32, copy=False)


def _tiled(texture: Float, window: Window) -> Float:
    rows = (np.arange(window.height_px) + window.y_l0) % PERIOD_PX
    cols = (np.arange(window.width_px) + window.x_l0) % PERIOD_PX
    tiled: Float = texture[np.ix_(rows, cols)]
    return tiled
