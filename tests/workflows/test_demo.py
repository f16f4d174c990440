"""The demo, on slides and with models small enough for a test: the whole way, again, and on the user's own slides."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from conftest import box, paint_slide
from reports import finished as finished_work

from ucc_path.errors import DatasetError, OutputError
from ucc_path.formats import asap_xml, tiles_csv
from ucc_path.settings import TilingSettings, TrainingSettings
from ucc_path.workflows import demo as module
from ucc_path.workflows.demo import DemoReport, DemoRequest, demo
from ucc_path.workflows.events import Event, Step

QUICK = TrainingSettings(supervision="kind", steps=4, bags_per_step=6, evaluate_every=2, validation_bags=6, bag_size=8)
TILING = TilingSettings(tile_px=128, per_slide=4, max_overlap=0.5)


def run(request: DemoRequest) -> tuple[DemoReport, list[Event]]:
    events, report = finished_work(demo(request))
    return report, events


def asked(output: Path, slides: Path | None = None, **how: object) -> DemoRequest:
    request = DemoRequest(output, slides=slides, tiling=TILING, training=QUICK, unet_training=QUICK)
    return replace(request, **how)  # type: ignore[arg-type]


@pytest.fixture(autouse=True)
def threads_as_they_were() -> Iterator[None]:
    threads = torch.get_num_threads()
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, DemoReport, list[Event]]:
    """A demo that made its slides and came to its end."""
    folder = tmp_path_factory.mktemp("demo")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "SLIDE_PX", (1600, 1600))
        patch.setattr(module, "TUMOUR_SHARES", (0.5, 0.4, 0.5))
        return folder, *run(asked(folder))


@pytest.fixture
def own_slides(tmp_path: Path) -> Path:
    """Three painted slides with the outline of their tumour beside them."""
    for number in range(3):
        slide = paint_slide(tmp_path / "own" / f"own_{number}.tif", seed=number)
        asap_xml.write(slide.with_suffix(".xml"), [np.array(box(512, 512, 1280, 1280))], [])
    return tmp_path / "own"


def test_the_demo_ends_with_reports_of_a_slide_that_no_model_has_seen(
    finished: tuple[Path, DemoReport, list[Event]],
) -> None:
    folder, report, events = finished
    texts = [event.text for event in events if isinstance(event, Step)]
    assert [text[:6] for text in texts if " of 7: " in text] == [f"{number} of 7" for number in range(1, 8)]
    rows = tiles_csv.read(folder / "dataset")
    assert set(report.unseen) == {row.slide for row in rows if row.split == "test"}
    assert not set(report.unseen) & {row.slide for row in rows if row.split != "test"}
    for name in ("report/report.html", "report-slides/report.html", f"segmented/{report.unseen[0]}.geojson.gz"):
        assert (folder / name).is_file()
    assert {"ucc", "unet", "kmeans", "colour", "empty"} <= report.tiles.keys()
    assert report.in_words().startswith(f"On unseen tissue ({report.unseen[0]})")


def test_run_again_it_uses_what_is_finished(finished: tuple[Path, DemoReport, list[Event]]) -> None:
    folder, before, _ = finished
    kept = (".tif", ".xml", "tiles.csv", "model.safetensors")
    made = {path: path.stat().st_mtime_ns for path in folder.rglob("*") if path.name.endswith(kept)}
    after, _ = run(asked(folder, folder / "slides"))
    assert {path: path.stat().st_mtime_ns for path in made} == made
    assert after.in_words() == before.in_words()


def test_another_folder_of_slides_is_not_mixed_with_what_is_there(
    finished: tuple[Path, DemoReport, list[Event]], own_slides: Path
) -> None:
    with pytest.raises(OutputError, match=r"dataset is of other slides .* start anew with --overwrite"):
        run(asked(finished[0], own_slides))


def test_it_does_the_same_on_own_slides_and_starts_anew_only_as_told(tmp_path: Path, own_slides: Path) -> None:
    output = tmp_path / "out"
    tile_only = asked(output, own_slides)
    work = demo(tile_only)
    while not (output / "ucc").exists():  # stopped on its way, as by Ctrl-C
        next(work)
    work.close()
    tiled = (output / "dataset" / "tiles.csv").stat().st_mtime_ns
    report, _ = run(tile_only)
    assert (output / "dataset" / "tiles.csv").stat().st_mtime_ns == tiled
    assert {"own_0", "own_1", "own_2"} > set(report.unseen)
    work = demo(replace(tile_only, overwrite=True))
    while (output / "dataset" / "tiles.csv").stat().st_mtime_ns == tiled:
        next(work)
    work.close()


def test_two_slides_leave_none_unseen(tmp_path: Path, own_slides: Path) -> None:
    for path in own_slides.glob("own_2*"):
        path.unlink()
    with pytest.raises(DatasetError, match="no slide is unseen; give three slides or more"):
        run(asked(tmp_path / "out", own_slides))


def test_a_folder_that_cannot_be_made_is_told_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(OutputError, match=r"file/slides cannot be written \(Not a directory\)"):
        run(asked(tmp_path / "file"))
