"""Several processes train one model, as torchrun starts them."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import astuple
from pathlib import Path

import pytest
from forks import LONGEST_S, Started

from ucc_path.formats import metrics_csv, run_json

Start = Callable[..., Started]
Run = Callable[..., subprocess.CompletedProcess[str]]
MakeDataset = Callable[..., Path]
StartBoth = Callable[..., list[Started]]

SHORT = ("--steps", "8", "--evaluate-every", "4")


def free_port() -> str:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return str(found.getsockname()[1])


@pytest.fixture
def start_both(start_train: Start) -> StartBoth:
    """Two processes, told of each other as torchrun tells them."""

    def start(*arguments: str) -> list[Started]:
        told = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": free_port()}
        return [
            start_train(*arguments, environment={**told, "RANK": str(rank), "LOCAL_RANK": str(rank)}) for rank in (0, 1)
        ]

    return start


def wait_for_both(both: list[Started]) -> list[subprocess.CompletedProcess[str]]:
    return [started.wait() for started in both]


def ours(done: subprocess.CompletedProcess[str]) -> str:
    """What was said, without the greetings of gloo."""
    return "".join(line for line in done.stderr.splitlines(keepends=True) if "[Gloo]" not in line)


def test_two_processes_learn_what_one_does(
    make_dataset: MakeDataset, run_train: Run, start_both: StartBoth, tmp_path: Path
) -> None:
    make_dataset()
    first, second = wait_for_both(start_both(*SHORT, "-o", "two", "-v"))
    assert (first.returncode, second.returncode) == (0, 0), first.stderr + second.stderr
    assert run_train(*SHORT).returncode == 0
    alone, together = metrics_csv.read(tmp_path / "run"), metrics_csv.read(tmp_path / "two")
    assert [row.step for row in together] == [4, 8]
    for one, two in zip(alone, together, strict=True):
        assert astuple(two) == pytest.approx(astuple(one), abs=1e-4)
    assert run_json.read(tmp_path / "two")["processes"] == 2
    assert sorted(path.name for path in tmp_path.iterdir()) == ["dataset", "run", "tiny.toml", "two"]
    assert ours(first).count("Training ucc on cpu, 2 processes") == 1
    assert (second.stdout, ours(second)) == ("", "")


def test_an_error_is_told_once_and_all_processes_end(start_both: StartBoth, tmp_path: Path) -> None:
    first, second = wait_for_both(start_both(*SHORT))
    assert first.returncode == 2
    assert ours(first).startswith("Error: dataset/tiles.csv cannot be read") and ours(first).count("\n") == 1
    assert (second.returncode, second.stdout, ours(second)) == (0, "", "")
    assert not (tmp_path / "run").exists()


def test_bags_that_cannot_be_shared_evenly_are_refused(make_dataset: MakeDataset, start_both: StartBoth) -> None:
    make_dataset()
    first, second = wait_for_both(start_both(*SHORT, "--bags-per-step", "7"))
    assert first.returncode == 2
    assert "7 bags a step cannot be shared evenly by 2 processes; give a multiple of 2" in ours(first)
    assert ours(first).count("\n") == 1 and ours(second) == ""


def test_a_norm_over_the_whole_batch_is_refused(
    make_dataset: MakeDataset, start_both: StartBoth, tmp_path: Path
) -> None:
    make_dataset()
    settings = (tmp_path / "tiny.toml").read_text().replace("[model]", "[model]\nnorm = 'batch'")
    (tmp_path / "tiny.toml").write_text(settings)
    first, second = wait_for_both(start_both(*SHORT))
    assert first.returncode == 2
    assert "set norm = group" in ours(first)
    assert ours(second) == ""


def test_two_processes_that_are_stopped_go_on_together_to_the_same_model(
    make_dataset: MakeDataset, start_both: StartBoth, tmp_path: Path
) -> None:
    make_dataset()
    assert all(done.returncode == 0 for done in wait_for_both(start_both("--steps", "30", "-o", "whole")))
    both = start_both("--steps", "30")
    both[0].wait_for((tmp_path / "run" / metrics_csv.NAME).exists)
    both[1].send(signal.SIGTERM)  # one is enough: they stop at the same step
    first, second = wait_for_both(both)
    assert first.returncode == 130
    assert "and saved. Go on with the same command and --resume." in first.stderr
    assert (second.returncode, ours(second)) == (0, "")
    assert all(done.returncode == 0 for done in wait_for_both(start_both("--steps", "30", "--resume")))
    assert (tmp_path / "run" / "model.safetensors").read_bytes() == (
        tmp_path / "whole" / "model.safetensors"
    ).read_bytes()
    rows, whole = metrics_csv.read(tmp_path / "run"), metrics_csv.read(tmp_path / "whole")
    assert [row.val_loss for row in rows] == [row.val_loss for row in whole]


def test_fewer_steps_than_were_taken_are_refused_once(
    make_dataset: MakeDataset, start_both: StartBoth, tmp_path: Path
) -> None:
    make_dataset()
    both = start_both()
    both[0].wait_for((tmp_path / "run" / metrics_csv.NAME).exists)
    both[0].send(signal.SIGINT)
    wait_for_both(both)
    first, second = wait_for_both(start_both("--resume", "--steps", "1", "-q"))
    assert first.returncode == 2
    assert re.fullmatch(r"Error: \S+ has taken \d+ steps; give --steps \d+ or more\n", ours(first))
    assert ours(second) == ""


@pytest.mark.soak
@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGTERM])
def test_torchrun_that_is_told_to_stop_leaves_a_saved_state(
    stop: signal.Signals, make_dataset: MakeDataset, start_train: Start, tmp_path: Path
) -> None:
    make_dataset()
    launcher = ("torch.distributed.run", "--nproc-per-node", "2", "--master-port", free_port())
    command = ("ucc_path_cli", "train", "dataset", "--settings", "tiny.toml", "--steps", "100000", "--patience", "9999")
    with (tmp_path / "said").open("w") as said:
        process = subprocess.Popen(
            [sys.executable, "-m", *launcher, "-m", *command],
            cwd=tmp_path,
            stderr=said,
            env=os.environ | {"OMP_NUM_THREADS": "1"},
        )
    try:
        began_s = time.monotonic()
        while not (tmp_path / "run" / metrics_csv.NAME).exists():
            assert process.poll() is None, (tmp_path / "said").read_text()
            assert time.monotonic() - began_s < LONGEST_S
            time.sleep(0.05)
        process.send_signal(stop)
        assert process.wait(LONGEST_S) != 0
    finally:
        process.kill()
    text = (tmp_path / "said").read_text()
    assert text.count("and saved. Go on with the same command and --resume.") == 1, text
    assert text.count("Training ucc on cpu, 2 processes") == 1
    assert (tmp_path / "run" / "resume" / "state.safetensors").is_file()
    assert not (tmp_path / "run.ucc-path.lock").exists()


@pytest.mark.parametrize("lost", [0, 1])
def test_a_process_whose_partner_is_killed_ends_in_one_line(
    make_dataset: MakeDataset, start_both: StartBoth, tmp_path: Path, lost: int
) -> None:
    make_dataset()
    both = start_both("--steps", "100000", "--patience", "100000")
    deadline_s = time.monotonic() + LONGEST_S
    while not (tmp_path / "run" / "metrics.csv").exists() and time.monotonic() < deadline_s:
        time.sleep(0.05)
    os.kill(both[lost].pid, signal.SIGKILL)
    left = both[1 - lost].wait()
    assert left.returncode == 2, left.stderr
    assert "Traceback" not in left.stderr
    assert "another process of this training has ended; see what it says, then go on with --resume" in ours(left)


def test_after_a_process_was_killed_both_go_on_from_the_last_saved_state(
    make_dataset: MakeDataset, start_both: StartBoth, tmp_path: Path
) -> None:
    make_dataset()
    settings = (tmp_path / "tiny.toml").read_text().replace("[training]", "[training]\nsave_every_s = 0")
    (tmp_path / "tiny.toml").write_text(settings)
    endless = ("--steps", "100000", "--patience", "100000")
    both = start_both(*endless)
    state = tmp_path / "run" / "resume" / "state.safetensors"
    both[0].wait_for(state.exists)
    os.kill(both[1].pid, signal.SIGKILL)
    assert both[0].wait().returncode == 2
    saved = state.stat().st_mtime_ns
    again = start_both(*endless, "--resume")
    again[0].wait_for(lambda: state.stat().st_mtime_ns > saved)
    again[0].send(signal.SIGTERM)
    first, second = wait_for_both(again)
    assert first.returncode == 130 and "Going on at step " in first.stderr, first.stderr
    assert (second.returncode, ours(second)) == (0, "")
    assert run_json.read(tmp_path / "run")["resumed_at_step"] > 0
