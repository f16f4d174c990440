"""One segmented slide against its outlines: every area worked out by hand, or by shapely."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import shapely
from conftest import box, write_segmented
from numpy.typing import NDArray

from ucc_path.errors import AnnotationError, OutputError
from ucc_path.formats import png, segmentation_json
from ucc_path.report.comparison import AGREEMENT
from ucc_path.settings import AnnotationSettings
from ucc_path.workflows.score.request import Source
from ucc_path.workflows.score.slide import ScoreJob, SlideScore, score

Make = Callable[..., ScoreJob]
Ring = list[tuple[float, float]]

CELL_MM2 = 0.01
LABELS = np.array([[0, 1, 1, 1], [1, 2, 2, 1], [1, 2, 2, 1], [1, 1, 1, 1]], np.uint8)
# Half of the cells in column 1, all in column 2, half in column 3, all in rows 1 and 2; and the one without tissue.
OUTLINES = (box(150, 100, 350, 300), box(0, 0, 100, 100))


@pytest.fixture
def make_job(tmp_path: Path, make_xml: Callable[..., Path]) -> Make:
    """`make_job(labels, [ring, ...])`: a slide `s` in `segmented`, outlined so; None for a slide that is normal."""

    def make(
        labels: NDArray[np.uint8],
        tumour: list[Ring] | None,
        excluded: list[Ring] | None = None,
        *,
        is_exhaustive: bool = True,
        **how: Any,
    ) -> ScoreJob:
        write_segmented(tmp_path / "segmented", "s", labels, **how)
        outline = None if tumour is None else make_xml(tmp_path / "s.tif", tumour, excluded or [])
        source = Source("s", segmentation_json.read(tmp_path / "segmented", "s"), outline, is_exhaustive)
        return ScoreJob(source, tmp_path / "segmented", tmp_path / "s_agreement.png", AnnotationSettings())

    return make


def cells(found: SlideScore, row: str, region: str = "") -> list[float]:
    """TP, FP, TN, FN in cells of 0.01 mm2."""
    return [round(float(area), 6) for area in found.counts[row][region] / CELL_MM2]


def test_cells_that_are_outlined_wholly_and_by_halves(make_job: Make) -> None:
    found = score(make_job(LABELS, [*OUTLINES]))
    # The mask has four cells of tumour: two by half, two wholly; it misses two halves, and the cell without tissue.
    assert cells(found, "-exact") == [3, 1, 10, 2]
    assert cells(found, "-exact", "-tissue") == [3, 1, 10, 1]
    # A cell that is half tumour is tumour: six cells, of which two are missed.
    assert cells(found, "") == [4, 0, 9, 3]
    assert cells(found, "", "-tissue") == [4, 0, 9, 2]
    assert cells(found, "empty") == [0, 0, 11, 5]
    assert cells(found, "empty", "-tissue") == [0, 0, 11, 4]
    # The best that cells can do: the six, four of which hang over the outline by a half.
    assert cells(found, "grid-ceiling") == [4, 2, 9, 1]
    assert cells(found, "grid-ceiling", "-tissue") == [4, 2, 9, 0]
    assert found.tumour_mm2 == pytest.approx(0.05)
    assert found.found_mm2 == pytest.approx(0.04)
    assert (found.left_out_mm2, found.outside_share, found.mpp) == (0, 0, 1.0)


def test_the_scale_of_the_slide_makes_the_areas(make_job: Make) -> None:
    fine = score(make_job(LABELS, [*OUTLINES], mpp=0.25))
    assert fine.tumour_mm2 == pytest.approx(0.05 / 16)
    assert cells(fine, "-exact") == pytest.approx([3 / 16, 1 / 16, 10 / 16, 2 / 16])


def star(rng: np.random.Generator, reach: float) -> NDArray[np.float64]:
    angle, radius = np.sort(rng.uniform(0, 2 * np.pi, 25)), reach * rng.uniform(0.3, 1, 25)
    return rng.uniform(0, 400, 2) + np.column_stack([radius * np.cos(angle), radius * np.sin(angle)])


@pytest.mark.parametrize("seed", [1, 2])
def test_exact_areas_are_those_of_the_polygons(make_job: Make, seed: int) -> None:
    """Cells of 37 px do not cover the slide: what is left at its edges is not tumour in the mask."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 3, (9, 12), np.uint8)
    tumour, excluded = ([star(rng, 150) for _ in range(count)] for count in (4, 2))
    size_l0 = (12 * 37 + 20, 9 * 37 + 11)
    job = make_job(labels, [ring.tolist() for ring in tumour], [*excluded], cell_l0=37, size_l0=size_l0, mpp=0.5)
    found = score(job)

    def of_cells(chosen: NDArray[np.bool_]) -> Any:
        boxes = [shapely.box(37 * col, 37 * row, 37 * (col + 1), 37 * (row + 1)) for row, col in np.argwhere(chosen)]
        return shapely.union_all(boxes)

    outlined = shapely.union_all([shapely.Polygon(ring) for ring in tumour])
    outlined = outlined.difference(shapely.union_all([shapely.Polygon(ring) for ring in excluded]))
    mask, slide, tissue = of_cells(labels == 2), shapely.box(0, 0, *size_l0), of_cells(labels > 0)
    truth = outlined.intersection(slide)
    assert truth.area > 0 and truth.intersection(mask).area > 0
    for region, where in (("", slide), ("-tissue", tissue)):
        parts = (
            truth.intersection(mask),
            mask.difference(truth),
            where.difference(truth).difference(mask),
            truth.intersection(where).difference(mask),
        )
        areas_mm2 = [part.area * 0.0005**2 for part in parts]
        np.testing.assert_allclose(found.counts["-exact"][region], areas_mm2, rtol=0, atol=1e-8)


