"""`ucc-path reproduce` as a person runs it: what it prints, how it ends, and that it can be stopped and run again."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from forks import Forks, Started
from labelled import QUICK, write_mnist
from ucc_path_cli import reproduce as command
from ucc_path_cli.show import reproduction_table

from ucc_path.formats.reproduction_csv import ReproductionRow
from ucc_path.workflows.reproduce.request import NAMES

Start = Callable[..., Started]
ENDLESS = QUICK.replace("steps = 4\n", "steps = 1000000\npatience = 1000000\n")


@pytest.fixture
def start(forks: Forks, tmp_path: Path) -> Start:
    """`start("--models", "ucc")`: an experiment on its way from `mnist` to `out`, with settings that cost nothing."""
    write_mnist(tmp_path / "mnist")
    (tmp_path / "quick.toml").write_text(QUICK)
    (tmp_path / "endless.toml").write_text(ENDLESS)

    def begin(*arguments: str, settings: str = "quick.toml") -> Started:
        common = ("reproduce", "mnist", "--data", "mnist", "-o", "out", "--device", "cpu", "--settings", settings)
        return forks.start(tmp_path, *common, *arguments)

    return begin


def wait_until_said(started: Started, words: str) -> None:
    started.wait_for(lambda: started.stderr.exists() and words in started.stderr.read_text())


def records(folder: Path) -> dict[str, dict[str, object]]:
    return {path.stem: json.loads(path.read_text()) for path in sorted((folder / "runs").glob("*.json"))}


def assert_one_line(done: subprocess.CompletedProcess[str], words: str) -> None:
    assert done.returncode == 2, done.stderr
    assert re.fullmatch(rf"Error: [^\n]*{re.escape(words)}[^\n]*\n", done.stderr), done.stderr
    assert done.stdout == ""


def test_a_table_of_all_runs_and_the_place_of_the_report_are_printed(start: Start, tmp_path: Path) -> None:
    done = start("--models", "kmeans, ucc", "--seeds", "2", "--seed", "3", "-v").wait()
    assert done.returncode == 0, done.stderr
    *table, last = done.stdout.splitlines()
    assert last == "The report is out/report.html"
    assert table[0].split() == ["ucc", "min", "JS", "k-means", "spectral", "merging", "seconds"]
    assert [line.split("  ")[0].strip() for line in table[1:]] == [
        "ucc 1-4 kde seed 3",
        "ucc 1-4 kde seed 4",
        "kmeans seed 3",
        "kmeans seed 4",
    ]
    assert "Run 1 of 4: ucc_1-4_kde_seed3\n" in done.stderr
    assert "ucc_1-4_kde_seed3 step 4: val loss " in done.stderr
    assert {path.name for path in tmp_path.iterdir()} == {"mnist", "out", "quick.toml", "endless.toml"}


def test_finished_runs_are_told_and_quiet_says_nothing(start: Start) -> None:
    quiet = start("--models", "kmeans", "-q").wait()
    assert (quiet.returncode, quiet.stdout, quiet.stderr) == (0, "", "")
    again = start("--models", "kmeans,spectral").wait()
    assert "1 of 2 runs are finished and are left as they are\n" in again.stderr
    assert "Run 1 of 1: spectral_seed0\n" in again.stderr


def test_options_reach_the_run(start: Start, tmp_path: Path) -> None:
    done = start("--models", "ucc,ucc2+", "--ucc-labels", "1-3", "--pooling", "average", "--steps", "2").wait()
    assert done.returncode == 0, done.stderr
    found = records(tmp_path / "out")
    assert found.keys() == {"ucc_1-3_average_seed0", "ucc2+_2-3_average_seed0"}
    assert {record["best_step"] for record in found.values()} == {2}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--models", "ucc,resnet"), f"--models has no 'resnet'; it can be {', '.join(NAMES)}"),
        (("--models", ","), "--models has no 'name'; it can be ucc, "),
        (("--ucc-labels", "4-1"), "--ucc-labels '4-1' is no range of counts; give one such as 1-4"),
        (("--models", "ucc2+", "--ucc-labels", "1-2"), "ucc2+ counts from 2 on; give --ucc-labels up to 3 or more"),
        (("--ucc-labels", "1-11"), "ucc_labels go up to 11, and a bag of 4 images of 10 classes cannot hold as many"),
        (("--seed", "-1"), "[training] seed is -1; give from 0 to 1e+09"),
        (("--data", "nowhere"), "nowhere holds no train-images-idx3-ubyte; give the folder of MNIST's four IDX files"),
        (("--device", "abacus"), "abacus"),
    ],
)
def test_what_cannot_be_done_costs_one_line(arguments: tuple[str, ...], words: str, start: Start) -> None:
    assert_one_line(start("-q", *arguments).wait(), words)


@pytest.mark.parametrize(
    "arguments", [("imagenet", "--data", "x"), ("mnist",), ("mnist", "--data", "x", "--seeds", "0")]
)
def test_wrong_usage_is_status_2(arguments: tuple[str, ...], forks: Forks, tmp_path: Path) -> None:
    done = forks.start(tmp_path, "reproduce", *arguments).wait()
    assert done.returncode == 2 and done.stderr.startswith("Usage: ucc-path reproduce ")


def test_a_run_that_was_killed_goes_on_when_run_again(start: Start, tmp_path: Path) -> None:
    """What was finished before stays; what was on its way is made anew, and nothing half written is taken for a run."""
    assert start("--models", "kmeans").wait().returncode == 0
    before = (tmp_path / "out" / "runs" / "kmeans_seed0.json").stat().st_mtime_ns
    killed = start("--models", "ucc,kmeans", "-v", settings="endless.toml")
    wait_until_said(killed, " step 4: ")
    killed.kill()
    assert records(tmp_path / "out").keys() == {"kmeans_seed0"}
    done = start("--models", "ucc,kmeans").wait()
    assert done.returncode == 0, done.stderr
    assert "Run 1 of 1: ucc_1-4_kde_seed0\n" in done.stderr
    assert records(tmp_path / "out").keys() == {"kmeans_seed0", "ucc_1-4_kde_seed0"}
    assert (tmp_path / "out" / "runs" / "kmeans_seed0.json").stat().st_mtime_ns == before
    assert not list(tmp_path.rglob("*.partial")) and not list(tmp_path.glob("*.lock"))


@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGTERM])
def test_a_run_that_is_stopped_says_so_and_leaves_nothing_half_written(
    stop: signal.Signals, start: Start, tmp_path: Path
) -> None:
    stopped = start("--models", "ucc", "-v", settings="endless.toml")
    wait_until_said(stopped, " step 2: ")
    stopped.send(stop)
    done = stopped.wait()
    assert done.returncode == 130
    assert done.stderr.endswith("Interrupted; nothing half written was left behind.\n")
    assert "Traceback" not in done.stderr
    assert [path.name for path in tmp_path.rglob("out*")] == ["out"]
    assert [path.name for path in (tmp_path / "out").rglob("*")] == ["runs"]


def test_two_runs_into_one_folder_are_refused(start: Start) -> None:
    first = start("--models", "ucc", "-v", settings="endless.toml")
    wait_until_said(first, " step 2: ")
    assert_one_line(start("-q", "--models", "kmeans").wait(), "another run is writing")
    first.kill()


def test_help_comes_at_once_and_names_every_option() -> None:
    script = "from ucc_path_cli.main import main; import sys; sys.argv = ['ucc-path', 'reproduce', '-h']; main()"
    began_s = time.process_time()
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert time.process_time() - began_s < 5 and done.returncode == 0
    for option in ("--data", "--output", "--models", "--ucc-labels", "--pooling", "--seeds", "--seed", "--preset"):
        assert f"{option} " in done.stdout
    for option in ("--steps", "--device", "--overwrite", "--settings", "--quiet", "--verbose", "--debug", "--help"):
        assert option in done.stdout
    assert "mnist|cifar10|cifar100" in done.stdout


def test_all_models_are_run_unless_told_otherwise() -> None:
    models = next(option for option in command.reproduce.params if option.name == "models")
    assert models.default == ",".join(NAMES)


def test_what_a_run_does_not_have_is_a_dash_in_the_table() -> None:
    rows = [
        ReproductionRow("ucc", "1-4", "kde", 0, 1.0, 0.2222, 0.98, 0.5, 0.99, 61.4, 900, 0.98),
        ReproductionRow("kmeans", seed=0, clustering_kmeans=0.5),
    ]
    first, second = reproduction_table(rows).splitlines()[1:]
    assert first.split()[-6:] == ["1.0000", "0.2222", "0.9800", "0.5000", "0.9900", "61"]
    assert second.split()[-6:] == ["-", "-", "0.5000", "-", "-", "-"]
    assert len(first) == len(second)
    assert len(reproduction_table([]).splitlines()) == 1
