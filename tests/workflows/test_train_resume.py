"""A training that was stopped, at whatever moment and by whatever, goes on to the very same model."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import trained
from forks import Forks, Started
from states import spoil

from ucc_path.formats import metrics_csv, model_safetensors, resume_state, run_json, tiles_csv

Run = Callable[..., subprocess.CompletedProcess[str]]
Start = Callable[..., Started]
MakeDataset = Callable[..., Path]

STATE = Path("resume") / "state.safetensors"
SAME = ("model.safetensors", "metrics.csv", "loss.png")


QUICK = """
[model]
patch_px = 16
width = 1
features = 2
hidden = [4]

[training]
steps = 60
bag_size = 4
bags_per_step = 2
evaluate_every = 10
validation_bags = 4
save_every_s = 0.02
"""
"""Steps as quick as can be, and a saved state after each few; what is learnt is of no matter here."""


@pytest.fixture(scope="module")
def whole_run(forks: Forks, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that nothing disturbed, to compare with."""
    return trained(forks, tmp_path_factory.mktemp("undisturbed"), QUICK)


@pytest.fixture
def start_quick(start_train: Start, make_dataset: MakeDataset, tmp_path: Path) -> Start:
    """The same run on its way."""
    make_dataset()
    (tmp_path / "tiny.toml").write_text(QUICK)
    return start_train


@pytest.fixture
def run_quick(start_quick: Start) -> Run:
    """The same run, to its end."""
    return lambda *arguments: start_quick(*arguments).wait()


def evaluations(run: Path) -> int:
    path = run / metrics_csv.NAME
    return max(0, path.read_bytes().count(b"\n") - 1) if path.exists() else 0


def assert_same(run: Path, whole_run: Path) -> None:
    """The run became what it would have become, and has cleared up."""
    assert sorted(path.name for path in run.iterdir()) == sorted(path.name for path in whole_run.iterdir())
    for name in SAME:
        assert (run / name).read_bytes() == (whole_run / name).read_bytes(), name
    assert not list(run.parent.glob("run.*"))


def record_of(run: Path) -> dict[str, object]:
    record: dict[str, object] = json.loads((run / run_json.NAME).read_text())
    return record


MOMENTS: dict[str, Callable[[Path], bool]] = {
    "as soon as its folder is there": lambda run: run.exists(),
    "before the first evaluation": lambda run: (run / STATE).exists(),
    "while the model is being finished": lambda run: (run / "model.safetensors").exists(),
}


@pytest.mark.parametrize("moment", MOMENTS)
def test_a_run_that_was_killed_goes_on_to_the_same_bytes(
    moment: str,
    whole_run: Path,
    start_quick: Start,
    run_quick: Run,
    tmp_path: Path,
) -> None:
    run = tmp_path / "run"
    killed = start_quick()
    killed.wait_for(lambda: MOMENTS[moment](run))
    killed.kill()
    saved = resume_state.read(run)
    done = run_quick("--resume")
    assert done.returncode == 0, done.stderr
    assert_same(run, whole_run)
    if saved:
        assert record_of(run)["resumed_at_step"] == saved[0]["step"]
        assert f"Going on at step {saved[0]['step']}\n" in done.stderr
    else:
        assert record_of(run)["resumed_at_step"] in (None, 60)


def test_a_run_that_is_killed_again_and_again_comes_to_the_same_end(
    whole_run: Path, start_quick: Start, run_quick: Run, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    for count in (1, 2, 3):
        started = start_quick("--resume")
        started.wait_for(lambda count=count: evaluations(run) >= count)  # type: ignore[misc]
        started.kill()
    assert run_quick("--resume").returncode == 0
    assert_same(run, whole_run)


@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGTERM])
def test_a_run_that_is_told_to_stop_saves_says_how_to_go_on_and_does(
    stop: signal.Signals,
    whole_run: Path,
    start_quick: Start,
    run_quick: Run,
    tmp_path: Path,
) -> None:
    run = tmp_path / "run"
    started = start_quick()
    started.wait_for(lambda: evaluations(run) >= 1)
    started.send(stop)
    stopped = started.wait()
    assert stopped.returncode == 130
    before = record_of(run)
    step = before["steps"]
    assert stopped.stderr.splitlines()[-1] == (
        f"Stopped at step {step}, and saved. Go on with the same command and --resume."
    )
    assert not (run / "model.safetensors").exists()
    assert record_of(run)["finished"] is False
    assert run_quick("--resume").returncode == 0
    assert_same(run, whole_run)
    after = record_of(run)
    assert (after["resumed_at_step"], after["begun"]) == (step, before["begun"])
    assert isinstance(after["seconds"], float) and isinstance(before["seconds"], float)
    assert after["seconds"] >= before["seconds"]  # of both, one after the other


