"""Which pixels of a thumbnail are tissue, and what share of any place on the slide that makes.

Tissue is what is *stained*, not what is dark: haematoxylin, eosin and blood all absorb more green light than the mean
of red and blue. That excess, in optical density against the slide's own glass, is the *stain*. Glass, shadows, dust,
padding, greyscale pictures and black pen have none whatever their brightness, and no threshold is fitted to the
histogram, so that a slide with a single fragment on it and a slide without any glass are measured alike.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage

from ucc_path.ahead import in_order
from ucc_path.coverage import Coverage
from ucc_path.errors import SettingsError, TissueError
from ucc_path.geometry import Grid, SizeL0, scale_between
from ucc_path.settings import TissueSettings

T = TypeVar("T", bound=np.generic)

Mask = NDArray[np.bool_]
Plane = NDArray[np.float32]

MIN_MPP, MAX_MPP = 4.0, 64.0  # finer fills the memory, coarser finds nothing
MAX_MARGIN_UM = 2000.0  # wider than any gap or pen, and the time it takes grows with it

# Takes off most of the noise of a JPEG-compressed thumbnail; wider would erase the membranes of fat.
_SMOOTHING_UM = 8.0
_EDGE_SHARE = 0.3
_EDGE_WINDOW_PX = 5
_BAND_PX = 2**19  # pixels of a band of rows
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


def find_tissue(thumbnail: NDArray[np.uint8], mpp: float, settings: TissueSettings, threads: int = 1) -> Mask:
    """Which pixels of a thumbnail (rows, cols, 3) of scale `mpp` (um/px) are tissue; all False where there is none.

    Pen and ink are not tissue, nor is what lies under them. Small holes are filled, so that fat is tissue. Colours are
    looked at in bands of rows: in memory there are a few masks of the thumbnail's size, and no planes of densities.
    """
    glass, noise_od = _glass_colour(thumbnail, mpp, threads)
    # On a noisy scan glass must not turn into tissue, however low the setting.
    floor_od = max(settings.min_stain_od, 5.0 * noise_od)
    stained, ink = np.empty(thumbnail.shape[:2], np.bool_), np.empty(thumbnail.shape[:2], np.bool_)

    def look(band: Band) -> None:
        red, green, blue = (_density(plane, level) for plane, level in zip(_smooth(band, mpp), glass, strict=True))
        stained[band.rows] = _stained(red, green, blue, floor_od, settings)[band.inner]
        ink[band.rows] = _ink(red, green, blue, settings)[band.inner]

    for _ in in_order(look, _bands(thumbnail, mpp), threads):
        pass
    near_ink = _dilated(ink, round(settings.ink_margin_um / mpp))
    mask = _closed(stained & ~near_ink, round(settings.close_um / mpp))
    mask = _without_small(mask & ~ink, settings.min_area_um2 / mpp**2)
    return _filled(mask, settings.max_hole_um2 / mpp**2) & ~ink


class Band(NamedTuple):
    """Rows of the thumbnail, its pixels there and a little beyond, and where in those the rows are."""

    rows: slice
    pixels: NDArray[np.uint8]
    inner: slice


def _bands(thumbnail: NDArray[np.uint8], mpp: float) -> Iterator[Band]:
    beyond = _EDGE_WINDOW_PX + math.ceil(3 * _SMOOTHING_UM / mpp)  # what smoothing and the filters after it look at
    height = max(64, _BAND_PX // thumbnail.shape[1])
    for top in range(0, len(thumbnail), height):
        bottom = min(top + height, len(thumbnail))
        first = max(0, top - beyond)
        yield Band(slice(top, bottom), thumbnail[first : bottom + beyond], slice(top - first, bottom - first))


def _smooth(band: Band, mpp: float) -> list[Plane]:
    """The channels of a band without most of their noise."""
    planes = [band.pixels[..., channel].astype(np.float32) for channel in range(3)]
    return [ndimage.gaussian_filter(plane, _SMOOTHING_UM / mpp, mode="nearest", truncate=3.0) for plane in planes]


def _density(plane: Plane, glass_level: float) -> Plane:
    """Optical density against the glass; what is brighter than the glass is below zero."""
    density: Plane = np.log10(np.float32(glass_level) / np.maximum(plane, np.float32(1.0)))
    return density


def _glass_colour(thumbnail: NDArray[np.uint8], mpp: float, threads: int) -> tuple[NDArray[np.float64], float]:
    """The slide's glass as (red, green, blue) levels, and how much its stain varies from pixel to pixel (OD, sigma).

    Constant areas are canvas that a program painted; they speak for the glass only where no scanned glass is seen.
    Without any glass in view it is taken to be clear.
    """
    # A million pixels tell the colour as well as all of them, at a fraction of the memory.
    pixels = thumbnail.shape[0] * thumbnail.shape[1]
    every = max(1, int((pixels / 1e6) ** 0.5))
    samples = list(in_order(lambda band: _bright_and_flat(band, mpp, every), _bands(thumbnail, mpp), threads))
    levels = np.concatenate([found for found, _ in samples]).astype(np.float64)  # (n, 3)
    is_canvas = np.concatenate([canvas for _, canvas in samples])
    logs = np.log10(levels)
    tint = 0.5 * (logs[:, 0] + logs[:, 2]) - logs[:, 1]
    pale = (tint <= _GLASS_MAX_TINT_OD) & (np.ptp(logs, axis=1) <= _GLASS_MAX_COLOUR_OD)
    enough = max(64, pixels // every**2 // 500)
    for chosen in (pale & ~is_canvas, pale):
        if np.count_nonzero(chosen) >= enough:
            return _clearest(levels[chosen], tint[chosen])
    return _CLEAR_GLASS, 0.0


def _bright_and_flat(band: Band, mpp: float, every: int) -> tuple[Plane, Mask]:
    """Levels (n, 3) of every so many pixels of a band that could be glass, and which of them are painted canvas."""
    smooth, inner = _smooth(band, mpp), band.inner
    green, raw_green = smooth[1], band.pixels[inner, :, 1]
    flat = (_around(np.maximum, green, 1) - _around(np.minimum, green, 1) <= _GLASS_MAX_STEP)[inner]
    painted = _around(np.maximum, raw_green, 1) == _around(np.minimum, raw_green, 1)
    chosen = flat[::every, ::every]
    levels = np.stack([plane[inner][::every, ::every][chosen] for plane in smooth], axis=1)
    bright = levels.min(axis=1) >= _GLASS_MIN_LEVEL
    return levels[bright], painted[::every, ::every][chosen][bright]


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


def _stained(red: Plane, green: Plane, blue: Plane, floor_od: float, settings: TissueSettings) -> Mask:
    stain = green - 0.5 * (red + blue)
    # The blur carries stain across the edge of dense tissue; the edge is where this share of the peak nearby is left.
    edge_od = _EDGE_SHARE * _around(np.maximum, stain, _EDGE_WINDOW_PX // 2)
    enough = np.maximum(edge_od, np.maximum(floor_od, settings.min_stain_share * green))
    # Bluish (red absorbed more than green) is pen; up to a twentieth more is haematoxylin.
    return np.asarray((stain > enough) & (red < 1.05 * green + 0.01), np.bool_)


def _ink(red: Plane, green: Plane, blue: Plane, settings: TissueSettings) -> Mask:
    """Dense, and of no colour that stained tissue has: black, blue, green or red pen, surgical ink, black padding."""
    dense = np.maximum(red, green) >= settings.ink_od
    colourless = green - 0.5 * (red + blue) < settings.min_stain_share * green
    bluish = red >= 0.99 * green
    red_pen = (green >= _RED_PEN_MIN_OD) & (red < _RED_PEN_MAX_RED * green) & (blue > _RED_PEN_MIN_BLUE * green)
    return np.asarray(dense & (colourless | bluish | red_pen), np.bool_)


def _dilated(mask: Mask, margin_px: int) -> Mask:
    """Grown by `margin_px` to every side; a square, because that is separable and a slide has 20 million pixels."""
    return _around(np.logical_or, mask, margin_px)


def _around(join: np.ufunc, plane: NDArray[T], reach_px: int) -> NDArray[T]:
    """The maximum, minimum or union of the square around each pixel, `reach_px` to every side.

    Squares grow by doubling, a whole plane at a time: a third of the time of a filter that goes from pixel to pixel.
    """
    for axis in (0, 1):
        wide = np.pad(plane, [(reach_px, reach_px) if n == axis else (0, 0) for n in (0, 1)], mode="edge")
        wide, covered, size = np.moveaxis(wide, axis, 0), 1, 2 * reach_px + 1
        while covered < size:
            step = min(covered, size - covered)
            wide = join(wide[:-step], wide[step:])
            covered += step
        plane = np.moveaxis(wide, 0, axis)
    return plane


def _closed(mask: Mask, margin_px: int) -> Mask:
    """Grown and shrunk again; tissue that the edge of the picture cuts is taken to go on beyond it."""
    return ~_dilated(~_dilated(mask, margin_px), margin_px)


def _without_small(mask: Mask, min_area_px: float) -> Mask:
    labels, count = ndimage.label(mask, _SQUARE)
    keep = _areas_px(labels, count) >= min_area_px
    keep[0] = False
    return np.asarray(keep[labels], np.bool_)


def _filled(mask: Mask, max_hole_px: float) -> Mask:
    """With its small holes filled; what reaches the edge of the picture is no hole, however small."""
    labels, count = ndimage.label(~mask)
    fill = _areas_px(labels, count) <= max_hole_px
    fill[0] = False
    for edge in (labels[0], labels[-1], labels[:, 0], labels[:, -1]):
        fill[edge] = False
    return np.asarray(mask | fill[labels], np.bool_)


def _areas_px(labels: NDArray[np.int32], count: int) -> NDArray[np.int64]:
    """Pixels of each label, counted band by band: at once, all labels would be copied to twice their size."""
    areas = np.zeros(count + 1, np.int64)
    height = max(64, _BAND_PX // labels.shape[1])
    for top in range(0, len(labels), height):
        areas += np.bincount(labels[top : top + height].ravel(), minlength=count + 1)
    return areas


def check_tissue_settings(settings: TissueSettings) -> None:
    """SettingsError where nothing could be found with them, or only with far too much memory or time."""
    if not MIN_MPP <= settings.mpp <= MAX_MPP:
        raise SettingsError(
            f"tissue is looked for at {MIN_MPP:g} to {MAX_MPP:g} um/px, not at {settings.mpp:g}; "
            "change mpp under [tissue] in the settings file"
        )
    if not all(0 <= length <= MAX_MARGIN_UM for length in (settings.close_um, settings.ink_margin_um)):
        raise SettingsError(f"close_um and ink_margin_um of [tissue] must be 0 to {MAX_MARGIN_UM:g} um; correct them")


def tissue_of(
    thumbnail: NDArray[np.uint8], size_l0: SizeL0, slide_mpp: float, settings: TissueSettings, threads: int = 1
) -> Coverage:
    """The tissue of a slide from its thumbnail at the scale of the settings, or at its own where that is coarser."""
    mpp = max(settings.mpp, slide_mpp)
    grid = Grid.covering(size_l0, scale_between(mpp, slide_mpp))
    return Coverage(find_tissue(thumbnail, mpp, settings, threads), grid)


def require_tissue(tissue: Coverage, name: str) -> Coverage:
    """The map itself; refuses one without any tissue. `name` is the slide's, as the user knows it."""
    if not tissue.mask.any():
        raise TissueError(
            f"no tissue was found on {name}; look at it with ucc-path tile --preview, and if tissue is there, "
            "lower min_stain_od or min_area_um2 under [tissue] in the settings file"
        )
    return tissue
