"""The table of a training run."""

from __future__ import annotations

import math
import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ucc_path.errors import OutputError, RunError
from ucc_path.formats import metrics_csv
from ucc_path.formats.metrics_csv import MetricsRow

HEADER = (
    "step,train_loss,train_cross_entropy,train_mse,train_accuracy,val_loss,val_cross_entropy,val_mse,val_accuracy\n"
)
FULL = MetricsRow(50, 0.5, 0.25, 0.125, 0.75, 1.5, 1.25, 1.125, 0.5)


def make_run(folder: Path, text: str) -> Path:
    (folder / "metrics.csv").write_text(text)
    return folder


def test_the_table_looks_as_it_is_specified(tmp_path: Path) -> None:
    metrics_csv.append(tmp_path, FULL)
    metrics_csv.append(tmp_path, MetricsRow(100, train_loss=1e-20))
    assert (tmp_path / "metrics.csv").read_bytes().decode() == (
        HEADER + "50,0.5,0.25,0.125,0.75,1.5,1.25,1.125,0.5\n100,1e-20,,,,,,,\n"
    )


figures = st.none() | st.floats(allow_nan=False)


@given(st.lists(st.tuples(figures, figures), max_size=3))
def test_what_is_added_is_read_back_to_the_last_digit(
    tmp_path_factory: pytest.TempPathFactory, values: list[tuple[float | None, float | None]]
) -> None:
    run = tmp_path_factory.mktemp("run")
    rows = [MetricsRow(step, train_loss=a, val_accuracy=b) for step, (a, b) in enumerate(values)]
    for row in rows:
        metrics_csv.append(run, row)
    assert not rows or metrics_csv.read(run) == rows


def test_a_loss_that_is_not_a_number_is_kept_as_such(tmp_path: Path) -> None:
    metrics_csv.append(tmp_path, MetricsRow(1, train_loss=math.nan))
    loss = metrics_csv.read(tmp_path)[0].train_loss
    assert loss is not None and math.isnan(loss)


def test_numbers_of_numpy_are_written_as_plain_ones(tmp_path: Path) -> None:
    metrics_csv.append(tmp_path, MetricsRow(int(np.int64(3)), train_loss=np.float64(0.1)))
    assert (tmp_path / "metrics.csv").read_text().endswith("\n3,0.1,,,,,,,\n")


def test_a_row_is_on_the_disk_when_append_returns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced = []
    monkeypatch.setattr(os, "fsync", lambda file: synced.append(os.fstat(file).st_size))
    metrics_csv.append(tmp_path, FULL)
    assert synced == [(tmp_path / "metrics.csv").stat().st_size]


@pytest.mark.parametrize(
    ("step", "kept"), [(0, []), (49, []), (50, [50]), (99, [50]), (150, [50, 100, 150]), (999, [50, 100, 150])]
)
def test_rows_after_a_step_are_dropped(tmp_path: Path, step: int, kept: list[int]) -> None:
    for at in (50, 100, 150):
        metrics_csv.append(tmp_path, MetricsRow(at, 0.5))
    metrics_csv.keep_until(tmp_path, step)
    assert [row.step for row in metrics_csv.read(tmp_path)] == kept
    assert (tmp_path / "metrics.csv").read_text().startswith(HEADER)
    assert [path.name for path in tmp_path.iterdir()] == ["metrics.csv"]


def test_wherever_a_run_was_killed_it_can_go_on(tmp_path: Path) -> None:
    whole = HEADER + "50,0.5,,,,,,,\n100,0.25,,,,,,,\n"
    for length in (0, 1, 50, *range(len(HEADER) - 1, len(whole) + 1)):
        make_run(tmp_path, whole[:length])
        before = metrics_csv.read(tmp_path)
        metrics_csv.keep_until(tmp_path, 1000)
        metrics_csv.append(tmp_path, MetricsRow(150, 0.125))
        assert metrics_csv.read(tmp_path) == [*before, MetricsRow(150, 0.125)]
        assert len(before) == max(0, whole[:length].count("\n") - 1)


def test_a_run_without_a_table_needs_none_to_go_on(tmp_path: Path) -> None:
    metrics_csv.keep_until(tmp_path, 10)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "line",
    [
        "",
        "50",
        "50,1,,,,,,,,",
        "x,1,,,,,,,",
        "1.5,1,,,,,,,",
        ",1,,,,,,,",
        "-1,1,,,,,,,",
        "50,one,,,,,,,",
    ],
)
def test_a_line_that_is_no_evaluation_is_refused_naming_it(tmp_path: Path, line: str) -> None:
    run = make_run(tmp_path, f"{HEADER}10,1,,,,,,,\n{line}\n")
    with pytest.raises(RunError, match=r"metrics\.csv line 3 is not an evaluation \(.+\); start the run anew"):
        metrics_csv.read(run)
    with pytest.raises(RunError, match="line 3"):
        metrics_csv.keep_until(run, 5)


def test_steps_that_do_not_rise_are_refused(tmp_path: Path) -> None:
    run = make_run(tmp_path, f"{HEADER}10,1,,,,,,,\n10,1,,,,,,,\n")
    with pytest.raises(RunError, match=r"metrics\.csv has steps that do not rise; start the run anew"):
        metrics_csv.read(run)


@pytest.mark.parametrize("text", ["a,b\n1,2\n", "a,b", HEADER.upper(), "\n"])
def test_other_columns_are_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(RunError, match=r"metrics\.csv has not the columns step,train_loss,.*; start the run anew"):
        metrics_csv.read(make_run(tmp_path, text))


def test_a_missing_table_and_bytes_that_are_no_text_are_refused(tmp_path: Path) -> None:
    with pytest.raises(RunError, match=r"metrics\.csv cannot be read \(No such file.*\); .* is not a run of training"):
        metrics_csv.read(tmp_path)
    (tmp_path / "metrics.csv").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(RunError, match=r"metrics\.csv is not a table \("):
        metrics_csv.read(tmp_path)


def test_a_folder_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match=r"metrics\.csv cannot be written"):
        metrics_csv.append(tmp_path / "none", FULL)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
def test_a_full_disk_is_told_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "metrics.csv").symlink_to("/dev/full")
    with pytest.raises(OutputError, match=r"metrics\.csv cannot be written \(No space left on device\); make room"):
        metrics_csv.append(tmp_path, FULL)