def test_a_second_signal_stops_at_once(start_quick: Start, tmp_path: Path) -> None:
    started = start_quick("--bags-per-step", "10000")  # a step takes seconds
    started.wait_for(lambda: started.stderr.exists() and "Training ucc" in started.stderr.read_text())
    started.send(signal.SIGINT)
    time.sleep(0.1)  # two signals at once would be one
    started.send(signal.SIGINT)
    stopped = started.wait()
    assert stopped.returncode == 130
    assert "Traceback" not in stopped.stderr
    assert not (tmp_path / "run" / STATE).exists()
    assert not list(tmp_path.glob("run.*"))


def test_with_nothing_saved_a_run_starts_at_step_0_and_says_so(run_quick: Run, tmp_path: Path) -> None:
    done = run_quick("--resume", "--steps", "10")
    assert done.returncode == 0, done.stderr
    assert "Nothing was saved: starting at step 0\n" in done.stderr
    assert record_of(tmp_path / "run")["resumed_at_step"] is None


def test_a_finished_run_is_left_as_it_is(whole_run: Path, forks: Forks) -> None:
    before = {path: path.stat().st_mtime_ns for path in (whole_run, *whole_run.iterdir())}
    done = forks.start(whole_run.parent, "train", "dataset", "--settings", "tiny.toml", "--resume").wait()
    assert done.returncode == 0
    assert "is a finished run of 60 steps; there is nothing to go on with" in done.stdout
    assert {path: path.stat().st_mtime_ns for path in (whole_run, *whole_run.iterdir())} == before


def test_what_a_run_killed_at_its_very_end_left_to_clear_is_cleared(run_quick: Run, tmp_path: Path) -> None:
    assert run_quick("--steps", "10").returncode == 0
    (tmp_path / "run" / "resume" / "tiles").mkdir(parents=True)
    assert run_quick("--steps", "10", "--resume").returncode == 0
    assert not (tmp_path / "run" / "resume").exists()


@pytest.fixture
def begun(start_quick: Start, tmp_path: Path) -> Path:
    """A run that was told to stop after its first evaluation."""
    started = start_quick()
    started.wait_for(lambda: evaluations(tmp_path / "run") >= 1)
    started.send(signal.SIGTERM)
    assert started.wait().returncode == 130
    return tmp_path / "run"


def assert_refused(done: subprocess.CompletedProcess[str], *words: str) -> None:
    lines = done.stderr.splitlines()
    assert done.returncode == 2, done.stderr
    assert len(lines) == 1, done.stderr
    for word in words:
        assert word in lines[0]


def test_a_run_does_not_go_on_as_another_one(begun: Path, run_quick: Run, tmp_path: Path) -> None:
    before = {path: path.read_bytes() for path in begun.rglob("*") if path.is_file()}
    assert_refused(run_quick("--resume", "--alpha", "0.7"), "with settings.training.alpha 0.5, not 0.7", "--overwrite")
    assert_refused(run_quick("--resume", "--seed", "7"), "with settings.training.seed 0, not 7")
    assert_refused(run_quick("--resume", "--model", "autoencoder"), "with model ucc, not autoencoder")
    settings = (tmp_path / "tiny.toml").read_text()
    (tmp_path / "tiny.toml").write_text(settings.replace("width = 1", "width = 5"))
    assert_refused(run_quick("--resume"), "with settings.model.width 1, not 5")
    (tmp_path / "tiny.toml").write_text(settings + "[tissue]\nmin_area_um2 = 1\n")
    assert_refused(run_quick("--resume"), "with settings.tissue.min_area_um2 5000.0, not 1.0")
    (tmp_path / "tiny.toml").write_text(settings)
    assert_refused(run_quick(), "is a run that was not finished; go on with --resume")
    assert {path: path.read_bytes() for path in begun.rglob("*") if path.is_file()} == before


def test_a_run_does_not_go_on_with_other_data(begun: Path, run_quick: Run, tmp_path: Path) -> None:
    dataset = tmp_path / "dataset"
    first = tiles_csv.read(dataset)[0].tile_id
    (dataset / "labels.csv").write_text(f"tile_id,kind,ucc,who,when\n{first},mixture,,me,now\n")
    assert_refused(run_quick("--resume"), "was begun on another data set")
    (dataset / "labels.csv").unlink()
    tiles_csv.write(dataset, tiles_csv.read(dataset)[:-1])
    assert_refused(run_quick("--resume"), "was begun on another data set")


