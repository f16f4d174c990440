"""The table of the images of a report: a row a model and an image."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest

from ucc_path.errors import OutputError
from ucc_path.evaluation.counts import Counts
from ucc_path.formats import image_scores_csv
from ucc_path.formats.image_scores_csv import ImageName

HEADER = (
    "model,image,slide,x_l0,y_l0,kind,tumour_fraction,"
    "TP,FP,TN,FN,TPR,FPR,TNR,FNR,PA,balanced,IoU,Dice,"
    "TP_tissue,FP_tissue,TN_tissue,FN_tissue,TPR_tissue,FPR_tissue,TNR_tissue,FNR_tissue,PA_tissue,"
    "balanced_tissue,IoU_tissue,Dice_tissue"
)
TILE = ImageName("s_0_256", "s", 0, 256, "mixture", 0.25)
SLIDE = ImageName("s", "s")


def region_counts(*over_all: tuple[float, ...], tissue: tuple[tuple[float, ...], ...] = ()) -> dict[str, Counts]:
    """Counts of each image by region; the same over tissue unless told otherwise."""
    return {"": np.array(over_all, np.float64), "-tissue": np.array(tissue or over_all, np.float64)}


def written(folder: Path, images: list[ImageName], counts: dict[str, dict[str, Counts]]) -> list[dict[str, str]]:
    image_scores_csv.write(folder, images, counts)
    with (folder / "images.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_an_image_has_its_place_its_counts_and_its_figures_over_all_and_over_tissue(tmp_path: Path) -> None:
    # TPR 3/4, FPR 1/4, PA 6/8, IoU 3/5, Dice 6/8; over tissue 2/4, 0, 3/5, 2/4, 4/6.
    image_scores_csv.write(tmp_path, [TILE], {"m": region_counts((3, 1, 3, 1), tissue=((2, 0, 1, 2),))})
    assert (tmp_path / "images.csv").read_text() == (
        f"{HEADER}\n"
        "m,s_0_256,s,0,256,mixture,0.25,"
        "3,1,3,1,0.750000,0.250000,0.750000,0.250000,0.750000,0.750000,0.600000,0.750000,"
        "2,0,1,2,0.500000,0.000000,1.000000,0.500000,0.600000,0.750000,0.500000,0.666667\n"
    )


def test_what_is_not_defined_and_what_a_slide_does_not_have_is_empty(tmp_path: Path) -> None:
    (row,) = written(tmp_path, [SLIDE], {"m": region_counts((0, 0, 16, 0), tissue=((16, 0, 0, 0),))})
    assert {name for name, text in row.items() if not text} == {
        *("x_l0", "y_l0", "kind", "tumour_fraction"),
        *("TPR", "FNR", "balanced", "IoU", "Dice"),
        *("FPR_tissue", "TNR_tissue", "balanced_tissue"),
    }


def test_the_images_of_a_model_stand_together_in_their_order(tmp_path: Path) -> None:
    images = [TILE, ImageName("t_0_0", "t", 0, 0, "normal", 0.0)]
    counts = {"b": region_counts((1, 0, 0, 0), (2, 0, 0, 0)), "a": region_counts((3, 0, 0, 0), (4, 0, 0, 0))}
    rows = written(tmp_path, images, counts)
    assert [(row["model"], row["image"], row["slide"], row["TP"]) for row in rows] == [
        *(("b", "s_0_256", "s", "1"), ("b", "t_0_0", "t", "2")),
        *(("a", "s_0_256", "s", "3"), ("a", "t_0_0", "t", "4")),
    ]
    assert (rows[1]["x_l0"], rows[1]["y_l0"], rows[1]["tumour_fraction"]) == ("0", "0", "0.0")


def test_counts_are_whole_numbers_or_areas_to_ten_digits(tmp_path: Path) -> None:
    (row,) = written(tmp_path, [SLIDE], {"m": region_counts((9_999_999_999, 2 / 3, 1.5, 0))})
    assert [row[kind] for kind in ("TP", "FP", "TN", "FN")] == ["9999999999", "0.6666666667", "1.5", "0"]


def test_a_name_with_commas_quotes_and_other_letters_is_read_back(tmp_path: Path) -> None:
    name = 'Präparat "b", 2'
    (row,) = written(tmp_path, [ImageName(name, name)], {name: region_counts((1, 1, 1, 1))})
    assert [row[column] for column in ("model", "image", "slide")] == [name] * 3


def test_without_images_there_is_a_header(tmp_path: Path) -> None:
    assert written(tmp_path, [], {}) == []
    assert (tmp_path / "images.csv").read_text() == HEADER + "\n"


def test_a_table_that_cannot_be_written_is_told_and_the_old_one_stands(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match=r"images\.csv cannot be written \(No such file or directory\)"):
        image_scores_csv.write(tmp_path / "none", [], {})
    written(tmp_path, [SLIDE], {"m": region_counts((1, 1, 1, 1))})
    with pytest.raises(KeyError):
        image_scores_csv.write(tmp_path, [SLIDE], {"a": region_counts((1, 1, 1, 1)), "b": {}})
    assert (tmp_path / "images.csv").read_text().splitlines()[1].startswith("m,s,s,")
    assert [path.name for path in tmp_path.iterdir()] == ["images.csv"]
