"""`ucc-path train` as a user meets it: what is said, what is left behind, what the exit status means."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Generator, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from conftest import PROGRAM
from forks import Started
from ucc_path_cli.show import show

from ucc_path.formats import metrics_csv, png, run_json, tiles_csv
from ucc_path.settings import PRESETS
from ucc_path.workflows.events import Event, Progress

Run = Callable[..., subprocess.CompletedProcess[str]]
Start = Callable[..., Started]
MakeDataset = Callable[..., Path]

SHORT = ("--steps", "2", "--evaluate-every", "2")
HIDDEN = "run.ucc-path.lock"


def assert_one_line(done: subprocess.CompletedProcess[str], *words: str) -> None:
    """Exit status 2 and one line that says what is wrong, beside what was said of the work before."""
    lines = done.stderr.splitlines()
    errors = [line for line in lines if not line.startswith(("Note: ", "reading tiles: ", "Training "))]
    assert done.returncode == 2, done.stderr
    assert len(errors) == 1, done.stderr
    assert errors[0] == lines[-1]
    for word in words:
        assert word in errors[0]


def assert_no_model(folder: Path) -> None:
    run = folder / "run"
    assert not (run / "model.safetensors").exists()
    assert not run.is_dir() or run_json.read(run)["finished"] is False
    assert not (folder / HIDDEN).exists()


def test_the_program_itself_trains_a_model(make_dataset: MakeDataset, run_train: Run, tmp_path: Path) -> None:
    make_dataset()
    done = subprocess.run(
        [PROGRAM, "train", "dataset", "--settings", "tiny.toml", *SHORT],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stderr
    run = tmp_path / "run"
    names = ["loss.png", "metrics.csv", "model.safetensors", "run.json", "second-round"]
    assert sorted(path.name for path in run.iterdir()) == names
    lines = done.stdout.splitlines()
    assert lines[0].startswith("2 steps in ") and "bags/s" in lines[0] and lines[0].endswith("; all steps are done.")
    assert lines[1].startswith("Kept the weights of step 2: val loss ") and ", accuracy " in lines[1]
    assert lines[-1] == f"The model is {run}/model.safetensors; its curves are in {run}/loss.png"


def test_quiet_says_nothing_when_all_is_well(make_dataset: MakeDataset, run_train: Run) -> None:
    make_dataset(val={})
    done = run_train(*SHORT, "-q", "--model", "supervised")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_verbose_tells_of_every_evaluation(make_dataset: MakeDataset, run_train: Run, tmp_path: Path) -> None:
    make_dataset()
    done = run_train("--steps", "3", "--evaluate-every", "1", "-v")
    said = [line for line in done.stderr.splitlines() if line.startswith("step ")]
    assert said == [
        f"step {row.step}: loss {row.train_loss:.4f}, val loss {row.val_loss:.4f}, accuracy {row.val_accuracy:.3f}"
        for row in (*metrics_csv.read(tmp_path / "run"), *metrics_csv.read(tmp_path / "run" / "second-round"))
    ]


def test_progress_tells_the_rate_the_loss_and_the_accuracy(make_dataset: MakeDataset, run_train: Run) -> None:
    make_dataset()
    done = run_train("--steps", "2", "--model", "supervised")
    line = next(line for line in done.stderr.splitlines() if line.startswith("training: "))
    assert line.startswith("training: 16 of 16 bags (")
    assert "bags/s)" in line and "step 2, loss 0." in line and ", accuracy 0." in line


@pytest.mark.parametrize(
    ("how", "arguments", "words"),
    [
        ({"train": {"normal": 3, "metastases": 3}}, (), ("hold none of ucc 2 (only 6 of ucc 1)", "add slides or")),
        (
            {"train": {"normal": 3, "mixture": 3}},
            ("--supervision", "kind"),
            ("hold none of metastases (only 3 of normal, 3 of mixture)",),
        ),
        ({"train": {"unlabelled": 3}}, (), ("has no train tiles with a label", "labels.csv")),
        ({"train": {}}, (), ("has no train tiles",)),
        ({"train": {}, "val": {}}, (), ("holds no tiles", "ucc-path tile")),
        ({}, ("--bag-size", "17"), ("hold 16 patches of 16 px, fewer than a bag of 17", "--bag-size")),
    ],
    ids=["one count", "two kinds", "no labels", "no train tiles", "no tiles", "a bag too large"],
)
def test_a_data_set_that_cannot_be_learnt_from_costs_one_line(
    how: dict[str, dict[str, int]],
    arguments: tuple[str, ...],
    words: tuple[str, ...],
    make_dataset: MakeDataset,
    run_train: Run,
    tmp_path: Path,
) -> None:
    make_dataset(**how)
    assert_one_line(run_train(*SHORT, *arguments), *words)
    assert_no_model(tmp_path)


def test_a_tile_that_is_missing_or_of_another_size_is_named(
    make_dataset: MakeDataset, run_train: Run, tmp_path: Path
) -> None:
    dataset = make_dataset()
    row = tiles_csv.read(dataset)[7]
    picture = tiles_csv.image_path(dataset, row)
    whole = picture.read_bytes()
    picture.unlink()
    assert_one_line(run_train(*SHORT), f"{row.tile_id}.png is missing")
    assert_no_model(tmp_path)
    png.write(picture, np.zeros((48, 64, 3), np.uint8))
    assert_one_line(run_train(*SHORT, "--resume"), f"{row.tile_id}.png is not an RGB picture of 64 x 64 px")
    picture.write_bytes(whole[:500])
    assert_one_line(run_train(*SHORT, "--resume"), f"{row.tile_id}.png is damaged")
    assert_no_model(tmp_path)
    picture.write_bytes(whole)
    assert run_train(*SHORT, "--resume").returncode == 0  # and mended, it goes on


def test_tiles_of_two_scales_are_not_learnt_from_together(
    make_dataset: MakeDataset, run_train: Run, tmp_path: Path
) -> None:
    dataset = make_dataset()
    first, *others = tiles_csv.read(dataset)
    tiles_csv.write(dataset, [first, *(replace(row, mpp=1.0) for row in others)])
    assert_one_line(run_train(*SHORT), "the tiles are not alike", "one --mpp")


@pytest.mark.parametrize("model", ["unet", "supervised"])
def test_a_model_that_learns_from_masks_needs_them(
    model: str, make_dataset: MakeDataset, run_train: Run, tmp_path: Path
) -> None:
    dataset = make_dataset()
    row = tiles_csv.read(dataset)[0]
    tiles_csv.mask_path(dataset, row).unlink()
    assert_one_line(run_train(*SHORT, "--model", model), f"masks/train/{row.tile_id}.png is missing")
    assert_no_model(tmp_path)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, "tiles.csv cannot be read (No such file or directory)"),
        (b"", "tiles.csv has not the columns tile_id,"),
        (b"a,b,c\n1,2,3\n", "tiles.csv has not the columns tile_id,"),
        (b"\xff\xfe\0\0", "tiles.csv is not a table"),
    ],
    ids=["missing", "empty", "of something else", "not text"],
)
def test_a_table_that_is_not_one_costs_one_line(
    content: bytes | None, words: str, run_train: Run, tmp_path: Path
) -> None:
    (tmp_path / "dataset").mkdir()
    if content is not None:
        (tmp_path / "dataset" / "tiles.csv").write_bytes(content)
    assert_one_line(run_train(*SHORT), words)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--resume", "--overwrite"), "--resume goes on with a run and --overwrite starts it anew"),
        (("--device", "cuda:7"), "--device cuda:7: there are"),
        (("--device", "nonsense"), "--device nonsense is no device; it can be auto, cpu, cuda or cuda:N"),
        (("--device", "meta"), "--device meta is not supported"),
        (("--learning-rate", "0"), "learning_rate is 0; give more than 0"),
        (("--learning-rate", "2"), "learning_rate is 2.0; give from 0 to 1"),
        (("--learning-rate", "nan"), "learning_rate is nan"),
        (("--steps", "0"), "steps is 0; give 1 or more"),
        (("--alpha", "1.5"), "alpha is 1.5; give from 0 to 1"),
        (("--settings", "nowhere.toml"), "nowhere.toml"),
        (("--settings", "odd.toml"), "odd.toml [training] has no setting 'step_count'"),
    ],
)
def test_what_cannot_be_meant_costs_one_line(
    arguments: tuple[str, ...], words: str, make_dataset: MakeDataset, run_train: Run, tmp_path: Path
) -> None:
    make_dataset()
    (tmp_path / "odd.toml").write_text("[training]\nstep_count = 5\n")
    assert_one_line(run_train(*arguments), words)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ("patch_px = 20", "patch_px is 20; with stem_stride 2 give a multiple of 8"),
        ("ucc_labels = [2, 1]", "ucc_labels is [2, 1]; give two or more counts, rising"),
        ("ucc_labels = [1]", "ucc_labels is [1]; give two or more counts"),
        ("channels = 1", "not 1; set colours = light"),
    ],
)
def test_a_network_that_cannot_be_built_costs_one_line(
    table: str, words: str, make_dataset: MakeDataset, run_train: Run, tmp_path: Path
) -> None:
    make_dataset()
    name = table.partition(" ")[0]
    lines = [line for line in (tmp_path / "tiny.toml").read_text().splitlines() if not line.startswith(name)]
    (tmp_path / "tiny.toml").write_text("\n".join(lines).replace("[model]", f"[model]\n{table}"))
    assert_one_line(run_train(*SHORT), words)
    assert_no_model(tmp_path)


def test_a_finished_run_is_never_touched_unless_told_so(
    make_dataset: MakeDataset, run_train: Run, tmp_path: Path
) -> None:
    make_dataset()
    run = tmp_path / "run"
    assert run_train(*SHORT).returncode == 0
    before = {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}
    assert_one_line(run_train(*SHORT), "is a finished run; start anew with --overwrite")
    assert {path: path.read_bytes() for path in run.rglob("*") if path.is_file()} == before
    (run / "notes.txt").write_text("mine")
    assert run_train(*SHORT, "--overwrite", "--seed", "1").returncode == 0
    assert (run / "notes.txt").read_text() == "mine"
    assert (run / "model.safetensors").read_bytes() != before[run / "model.safetensors"]


def test_a_folder_that_is_not_a_run_is_never_touched(make_dataset: MakeDataset, run_train: Run, tmp_path: Path) -> None:
    make_dataset()
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "metrics.csv").write_text("years of work")
    for flag in ((), ("--overwrite",), ("--resume",)):
        assert_one_line(
            run_train(*SHORT, *flag), "holds no run.json of a run, so it is not ours; choose another with -o"
        )
    assert [path.read_text() for path in (tmp_path / "run").iterdir()] == ["years of work"]


def test_a_record_of_another_program_or_version_is_not_gone_on_with(
    make_dataset: MakeDataset, run_train: Run, tmp_path: Path
) -> None:
    make_dataset()
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "run.json").write_text('{"format": "ucc-path run", "version": 99}')
    assert_one_line(run_train(*SHORT, "--resume"), "is of version 99, this program reads 1")
    assert_one_line(run_train(*SHORT), "is of version 99")
    (tmp_path / "run" / "run.json").write_text('{"learning": "of others"}')
    for flag in ("--resume", "--overwrite"):
        assert_one_line(run_train(*SHORT, flag), "holds no run.json of a run, so it is not ours")
    assert (tmp_path / "run" / "run.json").read_text() == '{"learning": "of others"}'


def test_a_file_is_no_folder_for_a_run(make_dataset: MakeDataset, run_train: Run, tmp_path: Path) -> None:
    make_dataset()
    (tmp_path / "run").write_text("a file")
    assert_one_line(run_train(*SHORT, "--overwrite"), "holds no run.json of a run, so it is not ours")
    assert (tmp_path / "run").read_text() == "a file"


def test_an_empty_folder_may_become_a_run(make_dataset: MakeDataset, run_train: Run, tmp_path: Path) -> None:
    make_dataset()
    (tmp_path / "run").mkdir()
    assert run_train(*SHORT).returncode == 0


def test_two_runs_into_one_folder_do_not_meet(
    make_dataset: MakeDataset, start_train: Start, run_train: Run, tmp_path: Path
) -> None:
    make_dataset()
    first = start_train("--steps", "100000")
    first.wait_for((tmp_path / "run" / "run.json").exists)
    first.send(signal.SIGSTOP)
    try:
        for flag in ("--resume", "--overwrite", "-v"):
            assert_one_line(run_train(*SHORT, flag), "another run is writing", "choose another folder with -o")
    finally:
        first.send(signal.SIGCONT)
        first.kill()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of a megabyte."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "none", disk], capture_output=True, text=True)
    if mounted.returncode:
        pytest.skip(f"no disk can be mounted here: {mounted.stderr.strip()}")
    yield disk
    subprocess.run(["umount", "-l", disk], check=True)


@pytest.mark.parametrize("filled_kb", [0, 400, 800, 960])
def test_a_full_disk_costs_one_line(
    filled_kb: int, small_disk: Path, make_dataset: MakeDataset, run_train: Run, tmp_path: Path
) -> None:
    make_dataset()
    (small_disk / "ballast").write_bytes(bytes(filled_kb * 1024))
    done = run_train(*SHORT, "-o", small_disk / "run", "-q")
    assert_one_line(done, "No space left on device", "make room on the disk and run it again")
    assert not (small_disk / "run" / "model.safetensors").exists()
    assert not list((small_disk / "run").rglob("*.partial"))


def test_a_disk_of_its_own_may_become_a_run(
    small_disk: Path, make_dataset: MakeDataset, run_train: Run, tmp_path: Path
) -> None:
    make_dataset(train={"normal": 2, "mixture": 2}, val={})
    done = run_train(*SHORT, "-o", small_disk)
    assert done.returncode == 0, done.stderr
    assert (small_disk / "model.safetensors").is_file()
    assert not list(small_disk.glob("*.lock"))


def test_the_curves_can_be_watched_in_tensorboard(make_dataset: MakeDataset, run_train: Run, tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    make_dataset()
    assert run_train(*SHORT, "--tensorboard").returncode == 0
    assert list((tmp_path / "run" / "tensorboard").glob("events.out.tfevents.*"))


def test_the_help_of_training_shows_what_each_preset_sets() -> None:
    script = "from ucc_path_cli.main import main; import sys; sys.argv = ['ucc-path', 'train', '--help']; main()"
    text = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True).stdout
    for table, setting in (("training", "steps"), ("model", "encoder")):
        shown = ", ".join(f"{name} {getattr(tables[table], setting)}" for name, tables in PRESETS.items())
        assert f"[default: {shown}]" in " ".join(text.split())


def test_the_rate_of_a_run_that_goes_on_counts_only_what_is_new(capsys: pytest.CaptureFixture[str]) -> None:
    def going_on() -> Generator[Event, None, None]:
        yield Progress("training", 9000, 9100, "bags", "step 450")
        time.sleep(0.1)
        yield Progress("training", 9100, 9100, "bags", "step 455, loss 0.250")

    show(going_on())
    line = capsys.readouterr().err.strip()
    rate = float(line.removeprefix("training: 9100 of 9100 bags (").partition(" bags/s)")[0])
    assert 0 < rate <= 100 / 0.1
    assert line.endswith(", step 455, loss 0.250")


@pytest.mark.parametrize(
    "arguments",
    [
        ("--model", "unet", "--bag-size", "8"),
        ("--model", "unet", "--alpha", "0.5"),
        ("--model", "supervised", "--supervision", "kind"),
        ("--model", "autoencoder", "--alpha", "0.5"),
        ("--model", "supervised", "--encoder", "lite0"),
        ("--model", "autoencoder", "--encoder", "blocks"),
    ],
)
def test_a_flag_that_a_model_does_not_use_is_refused(run_train: Run, arguments: tuple[str, ...]) -> None:
    done = run_train(*arguments)
    assert done.returncode == 2
    assert f"{arguments[2]} has no meaning for --model {arguments[1]}; leave it out" in done.stderr


@pytest.mark.parametrize(
    ("table", "arguments", "words"),
    [
        ("[model]\nclasses = 3", ("--model", "unet"), "classes is 2, not 3"),
        ("[model]\nclasses = 200\n[training]\nbag_size = 1", (), "fewer train patches than the 200 classes"),
    ],
)
def test_settings_that_do_not_fit_together_cost_one_line(
    make_dataset: MakeDataset, run_train: Run, tmp_path: Path, table: str, arguments: tuple[str, ...], words: str
) -> None:
    make_dataset()
    (tmp_path / "tiny.toml").write_text(f"[model]\npatch_px = 16\n{table.removeprefix('[model]')}\n")
    assert_one_line(run_train(*SHORT, *arguments), words)


def test_val_tiles_of_one_class_are_no_test_for_a_model_of_masks(make_dataset: MakeDataset, run_train: Run) -> None:
    make_dataset(val={"normal": 3})
    done = run_train(*SHORT, "--model", "supervised")
    assert done.returncode == 0
    assert "the val tiles are all of one class, which is no test" in done.stderr


def test_without_any_weight_on_labels_it_is_said_that_this_is_the_autoencoder(
    make_dataset: MakeDataset, run_train: Run
) -> None:
    make_dataset()
    done = run_train(*SHORT, "--alpha", "0")
    assert done.returncode == 0
    assert "this is the autoencoder" in done.stderr
