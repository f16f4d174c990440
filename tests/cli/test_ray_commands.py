"""`segment` and `tile` on a Ray cluster, as a user meets them: the same bytes, whatever dies on the way."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from clusters import Machines
from conftest import PROGRAM, box, paint_slide

pytestmark = pytest.mark.xdist_group("ray")

TINY = '[segmentation]\ninference = "torch"\nwindow_px = 128\n'
OURS = ".ucc-path.partial"
SLOW = ("--stride-px", "2")  # so that a slide takes seconds

Start = Callable[..., subprocess.Popen[str]]
Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def start(whole_run: Path, tmp_path: Path) -> Start:
    """`start("segment", "slides")`: a command on its way, with a model in `run`."""
    shutil.copytree(whole_run, tmp_path / "run")
    (tmp_path / "tiny.toml").write_text(TINY)

    def begin(*arguments: str | Path) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [PROGRAM, *arguments, "--settings", "tiny.toml"],
            cwd=tmp_path,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )

    return begin


@pytest.fixture
def run(start: Start) -> Run:
    def finish(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
        return ended(start(*arguments))

    return finish


def ended(process: subprocess.Popen[str]) -> subprocess.CompletedProcess[str]:
    stdout, stderr = process.communicate(timeout=600)
    return subprocess.CompletedProcess([], process.returncode, stdout, stderr)


def wait_for(is_there: Callable[[], bool], seconds: float = 300) -> None:
    deadline = time.monotonic() + seconds
    while not is_there():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def paint(folder: Path, count: int) -> None:
    for number in range(count):
        paint_slide(folder / "slides" / f"case{number}.tif", seed=number)


def masks(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.suffix in (".tif", ".png", ".gz")}


def processes_of(word: str) -> list[str]:
    """Command lines of processes that name something, and are alive."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
            if word in line and int(path.parent.name) != os.getpid():
                found.append(line)
        except OSError:
            continue
    return found


def test_a_cohort_with_a_killed_machine_has_the_bytes_of_the_local_engine(
    run: Run, start: Start, machines: Machines, tmp_path: Path
) -> None:
    paint(tmp_path, 4)
    assert run("segment", "slides", "-o", "local", "-q", *SLOW).returncode == 0
    other = machines.add()
    process = start("segment", "slides", *SLOW, "--engine", "ray", "--ray-address", machines.address)
    wait_for(lambda: bool(list(tmp_path.glob("segmented/*"))) and machines.is_at_work(other))
    machines.kill(other)
    done = ended(process)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("went away; what it was working on is done again elsewhere") == 1
    assert "4 of 4 slides" in done.stderr and "MPix/s" in done.stderr
    assert masks(tmp_path / "segmented") == masks(tmp_path / "local")
    assert sorted(path.name for path in (tmp_path / "segmented").iterdir()) == sorted(
        path.name for path in (tmp_path / "local").iterdir()
    )
    assert "ray" not in done.stdout.lower()


def test_a_command_killed_and_started_again_skips_what_is_done(
    run: Run, start: Start, machines: Machines, tmp_path: Path
) -> None:
    paint(tmp_path, 3)
    on_ray = ("segment", "slides", *SLOW, "--engine", "ray", "--ray-address", machines.address)
    process = start(*on_ray, "-q")
    wait_for(lambda: bool(list(tmp_path.glob("segmented/*.json"))))
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    finished = {path: path.stat().st_mtime_ns for path in tmp_path.glob("segmented/*.json")}
    done = run(*on_ray)
    assert done.returncode == 0, done.stderr
    assert f"{len(finished)} of 3 slides are finished and are left as they are" in done.stderr
    assert all(path.stat().st_mtime_ns == before for path, before in finished.items())
    assert len(list(tmp_path.glob("segmented/*.json"))) == 3
    assert not list(tmp_path.glob(f"segmented/*{OURS}"))


