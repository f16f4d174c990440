"""The record of a data set."""

from __future__ import annotations

from pathlib import Path

import pytest

from ucc_path.errors import DatasetError, OutputError
from ucc_path.formats import dataset_json


def test_what_is_written_is_read_back_with_its_format_and_version(tmp_path: Path) -> None:
    record = {"settings": {"tiling": {"tile_px": 512}}, "slides": [{"name": "Präparat µ"}]}
    dataset_json.write(tmp_path, record)
    assert dataset_json.read(tmp_path) == {"format": "ucc-path data set", "version": 1, **record}
    assert "Präparat µ" in (tmp_path / "dataset.json").read_text(encoding="utf-8")
    assert [path.name for path in tmp_path.iterdir()] == ["dataset.json"]


def test_the_same_record_gives_the_same_bytes(tmp_path: Path) -> None:
    contents = []
    for _ in range(2):
        dataset_json.write(tmp_path, {"b": 1, "a": [0.1]})
        contents.append((tmp_path / "dataset.json").read_bytes())
    assert contents[0] == contents[1]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", r"dataset\.json is not JSON \(.*\); make the data set anew"),
        ("", r"dataset\.json is not JSON"),
        ("[1]", "does not describe a data set of ucc-path"),
        ('{"format": "other", "version": 1}', "does not describe a data set of ucc-path"),
        ('{"format": "ucc-path data set", "version": 2}', "is of version 2, this program reads 1"),
        ('{"format": "ucc-path data set"}', "is of version None, this program reads 1"),
    ],
)
def test_a_record_that_is_not_one_is_refused(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "dataset.json").write_text(text)
    with pytest.raises(DatasetError, match=message):
        dataset_json.read(tmp_path)


def test_a_missing_record_and_bytes_that_are_no_text_are_refused(tmp_path: Path) -> None:
    with pytest.raises(
        DatasetError, match=r"dataset\.json cannot be read \(No such file or directory\); .* not a data set"
    ):
        dataset_json.read(tmp_path)
    (tmp_path / "dataset.json").write_bytes(b"\xff{}")
    with pytest.raises(DatasetError, match="is not JSON"):
        dataset_json.read(tmp_path)


def test_a_folder_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match=r"dataset\.json cannot be written"):
        dataset_json.write(tmp_path / "none", {})


def test_a_path_that_is_not_text_is_kept(tmp_path: Path) -> None:
    record = {"slides": [{"path": "slides\udcff/a.tif"}]}  # as Python gives a name with the byte FF
    dataset_json.write(tmp_path, record)
    assert dataset_json.read(tmp_path)["slides"] == record["slides"]
