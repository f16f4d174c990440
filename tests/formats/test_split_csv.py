"""Tables of splits made by users."""

from __future__ import annotations

from pathlib import Path

import pytest

from ucc_path.errors import DatasetError
from ucc_path.formats import split_csv


def make_table(folder: Path, content: str | bytes) -> Path:
    path = folder / "splits.csv"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


@pytest.mark.parametrize(
    "content",
    [
        "slide,split\na,train\nb,test\n",
        "split,slide\ntrain,a\ntest,b",
        "slide,split,who\r\na,train,me\r\nb,test,\r\n",
        "\ufeffslide,split\na, train \n\n b,test\n",  # as Excel saves it
    ],
    ids=["plain", "other order", "more columns", "byte order mark and blanks"],
)
def test_a_table_is_read_however_it_was_saved(tmp_path: Path, content: str) -> None:
    assert split_csv.read(make_table(tmp_path, content)) == {"a": "train", "b": "test"}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", r"splits\.csv has no columns slide,split; write them in its first line"),
        ("a,train\n", r"has no columns slide,split"),
        ("slide;split\na;train\n", r"has no columns slide,split"),
        ("slide,split\na,training\n", r"splits\.csv line 2: split 'training' is none of train, val, test"),
        ("slide,split\na\n", r"line 2: split '' is none of"),
        ("slide,split\na,train\nb,val\na,train\n", r"line 4: a is named twice; keep one row"),
        ("slide,split\na,train\n".encode("utf-16"), r"splits\.csv is not a table of text .*save it as UTF-8 CSV"),
        ("slide,split\n" + "x" * 200_000 + ",train\n", r"is not a table of text"),
    ],
)
def test_a_table_that_cannot_be_meant_is_refused(tmp_path: Path, content: str | bytes, message: str) -> None:
    with pytest.raises(DatasetError, match=message):
        split_csv.read(make_table(tmp_path, content))


def test_a_missing_table_is_refused(tmp_path: Path) -> None:
    with pytest.raises(
        DatasetError, match=r"none\.csv cannot be read \(No such file or directory\); check --split-csv"
    ):
        split_csv.read(tmp_path / "none.csv")
