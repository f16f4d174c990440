"""Lesions found at the price of false positives, worked out by hand and by the definition."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays
from numpy.typing import NDArray
from PIL import Image
from scipy import ndimage
from skimage import measure

from ucc_path.annotation import Annotation, from_polygons
from ucc_path.evaluation import froc as froc_module
from ucc_path.evaluation.froc import (
    CAMELYON_MPP,
    SIZES,
    Detections,
    Lesions,
    SlideHits,
    detections_of,
    find_lesions,
    froc,
    match,
)
from ucc_path.formats import asap_xml, mask_image
from ucc_path.geometry import SizeL0
from ucc_path.mask.polygons import regions

MPP = 0.5
SLIDE_UM = 4000.0
SLIDE_L0 = SizeL0(SLIDE_UM / MPP, SLIDE_UM / MPP)

Spot = tuple[float, float, float]


def box_um(left: float, top: float, width: float, height: float, mpp: float = MPP) -> NDArray[np.float64]:
    right, bottom = left + width, top + height
    return np.array([[left, top], [right, top], [right, bottom], [left, bottom]]) / mpp


def lesions_of(*tumour: NDArray[np.float64], excluded: tuple[NDArray[np.float64], ...] = ()) -> Lesions:
    return find_lesions(from_polygons(tumour, excluded), mpp=MPP, size_l0=SLIDE_L0)


def detected(*spots_um: Spot) -> Detections:
    """Detections at (x, y) in um, each with its score."""
    x_um, y_um, score = np.array(spots_um, float).reshape(-1, 3).T
    return Detections(x_um / MPP, y_um / MPP, score)


def hits(best: list[float], false: list[float], axis_um: list[float] | None = None) -> SlideHits:
    major_axis_um = np.array([500.0] * len(best) if axis_um is None else axis_um)
    return SlideHits(np.array(best, float), major_axis_um, major_axis_um < 275, np.array(false, float))


def test_two_slides_worked_out_by_hand() -> None:
    # Slide A: two lesions of 400 um, and one of 60 um, which grows to 135 um and is ITC. Slide B has no tumour.
    a = lesions_of(box_um(200, 200, 400, 400), box_um(1200, 200, 400, 400), box_um(2200, 200, 60, 60))
    assert a.is_itc.tolist() == [False, False, True]
    on_a = detected(
        (400, 400, 0.8),  # the first lesion
        (300, 300, 0.4),  # the first lesion once more: neither a second hit nor false
        (1400, 400, 0.5),  # the second lesion
        (2230, 230, 0.95),  # ITC: neither a hit nor false
        (3000, 3000, 0.7),  # false
    )
    on_b = detected((400, 400, 0.9), (1000, 1000, 0.5), (2000, 2000, 0.3))  # all false
    found = froc([match(a, on_a), match(None, on_b)])
    # threshold   false positives, per slide   lesions hit, of two
    #    0.9        1 (B)            0.5         0               0
    #    0.8        1                0.5         1 (the first)   0.5
    #    0.7        2 (B, A)         1           1               0.5
    #    0.5        3 (B, A, B)      1.5         2 (the second)  1
    #    0.3        4                2           2               1
    assert found.false_positives.tolist() == [0, 0.5, 0.5, 1, 1.5, 2]
    assert found.sensitivity.tolist() == [0, 0, 0.5, 0.5, 1, 1]
    # At 1/4 the line from (0, 0) to (0.5, 0); at 4 and 8 as at the end of the curve.
    assert found.at == pytest.approx((0, 0.5, 0.5, 1, 1, 1))
    assert found.score == pytest.approx(4 / 6)
    assert (found.lesions, found.hit) == (2, 2)


def test_between_two_points_of_the_curve_sensitivity_is_on_the_line() -> None:
    # Four false positives on one slide come together with one of two lesions: from (0, 0) straight to (4, 0.5).
    found = froc([hits([0.5, math.nan], [0.5, 0.5, 0.5, 0.5])])
    assert found.at == pytest.approx((0.5 / 16, 0.5 / 8, 0.5 / 4, 0.5 / 2, 0.5, 0.5))


def test_scores_that_are_equal_pass_a_threshold_together() -> None:
    found = froc([hits([0.5, 0.5], [0.5, 0.5])])
    assert found.false_positives.tolist() == [0, 2]
    assert found.sensitivity.tolist() == [0, 1]


def test_lesions_hit_at_no_false_positive_count_in_full() -> None:
    found = froc([hits([0.9, 0.2, math.nan], [0.1])])
    assert found.at == pytest.approx((2 / 3,) * 6)
    assert (found.lesions, found.hit) == (3, 2)


def test_where_nothing_is_detected_the_score_is_0() -> None:
    found = froc([match(lesions_of(box_um(200, 200, 400, 400)), detected()), match(None, detected())])
    assert (found.score, found.lesions, found.hit) == (0.0, 1, 0)
    assert found.false_positives.tolist() == found.sensitivity.tolist() == [0]


@pytest.mark.parametrize("slides", [[], [hits([], [])], [hits([], [0.5, 0.7])], [hits([0.5], [0.9], [100.0])]])
def test_where_there_is_no_lesion_the_score_is_undefined(slides: list[SlideHits]) -> None:
    found = froc(slides)
    assert math.isnan(found.score) and all(map(math.isnan, found.at))
    assert np.isnan(found.sensitivity).all()
    assert found.false_positives.tolist() == [0, *range(1, 1 + sum(len(slide.false_scores) for slide in slides))]
    assert (found.lesions, found.hit) == (0, 0)


def test_a_detection_with_a_score_of_0_is_one() -> None:
    found = froc([hits([0.0], [0.0, 0.0])])
    assert (found.false_positives.tolist(), found.sensitivity.tolist(), found.hit) == ([0, 2], [0, 1], 1)


def test_lesions_are_told_apart_by_size_and_false_positives_are_not() -> None:
    slide = hits([0.9, math.nan, 0.5, 0.3], [0.7], [274.9, 275.0, 1999.9, 2000.0])
    by_size = {name: froc([slide], among=among) for name, among in SIZES.items()}
    assert {name: (found.lesions, found.hit) for name, found in by_size.items()} == {
        "isolated tumour cells": (1, 1),
        "micro": (2, 1),
        "macro": (1, 1),
    }
    assert by_size["isolated tumour cells"].at == (1.0,) * 6  # hit before the false positive
    assert by_size["micro"].at == pytest.approx((0, 0, 0.5, 0.5, 0.5, 0.5))
    assert all(found.false_positives[-1] == 1 for found in by_size.values())
    assert (froc([slide]).lesions, froc([slide]).hit) == (3, 2)


few_scores = st.lists(st.sampled_from([0.1, 0.2, 0.3, 0.4, 0.5]), max_size=6)
few_bests = st.lists(st.sampled_from([math.nan, 0.1, 0.2, 0.3, 0.4, 0.5]), max_size=4)


@given(st.lists(st.tuples(few_bests, few_scores), min_size=1, max_size=4))
def test_every_point_of_the_curve_is_a_threshold_and_what_reaches_it(
    slides: list[tuple[list[float], list[float]]],
) -> None:
    found = froc([hits(best, false) for best, false in slides])
    bests, falses = ([score for slide in slides for score in slide[side]] for side in (0, 1))
    thresholds = sorted({score for score in bests + falses if not math.isnan(score)}, reverse=True)
    counted = [sum(score >= threshold for score in falses) / len(slides) for threshold in thresholds]
    assert found.false_positives.tolist() == [0, *counted]
    if bests:
        reached = [sum(score >= threshold for score in bests) / len(bests) for threshold in thresholds]
        assert found.sensitivity.tolist() == [0, *reached]
        assert all(low <= high for low, high in zip(found.at, found.at[1:], strict=False))


@pytest.mark.parametrize("shift_um", [0.0, 2.5, 5.0, 7.5])
@pytest.mark.parametrize(("gap_um", "lesions"), [(60, 1), (90, 2)])
def test_foci_60_um_apart_are_one_lesion_and_90_um_apart_are_two(gap_um: float, lesions: int, shift_um: float) -> None:
    left = 200 + shift_um
    across = lesions_of(box_um(left, 200, 300, 300), box_um(left + 300 + gap_um, 200, 300, 300))
    down = lesions_of(box_um(200, left, 300, 300), box_um(200, left + 300 + gap_um, 300, 300))
    assert len(across.is_itc) == len(down.is_itc) == lesions


def test_a_lesion_takes_in_the_four_pixels_beside_it_whose_centres_are_near() -> None:
    # Of the centres beside a border between pixels, four are less than 37.5 um from the nearest within: 31.104 um do,
    # 38.88 um do not.
    low, high = 130 * 7.776, 180 * 7.776
    lesions, middle = lesions_of(box_um(low, low, high - low, high - low)), (low + high) / 2
    for out_um, false in ((31.0, 0), (31.2, 4)):
        near, far = low - out_um, high + out_um
        beside = detected((near, middle, 0.5), (far, middle, 0.6), (middle, near, 0.7), (middle, far, 0.8))
        assert len(match(lesions, beside).false_scores) == false
    # At corners three and three do: 33 um.
    assert len(match(lesions, detected((low - 23, low - 23, 0.5), (low - 24, low - 24, 0.5))).false_scores) == 1


def test_a_hole_in_a_lesion_is_of_the_lesion_and_a_bay_is_not() -> None:
    around = lesions_of(box_um(1000, 1000, 800, 800), excluded=(box_um(1200, 1200, 400, 400),))
    assert match(around, detected((1400, 1400, 0.5))).best_score.tolist() == [0.5]
    open_to_the_right = lesions_of(box_um(1000, 1000, 800, 800), excluded=(box_um(1200, 1200, 700, 400),))
    assert match(open_to_the_right, detected((1400, 1400, 0.5), (1800, 1400, 0.5))).false_scores.tolist() == [0.5, 0.5]


def test_isolated_tumour_cells_are_hit_for_information_alone() -> None:
    lesions = lesions_of(box_um(1000, 1000, 60, 60))
    slide = match(lesions, detected((1030, 1030, 0.5)))
    assert slide.is_itc.tolist() == [True] and slide.best_score.tolist() == [0.5] and len(slide.false_scores) == 0
    assert math.isnan(froc([slide]).score)


def test_every_detection_on_a_slide_without_tumour_is_false() -> None:
    everywhere = detected((0, 0, 0.1), (1200, 1200, 0.9), (3999, 3999, 0.5))
    for lesions in (None, lesions_of()):
        slide = match(lesions, everywhere)
        assert slide.false_scores.tolist() == [0.1, 0.9, 0.5] and len(slide.best_score) == len(slide.is_itc) == 0


def test_detections_far_from_all_tumour_are_false() -> None:
    lesions = lesions_of(box_um(2000, 2000, 400, 400))
    assert lesions.labels.size < 80 * 80  # memory follows the tumour
    corners = detected((0, 0, 0.1), (3999, 0, 0.2), (0, 3999, 0.3), (3999, 3999, 0.4), (2200, 0, 0.5), (0, 2200, 0.6))
    assert len(match(lesions, corners).false_scores) == 6


def test_tumour_outside_the_slide_is_no_lesion() -> None:
    assert len(lesions_of(box_um(4500, 100, 300, 300), box_um(100, 5000, 300, 300)).is_itc) == 0
    assert len(lesions_of(box_um(-900, -900, 300, 300)).is_itc) == 0
    half_on_it = lesions_of(box_um(-300, 1000, 600, 400))
    assert match(half_on_it, detected((1, 1200, 0.5))).best_score.tolist() == [0.5]


def make_stars(seed: int) -> Annotation:
    """Specks and lesions with holes, some close together, some over the slide's edge."""
    rng = np.random.default_rng(seed)
    rings = []
    for x_um, y_um, radius_um in rng.uniform([-100, -100, 4], [SLIDE_UM + 100, SLIDE_UM + 100, 400], (30, 3)):
        angle, reach = np.sort(rng.uniform(0, 2 * np.pi, 30)), radius_um * rng.uniform(0.3, 1, 30)
        rings.append(np.column_stack([x_um + reach * np.cos(angle), y_um + reach * np.sin(angle)]) / MPP)
    return from_polygons(rings[:22], rings[22:])


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("pixel_l0", [None, 32.0])
def test_lesions_are_what_the_definition_gives_on_the_whole_slide(seed: int, pixel_l0: float | None) -> None:
    annotation, mpp = make_stars(seed), MPP if pixel_l0 is None else CAMELYON_MPP
    lesions = find_lesions(annotation, mpp=mpp, size_l0=SLIDE_L0, pixel_l0=pixel_l0)
    side_l0 = 0.243 * 32 / MPP if pixel_l0 is None else 32.0
    side = math.ceil(SLIDE_L0.width / side_l0)
    tumour = annotation.tumour_mask((0, 0), (side * side_l0, side * side_l0), side_l0)
    grown = ndimage.distance_transform_edt(~tumour) < 75 / (0.243 * 2**5 * 2)
    labels = measure.label(ndimage.binary_fill_holes(grown), connectivity=2)  # type: ignore[no-untyped-call]
    top, left = round(lesions.corner_l0.y / side_l0), round(lesions.corner_l0.x / side_l0)
    whole = np.zeros_like(labels)
    whole[top : top + lesions.labels.shape[0], left : left + lesions.labels.shape[1]] = lesions.labels
    assert len(lesions.is_itc) > 2 and np.array_equal(whole, labels)
    found = measure.regionprops(labels)  # type: ignore[no-untyped-call]
    axes_um = [region.axis_major_length * 0.243 * 32 for region in found]
    np.testing.assert_allclose(lesions.major_axis_um, axes_um, atol=1e-6)
    assert lesions.is_itc.tolist() == [axis_um < 275 for axis_um in axes_um]


