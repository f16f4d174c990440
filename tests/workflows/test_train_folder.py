"""The folder of a run: what a refusal, an overwriting and a going on leave in it."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from ucc_path.formats import run_json, tiles_csv

Run = Callable[..., subprocess.CompletedProcess[str]]
MakeDataset = Callable[..., Path]

SHORT = ("--steps", "2", "--evaluate-every", "2")
TOO_LARGE = ("--bag-size", "17")  # a tile has 16 patches


def files_of(run: Path) -> dict[str, bytes]:
    """All that a run holds but the tiles from which it goes on."""
    names = {str(path.relative_to(run)): path for path in run.rglob("*") if path.is_file()}
    return {name: path.read_bytes() for name, path in names.items() if not name.startswith("resume/tiles/")}


def test_an_overwriting_that_is_refused_leaves_the_old_model_as_it_was(
    make_dataset: MakeDataset, run_train: Run, tmp_path: Path
) -> None:
    make_dataset()
    assert run_train(*SHORT).returncode == 0
    before = files_of(tmp_path / "run")
    assert "second-round/metrics.csv" in before
    assert run_train(*SHORT, *TOO_LARGE, "--overwrite").returncode == 2
    assert files_of(tmp_path / "run") == before


def test_a_refusal_leaves_nothing_and_the_corrected_command_works(
    make_dataset: MakeDataset, run_train: Run, tmp_path: Path
) -> None:
    make_dataset()
    assert run_train(*SHORT, *TOO_LARGE).returncode == 2
    assert not (tmp_path / "run").exists()
    assert run_train(*SHORT).returncode == 0


def test_a_refusal_leaves_an_unfinished_run_as_it_was(
    make_dataset: MakeDataset, run_train: Run, tmp_path: Path
) -> None:
    dataset = make_dataset()
    assert run_train(*SHORT).returncode == 0
    run = tmp_path / "run"
    run_json.write(run, {**run_json.read(run), "finished": False})
    image = tiles_csv.image_path(dataset, tiles_csv.read(dataset)[0])
    image.rename(image.with_suffix(".away"))
    before = files_of(run)
    done = run_train(*SHORT, "--resume")
    assert done.returncode == 2 and "is missing" in done.stderr
    assert files_of(run) == before


@pytest.mark.parametrize("place", ["resume/my life.txt", "resume/tiles/holiday.jpg", "resume/train_images.npy"])
@pytest.mark.parametrize("flags", [(), ("--resume",), ("--overwrite",)])
def test_a_folder_called_resume_that_is_not_of_a_run_is_never_touched(
    make_dataset: MakeDataset, run_train: Run, tmp_path: Path, place: str, flags: tuple[str, ...]
) -> None:
    make_dataset()
    dear = tmp_path / "run" / place
    dear.parent.mkdir(parents=True)
    dear.write_text("dear to somebody")
    done = run_train(*SHORT, *flags)
    assert done.returncode == 2 and "is not ours" in done.stderr
    assert dear.read_text() == "dear to somebody"


def test_what_a_run_killed_while_reading_tiles_has_left_is_cleared(
    make_dataset: MakeDataset, run_train: Run, tmp_path: Path
) -> None:
    make_dataset()
    left = tmp_path / "run" / "resume" / "tiles" / "train_images.npy.partial"
    left.parent.mkdir(parents=True)
    left.write_bytes(b"half a tile")
    done = run_train(*SHORT)
    assert done.returncode == 0, done.stderr
    assert not (tmp_path / "run" / "resume").exists()


def test_a_finished_record_without_a_model_is_not_finished(
    make_dataset: MakeDataset, run_train: Run, tmp_path: Path
) -> None:
    make_dataset()
    assert run_train(*SHORT).returncode == 0
    (tmp_path / "run" / "model.safetensors").unlink()
    done = run_train(*SHORT, "--resume")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "run" / "model.safetensors").is_file()


@pytest.mark.parametrize(
    ("what", "value", "words"),
    [
        ("device", "cuda:0", "begun with device cuda:0 and goes on with cpu"),
        ("processes", 4, "begun with processes 4 and goes on with 1"),
        ("versions", {"torch": "1.0"}, "begun with other versions of packages"),
    ],
)
def test_going_on_in_other_circumstances_is_said(
    make_dataset: MakeDataset, run_train: Run, tmp_path: Path, what: str, value: object, words: str
) -> None:
    make_dataset()
    assert run_train(*SHORT).returncode == 0
    run = tmp_path / "run"
    run_json.write(run, {**run_json.read(run), "finished": False, what: value})
    done = run_train(*SHORT, "--resume")
    assert done.returncode == 0
    assert words in done.stderr


def test_every_key_of_a_record_is_documented_and_every_documented_key_is_there(whole_run: Path) -> None:
    documented = re.findall(r"^    (\w+) {2,}", run_json.__doc__ or "", re.MULTILINE)
    assert sorted(documented) == sorted(json.loads((whole_run / "run.json").read_text()))
