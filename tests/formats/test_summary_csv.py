"""The table of a cohort: a row a slide."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import pytest

from ucc_path.errors import OutputError
from ucc_path.formats import summary_csv


def make_record(
    *classes: tuple[str, float], windows: dict[str, int] | None = None, **changes: object
) -> dict[str, Any]:
    return {
        "patches": 100,
        "unreadable_patches": 0,
        "tissue_mm2": 1.5,
        "classes": [{"label": n, "name": name, "area_mm2": area} for n, (name, area) in enumerate(classes, start=1)],
        "windows": windows,
        "model": {"converged": True},
        "seconds": 2.5,
        "peak_memory_mb": 321,
        **changes,
    }


def written(folder: Path, records: dict[str, dict[str, Any]], failures: dict[str, str]) -> list[dict[str, str]]:
    summary_csv.write(folder, records, failures)
    with (folder / "summary.csv").open(encoding="utf-8", errors="surrogateescape", newline="") as file:
        return list(csv.DictReader(file))


def test_a_finished_slide_has_its_figures(tmp_path: Path) -> None:
    record = make_record(("normal", 1.25), ("metastases", 0.25), windows={"judged": 9, "to_review": 3})
    summary_csv.write(tmp_path, {"a": record}, {})
    assert (tmp_path / "summary.csv").read_text() == (
        "slide,status,reason,patches,unreadable_patches,tissue_mm2,to_review,mm2 metastases,mm2 normal,"
        "converged,seconds,peak_memory_mb\n"
        "a,done,,100,0,1.5,3,0.25,1.25,true,2.5,321\n"
    )


def test_a_failed_slide_has_its_reason_and_no_figures_also_where_it_was_finished_before(tmp_path: Path) -> None:
    reason = 'b.tif is damaged: "half" of it is missing,\ncopy it again'
    records = {"a": make_record(("normal", 1.0)), "b": make_record(("normal", 2.0))}
    rows = written(tmp_path, records, {"b": reason})
    assert [(row["slide"], row["status"], row["reason"]) for row in rows] == [
        ("a", "done", ""),
        ("b", "failed", reason),
    ]
    assert {value for name, value in rows[1].items() if name not in ("slide", "status", "reason")} == {""}


def test_slides_are_sorted_by_name(tmp_path: Path) -> None:
    records = {name: make_record(("normal", 1.0)) for name in ("c", "a")}
    assert [row["slide"] for row in written(tmp_path, records, {"d": "x", "b": "y"})] == ["a", "b", "c", "d"]


def test_slides_with_other_classes_share_a_table(tmp_path: Path) -> None:
    records = {"a": make_record(("normal", 1.0)), "b": make_record(("cluster 1", 2.0), ("normal", 3.0))}
    rows = written(tmp_path, records, {})
    assert [(row["mm2 cluster 1"], row["mm2 normal"]) for row in rows] == [("", "1.0"), ("2.0", "3.0")]


def test_a_model_that_does_not_count_has_nothing_to_review_and_one_that_did_not_converge_says_so(
    tmp_path: Path,
) -> None:
    (row,) = written(tmp_path, {"a": make_record(("normal", 1.0), model={"converged": False})}, {})
    assert (row["to_review"], row["converged"]) == ("", "false")


def test_a_folder_without_slides_has_a_header(tmp_path: Path) -> None:
    assert written(tmp_path, {}, {}) == []
    assert (tmp_path / "summary.csv").read_text().startswith("slide,status,reason,")


def test_a_name_that_is_no_text_keeps_its_bytes(tmp_path: Path) -> None:
    (row,) = written(tmp_path, {"Präparat\udcff": make_record(("normal", 1.0))}, {})
    assert row["slide"] == "Präparat\udcff"
    assert "Präparat".encode() + b"\xff," in (tmp_path / "summary.csv").read_bytes()


def test_a_table_that_cannot_be_written_is_told_and_the_old_one_stands(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match=r"summary\.csv cannot be written"):
        summary_csv.write(tmp_path / "none", {}, {})
    written(tmp_path, {"a": make_record(("normal", 1.0))}, {})
    with pytest.raises(KeyError):
        summary_csv.write(tmp_path, {"a": {}}, {})
    assert (tmp_path / "summary.csv").read_text().splitlines()[1].startswith("a,done,")
    assert [path.name for path in tmp_path.iterdir()] == ["summary.csv"]