def test_a_bad_slide_is_named_with_its_reason_and_the_others_go_on(
    run: Run, machines: Machines, tmp_path: Path
) -> None:
    paint(tmp_path, 1)
    (tmp_path / "slides" / "bad.tif").write_bytes(b"no slide")
    done = run("segment", "slides", "--engine", "ray", "--ray-address", machines.address)
    assert done.returncode == 1
    failed = [line for line in done.stderr.splitlines() if line.startswith("Failed: ")]
    assert len(failed) == 1 and failed[0].startswith("Failed: bad: slides/bad.tif ")
    assert "2 of 2 slides, 1 failed" in done.stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_says_so_and_leaves_nothing_half_written(
    start: Start, machines: Machines, tmp_path: Path, number: signal.Signals
) -> None:
    paint(tmp_path, 1)
    on_ray = ("--engine", "ray", "--ray-address", machines.address)
    process = start("segment", "slides", "-q", "--stride-px", "2", *on_ray)
    wait_for(lambda: bool(list(tmp_path.glob(f"segmented/*{OURS}"))))
    process.send_signal(number)
    done = ended(process)
    assert done.returncode == 130, done.stderr
    assert done.stderr.strip() == "Interrupted; nothing half written was left behind."
    assert not list(tmp_path.glob(f"segmented/*{OURS}"))


def test_tile_on_a_cluster_of_its_own_makes_the_same_data_set_and_leaves_no_process(
    make_slide: Callable[..., Path], make_xml: Callable[..., Path], tmp_path: Path
) -> None:
    for number in range(2):
        make_xml(make_slide(f"slide_{number}", seed=number, folder=tmp_path / "slides"), [box(300, 0, 1200, 2048)])
    command = [PROGRAM, "tile", "slides", "--tile-px", "128", "--per-slide", "3", "--workers", "1"]
    before = set(Path("/tmp").glob("ucc-path-ray-*"))
    for output, engine in (("local", ()), ("ray", ("--engine", "ray"))):
        done = subprocess.run([*command, "-o", output, *engine], cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        assert "ray" not in done.stderr.lower()
    ours = {path.relative_to(tmp_path / "ray"): path for path in (tmp_path / "ray").rglob("*") if path.is_file()}
    assert len(ours) > 10
    for name, path in ours.items():
        assert path.read_bytes() == (tmp_path / "local" / name).read_bytes(), name
    assert set(Path("/tmp").glob("ucc-path-ray-*")) - before == set()
    assert [line for line in processes_of("ucc-path-ray-") if not any(str(path) in line for path in before)] == []


def test_without_ray_one_line_says_how_to_get_it(tmp_path: Path) -> None:
    paint(tmp_path, 1)
    code = "import sys; sys.modules['ray'] = None; from ucc_path_cli.main import main; main()"
    command = [sys.executable, "-c", code, "tile", "slides", "-o", "dataset", "--unlabelled", "--engine", "ray"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1] == (
        "Error: --engine ray needs Ray, which is not installed; get it with pip install 'ucc-path[cluster]'"
    )
    assert sorted(path.name for path in tmp_path.iterdir()) == ["slides"]


def test_what_cannot_be_meant_is_refused_in_one_line(run: Run, tmp_path: Path) -> None:
    paint(tmp_path, 1)
    for arguments, words in (
        (("--ray-address", "127.0.0.1:6379"), "--ray-address is for --engine ray; give that too, or leave it out"),
        (("--engine", "ray", "--device", "cuda:1"), "--device cuda:1 names a GPU of one machine"),
        (
            ("--engine", "ray", "--ray-address", "127.0.0.1:1"),
            "no Ray cluster answers at 127.0.0.1:1; give the address",
        ),
        (("--engine", "spark"), "'spark' is not one of 'local', 'ray'"),
    ):
        done = run("segment", "slides", *arguments)
        assert done.returncode == 2
        assert words in done.stderr.splitlines()[-1] and "Traceback" not in done.stderr
