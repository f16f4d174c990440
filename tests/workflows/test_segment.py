"""Several slides: what is finished is left alone, a bad one does not stop the others, and nothing is half written."""

from __future__ import annotations

import csv
import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from conftest import paint_slide

from ucc_path.errors import ModelError, OutputError, SettingsError, SlideError
from ucc_path.formats import model_safetensors, segmentation_json, summary_csv
from ucc_path.formats.atomic import locked_folder, together
from ucc_path.formats.segmentation_json import ENDINGS
from ucc_path.settings import SegmentationSettings
from ucc_path.workflows.events import Event, Failure, Notice, Progress, Step
from ucc_path.workflows.segment import SegmentReport, SegmentRequest, segment
from ucc_path.workflows.segment.request import MODEL_NAME

Ask = Callable[..., SegmentRequest]
TIMED = ("seconds", "peak_memory_mb")


def run(request: SegmentRequest) -> tuple[list[Event], SegmentReport]:
    """All that a workflow says, and its result."""
    events: list[Event] = []
    work = segment(request)
    while True:
        try:
            events.append(next(work))
        except StopIteration as end:
            return events, end.value


def results(folder: Path) -> dict[str, Any]:
    """Every file by name; of records and tables what does not depend on time and memory."""
    found: dict[str, Any] = {}
    for path in sorted(folder.iterdir()):
        if path.name == summary_csv.NAME:
            with path.open(newline="") as file:
                found[path.name] = [{k: v for k, v in row.items() if k not in TIMED} for row in csv.DictReader(file)]
        elif path.suffix == ".json":
            record = segmentation_json.read(folder, path.stem)
            found[path.name] = {key: value for key, value in record.items() if key not in TIMED}
        else:
            found[path.name] = path.read_bytes()
    return found


@pytest.fixture
def ask(whole_run: Path, tmp_path: Path) -> Ask:
    """`ask(workers=2)`: a request for the slides in `slides`, by the tiny model, into `segmented`."""

    def make(*slides: Path, output: str = "segmented", **how: Any) -> SegmentRequest:
        wishes = SegmentationSettings(inference="torch", window_px=128)
        return SegmentRequest(
            slides=slides or tuple(sorted((tmp_path / "slides").iterdir())),
            model=how.pop("model", whole_run),
            output=tmp_path / output,
            segmentation=how.pop("segmentation", wishes),
            **how,
        )

    return make


def paint(folder: Path, *names: str) -> list[Path]:
    return [paint_slide(folder / "slides" / f"{name}.tif", seed=seed) for seed, name in enumerate(names)]


def test_the_same_bytes_come_out_for_any_number_of_workers_and_finished_slides_are_left_alone(
    ask: Ask, tmp_path: Path
) -> None:
    paint(tmp_path, "a", "b", "c")
    for output, workers in (("one", 1), ("three", 3)):
        events, report = run(ask(output=output, workers=workers))
        assert sorted(report.done) == ["a", "b", "c"] and not report.failures and not report.skipped
        last = [event for event in events if isinstance(event, Progress)][-1]
        assert last.done == last.total == 3 * 576
    assert results(tmp_path / "one") == results(tmp_path / "three")
    times = {path: path.stat().st_mtime_ns for path in (tmp_path / "one").iterdir() if path.name != summary_csv.NAME}
    (tmp_path / "one" / "b_labels.tif").unlink()  # so that b is not whole any more
    events, report = run(ask(output="one"))
    assert sorted(report.done) == ["b"] and report.skipped == ("a", "c")
    assert any(isinstance(event, Step) and "2 of 3 slides are finished" in event.text for event in events)
    assert results(tmp_path / "one") == results(tmp_path / "three")
    assert all(path.stat().st_mtime_ns == times[path] for path in times if not path.name.startswith("b"))