def test_axes_add_up_over_bands(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = find_lesions(make_stars(0), mpp=MPP, size_l0=SLIDE_L0)
    monkeypatch.setattr(froc_module, "_BAND_PIXELS", 1)
    banded = find_lesions(make_stars(0), mpp=MPP, size_l0=SLIDE_L0)
    np.testing.assert_allclose(banded.major_axis_um, whole.major_axis_um, atol=1e-6)


def raster(*rows: str) -> NDArray[np.uint8]:
    """Rows of digits; a dot is 0."""
    return np.array([[0 if cell == "." else int(cell) for cell in row] for row in rows], np.uint8)


def cells_of(detections: Detections, cell_l0: float = 32.0) -> list[tuple[float, float]]:
    """(row, col) of the cells in whose middle the detections are."""
    rows, cols = detections.y_l0 / cell_l0 - 0.5, detections.x_l0 / cell_l0 - 0.5
    return list(zip(rows.tolist(), cols.tolist(), strict=True))


def test_a_detection_is_the_deepest_cell_of_its_region() -> None:
    labels = raster("..111....", "..111....", "..11111.2", ".....1..2", "1........")
    found = detections_of(labels, np.full_like(labels, 255), label=1, cell_l0=32.0)
    assert cells_of(found) == [(1, 3), (4, 0)]
    assert found.score.tolist() == [1.0, 1.0]
    assert (found.x_l0[0], found.y_l0[0]) == (3.5 * 32, 1.5 * 32)


def test_beyond_the_raster_is_outside_a_region() -> None:
    full = np.ones((5, 7), np.uint8)
    assert cells_of(detections_of(full, full, label=1, cell_l0=32.0)) == [(2, 2)]  # the first of three alike
    assert cells_of(detections_of(full[:1], full[:1], label=1, cell_l0=32.0)) == [(0, 0)]


def test_no_cell_of_a_label_is_no_detection() -> None:
    found = detections_of(raster("..2", "..."), raster("999", "999"), label=1, cell_l0=32.0)
    assert len(found.x_l0) == len(found.y_l0) == len(found.score) == 0


def test_a_hundred_thousand_regions_are_told_apart() -> None:
    labels = (np.indices((450, 450)).sum(axis=0) % 2).astype(np.uint8)
    sure = np.random.default_rng(0).integers(0, 256, labels.shape, np.uint8)
    found = detections_of(labels, sure, label=1, cell_l0=32.0)
    assert np.array_equal(found.score, sure[labels == 1] / 255)
    assert np.array_equal(np.array(cells_of(found)), np.argwhere(labels == 1))


rasters = arrays(np.uint8, array_shapes(min_dims=2, max_dims=2, max_side=9), elements=st.integers(0, 2))


@given(rasters, st.integers(0, 2**32 - 1))
def test_detections_are_the_regions_that_are_outlined_and_lie_deepest_in_them(
    labels: NDArray[np.uint8], seed: int
) -> None:
    sure = np.random.default_rng(seed).integers(0, 256, labels.shape, np.uint8)
    found = detections_of(labels, sure, label=1, cell_l0=32.0)
    outlined = [region for region in regions(labels, sure, cell_l0=32) if region.label == 1]
    assert found.score.tolist() == [region.score for region in outlined]
    parts, count = ndimage.label(labels == 1)
    depths = [ndimage.distance_transform_edt(np.pad(parts == part, 1))[1:-1, 1:-1] for part in range(1, count + 1)]
    assert cells_of(found) == [tuple(np.argwhere(depth == depth.max())[0].tolist()) for depth in depths]


def test_the_lesions_of_a_real_outline_are_those_of_the_organisers_mask(shared_data: Path) -> None:
    path = shared_data / "camelyon16" / "test_001_evaluation_mask.png"
    numbered = np.asarray(Image.open(path))  # each part of the tumour as it was drawn, before it grows, has a number
    size_l0 = SizeL0(numbered.shape[1] * 32, numbered.shape[0] * 32)
    masks = (
        asap_xml.read(path.with_name("test_001.xml")),
        mask_image.read(path, size_l0=size_l0, tumour_values=tuple(range(1, 256))),
    )
    outlined, painted = (find_lesions(mask, mpp=CAMELYON_MPP, size_l0=size_l0, pixel_l0=32) for mask in masks)
    assert outlined.is_itc.tolist() == painted.is_itc.tolist() == [True, False, False, True, False]
    # The mask was painted with its outline, half a pixel further out on either side.
    np.testing.assert_allclose(outlined.major_axis_um, painted.major_axis_um, rtol=0, atol=2 * 7.776)
    top, left = round(outlined.corner_l0.y / 32), round(outlined.corner_l0.x / 32)
    there = numbered[top : top + outlined.labels.shape[0], left : left + outlined.labels.shape[1]]
    assert (there > 0).sum() == (numbered > 0).sum() and outlined.labels[there > 0].all()
    assert [len(np.unique(outlined.labels[there == number])) for number in range(1, 24)] == [1] * 23
