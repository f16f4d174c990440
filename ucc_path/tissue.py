"""Stage 3: which pixels of a thumbnail are tissue, and what share of any place on the slide that makes.

Tissue is what is *stained*, not what is dark: haematoxylin, eosin and blood all absorb more green light than the mean
of red and blue. That excess, in optical density against the slide's own glass, is the *stain*. Glass, shadows, dust,
padding, greyscale pictures and black pen have none whatever their brightness, and no threshold is fitted to the
histogram, so that a slide with a single fragment on it and a slide without any glass are measured alike.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage

from ucc_path.errors import TissueError
from ucc_path.geometry import Grid, PointL0, SizeL0
from ucc_path.settings import TissueSettings

Mask = NDArray[np.bool_]
Plane = NDArray[np.float32]

# Takes off most of the noise of a JPEG-compressed thumbnail; wider would erase the membranes of fat.
_SMOOTHING_UM = 8.0
_EDGE_SHARE = 0.3
_EDGE_WINDOW_PX = 5
_SQUARE = np.ones((3, 3), bool)

# What glass can look like: seen on CAMELYON16 (violet: 231, 226, 236), TCGA (pink: 241, 236, 239), and yellowed slides.
_GLASS_MIN_LEVEL = 180.0
_GLASS_MAX_TINT_OD = 0.02
_GLASS_MAX_COLOUR_OD = 0.06
_GLASS_MAX_STEP = 3.0
_CLEAR_GLASS = np.array([243.0, 243.0, 243.0])

# A red marker absorbs green and blue alike, strongly, and next to no red; clotted blood also absorbs red.
_RED_PEN_MIN_OD = 0.55
_RED_PEN_MAX_RED = 0.16
_RED_PEN_MIN_BLUE = 0.72


def find_tissue(thumbnail: NDArray[np.uint8], mpp: float, settings: TissueSettings) -> Mask:
    """Which pixels of a thumbnail (rows, cols, 3) of scale `mpp` (um/px) are tissue; all False where there is none.

    Pen and ink are not tissue, nor is what lies under them. Small holes are filled, so that fat is tissue.
    """
    smooth = [_smoothed(thumbnail[..., channel], mpp) for channel in range(3)]
    glass, noise_od = _glass_colour(thumbnail, smooth)
    red, green, blue = (_density(plane, level) for plane, level in zip(smooth, glass, strict=True))
    del smooth
    stain = green - 0.5 * (red + blue)
    # On a noisy scan glass must not turn into tissue, however low the setting.
    floor_od = max(settings.min_stain_od, 5.0 * noise_od)
    # The blur carries stain across the edge of dense tissue; the edge is where this share of the peak nearby is left.
    edge_od = _EDGE_SHARE * ndimage.maximum_filter(stain, _EDGE_WINDOW_PX)
    # Bluish (red absorbed more than green) is pen; up to a twentieth more is haematoxylin.
    stained = (stain > np.maximum(edge_od, np.maximum(floor_od, settings.min_stain_share * green))) & (
        red < 1.05 * green + 0.01
    )
    ink = _ink(red, green, blue, settings)
    near_ink = _dilated(ink, round(settings.ink_margin_um / mpp))
    mask = _closed(stained & ~near_ink, round(settings.close_um / mpp))
    mask = _without_small(mask & ~ink, settings.min_area_um2 / mpp**2)
    return _filled(mask, settings.max_hole_um2 / mpp**2) & ~ink


def _smoothed(channel: NDArray[np.uint8], mpp: float) -> Plane:
    plane: Plane = ndimage.gaussian_filter(
        channel.astype(np.float32), _SMOOTHING_UM / mpp, mode="nearest", truncate=3.0
    )
    return plane


def _density(plane: Plane, glass_level: float) -> Plane:
    """Optical density against the glass; what is brighter than the glass is below zero."""
    density: Plane = np.log10(np.float32(glass_level) / np.maximum(plane, np.float32(1.0)))
    return density


def _glass_colour(thumbnail: NDArray[np.uint8], smooth: list[Plane]) -> tuple[NDArray[np.float64], float]:
    """The slide's glass as (red, green, blue) levels, and how much its stain varies from pixel to pixel (OD, sigma).

    Constant areas are canvas that a program painted; they speak for the glass only where no scanned glass is seen.
    Without any glass in view it is taken to be clear.
    """
    green, raw_green = smooth[1], thumbnail[..., 1]
    flat = ndimage.maximum_filter(green, 3) - ndimage.minimum_filter(green, 3) <= _GLASS_MAX_STEP
    painted = ndimage.maximum_filter(raw_green, 3) == ndimage.minimum_filter(raw_green, 3)
    # A million pixels tell the colour as well as all of them, at a fraction of the memory.
    every = max(1, int((green.size / 1e6) ** 0.5))
    levels = np.stack([plane[::every, ::every][flat[::every, ::every]] for plane in smooth], axis=1)  # (n, 3)
    bright = levels.min(axis=1) >= _GLASS_MIN_LEVEL
    is_canvas = painted[::every, ::every][flat[::every, ::every]][bright]
    levels = levels[bright].astype(np.float64)
    logs = np.log10(levels)
    tint = 0.5 * (logs[:, 0] + logs[:, 2]) - logs[:, 1]
    pale = (tint <= _GLASS_MAX_TINT_OD) & (np.ptp(logs, axis=1) <= _GLASS_MAX_COLOUR_OD)
    enough = max(64, green.size // every**2 // 500)
    for chosen in (pale & ~is_canvas, pale):
        if np.count_nonzero(chosen) >= enough:
            return _clearest(levels[chosen], tint[chosen])
    return _CLEAR_GLASS, 0.0


def _clearest(levels: NDArray[np.float64], tint: NDArray[np.float64]) -> tuple[NDArray[np.float64], float]:
    """Colour and spread of the least tinted of the large groups: of pale tissue and glass, glass is the less tinted."""
    step = 0.002
    bins = np.floor(tint / step).astype(np.int64)
    counts = np.bincount(bins - bins.min())
    groups = np.convolve(counts, [1, 1, 1], mode="same")
    first = int(np.flatnonzero(groups >= 0.2 * groups.max())[0])
    while first + 1 < len(groups) and groups[first + 1] > groups[first]:
        first += 1
    members = np.abs(bins - bins.min() - first) <= 1
    centre = np.median(tint[members])
    # Only the lower side: on the upper side pale tissue begins.
    below = tint[(tint <= centre) & (tint > centre - 0.02)]
    sigma = 1.4826 * float(np.median(centre - below))
    return np.median(levels[members], axis=0), sigma


def _ink(red: Plane, green: Plane, blue: Plane, settings: TissueSettings) -> Mask:
    """Dense, and of no colour that stained tissue has: black, blue, green or red pen, surgical ink, black padding."""
    dense = np.maximum(red, green) >= settings.ink_od
    colourless = green - 0.5 * (red + blue) < settings.min_stain_share * green
    bluish = red >= 0.99 * green
    red_pen = (green >= _RED_PEN_MIN_OD) & (red < _RED_PEN_MAX_RED * green) & (blue > _RED_PEN_MIN_BLUE * green)
    return np.asarray(dense & (colourless | bluish | red_pen), np.bool_)


def _dilated(mask: Mask, margin_px: int) -> Mask:
    """Grown by `margin_px` to every side; a square, because that is separable and a slide has 20 million pixels."""
    grown: Mask = ndimage.maximum_filter(mask.view(np.uint8), 2 * margin_px + 1, mode="nearest").view(np.bool_)
    return grown


def _closed(mask: Mask, margin_px: int) -> Mask:
    """Grown and shrunk again; tissue that the edge of the picture cuts is taken to go on beyond it."""
    return ~_dilated(~_dilated(mask, margin_px), margin_px)


def _without_small(mask: Mask, min_area_px: float) -> Mask:
    labels, _ = ndimage.label(mask, _SQUARE)
    keep = np.bincount(labels.ravel()) >= min_area_px
    keep[0] = False
    return np.asarray(keep[labels], np.bool_)


def _filled(mask: Mask, max_hole_px: float) -> Mask:
    """With its small holes filled; what reaches the edge of the picture is no hole, however small."""
    labels, _ = ndimage.label(~mask)
    fill = np.bincount(labels.ravel()) <= max_hole_px
    fill[0] = False
    for edge in (labels[0], labels[-1], labels[:, 0], labels[:, -1]):
        fill[edge] = False
    return np.asarray(mask | fill[labels], np.bool_)


@dataclass(frozen=True, eq=False)
class TissueMap:
    """Tissue on the slide: `mask` (rows, cols), each of its pixels one cell of `grid`.

    Shares are exact for the mask: a cell that a box cuts counts with the part inside. The slide ends where the grid
    ends; beyond it there is no tissue.
    """

    mask: Mask
    grid: Grid
    _sums: NDArray[np.int64] = field(init=False, repr=False)  # [r, c] is the count of tissue in mask[:r, :c]

    def __post_init__(self) -> None:
        if self.mask.shape != (self.grid.rows, self.grid.cols):
            raise ValueError(f"a mask {self.mask.shape} on a grid of {self.grid.rows} x {self.grid.cols} cells")
        sums = np.zeros((self.grid.rows + 1, self.grid.cols + 1), np.int64)
        np.cumsum(np.cumsum(self.mask, axis=0, dtype=np.int64), axis=1, out=sums[1:, 1:])
        object.__setattr__(self, "_sums", sums)

    @property
    def share_of_slide(self) -> float:
        return float(self._sums[-1, -1]) / self.mask.size

    def area_um2(self, slide_mpp: float) -> float:
        """Area of all tissue, given the slide's scale at level 0: px * (px_l0/px * um/px_l0)^2 = um2."""
        return float(self._sums[-1, -1]) * (self.grid.cell_l0 * slide_mpp) ** 2

    def share(self, corner_l0: PointL0, size_l0: SizeL0) -> float:
        """Share of a box that is tissue."""
        rows = self._rows(np.array([corner_l0.y, corner_l0.y + size_l0.height]))
        cols = self._cols(np.array([corner_l0.x, corner_l0.x + size_l0.width]))
        counts = self._count_above_left(rows[:, None], cols[None, :])
        return float(_box_counts(counts)[0, 0]) * self.grid.cell_l0**2 / (size_l0.width * size_l0.height)

    def shares(self, xs_l0: NDArray[np.floating], ys_l0: NDArray[np.floating], side_l0: float) -> NDArray[np.float64]:
        """Share of each of many squares that is tissue, given their top left corners; the shape of `xs_l0`."""
        left, right = self._cols(xs_l0), self._cols(xs_l0 + side_l0)
        top, bottom = self._rows(ys_l0), self._rows(ys_l0 + side_l0)
        count = self._count_above_left
        tissue = count(bottom, right) - count(bottom, left) - count(top, right) + count(top, left)
        return tissue * (self.grid.cell_l0 / side_l0) ** 2

    def share_per_cell(self, grid: Grid) -> NDArray[np.float32]:
        """Share of each cell of another grid that is tissue, (grid.rows, grid.cols)."""
        rows = self._rows(grid.corner.y + grid.cell_l0 * np.arange(grid.rows + 1))
        cols = self._cols(grid.corner.x + grid.cell_l0 * np.arange(grid.cols + 1))
        counts = _box_counts(self._count_above_left(rows[:, None], cols[None, :]))
        return (counts * (self.grid.cell_l0 / grid.cell_l0) ** 2).astype(np.float32)

    def _rows(self, ys_l0: NDArray[np.floating]) -> NDArray[np.float64]:
        return np.clip((ys_l0 - self.grid.corner.y) / self.grid.cell_l0, 0.0, self.grid.rows)

    def _cols(self, xs_l0: NDArray[np.floating]) -> NDArray[np.float64]:
        return np.clip((xs_l0 - self.grid.corner.x) / self.grid.cell_l0, 0.0, self.grid.cols)

    def _count_above_left(self, rows: NDArray[np.float64], cols: NDArray[np.float64]) -> NDArray[np.float64]:
        """Cells of tissue above `rows` and left of `cols`; between whole cells the sums are linear along each axis."""
        row = np.minimum(rows.astype(np.int64), self.grid.rows - 1)
        col = np.minimum(cols.astype(np.int64), self.grid.cols - 1)
        down, right = rows - row, cols - col
        above = self._sums[row, col] * (1 - right) + self._sums[row, col + 1] * right
        below = self._sums[row + 1, col] * (1 - right) + self._sums[row + 1, col + 1] * right
        return np.asarray(above * (1 - down) + below * down, np.float64)


def _box_counts(counts: NDArray[np.float64]) -> NDArray[np.float64]:
    """Counts above and left of corners (rows + 1, cols + 1) -> counts within the boxes between them (rows, cols)."""
    return np.diff(np.diff(counts, axis=0), axis=1)


def require_tissue(tissue: TissueMap, name: str) -> TissueMap:
    """The map itself; refuses one without any tissue. `name` is the slide's, as the user knows it."""
    if not tissue.mask.any():
        raise TissueError(
            f"no tissue was found on {name}; look at it with --preview, and if tissue is there, "
            "lower min_stain_od or min_area_um2 under [tissue] in the settings file"
        )
    return tissue