def test_what_lies_beyond_the_last_cells_counts(make_job: Make) -> None:
    """Cells to 400, the slide to 450 x 430; tumour from 380 to 440 over the height of the cells."""
    found = score(make_job(np.ones((4, 4), np.uint8), [box(380, 0, 440, 400)], size_l0=(450, 430)))
    assert cells(found, "-exact") == pytest.approx([0, 0, 19.35 - 2.4, 2.4])
    assert cells(found, "-exact", "-tissue") == pytest.approx([0, 0, 16 - 0.8, 0.8])
    assert cells(found, "empty") == cells(found, "-exact")
    assert cells(found, "") == [0, 0, 16, 0]  # on the grid, where a fifth of a cell is not most of it
    assert found.tumour_mm2 == pytest.approx(0.024)


def test_of_a_slide_not_all_outlined_only_the_outlines_count(make_job: Make) -> None:
    found = score(make_job(LABELS, [*OUTLINES], is_exhaustive=False))
    assert cells(found, "-exact") == pytest.approx([3, math.nan, math.nan, 2], nan_ok=True)
    assert cells(found, "-exact", "-tissue") == pytest.approx([3, math.nan, math.nan, 1], nan_ok=True)
    assert cells(found, "") == pytest.approx([4, math.nan, math.nan, 3], nan_ok=True)
    # Fifteen cells are tissue, of which the outlines cover four.
    assert found.left_out_mm2 == pytest.approx(0.11)


def test_an_outline_that_hangs_over_the_slide_counts_as_far_as_it_lies_on_it(make_job: Make) -> None:
    found = score(make_job(LABELS, [box(300, 0, 500, 300)]))
    assert found.outside_share == pytest.approx(0.5)
    assert found.tumour_mm2 == pytest.approx(0.03)
    assert cells(found, "-exact") == [0, 4, 9, 3]


def test_an_outline_of_another_slide_is_refused(make_job: Make) -> None:
    with pytest.raises(
        AnnotationError, match=r"s\.xml outlines tumour of which 67% lies outside .*segmented/s \(400 x 400 px\); give"
    ):
        score(make_job(LABELS, [box(300, 0, 600, 300)]))


@pytest.mark.parametrize("left_over", [0, 7])
def test_masks_as_large_as_the_slide_give_the_same_figures(make_job: Make, left_over: int) -> None:
    sure = np.arange(16, dtype=np.uint8).reshape(4, 4) * 16
    size_l0 = (400 + left_over, 400 + left_over)
    small, large = (
        score(make_job(LABELS, [*OUTLINES], sure=sure, size_l0=size_l0, full_size=full_size))
        for full_size in (False, True)
    )
    for row, by_region in small.counts.items():
        for region, counts in by_region.items():
            assert np.array_equal(large.counts[row][region], counts)
    assert small.hits.best_score.tolist() == large.hits.best_score.tolist() == [np.mean([80, 96, 144, 160]) / 255]


def test_on_a_normal_slide_every_detection_is_a_false_alarm(make_job: Make) -> None:
    labels = np.array([[2, 1, 2, 2], [1, 1, 1, 1], [0, 2, 1, 1]], np.uint8)
    sure = np.array([[51, 9, 102, 204], [9, 9, 9, 9], [0, 255, 9, 9]], np.uint8)
    found = score(make_job(labels, None, sure=sure))
    assert found.hits.false_scores.tolist() == pytest.approx([0.2, 0.6, 1.0])
    assert len(found.hits.best_score) == 0 and found.detections == 3
    assert cells(found, "-exact") == [0, 4, 8, 0]
    assert found.tumour_mm2 == 0


def test_the_picture_shows_where_mask_and_outlines_agree(make_job: Make) -> None:
    job = make_job(LABELS, [box(100, 100, 300, 200), box(300, 300, 400, 400)])
    score(job)
    picture = png.read(job.picture)
    shown = {
        (1, 1): "tumour found",
        (3, 3): "tumour missed",
        (2, 1): "false alarm",
        (3, 0): "not tumour, rightly",
        (0, 0): "background",
    }
    side = picture.shape[1] // 4
    for (row, col), meaning in shown.items():
        assert tuple(picture[row * side + side // 2, col * side + side // 2]) == AGREEMENT[meaning]


def test_a_label_that_no_class_has_is_refused(make_job: Make) -> None:
    with pytest.raises(OutputError, match=r"segmented/s has labels that no class has; segment it anew"):
        score(make_job(LABELS + 1, None))


def test_a_raster_that_is_damaged_or_missing_or_of_another_slide_is_refused(make_job: Make, tmp_path: Path) -> None:
    job = make_job(LABELS, None)
    labels, uncertainty = (tmp_path / "segmented" / f"s_{name}.tif" for name in ("labels", "uncertainty"))
    whole = labels.read_bytes()
    labels.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(OutputError, match=r"s_labels\.tif .*; segment the slide anew with --overwrite"):
        score(job)
    labels.write_bytes(whole)
    uncertainty.unlink()
    with pytest.raises(OutputError, match=r"s_uncertainty\.tif .*; segment the slide anew with --overwrite"):
        score(job)
    write_segmented(tmp_path / "segmented", "s", LABELS[:3])
    with pytest.raises(OutputError, match=r"s_labels\.tif is 4 x 3 px, but its grid has 4 x 4 cells"):
        score(job)