def test_a_data_set_may_be_moved_and_a_run_too(whole_run: Path, begun: Path, forks: Forks, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    for name in ("dataset", "run", "tiny.toml"):
        (tmp_path / name).rename(tmp_path / "elsewhere" / name)
    command = ("train", "elsewhere/dataset", "-o", "elsewhere/run", "--settings", "elsewhere/tiny.toml", "--resume")
    done = forks.start(tmp_path, *command).wait()
    assert done.returncode == 0, done.stderr
    assert_same(tmp_path / "elsewhere" / "run", whole_run)


def test_more_steps_may_be_given_on_the_way(begun: Path, run_quick: Run) -> None:
    done = run_quick("--resume", "--steps", "70")
    assert done.returncode == 0, done.stderr
    assert [row.step for row in metrics_csv.read(begun)] == [10, 20, 30, 40, 50, 60, 70]


def test_fewer_steps_than_were_taken_are_refused(begun: Path, run_quick: Run) -> None:
    taken = record_of(begun)["steps"]
    assert_refused(run_quick("--resume", "--steps", "3", "-q"), f"has taken {taken} steps", f"--steps {taken} or more")


@pytest.mark.parametrize("damage", ["cut", "of other shapes", "not ours"])
def test_a_saved_state_that_is_no_good_costs_one_line(damage: str, begun: Path, run_quick: Run) -> None:
    path = begun / STATE
    if damage == "cut":
        path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    elif damage == "of other shapes":
        saved = resume_state.read(begun)
        assert saved
        tensors = {name: value.reshape(-1)[:1] if value.ndim else value for name, value in saved[1].items()}
        resume_state.write(begun, saved[0], tensors)
    else:
        path.write_bytes(b"nothing of ours")
    done = run_quick("--resume", "-q")
    assert_refused(done, str(begun), "start anew with --overwrite")
    assert run_quick("--overwrite", "--steps", "10").returncode == 0


def test_a_table_cut_short_by_a_power_cut_is_mended(whole_run: Path, begun: Path, run_quick: Run) -> None:
    with (begun / metrics_csv.NAME).open("a") as file:
        file.write("20,0.5,0.")
    assert run_quick("--resume").returncode == 0
    assert_same(begun, whole_run)


def test_a_power_cut_before_the_record_was_whole_is_no_hindrance(run_quick: Run, tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "run.json.partial").write_text('{"format": "ucc-')
    (tmp_path / "run.ucc-path.lock").touch()
    done = run_quick("--steps", "10")
    assert done.returncode == 0, done.stderr
    assert not list((tmp_path / "run").glob("*.partial"))


def test_going_on_from_no_table_at_all_costs_one_line(begun: Path, run_quick: Run) -> None:
    (begun / metrics_csv.NAME).write_text("who did this")
    assert_refused(run_quick("--resume", "-q"), "metrics.csv has not the columns", "--overwrite")


def test_weights_from_before_the_loss_was_no_number_are_kept(begun: Path, run_quick: Run) -> None:
    found = spoil(begun, keeps_best=True)
    best = record_of(begun)["best_step"]
    done = run_quick("--resume")
    assert done.returncode == 0, done.stderr
    assert f"Note: the loss is no longer a number at step {found}" in done.stderr
    assert f"The best weights before that, of step {best}, are kept" in done.stderr
    assert "the loss diverged" in done.stdout
    assert (record_of(begun)["stopped"], record_of(begun)["best_step"]) == ("diverged", best)
    model_safetensors.read(begun / model_safetensors.NAME)  # which refuses what is no number


def test_a_loss_that_is_no_number_before_any_evaluation_ends_the_run_in_one_line(begun: Path, run_quick: Run) -> None:
    found = spoil(begun, keeps_best=False)
    done = run_quick("--resume", "-q")
    assert_refused(done, f"the loss is no longer a number at step {found}", "--learning-rate below 0.0005")
    assert not (begun / "model.safetensors").exists()


def test_batch_norm_and_averaged_weights_go_on_together(
    start_quick: Start, run_quick: Run, forks: Forks, tmp_path: Path
) -> None:
    (tmp_path / "tiny.toml").write_text(QUICK.replace("[model]", '[model]\nnorm = "batch"'))
    whole = forks.start(tmp_path, "train", "dataset", "--settings", "tiny.toml", "-o", "whole").wait()
    assert whole.returncode == 0, whole.stderr
    killed = start_quick()
    killed.wait_for(lambda: (tmp_path / "run" / STATE).exists())
    killed.kill()
    saved = resume_state.read(tmp_path / "run")
    assert saved is None or any(name.startswith("average.") and "running_mean" in name for name in saved[1])
    done = run_quick("--resume")
    assert done.returncode == 0, done.stderr
    for name in ("model.safetensors", "metrics.csv"):
        assert (tmp_path / "run" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes(), name
