"""The record of a segmented slide."""

from __future__ import annotations

from pathlib import Path

import pytest

from ucc_path.errors import OutputError
from ucc_path.formats import segmentation_json

RECORD = {"slide": {"name": "s.1", "path": "Präparate\udcff/s.1.tif"}, "windows": None, "classes": [{"area_mm2": 0.1}]}
HEAD = {"format": "ucc-path segmentation", "version": 1}


def test_what_is_written_is_read_back_with_its_format_and_version(tmp_path: Path) -> None:
    segmentation_json.write(tmp_path, "s.1", RECORD)
    assert [path.name for path in tmp_path.iterdir()] == ["s.1.json"]
    assert segmentation_json.path_of(tmp_path, "s.1") == tmp_path / "s.1.json"
    assert segmentation_json.read(tmp_path, "s.1") == {**HEAD, **RECORD}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", r"s\.json is not JSON \(.*\); segment it anew with --overwrite"),
        ("[]", r"s\.json does not describe a segmented slide of ucc-path; segment it anew with --overwrite"),
        ('{"format": "ucc-path run", "version": 1}', "does not describe a segmented slide"),
        ('{"format": "ucc-path segmentation", "version": 2}', "is of version 2, this program reads 1; segment it anew"),
    ],
)
def test_a_record_that_is_not_one_is_refused(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "s.json").write_text(text)
    with pytest.raises(OutputError, match=message):
        segmentation_json.read(tmp_path, "s")


def test_a_missing_record_and_a_missing_folder_are_refused(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match=r"s\.json cannot be read \(No such file.*\); .* is not a segmented slide"):
        segmentation_json.read(tmp_path, "s")
    with pytest.raises(OutputError, match=r"s\.json cannot be written"):
        segmentation_json.write(tmp_path / "none", "s", RECORD)


def test_all_records_of_a_folder_are_found_by_name_and_what_is_not_ours_is_passed_over(tmp_path: Path) -> None:
    for name in ("b", "a.x", "c"):
        segmentation_json.write(tmp_path, name, {**RECORD, "patches": len(name)})
    (tmp_path / "notes.json").write_text('{"mine": true}')
    (tmp_path / "broken.json").write_text("{")
    (tmp_path / "folder.json").mkdir()
    (tmp_path / "d.json.partial").write_text("{}")
    found = segmentation_json.all_in(tmp_path)
    assert list(found) == ["a.x", "b", "c"]
    assert found["a.x"] == {**HEAD, **RECORD, "patches": 3}
    assert segmentation_json.all_in(tmp_path / "folder.json") == {}
