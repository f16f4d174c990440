"""What people said about tiles."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from ucc_path.errors import DatasetError
from ucc_path.formats import labels_csv
from ucc_path.formats.labels_csv import TileLabel
from ucc_path.formats.tiles_csv import TileRow

HEADER = "tile_id,kind,ucc,who,when"
ROW = TileRow("a", "s", "train", 1, 2, 512, 1.0, 0.5, "mixture", 2)


def make_table(folder: Path, *lines: str, header: str = HEADER) -> Path:
    (folder / "labels.csv").write_text("\n".join([header, *lines]) + "\n", encoding="utf-8")
    return folder


def label(kind: str | None, ucc: int | None) -> TileLabel:
    return TileLabel(kind, ucc, "", "")


def test_without_a_file_nobody_has_labelled(tmp_path: Path) -> None:
    assert labels_csv.read(tmp_path) == {}
    assert labels_csv.read(make_table(tmp_path)) == {}


@pytest.mark.parametrize(
    ("cells", "kind", "ucc"),
    [
        ("normal,1", "normal", 1),
        ("metastases,", "metastases", 1),
        ("mixture,", "mixture", 2),
        (",1", None, 1),
        (",2", None, 2),
        (",10", None, 10),
        (",", None, None),
        (" mixture , 2 ", "mixture", 2),
    ],
)
def test_a_kind_implies_its_count_and_a_count_may_stand_alone(
    tmp_path: Path, cells: str, kind: str | None, ucc: int | None
) -> None:
    make_table(tmp_path, f"a,{cells},Ada,2024-05-01T10:00:00Z")
    assert labels_csv.read(tmp_path) == {"a": TileLabel(kind, ucc, "Ada", "2024-05-01T10:00:00Z")}


def test_the_last_word_about_a_tile_counts(tmp_path: Path) -> None:
    make_table(tmp_path, "a,normal,1,x,1", "b,mixture,2,x,2", "a,mixture,2,y,3", "b,,,x,4")
    assert labels_csv.read(tmp_path) == {"a": TileLabel("mixture", 2, "y", "3"), "b": TileLabel(None, None, "x", "4")}


def test_a_table_saved_by_a_spreadsheet_is_read(tmp_path: Path) -> None:
    (tmp_path / "labels.csv").write_bytes(f"\ufeff{HEADER}\r\na,normal,1,Å,\r\n\r\n".encode())
    assert labels_csv.read(tmp_path) == {"a": TileLabel("normal", 1, "Å", "")}


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("a,normal,1,x", r"has not 5 cells; write tile_id,kind,ucc,who,when"),
        ("a,normal,1,x,y,z", r"has not 5 cells"),
        (",normal,1,x,y", r"names no tile; write its tile_id, or take the line out"),
        ("a,tumour,1,x,y", r": kind 'tumour' is none of normal, metastases, mixture; write one, or leave it empty"),
        ("a,,0,x,y", r": ucc '0' is no count of classes; write 1 or 2, or leave it empty"),
        ("a,,-1,x,y", r": ucc '-1' is no count"),
        ("a,,1.5,x,y", r": ucc '1.5' is no count"),
        ("a,,two,x,y", r": ucc 'two' is no count"),
        ("a,,1_0,x,y", r": ucc '1_0' is no count"),
        ("a,,²,x,y", r": ucc '²' is no count"),
        ("a,," + 5000 * "9" + ",x,y", r": ucc '9+' is no count"),
        ("a,normal,2,x,y", r": normal has ucc 1, not 2; leave one of the two empty"),
        ("a,mixture,1,x,y", r": mixture has ucc 2, not 1"),
    ],
    ids=lambda value: value[:20],
)
def test_a_line_that_cannot_be_meant_is_refused_naming_it(tmp_path: Path, line: str, message: str) -> None:
    with pytest.raises(DatasetError, match=rf"labels\.csv line 3 ?{message}"):
        labels_csv.read(make_table(tmp_path, "b,normal,1,x,y", line))


@pytest.mark.parametrize("header", ["", "tile_id,kind,ucc", "tile_id,ucc,kind,who,when", f"{HEADER},more"])
def test_other_columns_are_refused(tmp_path: Path, header: str) -> None:
    with pytest.raises(DatasetError, match=r"labels\.csv has not the columns tile_id,kind,ucc,who,when; write them"):
        labels_csv.read(make_table(tmp_path, header=header))


def test_what_is_no_table_of_text_is_refused(tmp_path: Path) -> None:
    (tmp_path / "labels.csv").write_bytes(f"{HEADER}\na,normal,1,x,y\n".encode("utf-16"))
    with pytest.raises(DatasetError, match=r"labels\.csv is not a table of text \(.*; save it as UTF-8 CSV"):
        labels_csv.read(tmp_path)
    make_table(tmp_path, "x" * 200_000)
    with pytest.raises(DatasetError, match=r"labels\.csv is not a table of text"):
        labels_csv.read(tmp_path)


def test_a_folder_in_its_place_is_refused(tmp_path: Path) -> None:
    (tmp_path / "labels.csv").mkdir()
    with pytest.raises(DatasetError, match=r"labels\.csv cannot be read \(Is a directory\); check the file"):
        labels_csv.read(tmp_path)


def test_labels_win_over_the_table_and_leave_other_tiles_alone() -> None:
    other = dataclasses.replace(ROW, tile_id="b")
    rows = labels_csv.apply([ROW, other], {"a": label("normal", 1)})
    assert rows == [dataclasses.replace(ROW, kind="normal", ucc=1), other]
    assert ROW.kind == "mixture"


def test_a_count_alone_takes_away_a_kind_that_it_contradicts_and_keeps_one_that_agrees() -> None:
    assert labels_csv.apply([ROW], {"a": label(None, 1)}) == [dataclasses.replace(ROW, kind=None, ucc=1)]
    assert labels_csv.apply([ROW], {"a": label(None, 2)}) == [ROW]


def test_a_label_taken_back_leaves_the_tile_without_one() -> None:
    unlabelled = dataclasses.replace(ROW, kind=None, ucc=None)
    assert labels_csv.apply([ROW], {"a": label(None, None)}) == [unlabelled]
    assert labels_csv.apply([unlabelled], {"a": label(None, None)}) == [unlabelled]


def test_a_label_for_a_tile_that_is_not_there_is_refused() -> None:
    message = (
        r"^labels\.csv labels y, z, which tiles\.csv does not hold; take those lines out, or use the labels\.csv of"
    )
    with pytest.raises(DatasetError, match=message):
        labels_csv.apply([ROW], {"z": label(None, 1), "a": label(None, 1), "y": label(None, 1)})
