"""How many lesions are found at how many false alarms: FROC, as CAMELYON16's organisers count.

The truth is a raster of 7.776 um a pixel. Pixels whose centre is less than 37.5 um from that of a tumour pixel join it,
holes are filled, and what hangs together, by corners too, is a lesion. One with a major axis below 275 um (200 um, and
75 um that it has grown) is but isolated tumour cells (ITC): to hit it is neither right nor wrong. A detection is a
point with a score. In a lesion it is a hit, of which the best of each lesion counts; elsewhere it is a false positive.
The score is the mean sensitivity at 1/4, 1/2, 1, 2, 4 and 8 false positives per slide.

In two places the organisers' program is not followed: it drops the lowest threshold where every lesion is hit and none
is ITC, and it passes over detections with a score of 0.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage

from ucc_path.annotation import Annotation
from ucc_path.geometry import BoxL0, PointL0, SizeL0

CAMELYON_MPP = 0.243
"""Micrometres per level-0 pixel that the organisers take for every slide, with truth pixels 32 of them wide."""
JOINS_BELOW_UM = 37.5
ITC_BELOW_UM = 275.0
FALSE_POSITIVES = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0)
SIZES = {
    "isolated tumour cells": (0.0, ITC_BELOW_UM),
    "micro": (ITC_BELOW_UM, 2000.0),
    "macro": (2000.0, math.inf),
}
"""Lesions by their major axis in um, from the first number up to the second; the growth is in it."""

_PIXEL_UM = CAMELYON_MPP * 32
_BAND_PIXELS = 2**20

_Scores = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Lesions:
    """The lesions of one slide; lesion k has the value k + 1 in `labels`."""

    labels: NDArray[np.int32]  # (rows, cols), 0 is no lesion; nor is there any beyond the raster
    corner_l0: PointL0
    pixel_l0: float
    major_axis_um: NDArray[np.float64]  # (lesions,)
    is_itc: NDArray[np.bool_]  # (lesions,)


@dataclass(frozen=True, slots=True, eq=False)
class Detections:
    """Points on a slide that are said to lie in a lesion, each array (detections,)."""

    x_l0: NDArray[np.float64]
    y_l0: NDArray[np.float64]
    score: _Scores


@dataclass(frozen=True, slots=True, eq=False)
class SlideHits:
    """What the detections of one slide hit."""

    best_score: _Scores  # (lesions,), nan where a lesion was not hit
    major_axis_um: NDArray[np.float64]  # (lesions,)
    is_itc: NDArray[np.bool_]  # (lesions,)
    false_scores: _Scores  # (false positives,)


@dataclass(frozen=True, slots=True, eq=False)
class Froc:
    """The curve begins at (0, 0) and rises with every threshold; without lesions all sensitivities are nan."""

    false_positives: NDArray[np.float64]  # (points,), per slide
    sensitivity: NDArray[np.float64]  # (points,)
    at: tuple[float, ...]  # sensitivities at FALSE_POSITIVES
    score: float  # their mean
    lesions: int
    hit: int  # so many of them at all


def find_lesions(annotation: Annotation, *, mpp: float, size_l0: SizeL0, pixel_l0: float | None = None) -> Lesions:
    """The lesions of a slide of this scale and size; what is smaller than a pixel may be none.

    With `mpp=CAMELYON_MPP, pixel_l0=32` all is as the organisers do it, whatever scale the slide has. Some 10 bytes
    are taken for each pixel of the smallest box around the tumour.
    """
    pixel_l0 = _PIXEL_UM / mpp if pixel_l0 is None else pixel_l0
    pixel_um = pixel_l0 * mpp  # (px_l0 / px) * (um / px_l0) = um/px
    reach_px = JOINS_BELOW_UM / pixel_um
    corner, box = _box_around(annotation.bounds, size_l0, pixel_l0, margin_px=math.ceil(reach_px) + 1)
    if min(box) <= 0:
        return Lesions(np.zeros((0, 0), np.int32), PointL0(0, 0), pixel_l0, np.zeros(0), np.zeros(0, np.bool_))
    is_lesion = annotation.tumour_mask(corner, box, pixel_l0)
    is_lesion = ndimage.binary_dilation(is_lesion, _disc(reach_px))
    is_lesion = ndimage.binary_fill_holes(is_lesion)
    labels, count = ndimage.label(is_lesion, np.ones((3, 3)), output=np.int32)
    major_axis_um = _major_axes_px(labels, count) * pixel_um
    return Lesions(labels, corner, pixel_l0, major_axis_um, major_axis_um < ITC_BELOW_UM)


def _box_around(bounds: BoxL0 | None, size_l0: SizeL0, pixel_l0: float, margin_px: int) -> tuple[PointL0, SizeL0]:
    """Corner and size of what is tumour and its margin, on the slide, in whole pixels counted from the slide's corner.

    The margin keeps the box from cutting a lesion, or closing a bay that is then taken for a hole.
    """
    if bounds is None:
        return PointL0(0, 0), SizeL0(0, 0)
    sides = []
    ends_l0 = ((bounds.corner.x, bounds.right, size_l0.width), (bounds.corner.y, bounds.bottom, size_l0.height))
    for low_l0, high_l0, side_l0 in ends_l0:
        first = max(0, math.floor(low_l0 / pixel_l0) - margin_px)
        last = min(math.ceil(side_l0 / pixel_l0), math.ceil(high_l0 / pixel_l0) + margin_px)
        sides.append((first * pixel_l0, (last - first) * pixel_l0))
    (left, width), (top, height) = sides
    return PointL0(left, top), SizeL0(width, height)


def _disc(reach_px: float) -> NDArray[np.bool_]:
    """The pixels whose centre is less than `reach_px` from that of the middle one."""
    offsets = np.arange(-math.floor(reach_px), math.floor(reach_px) + 1)
    return np.asarray(offsets[:, None] ** 2 + offsets**2 < reach_px**2, np.bool_)


def _major_axes_px(labels: NDArray[np.int32], count: int) -> NDArray[np.float64]:
    """Of each region the longer axis of the ellipse with its second moments, as scikit-image measures it, (count,)."""
    sums = np.zeros((6, count + 1))
    height = _BAND_PIXELS // max(1, labels.shape[1]) + 1
    for top in range(0, len(labels), height):
        band = labels[top : top + height]
        row, col = np.nonzero(band)
        y, x = (row + top).astype(np.float64), col.astype(np.float64)
        for place, weights in enumerate((np.ones_like(y), y, x, y * y, y * x, x * x)):
            sums[place] += np.bincount(band[row, col], weights, minlength=count + 1)
    n, y, x, yy, yx, xx = sums[:, 1:]
    yy, yx, xx = yy / n - (y / n) ** 2, yx / n - y * x / n**2, xx / n - (x / n) ** 2
    largest = (yy + xx) / 2 + np.hypot((yy - xx) / 2, yx)  # eigenvalue of the covariance
    return np.asarray(4 * np.sqrt(np.maximum(largest, 0)), np.float64)


def detections_of(labels: NDArray[np.uint8], sure: NDArray[np.uint8], *, label: int, cell_l0: float) -> Detections:
    """One detection for each 4-connected region of the cells of one label, in the order of their first cells.

    `labels` and `sure` (rows, cols) begin at the slide's corner; of `sure` 255 is sure. The score of a region is the
    mean of it; the point is the middle of its deepest cell, the one furthest from all that is not of the region.
    """
    is_inside = labels == label
    parts, count = ndimage.label(is_inside, output=np.int32)  # without diagonals
    row, col = np.nonzero(is_inside)
    part = parts[row, col] - 1
    cells, sums = np.bincount(part, minlength=count), np.bincount(part, sure[row, col], minlength=count)
    # Whatever is nearest to a cell and not of its region has a side in common with the region, so it has another label:
    # depths need not be measured region by region.
    depth = _depths(is_inside, row, col)
    deepest = np.zeros(count, np.int64)
    np.maximum.at(deepest, part, depth)
    is_deepest = np.flatnonzero(depth == deepest[part])
    _, first = np.unique(part[is_deepest], return_index=True)
    chosen = is_deepest[first]  # (regions,)
    x_l0, y_l0 = (np.asarray((places[chosen] + 0.5) * cell_l0, np.float64) for places in (col, row))
    return Detections(x_l0, y_l0, sums / (255.0 * cells))


def _depths(is_inside: NDArray[np.bool_], row: NDArray[np.int64], col: NDArray[np.int64]) -> NDArray[np.int64]:
    """Squared distance of cells to the nearest that is not inside, as beyond the raster none is; whole numbers."""
    nearest = ndimage.distance_transform_edt(np.pad(is_inside, 1), return_distances=False, return_indices=True)
    away = nearest[:, row + 1, col + 1] - np.stack([row + 1, col + 1])  # (2, cells)
    return np.asarray((away**2).sum(axis=0), np.int64)


def match(lesions: Lesions | None, detections: Detections) -> SlideHits:
    """Which lesions the detections of a slide hit, and which detections are false; all are where there is no tumour."""
    if lesions is None:
        return SlideHits(np.zeros(0), np.zeros(0), np.zeros(0, np.bool_), detections.score)
    rows, cols = lesions.labels.shape
    row = np.floor((detections.y_l0 - lesions.corner_l0.y) / lesions.pixel_l0).astype(np.int64)
    col = np.floor((detections.x_l0 - lesions.corner_l0.x) / lesions.pixel_l0).astype(np.int64)
    is_on = (row >= 0) & (row < rows) & (col >= 0) & (col < cols)
    lesion = np.zeros(len(row), np.int64)
    lesion[is_on] = lesions.labels[row[is_on], col[is_on]]
    is_hit = lesion > 0
    best = np.full(len(lesions.is_itc), np.nan)
    np.fmax.at(best, lesion[is_hit] - 1, detections.score[is_hit])
    return SlideHits(best, lesions.major_axis_um, lesions.is_itc, detections.score[~is_hit])


def froc(slides: Sequence[SlideHits], *, among: tuple[float, float] | None = None) -> Froc:
    """The curve over all slides, those without tumour too.

    Lesions are all but ITC, or those with a major axis in um from `among[0]` up to `among[1]`, ITC or not. False
    positives are the same in either case. Beyond the end of the curve sensitivity stays what it is there.
    """
    best = np.concatenate([np.zeros(0), *(slide.best_score[_are_asked_for(slide, among)] for slide in slides)])
    false = np.concatenate([np.zeros(0), *(slide.false_scores for slide in slides)])
    found = best[~np.isnan(best)]
    thresholds = np.unique(np.concatenate([found, false]))[::-1]
    false_positives = np.append(0.0, _at_least(false, thresholds) / max(1, len(slides)))
    share = _at_least(found, thresholds) / len(best) if len(best) else np.full(len(thresholds), np.nan)
    sensitivity = np.append(0.0 if len(best) else np.nan, share)
    at = np.interp(FALSE_POSITIVES, false_positives, sensitivity)
    return Froc(false_positives, sensitivity, tuple(at.tolist()), float(at.mean()), len(best), len(found))


def _are_asked_for(slide: SlideHits, among: tuple[float, float] | None) -> NDArray[np.bool_]:
    if among is None:
        return ~slide.is_itc
    return (slide.major_axis_um >= among[0]) & (slide.major_axis_um < among[1])


def _at_least(scores: _Scores, thresholds: _Scores) -> NDArray[np.int64]:
    """How many scores reach each threshold."""
    return np.asarray(len(scores) - np.searchsorted(np.sort(scores), thresholds), np.int64)
