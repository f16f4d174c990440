"""The table of a data set."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ucc_path.errors import DatasetError
from ucc_path.formats import tiles_csv
from ucc_path.formats.tiles_csv import TileRow

ROW = TileRow("s_x1_y2", "s", "train", 1, 2, 512, 1.0, 0.5, "mixture", 2)
HEADER = "tile_id,slide,split,x_l0,y_l0,tile_px,mpp,tumour_fraction,kind,ucc"


def make_table(folder: Path, *lines: str, header: str = HEADER) -> Path:
    (folder / "tiles.csv").write_text("\n".join([header, *lines]) + "\n")
    return folder


def test_the_table_looks_as_it_is_specified(tmp_path: Path) -> None:
    unlabelled = dataclasses.replace(ROW, tile_id="u", x_l0=0, tumour_fraction=None, kind=None, ucc=None)
    tiles_csv.write(tmp_path, [ROW, unlabelled])
    assert (tmp_path / "tiles.csv").read_bytes().decode() == (
        f"{HEADER}\nu,s,train,0,2,512,1.0,,,\ns_x1_y2,s,train,1,2,512,1.0,0.5,mixture,2\n"
    )
    assert [path.name for path in tmp_path.iterdir()] == ["tiles.csv"]


def test_rows_are_sorted_by_split_slide_and_place(tmp_path: Path) -> None:
    keys = [("train", "a", 0, 5), ("train", "a", 1, 2), ("train", "b", 0, 0), ("val", "a", 0, 0), ("test", "a", 0, 0)]
    rows = [
        dataclasses.replace(ROW, tile_id=f"t{i}", split=split, slide=slide, y_l0=y, x_l0=x)
        for i, (split, slide, y, x) in enumerate(keys)
    ]
    tiles_csv.write(tmp_path, rows[::-1])
    assert tiles_csv.read(tmp_path) == rows


names = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=12)


@given(names, st.floats(0.05, 20), st.integers(0, 10**7), st.none() | st.floats(0, 1))
def test_what_is_written_is_read_back_to_the_last_digit(
    tmp_path_factory: pytest.TempPathFactory, slide: str, mpp: float, x_l0: int, fraction: float | None
) -> None:
    folder = tmp_path_factory.mktemp("d")
    row = dataclasses.replace(ROW, slide=slide, mpp=mpp, x_l0=x_l0, tumour_fraction=fraction)
    tiles_csv.write(folder, [row])
    assert tiles_csv.read(folder) == [row]


def test_paths_are_those_of_the_design(tmp_path: Path) -> None:
    assert tiles_csv.image_path(tmp_path, ROW) == tmp_path / "images" / "train" / "s_x1_y2.png"
    assert tiles_csv.mask_path(tmp_path, ROW) == tmp_path / "masks" / "train" / "s_x1_y2.png"


@pytest.mark.parametrize(
    "line",
    [
        "a",
        "a,s,train,1.5,2,512,1,0.5,mixture,2",
        "a,s,train,1,,512,1,0.5,mixture,2",
        "a,s,train,1,2,512,x,0.5,mixture,2",
        "a,s,train,1,2,512,nan,0.5,mixture,2",
        "a,s,train,1,2,512,inf,0.5,mixture,2",
        "a,s,train,1,2,512,0,0.5,mixture,2",
        "a,s,train,1,2,0,1,0.5,mixture,2",
        "a,s,train,1,2,512,1,nan,mixture,2",
        "a,s,train,1,2,512,1,1.5,mixture,2",
        "a,s,train,1,2,512,1,0.5,mixture,1",
        "a,s,train,1,2,512,1,0.5,mixture,",
        "a,s,train,1,2,512,1,0.5,tumour,1",
        "a,s,dev,1,2,512,1,0.5,mixture,2",
        "a,s,,1,2,512,1,0.5,mixture,2",
        "../a,s,train,1,2,512,1,0.5,mixture,2",
        "..,s,train,1,2,512,1,0.5,mixture,2",
        ",s,train,1,2,512,1,0.5,mixture,2",
        "a,s,train,1,2,512,1,0.5,mixture,2,more",
    ],
)
def test_a_row_that_is_no_tile_is_refused_naming_its_line(tmp_path: Path, line: str) -> None:
    good = "b,s,train,1,2,512,1,0.5,mixture,2"
    assert tiles_csv.read(make_table(tmp_path, good))
    with pytest.raises(DatasetError, match=r"tiles\.csv line 3 .*; make the table anew with ucc-path tile"):
        tiles_csv.read(make_table(tmp_path, good, line))


def test_other_columns_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match=r"tiles\.csv has not the columns tile_id,slide,.*make it anew"):
        tiles_csv.read(make_table(tmp_path, header=HEADER.replace("x_l0", "x")))
    (tmp_path / "tiles.csv").write_text("")
    with pytest.raises(DatasetError, match="has not the columns"):
        tiles_csv.read(tmp_path)


def test_a_folder_without_a_table_and_a_table_that_is_no_text_are_refused(tmp_path: Path) -> None:
    with pytest.raises(
        DatasetError, match=r"tiles\.csv cannot be read \(No such file or directory\); .* is not a data set"
    ):
        tiles_csv.read(tmp_path)
    (tmp_path / "tiles.csv").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(DatasetError, match=r"tiles\.csv is not a table \("):
        tiles_csv.read(tmp_path)
    make_table(tmp_path, "x" * 200_000)
    with pytest.raises(DatasetError, match=r"tiles\.csv is not a table \("):
        tiles_csv.read(tmp_path)
