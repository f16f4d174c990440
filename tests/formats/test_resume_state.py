"""Where training stands, for a run that goes on."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from ucc_path.errors import OutputError, RunError
from ucc_path.formats import resume_state

NUMBERS = {"step": 7, "best_loss": 0.1, "stale": None, "history": [1, 2]}
TENSORS = {"adam.step.w": torch.tensor(7.0), "chance": torch.arange(4, dtype=torch.uint8)}


def make_state(run: Path) -> Path:
    resume_state.write(run, NUMBERS, TENSORS)
    return run / "resume" / "state.safetensors"


def test_what_is_written_is_read_back(tmp_path: Path) -> None:
    make_state(tmp_path)
    path = make_state(tmp_path)  # and again over the old one
    found = resume_state.read(tmp_path)
    assert found is not None
    assert found[0] == NUMBERS
    assert {name: tensor.tolist() for name, tensor in found[1].items()} == {"adam.step.w": 7.0, "chance": [0, 1, 2, 3]}
    assert [file.name for file in path.parent.iterdir()] == ["state.safetensors"]


def test_a_run_that_saved_nothing_has_no_state(tmp_path: Path) -> None:
    assert resume_state.read(tmp_path) is None
    (tmp_path / "resume").mkdir()
    assert resume_state.read(tmp_path) is None


def test_a_damaged_state_is_refused_wherever_it_is_cut(tmp_path: Path) -> None:
    path = make_state(tmp_path)
    whole = path.read_bytes()
    for length in range(0, len(whole), 3):
        path.write_bytes(whole[:length])
        with pytest.raises(RunError, match=r"state\.safetensors is damaged \(.+\); start anew with --overwrite$"):
            resume_state.read(tmp_path)


def test_another_version_is_refused(tmp_path: Path) -> None:
    path = make_state(tmp_path)
    path.write_bytes(path.read_bytes().replace(rb"\"version\": 1", rb"\"version\": 2"))
    with pytest.raises(RunError, match=r"is damaged \(it is of version 2, this program reads 1\); start anew"):
        resume_state.read(tmp_path)


def test_a_file_in_the_place_of_the_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "resume").touch()
    with pytest.raises(OutputError, match=r"state\.safetensors cannot be written \(File exists\)"):
        make_state(tmp_path)
