"""Bags a second of the training loop, beside its limit and beside Keras, in the same run.

    python benchmarks/train.py [DATASET] [--preset fast] [--rounds 5] [--steps 10] [--keras PYTHON]

The limit is the bare forward and backward pass and step of Adam of the same network on one batch that lies in memory,
ready to be taken; the loop also draws bags from memory-mapped tiles, turns and stains them, and keeps its accounts.
The peer is the paper's network in Keras (benchmarks/train_keras.py), run by a Python that has TensorFlow, given with
--keras. Rounds of all of them alternate; look at the ratios. Without a data set, slides are made and tiled.
"""

from __future__ import annotations

import argparse
import re
import statistics
import subprocess
import tempfile
import time
from collections.abc import Generator
from pathlib import Path
from typing import Any, TypeVar

import torch

from ucc_path.model.devices import ALONE, keep_memory
from ucc_path.model.feeding import Feed
from ucc_path.settings import PRESETS
from ucc_path.workflows.demo import demo
from ucc_path.workflows.train.batches import Batches
from ucc_path.workflows.train.data import choose_rows, read_tiles
from ucc_path.workflows.train.learning import Job, Lesson, prepare
from ucc_path.workflows.train.request import TrainRequest
from ucc_path.workflows.train.run_folder import Run

R = TypeVar("R")


def main() -> None:
    arguments = _arguments()
    keep_memory()  # as ucc-path train does; the bare passes gain by it as much
    with tempfile.TemporaryDirectory() as scratch:
        dataset = arguments.dataset or _done(demo(Path(scratch), workers=2, overwrite=False)).tiles.output
        job = _job(dataset, Path(scratch) / "run", arguments.preset)
        lesson, bare = _done(prepare(job)), _done(prepare(job))
        rates: dict[str, list[float]] = {"bare forward and backward": [], "our loop": []}
        waiting = []
        for round_number in range(arguments.rounds):
            rates["bare forward and backward"].append(_bare(job, bare, arguments.steps))
            rate, waited = _loop(job, lesson, arguments.steps, first=round_number * arguments.steps)
            rates["our loop"].append(rate)
            waiting.append(waited)
            for way in ("together", "apart") if arguments.keras else ():
                rates.setdefault(f"Keras, patches {way}", []).append(_keras(arguments, way))
    print(f"preset {arguments.preset}, {torch.get_num_threads()} threads, median of {arguments.rounds} rounds")
    for name, values in rates.items():
        ratio = statistics.median(ours / other for ours, other in zip(rates["our loop"], values, strict=True))
        print(f"{name:28}{statistics.median(values):8.2f} bags/s   our loop is {ratio:.2f} of it")
    if arguments.keras and arguments.preset != "paper":
        print("Keras runs the paper's network, which costs sixteen times as much a patch")
    print(f"the loop waits for data {statistics.median(waiting):.2%} of its time")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dataset", type=Path, nargs="?")
    parser.add_argument("--preset", choices=PRESETS, default="fast")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--keras", metavar="PYTHON", help="a Python that has TensorFlow")
    return parser.parse_args()


def _done(work: Generator[Any, None, R]) -> R:
    while True:
        try:
            next(work)
        except StopIteration as end:
            return end.value


def _job(dataset: Path, folder: Path, preset: str) -> Job:
    settings = PRESETS[preset]
    request = TrainRequest(dataset, folder, model_settings=settings["model"], training=settings["training"])
    rows, _ = choose_rows(request)
    run = Run(folder, {})
    _done(read_tiles(request, run.tiles, rows))
    return Job(request, rows, run, ALONE, torch.device("cpu"))


def _loop(job: Job, lesson: Lesson, steps: int, first: int) -> tuple[float, float]:
    """Bags a second, and the share of the time spent waiting for them."""
    batches = Batches(job.request, lesson.preparation, job.device, ALONE)
    began = time.perf_counter()
    with Feed(batches.drawing(lesson.train), first, first + steps) as feed:
        for _ in range(steps):
            lesson.learner.learn(batches.prepared(feed.take()))
        seconds = time.perf_counter() - began
        return steps * job.request.training.bags_per_step / seconds, feed.waited_s / seconds


def _bare(job: Job, lesson: Lesson, steps: int) -> float:
    batches = Batches(job.request, lesson.preparation, job.device, ALONE)
    batch = batches.prepared(batches.drawing(lesson.train)(0))
    alpha = job.request.training.alpha
    network = lesson.learner.network.train()
    adam = torch.optim.Adam(network.parameters(), lr=1e-4, fused=True)
    began = time.perf_counter()
    for _ in range(steps):
        logits, drawn = network(batch.images)
        loss = alpha * torch.nn.functional.cross_entropy(logits, batch.targets)
        loss = loss + (1 - alpha) * torch.nn.functional.mse_loss(drawn, batch.images[:, : drawn.shape[1]])
        adam.zero_grad(set_to_none=True)
        loss.backward()
        adam.step()
    return steps * job.request.training.bags_per_step / (time.perf_counter() - began)


def _keras(arguments: argparse.Namespace, way: str) -> float:
    script = Path(__file__).with_name("train_keras.py")
    command = [arguments.keras, script, way, "--steps", str(arguments.steps), "--threads", str(torch.get_num_threads())]
    said = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=True).stdout
    return float(re.findall(r"([\d.]+) bags/s", said)[-1])


if __name__ == "__main__":
    main()
