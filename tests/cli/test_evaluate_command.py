"""`ucc-path evaluate` as a user meets it: what is said, what is left behind, what the exit status means."""

from __future__ import annotations

import shutil
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from conftest import write_dataset
from forks import Forks, Started
from ucc_path_cli.show import scores_table

from ucc_path.evaluation.summary import Summary
from ucc_path.formats import report_json, tiles_csv

Start = Callable[..., Started]

QUICK = """
[segmentation]
inference = "torch"
batch_size = 64

[evaluation]
resamples = 100
"""
GIVEN = ["dataset", "quick.toml", "run"]


@pytest.fixture
def start(forks: Forks, whole_run: Path, tmp_path: Path) -> Start:
    """`start("--split", "val")`: the command on `dataset`, with a model in `run`, on its way to `report`."""
    shutil.copytree(whole_run, tmp_path / "run")
    write_dataset(tmp_path / "dataset", test={"normal": 2, "metastases": 2, "mixture": 6}, test_slides=2)
    (tmp_path / "quick.toml").write_text(QUICK)
    return lambda *arguments: forks.start(tmp_path, "evaluate", "dataset", "--settings", "quick.toml", *arguments)


def assert_one_line(done: subprocess.CompletedProcess[str], *words: str) -> None:
    """Exit status 2, and the last line says what is wrong; before it there is only what was said of the work."""
    assert done.returncode == 2, done.stderr
    *before, last = done.stderr.splitlines()
    assert last.startswith("Error: ") and all(word in last for word in words), last
    assert not [line for line in before if "Error" in line or "Traceback" in line]
    assert done.stdout == ""


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def files_of(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_the_short_form_works_and_says_where_to_look(start: Start, forks: Forks, tmp_path: Path) -> None:
    (tmp_path / "quick.toml").unlink()
    done = forks.start(tmp_path, "evaluate", "dataset").wait()
    assert done.returncode == 0, done.stderr
    head, *rows, last = done.stdout.splitlines()
    assert head.split() == ["model", "TPR", "FPR", "TNR", "FNR", "PA", "balanced,", "tissue"]
    figures = {row.split()[0]: [float(word) for word in row.split()[1:]] for row in rows}
    assert list(figures) == ["run", "run-pixels", "kmeans", "colour", "empty", "grid-ceiling"]
    assert figures["grid-ceiling"] == [1, 0, 1, 0, 1, 1]
    assert figures["run"][0] == 1 and figures["run"][-1] > 0.8  # smoothed, as slides are, for which the tiles are tiny
    assert figures["empty"] == [0, 0, 1, 1, 0.5, 0.5]
    assert last == "The report is report/report.html"
    assert "judging: 10 of 10 tiles" in done.stderr
    assert names_in(tmp_path) == ["dataset", "report", "run"]
    assert names_in(tmp_path / "report") == ["figures", "images.csv", "metrics.csv", "metrics.json", "report.html"]


def test_neither_smoothed_nor_adapted_it_finds_what_was_painted_to_the_pixel(start: Start) -> None:
    done = start("--smooth-px", "0", "--adapt", "0").wait()
    figures = {row.split()[0]: [float(word) for word in row.split()[1:]] for row in done.stdout.splitlines()[1:-1]}
    assert figures["run"] == figures["grid-ceiling"] == [1, 0, 1, 0, 1, 1]


def test_quiet_says_nothing_when_all_is_well(start: Start, tmp_path: Path) -> None:
    done = start("-q", "--split", "val", "-o", "elsewhere").wait()
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert report_json.read(tmp_path / "elsewhere")["data"]["split"] == "val"


def test_flags_win_over_the_settings_and_both_are_in_the_record(start: Start, tmp_path: Path) -> None:
    done = start("--inference", "torch", "--assign", "centroids", "--match", "oracle", "--device", "cpu").wait()
    assert done.returncode == 0, done.stderr
    record = report_json.read(tmp_path / "report")
    assert record["match"] == "oracle"
    assert record["settings"]["segmentation"]["assign"] == "centroids"
    assert record["settings"]["segmentation"]["batch_size"] == 64
    assert record["settings"]["evaluation"]["resamples"] == 100


def test_several_models_stand_side_by_side(start: Start, tmp_path: Path) -> None:
    shutil.copytree(tmp_path / "run", tmp_path / "other")
    done = start("-m", "other", "-m", "run/model.safetensors").wait()
    assert done.returncode == 0, done.stderr
    names = ["other", "other-pixels", "run", "run-pixels"]
    assert [line.split()[0] for line in done.stdout.splitlines()[1:5]] == names


def test_remarks_are_said_on_the_way(start: Start, tmp_path: Path) -> None:
    (tmp_path / "run" / "run.json").unlink()
    done = start().wait()
    assert done.returncode == 0
    assert any(line.startswith("Note: it is not known on which slides run") for line in done.stderr.splitlines())


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("-m", "nowhere"), ("there is no model nowhere", "train one with ucc-path train DATASET -o nowhere")),
        (("-m", "run", "-m", "run"), ("is named twice",)),
        (("-o", "dataset", "--overwrite"), ("dataset exists and holds no metrics.json, so it is not ours",)),
        (("--device", "nonsense"), ("--device nonsense is no device",)),
        (("--assign", "head"), ("--assign head is for models that were taught which class",)),
        (("--settings", "odd.toml"), ("odd.toml [evaluation] has no setting 'draws'",)),
    ],
    ids=["no model", "twice", "not ours", "no device", "no head", "no setting"],
)
def test_what_cannot_be_meant_costs_one_line(
    start: Start, tmp_path: Path, arguments: tuple[str, ...], words: tuple[str, ...]
) -> None:
    (tmp_path / "odd.toml").write_text("[evaluation]\ndraws = 5\n")
    assert_one_line(start(*arguments).wait(), *words)
    assert names_in(tmp_path) == sorted([*GIVEN, "odd.toml"])


