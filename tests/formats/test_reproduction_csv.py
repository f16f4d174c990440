"""The tables of a reproduction: their columns are a promise."""

from __future__ import annotations

import math
from pathlib import Path

from ucc_path.formats import reproduction_csv
from ucc_path.formats.reproduction_csv import ReproductionRow

HEAD = (
    "model,ucc_labels,pooling,seed,ucc_accuracy,min_js,clustering_kmeans,clustering_spectral,clustering_merge,"
    "seconds,peak_mb,clustering_best"
)


def test_the_columns_are_those_of_the_design_and_one_more(tmp_path: Path) -> None:
    reproduction_csv.write(tmp_path / "metrics.csv", [])
    assert (tmp_path / "metrics.csv").read_bytes() == HEAD.encode() + b"\n"


def test_a_row_has_six_decimals_and_nothing_where_nothing_is_known(tmp_path: Path) -> None:
    full = ReproductionRow("ucc2+", "2-4", "kde", 7, 0.5, 1 / 3, 0.1, 0.2, 0.3, 12.25, 512, 0.2)
    raw = ReproductionRow("kmeans", seed=0, clustering_kmeans=1.0, seconds=math.inf)
    reproduction_csv.write(tmp_path / "metrics.csv", [full, raw])
    assert (tmp_path / "metrics.csv").read_text().splitlines()[1:] == [
        "ucc2+,2-4,kde,7,0.500000,0.333333,0.100000,0.200000,0.300000,12.250000,512,0.200000",
        "kmeans,,,0,,,1.000000,,,,,",
    ]


def test_a_table_is_replaced_whole(tmp_path: Path) -> None:
    path = tmp_path / "metrics.csv"
    path.write_text("old\n" * 100)
    reproduction_csv.write(path, [ReproductionRow("ucc")])
    assert path.read_text() == f"{HEAD}\nucc,,,,,,,,,,,\n"
    assert [found.name for found in tmp_path.iterdir()] == ["metrics.csv"]