def test_a_bad_slide_is_reported_and_the_others_go_on(ask: Ask, tmp_path: Path) -> None:
    good, broken = paint(tmp_path, "good", "broken")
    broken.write_bytes(good.read_bytes()[:5000])
    missing = tmp_path / "slides" / "missing.tif"
    events, report = run(ask(good, broken, missing, workers=2))
    assert sorted(report.done) == ["good"]
    assert sorted(failure.item for failure in report.failures) == ["broken", "missing"]
    assert all(str(tmp_path / "slides") in failure.reason for failure in report.failures)
    assert [event for event in events if isinstance(event, Failure)] == list(report.failures)
    with (tmp_path / "segmented" / summary_csv.NAME).open(newline="") as file:
        rows = {row["slide"]: row for row in csv.DictReader(file)}
    assert {name: row["status"] for name, row in rows.items()} == {
        "good": "done",
        "broken": "failed",
        "missing": "failed",
    }
    assert rows["good"]["patches"] == "576" and rows["missing"]["reason"]
    assert not [path for path in (tmp_path / "segmented").iterdir() if path.name.startswith(("broken", "missing"))]


def test_the_only_slide_being_bad_is_an_error(ask: Ask, tmp_path: Path) -> None:
    (tmp_path / "slides").mkdir()
    (tmp_path / "slides" / "bad.tif").write_bytes(b"II*\0 no")
    with pytest.raises(SlideError, match=r"bad\.tif"):
        run(ask())
    assert list((tmp_path / "segmented").iterdir()) == []


def a_finished_slide(ask: Ask, tmp_path: Path, **changed: Any) -> None:
    """A record and files of a slide as if it was segmented, by a request that may be changed afterwards."""
    (slide,) = paint(tmp_path, "a")
    request = ask()
    folder = tmp_path / "segmented"
    folder.mkdir()
    from ucc_path.workflows.segment.request import identity_of, model_file, sha256_of

    identity = identity_of(request, sha256_of(model_file(request.model)))
    (folder / "a_labels.tif").write_bytes(b"mask")
    segmentation_json.write(
        folder,
        "a",
        {
            **dict.fromkeys(("patches", "unreadable_patches", "tissue_mm2", "seconds", "peak_memory_mb"), 0),
            "slide": {"bytes": slide.stat().st_size},
            "model": {**identity["model"], "converged": True},
            "settings": identity["settings"],
            "files": {"a_labels.tif": 4},
            "windows": None,
            "classes": [],
            **changed,
        },
    )


def test_a_slide_that_is_finished_needs_no_model_to_be_loaded(ask: Ask, tmp_path: Path) -> None:
    a_finished_slide(ask, tmp_path)
    _, report = run(ask())
    assert report.skipped == ("a",) and not report.done


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        (
            {"model": {"sha256": "0" * 64, "converged": True}},
            r"is of another model \(sha256 000000000000, now \w{12}\)",
        ),
        ({"slide": {"bytes": 1}}, r"is of another file called a;"),
    ],
)
def test_a_slide_segmented_otherwise_is_not_replaced_without_being_told(
    ask: Ask, tmp_path: Path, changed: dict[str, Any], words: str
) -> None:
    a_finished_slide(ask, tmp_path, **changed)
    with pytest.raises(OutputError, match=rf"a\.json {words}.* --overwrite"):
        run(ask())
    assert (tmp_path / "segmented" / "a_labels.tif").read_bytes() == b"mask"


def test_other_settings_are_named(ask: Ask, tmp_path: Path) -> None:
    a_finished_slide(ask, tmp_path)
    finer = SegmentationSettings(inference="torch", window_px=128, stride_px=8)
    with pytest.raises(OutputError, match=r"is of another setting \(stride_px 0, now 8\)"):
        run(ask(segmentation=finer))


def test_files_that_are_not_ours_are_not_replaced_without_being_told(ask: Ask, tmp_path: Path) -> None:
    paint(tmp_path, "a")
    (tmp_path / "segmented").mkdir()
    (tmp_path / "segmented" / "a.png").write_bytes(b"dear to somebody")
    with pytest.raises(OutputError, match=r"a\.png exists and is not known to be ours; replace it with --overwrite"):
        run(ask())
    together(tmp_path / "segmented", "a").mkdir()  # which a run that was killed leaves
    _, report = run(ask())
    assert sorted(report.done) == ["a"]
    assert not together(tmp_path / "segmented", "a").exists()


