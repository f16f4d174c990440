"""A folder of segmented slides against annotations: lesions, slides of which not all is known, and bad ones."""

from __future__ import annotations

import json
import math
import resource
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from conftest import box, paint_slide, write_segmented
from numpy.typing import NDArray
from reports import counts_in, figures_in, finished, notices, table_rows

from ucc_path.errors import AnnotationError, OutputError, UccPathError
from ucc_path.formats import asap_xml, report_json
from ucc_path.settings import SegmentationSettings, TissueSettings
from ucc_path.workflows.events import Event, Failure
from ucc_path.workflows.score import ScoreReport, ScoreRequest, score_slides
from ucc_path.workflows.score.request import sources_of
from ucc_path.workflows.segment.jobs import ModelSpec, SlideJob, segment_slide
from ucc_path.workflows.segment.request import SegmentRequest, identity_of

CELLS = np.array([[1, 1, 1, 1], [1, 2, 2, 1], [1, 2, 2, 1], [1, 1, 1, 1]], np.uint8)
TUMOUR = box(100, 100, 300, 300)
ROWS = ["run", "run-exact", "empty", "grid-ceiling"]

Score = Callable[..., tuple[list[Event], ScoreReport]]


def outline(folder: Path, name: str, *rings: list[tuple[float, float]]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    asap_xml.write(folder / f"{name}.xml", [np.array(ring, float) for ring in rings], [])
    return folder / f"{name}.xml"


@pytest.fixture
def run(tmp_path: Path) -> Score:
    """`run(workers=2)`: what comes of the slides in `segmented` and the outlines in `xml`."""

    def score(**how: Any) -> tuple[list[Event], ScoreReport]:
        paths = {"folder": tmp_path / "segmented", "annotations": tmp_path / "xml", "output": tmp_path / "report"}
        return finished(score_slides(ScoreRequest(**(paths | how))))

    return score


@pytest.fixture
def slides(tmp_path: Path) -> Path:
    """Slides `a` and `b` whose tumour is all found, and their outlines."""
    for name in ("a", "b"):
        write_segmented(tmp_path / "segmented", name, CELLS)
        outline(tmp_path / "xml", name, TUMOUR)
    return tmp_path


def lesion_slide() -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """Labels of 20 x 20 cells of 100 um, and how sure they are: five regions of tumour."""
    labels, sure = np.ones((20, 20), np.uint8), np.full((20, 20), 255, np.uint8)
    for rows, cols, how_sure in (
        (slice(2, 6), slice(2, 6), 204),  # 0.8, on the first lesion
        (slice(2, 6), slice(12, 16), 102),  # 0.4, on the second
        (slice(15, 17), slice(3, 5), 153),  # 0.6, on nothing
        (slice(12, 13), slice(12, 13), 255),  # 1.0, on isolated tumour cells
    ):
        labels[rows, cols], sure[rows, cols] = 2, how_sure
    return labels, sure


@pytest.fixture(scope="module")
def cohort(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Segmented slides of which every sort is one, with their outlines."""
    folder = tmp_path_factory.mktemp("cohort")
    labels, sure = lesion_slide()
    write_segmented(folder / "segmented", "lesions", labels, sure=sure)
    lesions = (box(200, 200, 600, 600), box(1200, 200, 1600, 600), box(1220, 1220, 1280, 1280))
    outline(folder / "xml", "lesions", *lesions)
    write_segmented(folder / "segmented", "healthy", np.array([[1, 1, 1], [1, 2, 1]], np.uint8), sure=51)  # 0.2
    for name in ("tumor_010", "mine", "test_049"):
        write_segmented(folder / "segmented", name, CELLS)
        outline(folder / "xml", name, box(100, 100, 200, 300))  # the left half of what is found
    return folder


def score_cohort(cohort: Path, output: str, workers: int = 1) -> list[Event]:
    request = ScoreRequest(
        cohort / "segmented",
        cohort / "xml",
        cohort / output,
        unannotated="normal",
        not_exhaustive=("mine",),
        workers=workers,
    )
    return finished(score_slides(request))[0]


@pytest.fixture(scope="module")
def said(cohort: Path) -> list[Event]:
    """What is said of the cohort; the report is `report` beside it."""
    return score_cohort(cohort, "report")


@pytest.fixture
def report(cohort: Path, said: list[Event]) -> Path:
    return cohort / "report"


def test_the_rows_are_the_mask_by_cells_and_exact_and_what_it_is_compared_with(report: Path) -> None:
    averagings = ["image", "pooled", "image-tissue", "pooled-tissue"]
    found = [(row["model"], row["averaging"]) for row in table_rows(report / "metrics.csv")]
    assert found == [(model, averaging) for model in ROWS for averaging in averagings]
    names = ["healthy", "lesions", "mine", "tumor_010"]
    assert [(row["model"], row["image"]) for row in table_rows(report / "images.csv")] == [
        (model, name) for model in ROWS for name in names
    ]


def test_lesions_are_counted_as_worked_out_by_hand(report: Path) -> None:
    """Two slides are all outlined, and two lesions are large enough.

    threshold   false alarms, per slide   lesions hit, of two
       0.8        0              0          1 (the first)    0.5
       0.6        1              0.5        1                0.5
       0.4        1              0.5        2 (the second)   1
       0.2        2 (healthy)    1          2                1
    """
    record = report_json.read(report)
    found = record["froc"]["all"]
    assert record["froc"]["slides"] == 2
    assert (found["lesions"], found["hit"]) == (2, 2)
    assert found["false_positives"] == [0, 0, 0.5, 0.5, 1]
    assert found["sensitivity"] == [0, 0.5, 0.5, 1, 1]
    assert found["at"] == [0.5, 1, 1, 1, 1, 1]
    assert found["score"] == pytest.approx(5.5 / 6, abs=1e-6)
    assert record["froc"]["by_size"]["isolated tumour cells"]["lesions"] == 1
    assert record["froc"]["by_size"]["micro"]["lesions"] == 2
    by_name = {slide["name"]: slide for slide in record["data"]["slides"]}
    of_lesions = {"lesions": 2, "lesions_hit": 2, "isolated_tumour_cells": 1, "detections": 4, "false_positives": 1}
    assert {key: by_name["lesions"][key] for key in of_lesions} == of_lesions
    assert (by_name["healthy"]["detections"], by_name["healthy"]["false_positives"]) == (1, 1)


def test_of_slides_not_all_outlined_nothing_beside_the_outlines_counts(report: Path, said: list[Event]) -> None:
    record = report_json.read(report)
    assert record["data"]["not_exhaustive"] == ["mine", "tumor_010"]
    for name in ("mine", "tumor_010"):
        assert counts_in(report, "run-exact", name) == pytest.approx((0.02, math.nan, math.nan, 0), nan_ok=True)
        row = next(row for row in table_rows(report / "images.csv") if (row["model"], row["image"]) == ("run", name))
        assert row["TPR"] and not (row["FPR"] or row["PA"] or row["balanced"] or row["IoU"] or row["Dice"])
        text = f"{name}: its tumour is not all outlined, so that tissue beside the outlines is left out"
        assert text in notices(said) and text in record["notes"]
        (slide,) = [slide for slide in record["data"]["slides"] if slide["name"] == name]
        assert slide["left_out_mm2"] == pytest.approx(0.16 - 0.02)
    assert record["data"]["left_out_mm2"] == pytest.approx(2 * (0.16 - 0.02))


def test_a_slide_left_out_by_rule_is_said_and_not_scored(report: Path, said: list[Event]) -> None:
    assert any(text.startswith("test_049: ") and "left out" in text for text in notices(said))
    assert "test_049" not in {row["image"] for row in table_rows(report / "images.csv")}


def test_a_slide_taken_for_normal_has_only_false_alarms(report: Path) -> None:
    assert counts_in(report, "run-exact", "healthy") == pytest.approx((0, 0.01, 0.05, 0))
    row = next(row for row in table_rows(report / "images.csv") if row["image"] == "healthy")
    assert row["TPR"] == "" and float(row["FPR"]) == pytest.approx(1 / 6, abs=1e-6)


def test_pooled_figures_are_of_all_areas_together(report: Path) -> None:
    # Tumour: on `lesions` 0.16 + 0.16 mm2, found, and 0.0036, found too; on the two others 0.02 mm2 each.
    pooled = figures_in(report, "run-exact", "pooled")
    assert pooled["TPR"] == 1
    false_alarms, rest = 0.04 + (0.01 - 0.0036) + 0.01, 4 - 0.3236 + 0.06
    assert pooled["FPR"] == pytest.approx(false_alarms / rest, abs=1e-6)


def test_all_files_of_the_design_are_there_and_nothing_else(report: Path, cohort: Path) -> None:
    names = ["figures", "images.csv", "metrics.csv", "metrics.json", "report.html"]
    assert sorted(path.name for path in report.iterdir()) == names
    figures = [f"{name}_agreement.png" for name in ("healthy", "lesions", "mine", "tumor_010")]
    assert sorted(path.name for path in (report / "figures").glob("*.png")) == figures
    assert (report / "figures" / "froc.svg").read_text().startswith("<svg ")
    assert not list(cohort.glob("*.lock")) + list(cohort.glob("*.partial"))
    text = (report / "report.html").read_text(encoding="utf-8")
    assert all(word not in text for word in ("<script", "<link", "url(", 'src="http'))
    for name in ("healthy", "lesions", "mine", "tumor_010", "test_049"):
        assert name in text


def test_the_same_bytes_come_out_for_any_number_of_workers(report: Path, cohort: Path) -> None:
    score_cohort(cohort, "again", workers=2)
    for path in sorted(report.rglob("*")):
        if path.is_file():
            assert (cohort / "again" / path.relative_to(report)).read_bytes() == path.read_bytes(), path.name


@pytest.fixture
def process_as_before() -> Iterator[None]:
    """What a worker of `segment` sets for itself is taken back."""
    threads, limit = torch.get_num_threads(), resource.getrlimit(resource.RLIMIT_DATA)
    yield
    torch.set_num_threads(threads)
    resource.setrlimit(resource.RLIMIT_DATA, limit)


def test_a_slide_that_was_segmented_is_scored_by_what_was_painted(
    whole_run: Path, tmp_path: Path, run: Score, process_as_before: None
) -> None:
    """The mask is the painted box, 768 px wide at 0.5 um/px; the outline is the same, half a cell further right."""
    slide = paint_slide(tmp_path / "slides" / "s.tif")
    (tmp_path / "segmented").mkdir()
    wishes = SegmentationSettings(inference="torch", window_px=128, smooth_px=0, adapt=0)
    request = SegmentRequest((slide,), whole_run, tmp_path / "segmented", segmentation=wishes)
    spec = ModelSpec(whole_run / "model.safetensors", "cpu", 1, wishes)
    identity = identity_of(request, "0" * 64)
    job = SlideJob("s", slide, None, tmp_path / "segmented", spec, TissueSettings(), False, False, 10**12, identity)
    segment_slide(job)
    outline(tmp_path / "xml", "s", box(544, 512, 1312, 1280))
    _, report = run()
    um2 = (736 * 768, 32 * 768, 2048 * 2048 - 800 * 768, 32 * 768)
    expected = [area * 0.0005**2 for area in um2]
    assert counts_in(report.output, "run-exact", "s") == pytest.approx(expected, abs=1e-8)
    found = counts_in(report.output, "run", "s")  # a cell half outlined is tumour, on either side
    assert found == pytest.approx([area * 0.032**2 for area in (12 * 12, 0, 32 * 32 - 13 * 12, 12)], abs=1e-8)
    assert report.froc == 1 and report.slides == 1 and not report.failures
    assert report_json.read(report.output)["models"][0]["sha256"] == "0" * 64
    assert (report.output / "report.html").read_text().count("data:image/jpeg") == 2  # the mask on the slide, too


def test_bad_slides_fail_alone_and_the_others_are_scored(slides: Path, run: Score) -> None:
    for name in ("broken", "cut"):
        write_segmented(slides / "segmented", name, CELLS)
        outline(slides / "xml", name, TUMOUR)
    (slides / "xml" / "broken.xml").write_text("<ASAP_Annotations><Anno")
    labels = slides / "segmented" / "cut_labels.tif"
    labels.write_bytes(labels.read_bytes()[:100])
    events, report = run(workers=2)
    assert [failure.item for failure in report.failures] == ["broken", "cut"]
    assert "broken.xml" in report.failures[0].reason and "cut_labels.tif" in report.failures[1].reason
    assert sorted(event.item for event in events if isinstance(event, Failure)) == ["broken", "cut"]
    assert report.slides == 2 and figures_in(report.output, "run-exact")["TPR"] == 1
    record = report_json.read(report.output)
    assert [failure["item"] for failure in record["failed"]] == ["broken", "cut"]
    assert any("cut failed and is not in the figures" in note for note in record["notes"])
    assert sorted(path.name for path in (report.output / "figures").glob("*.png")) == [
        "a_agreement.png",
        "b_agreement.png",
    ]


def test_where_no_slide_can_be_scored_nothing_is_written(slides: Path, run: Score) -> None:
    for name in ("a", "b"):
        (slides / "xml" / f"{name}.xml").write_text("")
    with pytest.raises(OutputError, match="none of the 2 slides could be scored; nothing was written"):
        run()
    assert sorted(path.name for path in slides.iterdir()) == ["segmented", "xml"]


def test_the_only_slide_being_bad_is_the_error(tmp_path: Path, run: Score) -> None:
    write_segmented(tmp_path / "segmented", "a", CELLS)
    outline(tmp_path / "xml", "a", box(5000, 5000, 6000, 6000))
    with pytest.raises(AnnotationError, match=r"a\.xml outlines tumour of which 100% lies outside .*/a \(400 x 400"):
        run()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["segmented", "xml"]


def test_slides_without_an_annotation_are_skipped_where_that_is_meant(slides: Path, run: Score) -> None:
    write_segmented(slides / "segmented", "c", CELLS)
    outline(slides / "xml", "a", box(100, 100, 300, 440))  # a ninth of which lies beyond the slide
    (slides / "report").mkdir()
    (slides / "report" / "metrics.json").write_text("{}")  # which makes it a report that may be replaced
    events, report = run(unannotated="skip", overwrite=True)
    assert any("without an annotation, and therefore skipped: c" in text for text in notices(events))
    assert {row["image"] for row in table_rows(report.output / "images.csv")} == {"a", "b"}
    assert any(text.startswith("a: 11.8% of the outlined tumour lies beyond") for text in notices(events))


def test_rules_for_known_slides_can_be_left_out(tmp_path: Path) -> None:
    for name in ("tumor_010", "test_049"):
        write_segmented(tmp_path / "segmented", name, CELLS)
        outline(tmp_path / "xml", name, TUMOUR)
    request = ScoreRequest(tmp_path / "segmented", tmp_path / "xml", tmp_path / "report", camelyon_rules=False)
    sources = sources_of(request)
    assert [(source.name, source.is_exhaustive) for source in sources.slides] == [
        ("test_049", True),
        ("tumor_010", True),
    ]
    assert sources.remarks == ()


def test_slides_of_a_model_that_learnt_nothing_are_said_to_mean_nothing(slides: Path) -> None:
    request = ScoreRequest(slides / "segmented", slides / "xml", slides / "report")
    assert sources_of(request).remarks == ()
    write_segmented(slides / "segmented", "b", CELLS, converged=False)
    text = "run did no better than guessing when it was trained: its masks mean nothing"
    assert sources_of(request).remarks == (text,)


def refused(run: Score, kind: type[UccPathError], words: str, **how: Any) -> None:
    with pytest.raises(kind, match=words) as caught:
        run(**how)
    assert "\n" not in str(caught.value)


def test_a_folder_without_segmented_slides_is_refused(tmp_path: Path, run: Score) -> None:
    refused(run, OutputError, r"segmented is not a folder; name one that ucc-path segment has made")
    (tmp_path / "segmented").mkdir()
    (tmp_path / "segmented" / "notes.json").write_text("{}")
    refused(run, OutputError, r"segmented holds no segmented slides; make them with ucc-path segment")


def test_annotations_of_other_slides_are_refused_and_both_are_named(slides: Path, run: Score) -> None:
    outline(slides / "others", "x", TUMOUR)
    words = r"others annotates none of the slides of .*segmented, which are a, b; it is for x: give --annotations"
    refused(run, AnnotationError, words, annotations=slides / "others")
    (slides / "nothing").mkdir()
    refused(run, AnnotationError, "it is for nothing: give", annotations=slides / "nothing")
    refused(run, AnnotationError, r"nowhere cannot be read \(No such file", annotations=slides / "nowhere")


def test_what_a_missing_annotation_means_must_be_said(slides: Path, run: Score) -> None:
    (slides / "xml" / "b.xml").unlink()
    refused(run, AnnotationError, r"there is no annotation for b in .*xml; say what .*--unannotated normal or --un")


def test_two_annotations_of_one_slide_are_refused(slides: Path, run: Score) -> None:
    (slides / "xml" / "a.geojson").write_text("{}")
    refused(run, AnnotationError, r"a has more than one annotation, .*a\.geojson and .*a\.xml")


def test_slides_of_two_models_are_not_scored_together(slides: Path, run: Score) -> None:
    write_segmented(slides / "segmented", "b", CELLS, sha256="1" * 64)
    refused(run, OutputError, r"a and b in .*segmented were segmented by two models; score them apart")


def test_a_mask_in_which_nothing_is_called_tumour_is_refused(slides: Path, run: Score) -> None:
    write_segmented(slides / "segmented", "b", CELLS, classes=("cluster 1", "cluster 2"))
    refused(run, OutputError, r"no class of .*segmented/b is called tumour, .*; segment it with a model trained on")


def test_a_slide_that_is_not_there_cannot_be_named(slides: Path, run: Score) -> None:
    words = r"there is no slide c in .*segmented; check --not-exhaustive"
    refused(run, OutputError, words, not_exhaustive=("a", "c"))


def test_a_folder_of_which_every_slide_is_left_out_is_refused(tmp_path: Path, run: Score) -> None:
    write_segmented(tmp_path / "segmented", "test_049", CELLS)
    outline(tmp_path / "xml", "test_049", TUMOUR)
    refused(run, OutputError, r"no slide in .*segmented is left to be scored; see --no-camelyon-rules")


def test_a_report_or_a_folder_of_others_is_not_replaced(slides: Path, run: Score) -> None:
    (slides / "report").mkdir()
    (slides / "report" / "notes.txt").write_text("mine")
    for overwrite in (False, True):
        refused(run, OutputError, r"report exists and holds no metrics\.json, so it is not ours", overwrite=overwrite)
    assert [path.name for path in (slides / "report").iterdir()] == ["notes.txt"]
    (slides / "report" / "metrics.json").write_text("{}")
    refused(run, OutputError, r"report exists; replace it with --overwrite, or choose another folder")


@pytest.mark.parametrize(
    ("path", "folder", "name"),
    [
        ("runs/mine/model.safetensors", "segmented", "mine"),
        ("model.safetensors", "segmented", "segmented"),
        ("runs/empty/model.safetensors", "segmented", "segmented"),
        ("runs/odd\x1b/model.safetensors", "segmented", "segmented"),
        ("runs/empty/model.safetensors", "grid-ceiling", "model"),
    ],
)
def test_the_model_is_called_like_its_folder_unless_that_would_be_another_row(
    tmp_path: Path, path: str, folder: str, name: str
) -> None:
    write_segmented(tmp_path / folder, "a", CELLS, path=path)
    outline(tmp_path / "xml", "a", TUMOUR)
    assert sources_of(ScoreRequest(tmp_path / folder, tmp_path / "xml", tmp_path / "report")).model == name


def test_a_record_that_was_edited_is_refused(slides: Path, run: Score) -> None:
    path = slides / "segmented" / "a.json"
    record = json.loads(path.read_text())
    del record["model"]["sha256"]
    path.write_text(json.dumps(record))
    with pytest.raises(OutputError, match=r"a.json is not whole \(no 'sha256'\); segment the slide anew"):
        run()
