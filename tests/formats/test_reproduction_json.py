"""The record of a run: a round trip, and what is refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from ucc_path.errors import OutputError
from ucc_path.formats import reproduction_json


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "runs").mkdir()
    return tmp_path


def test_arrays_come_back_as_lists_and_what_is_no_number_as_nothing(folder: Path) -> None:
    record = {"experiment": "mnist", "counting": np.eye(2, dtype=np.int64), "figures": {"min_js": np.nan, "a": 1 / 3}}
    reproduction_json.write(folder, "ucc_1-4_kde_seed0", record)
    found = reproduction_json.read(folder, "ucc_1-4_kde_seed0")
    assert found == {
        "format": "ucc-path reproduction run",
        "version": 1,
        "experiment": "mnist",
        "counting": [[1, 0], [0, 1]],
        "figures": {"min_js": None, "a": 0.333333},
    }
    assert reproduction_json.path_of(folder, "ucc_1-4_kde_seed0") == folder / "runs" / "ucc_1-4_kde_seed0.json"
    assert reproduction_json.picture_of(folder, "a") == folder / "runs" / "a.png"


def test_only_whole_records_are_finished_runs(folder: Path) -> None:
    for key in ("b", "a"):
        reproduction_json.write(folder, key, {})
    for name in ("c.json.partial", "d.png", "e.txt"):
        (folder / "runs" / name).write_text("")
    assert reproduction_json.keys(folder) == ["a", "b"]
    assert reproduction_json.keys(folder / "nowhere") == []


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "is not JSON"),
        ("[" * 10**5, "is not JSON"),
        ("[]", "does not describe a run of reproduce of ucc-path"),
        ('{"format": "ucc-path segmentation", "version": 1}', "does not describe a run of reproduce of ucc-path"),
        ('{"format": "ucc-path reproduction run", "version": 9}', "is of version 9, this program reads 1"),
    ],
)
def test_what_is_no_record_of_ours_is_refused(text: str, words: str, folder: Path) -> None:
    (folder / "runs" / "a.json").write_text(text)
    with pytest.raises(OutputError, match=rf"a\.json {words}.*; remove it, or make it anew with --overwrite$"):
        reproduction_json.read(folder, "a")


def test_a_record_that_is_not_there_is_refused(folder: Path) -> None:
    with pytest.raises(OutputError, match=r"a\.json cannot be read"):
        reproduction_json.read(folder, "a")