def test_overwriting_clears_what_the_new_request_does_not_write(ask: Ask, tmp_path: Path) -> None:
    paint(tmp_path, "a")
    run(ask(full_size=True))
    assert (tmp_path / "segmented" / "a_labels.ome.tif").exists()
    run(ask(overwrite=True))
    assert not (tmp_path / "segmented" / "a_labels.ome.tif").exists()
    run(ask(output="fresh"))
    assert results(tmp_path / "segmented") == results(tmp_path / "fresh")


def test_two_runs_into_one_folder_are_refused(ask: Ask, tmp_path: Path) -> None:
    paint(tmp_path, "a")
    with locked_folder(tmp_path / "segmented"), pytest.raises(OutputError, match="another run is writing"):
        run(ask())


def test_no_result_may_take_the_place_of_a_slide(ask: Ask, tmp_path: Path) -> None:
    (slide,) = paint(tmp_path, "a")
    picture = slide.rename(slide.with_name("a.png"))
    with pytest.raises(OutputError, match=r"a\.png of the result would replace the slide"):
        run(ask(picture, output="slides", overwrite=True))
    assert picture.stat().st_size > 10_000


@pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("mount"), reason="only root can make a small disk")
def test_a_disk_that_fills_stops_the_run_in_one_sentence_and_leaves_nothing_half_written(
    ask: Ask, tmp_path: Path
) -> None:
    paint(tmp_path, "a", "b")
    disk = tmp_path / "disk"
    disk.mkdir()
    if os.system(f"mount -t tmpfs -o size=24k tmpfs {disk}") != 0:
        pytest.skip("a small disk cannot be mounted here")
    try:
        with pytest.raises(OutputError, match=r"cannot be written \(No space left on device\); make room"):
            run(ask(output="disk/segmented"))
        assert [path for path in (disk / "segmented").iterdir() if path.suffix != ".csv"] == []
    finally:
        os.system(f"umount {disk}")


def test_a_model_that_did_not_converge_is_said(ask: Ask, whole_run: Path, tmp_path: Path) -> None:
    paint(tmp_path, "a")
    card, tensors = model_safetensors.read(whole_run / MODEL_NAME)
    (tmp_path / "run").mkdir()
    model_safetensors.write(tmp_path / "run" / MODEL_NAME, replace(card, converged=False), tensors)
    events, _ = run(ask(model=tmp_path / "run"))
    assert any(isinstance(event, Notice) and "no better than guessing" in event.text for event in events)
    assert segmentation_json.read(tmp_path / "segmented", "a")["model"]["converged"] is False


def test_a_model_that_is_not_there_or_not_one_is_an_error_of_the_whole_command(ask: Ask, tmp_path: Path) -> None:
    paint(tmp_path, "a", "b")
    with pytest.raises(ModelError, match=r"there is no model .*nowhere; train one with ucc-path train"):
        run(ask(model=tmp_path / "nowhere"))
    with pytest.raises(ModelError, match=r"slides holds no model\.safetensors; train one"):
        run(ask(model=tmp_path / "slides"))
    (tmp_path / MODEL_NAME).write_bytes(b"pickle")
    with pytest.raises(ModelError, match="is not a model that can be used"):
        run(ask(model=tmp_path / MODEL_NAME))


def test_too_little_memory_is_refused(ask: Ask, tmp_path: Path) -> None:
    paint(tmp_path, "a")
    with pytest.raises(SettingsError, match=r"--max-memory 0\.3G is too little to work in; give 1\.\dG or more"):
        run(ask(max_memory=300 * 10**6))


def test_the_name_of_the_model_is_the_same_as_in_its_format() -> None:
    assert MODEL_NAME == model_safetensors.NAME
    assert ENDINGS["record"] == segmentation_json.ENDING
