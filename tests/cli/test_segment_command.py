"""`ucc-path segment` as a user meets it: what is said, what is left behind, what the exit status means."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import click
import pytest
from conftest import PROGRAM, paint_slide
from ucc_path_cli.main import ucc_path as group

from ucc_path.formats import segmentation_json

Run = Callable[..., subprocess.CompletedProcess[str]]

TINY = '[segmentation]\ninference = "torch"\nwindow_px = 128\n'
OURS = ".ucc-path.partial"


@pytest.fixture
def start(whole_run: Path, tmp_path: Path) -> Callable[..., subprocess.Popen[str]]:
    """`start("--strict")`: the command on the slides in `slides`, with a model in `run`, on its way."""
    shutil.copytree(whole_run, tmp_path / "run")
    (tmp_path / "tiny.toml").write_text(TINY)

    def begin(*arguments: str | Path) -> subprocess.Popen[str]:
        command = [PROGRAM, "segment", *arguments, "--settings", "tiny.toml"]
        return subprocess.Popen(
            command, cwd=tmp_path, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
        )

    return begin


@pytest.fixture
def run(start: Callable[..., subprocess.Popen[str]]) -> Run:
    def finish(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
        process = start(*arguments)
        stdout, stderr = process.communicate(timeout=120)
        return subprocess.CompletedProcess([], process.returncode, stdout, stderr)

    return finish


def masks(folder: Path) -> dict[str, bytes]:
    """All results whose bytes may not differ."""
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.suffix in (".tif", ".png", ".gz")}


def test_the_short_form_works_and_says_where_to_look(run: Run, tmp_path: Path) -> None:
    paint_slide(tmp_path / "slide.tif")
    done = run("slide.tif")
    assert done.returncode == 0, done.stderr
    found = segmentation_json.read(tmp_path / "segmented", "slide")
    normal, metastases = (of["area_mm2"] for of in found["classes"])
    assert normal + metastases == pytest.approx(0.5898, abs=1e-3)
    assert metastases == pytest.approx(0.1475, abs=0.05)  # as painted, but for edges: it is smoothed
    assert done.stdout.splitlines() == [
        f"slide: normal {normal:.4g} mm2, metastases {metastases:.4g} mm2; "
        f"{found['windows']['to_review']} windows to review",
        "The results are in segmented; look at segmented/slide.png",
    ]
    assert "segmenting: 576 of 576 patches" in done.stderr
    again = run("slide.tif")
    assert again.returncode == 0
    assert "1 of 1 slides are finished and are left as they are" in again.stderr
    assert again.stdout == "The results are in segmented; look at segmented/slide.png\n"


def test_neither_smoothed_nor_adapted_it_finds_what_was_painted(run: Run, tmp_path: Path) -> None:
    paint_slide(tmp_path / "slide.tif")
    done = run("slide.tif", "--smooth-px", "0", "--adapt", "0")
    assert done.stdout.splitlines()[0] == "slide: normal 0.4424 mm2, metastases 0.1475 mm2; 0 windows to review"


@pytest.mark.parametrize(
    "wish", [("--smooth-px", "-1"), ("--smooth-px", "nan"), ("--smooth-px", "129"), ("--adapt", "3"), ("--adapt", "x")]
)
def test_wishes_that_make_no_sense_cost_one_line(run: Run, tmp_path: Path, wish: tuple[str, str]) -> None:
    paint_slide(tmp_path / "slide.tif")
    done = run("slide.tif", *wish)
    assert done.returncode == 2 and wish[0].lstrip("-").replace("-", "_")[:5] in done.stderr
    assert "Traceback" not in done.stderr and not (tmp_path / "segmented").exists()


def test_without_a_model_one_line_says_how_to_get_one(tmp_path: Path) -> None:
    paint_slide(tmp_path / "slide.tif")
    done = subprocess.run([PROGRAM, "segment", "slide.tif"], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 2
    expected = "there is no model run; train one with ucc-path train DATASET -o run, or name one with -m RUN"
    assert done.stderr == f"Error: {expected}\n"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["slide.tif"]


def test_the_exit_status_says_whether_some_or_all_slides_failed(run: Run, tmp_path: Path) -> None:
    paint_slide(tmp_path / "slides" / "good.tif")
    (tmp_path / "slides" / "bad.tif").write_bytes(b"no slide")
    (tmp_path / "slides" / "worse.tif").write_bytes(b"")
    some = run("slides")
    assert some.returncode == 1
    failed = [line.split(": ")[1] for line in some.stderr.splitlines() if line.startswith("Failed: ")]
    assert sorted(failed) == ["bad", "worse"]
    assert some.stderr.splitlines()[-1] == "2 of 3 slides failed, named above."
    (tmp_path / "slides" / "good.tif").unlink()
    every = run("slides", "-o", "other", "-q")
    assert every.returncode == 2 and every.stdout == ""
    assert every.stderr.splitlines()[-1] == "2 of 2 slides failed, named above."


def test_a_run_killed_at_any_moment_and_run_again_gives_the_bytes_of_an_undisturbed_one(
    start: Callable[..., subprocess.Popen[str]], run: Run, tmp_path: Path
) -> None:
    for name in ("a", "b"):
        paint_slide(tmp_path / "slides" / f"{name}.tif", seed=ord(name))
    assert run("slides", "-o", "whole", "-q", "--full-size").returncode == 0
    large, small = sorted("ab", key=lambda name: -(tmp_path / "slides" / f"{name}.tif").stat().st_size)
    for first in (f"{large}{OURS}/*/{large}_labels.tif", f"{large}.json", f"{small}{OURS}"):
        process = start("slides", "-q", "--full-size", "--workers", "1")
        began_s = time.monotonic()
        while not list((tmp_path / "segmented").glob(first)) and time.monotonic() - began_s < 60:
            time.sleep(0.001)
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        finished = {path.stem for path in (tmp_path / "segmented").glob("*.json")}
        whole = masks(tmp_path / "whole")
        found = masks(tmp_path / "segmented")
        assert {name: data for name, data in found.items() if name.split("_")[0].split(".")[0] in finished} == {
            name: data for name, data in whole.items() if name.split("_")[0].split(".")[0] in finished
        }
    assert run("slides", "-q", "--full-size").returncode == 0
    assert masks(tmp_path / "segmented") == masks(tmp_path / "whole")
    assert not [path for path in (tmp_path / "segmented").iterdir() if path.name.endswith(OURS)]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_says_so_and_leaves_nothing_half_written(
    start: Callable[..., subprocess.Popen[str]], tmp_path: Path, number: signal.Signals
) -> None:
    paint_slide(tmp_path / "slides" / "a.tif")
    process = start("slides", "-q", "--stride-px", "2")
    began_s = time.monotonic()
    while not list(tmp_path.glob(f"segmented/*{OURS}")) and time.monotonic() - began_s < 60:
        time.sleep(0.002)
    process.send_signal(number)
    _, stderr = process.communicate(timeout=60)
    assert process.returncode == 130, stderr
    assert stderr.strip() == "Interrupted; nothing half written was left behind."
    assert not list(tmp_path.glob(f"segmented/*{OURS}"))


@pytest.mark.parametrize(
    ("flag", "how"), [("--refit", "kmeans"), ("--refit-spectral", "spectral"), ("--refit-merge", "merge"), ("-q", None)]
)
def test_each_way_of_clustering_anew_has_its_flag(flag: str, how: str | None) -> None:
    command = group.get_command(click.Context(group), "segment")
    assert command is not None
    assert command.make_context("segment", ["slide.tif", flag]).params["refit"] == how
