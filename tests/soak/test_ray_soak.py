"""A larger cohort on a Ray cluster that loses a machine; a cluster whose token is not known."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import threading
import time
from contextlib import suppress
from pathlib import Path

import pytest
from clusters import Machines
from conftest import PROGRAM, paint_slide

SLIDES = 20


def masks(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.suffix in (".tif", ".png", ".gz")}


@pytest.mark.soak
def test_twenty_slides_are_all_segmented_though_a_machine_is_killed_and_another_joins(
    whole_run: Path, machines: Machines, tmp_path: Path
) -> None:
    shutil.copytree(whole_run, tmp_path / "run")
    for number in range(SLIDES):
        paint_slide(tmp_path / "slides" / f"case{number:02}.tif", seed=number)
    command = [PROGRAM, "segment", "slides", "--stride-px", "2"]
    subprocess.run([*command, "-o", "local", "-q"], cwd=tmp_path, check=True)
    other = machines.add()
    process = subprocess.Popen(
        [*command, "--engine", "ray", "--ray-address", machines.address],
        cwd=tmp_path,
        stderr=subprocess.PIPE,
        text=True,
    )
    deadline = time.monotonic() + 120
    while len(list(tmp_path.glob("segmented/*.json"))) < 5 or not machines.is_at_work(other):
        assert time.monotonic() < deadline and process.poll() is None
        time.sleep(0.01)
    machines.kill(other)
    third = machines.add()
    _, said = process.communicate(timeout=300)
    machines.kill(third)
    print(said)
    assert process.returncode == 0, said
    assert said.count("went away; what it was working on is done again elsewhere") == 1
    assert "20 of 20 slides" in said
    assert masks(tmp_path / "segmented") == masks(tmp_path / "local")
    assert not list(tmp_path.glob("segmented/*.partial"))


@pytest.mark.soak
def test_a_cluster_whose_token_is_not_known_is_told_in_one_line(
    whole_run: Path, machines: Machines, tmp_path: Path
) -> None:
    paint_slide(tmp_path / "slide.tif")
    done = subprocess.run(
        [PROGRAM, "segment", "slide.tif", "-m", whole_run, "--engine", "ray", "--ray-address", machines.address],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        env=os.environ | {"RAY_AUTH_TOKEN": "0" * 64},
    )
    assert done.returncode == 2
    assert done.stderr == (
        f"Error: the Ray cluster at {machines.address} wants its token; set RAY_AUTH_MODE=token and RAY_AUTH_TOKEN as "
        "they were set for ray start --head\n"
    )


def kill_whoever_opens(slide: Path, is_over: threading.Event) -> None:
    """As a decoder that crashes would: the process that reads this slide is killed, each time."""
    while not is_over.wait(0.01):
        for process in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):  # it may end meanwhile
                if any(link.readlink() == slide for link in (process / "fd").iterdir()):
                    os.kill(int(process.name), signal.SIGKILL)


@pytest.mark.soak
@pytest.mark.parametrize("engine", ["local", "ray"])
def test_a_poisoned_slide_is_set_aside_with_its_reason_and_the_others_are_done(
    whole_run: Path, machines: Machines, tmp_path: Path, engine: str
) -> None:
    for name in ("a", "b", "poisoned"):
        paint_slide(tmp_path / "slides" / f"{name}.tif", seed=ord(name[0]))
    is_over = threading.Event()
    killer = threading.Thread(target=kill_whoever_opens, args=(tmp_path / "slides" / "poisoned.tif", is_over))
    killer.start()
    how = ("--engine", "ray", "--ray-address", machines.address) if engine == "ray" else ("--engine", "local")
    done = subprocess.run(
        [PROGRAM, "segment", "slides", "-m", whole_run, *how], cwd=tmp_path, capture_output=True, text=True, timeout=300
    )
    is_over.set()
    killer.join()
    print(done.stderr)
    assert done.returncode == 1, done.stderr
    (failed,) = [line for line in done.stderr.splitlines() if line.startswith("Failed: ")]
    words = "its worker was killed 3 times, on " if engine == "ray" else "its process was killed (out of memory"
    assert failed.startswith(f"Failed: poisoned: {words}")
    assert sorted(path.stem for path in tmp_path.glob("segmented/*.json")) == ["a", "b"]
    assert not list(tmp_path.glob("segmented/*.partial"))
