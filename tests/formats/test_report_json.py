"""The record of a report."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from ucc_path.errors import OutputError
from ucc_path.evaluation.summary import Summary
from ucc_path.formats import report_json
from ucc_path.formats.report_json import plain

HEAD = {"format": "ucc-path report", "version": 1}


@dataclass(frozen=True, slots=True, eq=False)
class Lesions:
    """As a workflow may hand it over."""

    found: int
    at: NDArray[np.float64]
    file: Path


def make_summary() -> Summary:
    """Figures of which no two are alike; there is one slide only, and no IoU."""
    value = np.arange(8) / 8
    value[6] = np.nan
    nothing = np.full(8, np.nan)
    return Summary(value, value - 1, value + 1, nothing, nothing)


def test_what_is_written_is_read_back_with_its_format_and_version(tmp_path: Path) -> None:
    record = {"command": "evaluate", "models": [{"name": "Präparat\udcff"}], "froc": None, "version_of": {"a": "1.0"}}
    report_json.write(tmp_path, record)
    assert [path.name for path in tmp_path.iterdir()] == ["metrics.json"]
    assert report_json.read(tmp_path) == {**HEAD, **record}
    assert list(report_json.read(tmp_path)) == ["format", "version", *record]


@pytest.mark.parametrize(
    ("value", "wanted"),
    [
        (math.nan, None),
        (-math.inf, None),
        (2 / 3, 0.666667),
        (np.float32(0.25), 0.25),
        (np.float64("nan"), None),
        (np.int64(7), 7),
        (np.bool_(True), True),
        (np.array([[1.5, math.nan], [2 / 3, 0]]), [[1.5, None], [0.666667, 0.0]]),
        (np.array(3), 3),
        (np.zeros((0, 4)), []),
        (frozenset({1, 8}), [1, 8]),  # a set has them the other way round
        (("a", 1), ["a", 1]),
        (Path("runs") / "a", "runs/a"),
        ({2: frozenset({Path("b"), Path("a")})}, {"2": ["a", "b"]}),
        (Lesions(2, np.array([0.5, math.inf]), Path("x.tif")), {"found": 2, "at": [0.5, None], "file": "x.tif"}),
        ({"a": [{"b": (math.nan, np.array([1]))}]}, {"a": [{"b": [None, [1]]}]}),
    ],
)
def test_values_become_what_json_has(value: Any, wanted: Any) -> None:
    found = plain(value)
    assert found == wanted and type(found) is type(wanted)
    assert json.loads(json.dumps(found, allow_nan=False)) == wanted


@pytest.mark.parametrize("value", [None, True, 0, -3, 0.5, "nan", "", [], {}])
def test_what_json_has_stays_as_it_is(value: Any) -> None:
    assert plain(value) == value and type(plain(value)) is type(value)


def test_a_summary_is_an_object_a_figure() -> None:
    found = plain({"m": {"image": make_summary()}})["m"]["image"]
    assert list(found) == ["TPR", "FPR", "TNR", "FNR", "PA", "balanced", "IoU", "Dice"]
    assert found["TPR"] == {"value": 0, "low": -1, "high": 1, "low_slides": None, "high_slides": None}
    assert found["FNR"] == {"value": 0.375, "low": -0.625, "high": 1.375, "low_slides": None, "high_slides": None}
    assert found["IoU"] == dict.fromkeys(("value", "low", "high", "low_slides", "high_slides"))


def test_nothing_in_the_file_is_other_than_json(tmp_path: Path) -> None:
    report_json.write(tmp_path, {"scores": make_summary(), "loss": math.nan, "folder": tmp_path, "tumour": frozenset()})

    def refuse(constant: str) -> None:
        raise AssertionError(constant)

    found = json.loads((tmp_path / "metrics.json").read_text(), parse_constant=refuse)
    assert (found["loss"], found["folder"], found["tumour"]) == (None, str(tmp_path), [])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", r"metrics\.json is not JSON \(.*\); make it anew with --overwrite"),
        ("[]", r"metrics\.json does not describe a report of ucc-path; make it anew with --overwrite"),
        ('{"mine": true}', "does not describe a report"),
        ('{"format": "ucc-path run", "version": 1}', "does not describe a report"),
        ('{"format": "ucc-path report", "version": 2}', "is of version 2, this program reads 1; make it anew"),
    ],
)
def test_a_record_that_is_not_one_is_refused(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "metrics.json").write_text(text)
    with pytest.raises(OutputError, match=message):
        report_json.read(tmp_path)


def test_a_missing_record_and_a_missing_folder_are_refused(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match=r"metrics\.json cannot be read \(No such file.*\); .* is not a report$"):
        report_json.read(tmp_path)
    with pytest.raises(OutputError, match=r"metrics\.json cannot be written"):
        report_json.write(tmp_path / "none", {})
