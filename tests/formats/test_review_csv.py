"""Windows for a person to look at."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from ucc_path.errors import OutputError
from ucc_path.formats import review_csv
from ucc_path.formats.review_csv import ReviewRow
from ucc_path.mask.windows import Disagreements

HEADER = "x_l0,y_l0,side_l0,predicted_ucc,classes_in_mask\n"


def make_found() -> Disagreements:
    return Disagreements(np.array([[0, 8], [16, 0]]), 8, np.array([2, 1]), np.array([1, 2]))


def test_windows_are_told_in_level_0_pixels_x_before_y() -> None:
    rows = list(review_csv.rows_of(make_found(), 64))
    assert rows == [ReviewRow(512, 0, 512, 2, 1), ReviewRow(0, 1024, 512, 1, 2)]


def test_what_is_written_is_read_back(tmp_path: Path) -> None:
    path = tmp_path / "s_review.csv"
    review_csv.write(path, review_csv.rows_of(make_found(), 64))
    assert path.read_text() == HEADER + "512,0,512,2,1\n0,1024,512,1,2\n"
    assert review_csv.read(path) == list(review_csv.rows_of(make_found(), 64))
    assert [file.name for file in tmp_path.iterdir()] == ["s_review.csv"]


def test_where_nothing_disagrees_there_is_only_the_header(tmp_path: Path) -> None:
    nothing = Disagreements(np.zeros((0, 2), np.int64), 8, np.zeros(0, np.int64), np.zeros(0, np.int64))
    review_csv.write(tmp_path / "r.csv", review_csv.rows_of(nothing, 64))
    assert (tmp_path / "r.csv").read_text() == HEADER
    assert review_csv.read(tmp_path / "r.csv") == []


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", r"r\.csv has not the columns x_l0,y_l0,side_l0,predicted_ucc,classes_in_mask; segment the slide anew"),
        (b"x,y\n1,2\n", "has not the columns"),
        (HEADER.encode() + b"1,2,3,4\n", r"is damaged \(.*\); segment the slide anew with --overwrite"),
        (HEADER.encode() + b"1,2,3,4,5,6\n", r"is damaged \("),
        (HEADER.encode() + b"1,2,3,two,1\n", r"is damaged \(.*two"),
        (HEADER.encode() + "1,2,3,²,1\n".encode(), r"is damaged \("),
        (HEADER.encode() + b"1" * 200_000, r"is damaged \("),
    ],
)
def test_a_table_that_is_not_one_is_refused(tmp_path: Path, content: bytes, message: str) -> None:
    (tmp_path / "r.csv").write_bytes(content)
    with pytest.raises(OutputError, match=message):
        review_csv.read(tmp_path / "r.csv")


def test_a_missing_table_and_a_missing_folder_are_refused(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match=r"r\.csv cannot be read \(No such file.*\); segment the slide anew"):
        review_csv.read(tmp_path / "r.csv")
    with pytest.raises(OutputError, match=r"r\.csv cannot be written"):
        review_csv.write(tmp_path / "none" / "r.csv", iter(()))
