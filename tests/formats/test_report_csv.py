"""The table of a report: a row a model and a way of averaging."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest

from ucc_path.errors import OutputError
from ucc_path.evaluation.summary import Summary, Table
from ucc_path.formats import report_csv

FIGURES = ("TPR", "FPR", "TNR", "FNR", "PA", "balanced", "IoU", "Dice")
HEADER = (
    "model,averaging,TPR,FPR,TNR,FNR,PA,balanced,IoU,Dice,"
    "TPR_low,TPR_high,FPR_low,FPR_high,TNR_low,TNR_high,FNR_low,FNR_high,PA_low,PA_high,"
    "balanced_low,balanced_high,IoU_low,IoU_high,Dice_low,Dice_high,"
    "TPR_low_slides,TPR_high_slides,FPR_low_slides,FPR_high_slides,TNR_low_slides,TNR_high_slides,"
    "FNR_low_slides,FNR_high_slides,PA_low_slides,PA_high_slides,balanced_low_slides,balanced_high_slides,"
    "IoU_low_slides,IoU_high_slides,Dice_low_slides,Dice_high_slides"
)
NAN = np.full(8, np.nan)
EIGHTHS = np.arange(8) / 8


def make_summary(shift: float = 0.0) -> Summary:
    """Figures of which no two are alike: value 0, 1/8, ... each, and parts of a hundredth around it."""
    value = EIGHTHS + shift
    return Summary(value, value - 0.01, value + 0.02, value - 0.03, value + 0.04)


def written(folder: Path, table: Table) -> list[dict[str, str]]:
    report_csv.write(folder, table)
    with (folder / "metrics.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_the_papers_figures_come_first_then_ours_then_intervals_over_images_then_over_slides(tmp_path: Path) -> None:
    report_csv.write(tmp_path, {})
    assert (tmp_path / "metrics.csv").read_text() == HEADER + "\n"


def test_every_number_stands_under_its_name(tmp_path: Path) -> None:
    (row,) = written(tmp_path, {"m": {"image": make_summary()}})
    for figure, value in zip(FIGURES, EIGHTHS, strict=True):
        assert float(row[figure]) == pytest.approx(value)
        for ending, away in (("_low", -0.01), ("_high", 0.02), ("_low_slides", -0.03), ("_high_slides", 0.04)):
            assert float(row[figure + ending]) == pytest.approx(value + away)


def test_there_is_a_row_a_model_and_averaging_in_the_order_of_the_table(tmp_path: Path) -> None:
    table = {model: {way: make_summary(shift) for way in ("pooled", "image")} for model, shift in (("b", 0), ("a", 1))}
    rows = written(tmp_path, table)
    assert [(row["model"], row["averaging"], row["TPR"]) for row in rows] == [
        *(("b", "pooled", "0.000000"), ("b", "image", "0.000000")),
        *(("a", "pooled", "1.000000"), ("a", "image", "1.000000")),
    ]


def test_numbers_have_six_decimals(tmp_path: Path) -> None:
    (row,) = written(tmp_path, {"m": {"image": make_summary(2 / 3)}})
    assert (row["TPR"], row["FPR"], row["TPR_low"]) == ("0.666667", "0.791667", "0.656667")


def test_what_is_not_defined_is_empty(tmp_path: Path) -> None:
    value = np.where(EIGHTHS == 0, np.nan, EIGHTHS)
    (row,) = written(tmp_path, {"m": {"image": Summary(value, value, value, NAN, NAN)}})
    empty = {name for name, text in row.items() if not text}
    slides = {f"{figure}_{end}_slides" for figure in FIGURES for end in ("low", "high")}
    assert empty == {"TPR", "TPR_low", "TPR_high", *slides}


def test_a_name_with_commas_quotes_and_other_letters_is_read_back(tmp_path: Path) -> None:
    name = 'Präparat "b", run 2'
    assert [row["model"] for row in written(tmp_path, {name: {"image": make_summary()}})] == [name]
    assert name.split('"')[0].encode() in (tmp_path / "metrics.csv").read_bytes()


def test_a_table_that_cannot_be_written_is_told_and_the_old_one_stands(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match=r"metrics\.csv cannot be written \(No such file or directory\)"):
        report_csv.write(tmp_path / "none", {})
    written(tmp_path, {"m": {"image": make_summary()}})
    uneven = Summary(EIGHTHS, EIGHTHS[1:], EIGHTHS, NAN, NAN)
    with pytest.raises(ValueError, match="zip"):
        report_csv.write(tmp_path, {"m": {"image": make_summary(), "pooled": uneven}})
    assert len((tmp_path / "metrics.csv").read_text().splitlines()) == 2
    assert [path.name for path in tmp_path.iterdir()] == ["metrics.csv"]
