"""Tiles a second of `ucc-path tile` beside bare OpenSlide reads of the same regions, in the same run.

    python benchmarks/tile.py [SLIDE_FOLDER] [--tile-px 512] [--per-slide 500] [--max-overlap 0.5] [--rounds 3]

Two figures: the cutting of tiles (reading, masks, packing, writing), as the command reports it, and the whole command,
which also starts processes, finds tissue, reads outlines and chooses places: a cost a slide, whatever the number of its
tiles. The bare reader gets the places for free and throws the pixels away; it uses as many processes as the command has
workers. Machines are noisy, so look at the ratios. Without a folder, slides are made.
"""

from __future__ import annotations

import argparse
import os
import re
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import openslide

from ucc_path.formats import dataset_json, tiles_csv
from ucc_path.synthetic import make_slide

WORKERS = 2
Region = tuple[str, int, int, int, int]  # slide, x_l0, y_l0, level, side_px


def main() -> None:
    arguments = _arguments()
    with tempfile.TemporaryDirectory() as scratch:
        slides = arguments.slides or _make_slides(Path(scratch) / "slides")
        dataset = Path(scratch) / "dataset"
        command = [Path(sys.executable).with_name("ucc-path"), "tile", slides, "-o", dataset, "--overwrite"]
        command += ["--tile-px", arguments.tile_px, "--per-slide", arguments.per_slide, "--workers", WORKERS]
        command += ["--max-overlap", arguments.max_overlap]
        whole, cutting, bare, peaks_mb = [], [], [], []
        for _ in range(arguments.rounds):
            seconds, peak_mb, said = _timed_with_memory(command)
            regions = _regions(dataset)
            whole.append(len(regions) / seconds)
            cutting.append(float(re.findall(r"cutting tiles: .*\(([\d.]+) tiles/s\)", said)[-1]))
            peaks_mb.append(peak_mb)
            bare.append(len(regions) / _bare(regions))
    print(f"{len(regions)} tiles of {arguments.tile_px} px, {WORKERS} workers, median of {arguments.rounds} rounds")
    for name, rates in (("bare OpenSlide", bare), ("cutting tiles", cutting), ("whole command", whole)):
        ratio = statistics.median(a / b for a, b in zip(rates, bare, strict=True))
        print(f"{name:15}{statistics.median(rates):8.1f} tiles/s   ratio {ratio:.2f}")
    print(f"peak memory of the command, all processes: {max(peaks_mb):.0f} MB")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("slides", type=Path, nargs="?", help="folder of slides with their annotations")
    parser.add_argument("--tile-px", type=int, default=512)
    parser.add_argument("--per-slide", type=int, default=500)
    parser.add_argument("--max-overlap", type=float, default=0.5)
    parser.add_argument("--rounds", type=int, default=3)
    return parser.parse_args()


def _make_slides(folder: Path) -> Path:
    folder.mkdir()
    for seed in (1, 2):
        make_slide(folder / f"slide_{seed}.tif", seed=seed, size_px=(12_000, 12_000), workers=WORKERS)
    return folder


def _timed_with_memory(command: list[object]) -> tuple[float, float, str]:
    """Seconds of a command, the peak of the memory of all its processes together, and what it said."""
    began = time.perf_counter()
    process = subprocess.Popen(
        [str(word) for word in command], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )
    peak_kb = 0

    def watch() -> None:
        nonlocal peak_kb
        while process.poll() is None:
            peak_kb = max(peak_kb, sum(_memory_kb(pid) for pid in _family(process.pid)))
            time.sleep(0.05)

    watcher = threading.Thread(target=watch)
    watcher.start()
    _, said = process.communicate()
    seconds = time.perf_counter() - began
    watcher.join()
    if process.returncode != 0:
        raise SystemExit(said)
    return seconds, peak_kb / 1000, said


def _family(parent: int) -> list[int]:
    """A process and all that it started."""
    children = [
        int(word) for thread in Path(f"/proc/{parent}/task").glob("*/children") for word in _text(thread).split()
    ]
    return [parent, *(pid for child in children for pid in _family(child))]


def _memory_kb(pid: int) -> int:
    """What a process adds to the machine's use: pages shared with others count by their share."""
    lines = _text(Path(f"/proc/{pid}/smaps_rollup")).splitlines()
    return next((int(line.split()[1]) for line in lines if line.startswith("Pss:")), 0)


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:  # it ended meanwhile
        return ""


def _regions(dataset: Path) -> list[Region]:
    slides = {slide["name"]: slide for slide in dataset_json.read(dataset)["slides"]}
    regions = []
    for row in tiles_csv.read(dataset):
        slide = slides[row.slide]
        with openslide.OpenSlide(slide["path"]) as handle:
            level = handle.get_best_level_for_downsample(row.mpp / slide["mpp"] + 0.01)
        regions.append((slide["path"], row.x_l0, row.y_l0, level, row.tile_px))
    return regions


def _bare(regions: list[Region]) -> float:
    """Seconds that bare reads of the regions take, divided among processes that are already up."""
    parts = [regions[part::WORKERS] for part in range(WORKERS)]
    with ProcessPoolExecutor(WORKERS) as pool:
        list(pool.map(os.getpgid, [0] * WORKERS))
        began = time.perf_counter()
        list(pool.map(_read_all, parts))
        return time.perf_counter() - began


def _read_all(regions: list[Region]) -> None:
    handles: dict[str, openslide.OpenSlide] = {}
    for path, x_l0, y_l0, level, side_px in regions:
        handle = handles.setdefault(path, openslide.OpenSlide(path))
        handle.read_region((x_l0, y_l0), level, (side_px, side_px)).convert("RGB")


if __name__ == "__main__":
    main()
