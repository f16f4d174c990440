"""The record of a run."""

from __future__ import annotations

from pathlib import Path

import pytest

from ucc_path.errors import OutputError, RunError
from ucc_path.formats import run_json


def test_what_is_written_is_read_back_with_its_format_and_version(tmp_path: Path) -> None:
    record = {"model": "ucc", "data": {"path": "Präparate\udcff"}, "finished": False, "stopped": None, "seconds": 0.1}
    run_json.write(tmp_path, record)
    assert run_json.read(tmp_path) == {"format": "ucc-path run", "version": 1, **record}
    run_json.write(tmp_path, {**record, "finished": True})
    assert run_json.read(tmp_path)["finished"] is True
    assert [path.name for path in tmp_path.iterdir()] == ["run.json"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", r"run\.json is not JSON \(.*\); start the run anew with --overwrite"),
        ("", r"run\.json is not JSON"),
        ("[" * 100_000, r"run\.json is not JSON"),
        ("[1]", "does not describe a run of ucc-path; start the run anew"),
        ('{"format": "ucc-path data set", "version": 1}', "does not describe a run of ucc-path"),
        ('{"format": "ucc-path run", "version": 2}', "is of version 2, this program reads 1; start the run anew"),
        ('{"format": "ucc-path run"}', "is of version None, this program reads 1"),
    ],
)
def test_a_record_that_is_not_one_is_refused(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "run.json").write_text(text)
    with pytest.raises(RunError, match=message):
        run_json.read(tmp_path)


def test_a_missing_record_and_bytes_that_are_no_text_are_refused(tmp_path: Path) -> None:
    with pytest.raises(RunError, match=r"run\.json cannot be read \(No such file.*\); .* is not a run"):
        run_json.read(tmp_path)
    (tmp_path / "run.json").write_bytes(b"\xff{}")
    with pytest.raises(RunError, match="is not JSON"):
        run_json.read(tmp_path)


def test_a_folder_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match=r"run\.json cannot be written"):
        run_json.write(tmp_path / "none", {})
