"""The demo, on slides small enough for a test."""

from __future__ import annotations

from pathlib import Path

import pytest

from ucc_path.errors import OutputError
from ucc_path.formats import tiles_csv
from ucc_path.settings import TilingSettings
from ucc_path.workflows import demo as module
from ucc_path.workflows.demo import DemoReport, demo


def run(output: Path, *, overwrite: bool = False) -> DemoReport:
    work = demo(output, workers=1, overwrite=overwrite)
    while True:
        try:
            next(work)
        except StopIteration as end:
            report: DemoReport = end.value
            return report


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SLIDE_PX", (1200, 1200))
    monkeypatch.setattr(module, "TUMOUR_SHARES", (0.5, 0.4))
    monkeypatch.setattr(module, "TILING", TilingSettings(tile_px=64, per_slide=3))


def test_the_demo_leaves_slides_a_data_set_and_its_picture_and_uses_its_slides_again(tmp_path: Path) -> None:
    report = run(tmp_path)
    assert [path.name for path in report.slides] == ["case_1.tif", "case_2.tif"]
    assert {row.slide for row in tiles_csv.read(tmp_path / "dataset")} == {"case_1", "case_2"}
    assert report.contact_sheet.is_file()
    made = [path.stat().st_mtime_ns for path in report.slides]
    with pytest.raises(OutputError, match=r"dataset exists; replace it with --overwrite"):
        run(tmp_path)
    assert [path.stat().st_mtime_ns for path in report.slides] == made


def test_a_folder_that_cannot_be_made_is_told_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(OutputError, match=r"file/slides cannot be written \(Not a directory\)"):
        run(tmp_path / "file")