def test_a_broken_tile_costs_one_line_and_leaves_nothing(start: Start, tmp_path: Path) -> None:
    picture = tiles_csv.image_path(tmp_path / "dataset", tiles_csv.read(tmp_path / "dataset")[-1])
    picture.write_bytes(b"no picture")
    assert_one_line(start().wait(), picture.name, "is not a PNG")
    assert names_in(tmp_path) == GIVEN


def test_an_existing_report_is_refused_without_overwrite(start: Start, tmp_path: Path) -> None:
    assert start("-q").wait().returncode == 0
    before = files_of(tmp_path / "report")
    assert_one_line(start().wait(), "report exists; replace it with --overwrite")
    assert files_of(tmp_path / "report") == before
    assert start("-q", "--overwrite", "--split", "val").wait().returncode == 0
    assert report_json.read(tmp_path / "report")["data"]["split"] == "val"


@pytest.mark.parametrize("moment", ["report.partial", "report.partial/figures"])
def test_a_run_killed_at_any_moment_leaves_no_report_that_looks_whole(
    start: Start, tmp_path: Path, moment: str
) -> None:
    first = start("-q")
    first.wait_for((tmp_path / moment).exists)
    first.kill()
    assert not (tmp_path / "report").exists()
    assert start("-q").wait().returncode == 0
    assert names_in(tmp_path) == sorted([*GIVEN, "report"])
    before = files_of(tmp_path / "report")
    second = start("-q", "--overwrite", "--split", "val")
    second.wait_for((tmp_path / moment).exists)
    second.kill()
    assert files_of(tmp_path / "report") == before


def test_an_interrupted_run_says_so_and_leaves_nothing(start: Start, tmp_path: Path) -> None:
    started = start("-q")
    started.wait_for((tmp_path / "report.partial").exists)
    started.send(signal.SIGINT)
    done = started.wait()
    assert done.returncode == 130
    assert done.stderr.strip() == "Interrupted; nothing half written was left behind."
    assert names_in(tmp_path) == GIVEN


def test_the_table_is_aligned_and_shows_what_is_undefined_as_a_dash() -> None:
    whole = np.array([0.5, 0.25, 0.75, 0.5, 0.625, 0.6255, 0.1, 0.2])
    undefined = np.where(np.arange(8) == 0, np.nan, whole)

    def summary(values: np.ndarray[tuple[int], np.dtype[np.float64]]) -> Summary:
        return Summary(values, values, values, values, values)

    table = {
        name: {"image": summary(values), "pooled-tissue": summary(values / 2)}
        for name, values in (("a-long-name", whole), ("b", undefined))
    }
    head, first, second = scores_table(table).splitlines()
    assert first.split() == ["a-long-name", "0.500", "0.250", "0.750", "0.500", "0.625", "0.313"]
    assert second.split() == ["b", "-", "0.250", "0.750", "0.500", "0.625", "0.313"]
    assert len(head) == len(first) == len(second)
    assert head.index("TPR") + 3 == first.index("0.500") + 5 == second.index("-") + 1
