"""Patches a second of `ucc-path segment` beside its limits and beside a plain loop, in the same run.

    python benchmarks/segment.py [SLIDE] [-m RUN | --second-round] [--inference auto] [--threads 2] [--rounds 5]

(a) end to end: a slide from opening its file to its last result, in a process that has the model loaded, and that part
    of it in which patches are read, computed and decided;
    And the same for several slides side by side, a process each, as a cohort is worked on;
(b) the bare model on patches in memory, with the same engine and threads;
(c) decoding alone of the stored JPEG tiles that hold the slide's patches, with as many threads;
(d) a plain loop: OpenSlide reads squares, which are cut into patches and given to PyTorch, one thread. Of a model with
    a second round the squares are given to its network of pixels as they are.

Machines are noisy, so rounds of all of them alternate, and what counts are the ratios. Without a slide one is made;
without a run the network has its first weights, which cost as much as trained ones. Labels of (a) are compared with
those of the same work by plain PyTorch.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import openslide
import tifffile
import torch
from numpy.typing import NDArray

from ucc_path.ahead import in_order
from ucc_path.clusters import nearest
from ucc_path.engine.local import Workers
from ucc_path.errors import UccPathError
from ucc_path.features import features_of
from ucc_path.features.cells import CellPlan, blocks, tissue_cells
from ucc_path.features.reading import PatchReader
from ucc_path.features.staining import standard_of_slide
from ucc_path.formats import model_safetensors
from ucc_path.model import UCC, network_of_pixels
from ucc_path.model.card import ModelCard
from ucc_path.model.recipes import ASSIGN_PIXELS, CENTROIDS, NETWORK, PIXELS
from ucc_path.settings import ASSIGNMENTS, PRESETS, SegmentationSettings, TissueSettings
from ucc_path.slide import Slide, jpeg_tiff
from ucc_path.synthetic import make_slide
from ucc_path.tissue import tissue_of
from ucc_path.workflows.segment import slide as slide_work
from ucc_path.workflows.segment.jobs import ModelSpec, SlideJob, segment_slide
from ucc_path.workflows.segment.loading import Loaded, load

READ_PX = 512


class Bench:
    """A slide and a model, and the four ways to hurry."""

    def __init__(self, slide_path: Path, model: Path, folder: Path, arguments: argparse.Namespace) -> None:
        settings = SegmentationSettings(inference=arguments.inference)
        spec = ModelSpec(model, "cpu", arguments.threads, settings)
        identity = {"model": {"sha256": ""}, "settings": {}}
        tissue = TissueSettings()
        self.job = SlideJob("slide", slide_path, None, folder, spec, tissue, False, False, 20 * 10**9, identity)
        self.threads: int = arguments.threads
        self.loaded: Loaded = load(spec)
        self.plain: Loaded = load.__wrapped__(replace(spec, segmentation=replace(settings, inference="torch")))
        with Slide(slide_path) as slide:
            card = self.loaded.model.card
            found = tissue_of(slide.thumbnail(tissue.mpp), slide.size_l0, slide.mpp, tissue)
            self.plan = CellPlan.of(
                slide.size_l0, slide.mpp, patch_px=card.settings.patch_px, stride_px=32, mpp=card.mpp, name="slide"
            )
            self.is_tissue = tissue_cells(self.plan, found, settings.min_tissue)
            self.blocks = list(blocks(self.plan, self.is_tissue))
            reader = PatchReader(slide, self.plan, is_strict=False)
            self.stain, _ = standard_of_slide(reader, found, self.blocks, self.threads)
        self.patches = int(np.count_nonzero(self.is_tissue))
        self.judging_s = 0.0
        self._time_judging()

    def _time_judging(self) -> None:
        judge = slide_work._judge

        def timed(*given: object) -> object:
            began = time.perf_counter()
            result = judge(*given)  # type: ignore[arg-type]
            self.judging_s = time.perf_counter() - began
            return result

        slide_work._judge = timed  # type: ignore[assignment]

    @property
    def is_refined(self) -> bool:
        return self.loaded.pictures is not None

    def end_to_end(self) -> float:
        return self.patches / float(slide_work.segment(self.job)["seconds"])

    def cohort(self, workers: Workers) -> float:
        """As many slides as there are threads, twice over, each in a process with one thread."""
        alone = replace(self.job, model=replace(self.job.model, threads=1))
        jobs = [replace(alone, name=f"slide_{number}") for number in range(2 * self.threads)]
        began = time.perf_counter()
        for _, result in workers.run(segment_slide, jobs):
            if isinstance(result, UccPathError):
                raise SystemExit(str(result))
        return len(jobs) * self.patches / (time.perf_counter() - began)

    def bare_model(self) -> float:
        shape = self.loaded.pictures
        size, side = self.loaded.batch_size, shape.side_px if shape else self.plan.patch_px
        patches = size * (shape.core_px // self.plan.stride_px) ** 2 if shape else size
        pictures = np.random.default_rng(0).integers(0, 256, (size, side, side, 3), np.uint8)
        table = np.linspace(-2, 2, 3 * 256, dtype=np.float32)
        batches = max(2 * self.threads, min(200, self.patches // patches))
        began = time.perf_counter()
        for _ in in_order(lambda _: self.loaded.engine(pictures, table), range(batches), self.threads):
            pass
        return batches * patches / (time.perf_counter() - began)

    def decoding(self) -> float | None:
        """None where the slide is not made of plain JPEG tiles."""
        with tifffile.TiffFile(self.job.slide) as tiff:
            pages = [page for page in tiff.pages if page.is_tiled]
            sizes = tuple((page.imagewidth, page.imagelength) for page in pages)
        file = jpeg_tiff.open_plain(self.job.slide, {}, sizes, 2**20)
        if file is None:
            return None
        level = max(n for n, ratio in enumerate(file.downsamples) if ratio <= self.plan.pixel_l0 * 1.001)
        plan = file._levels[level]
        scale = self.plan.pixel_l0 / file.downsamples[level] * self.plan.stride_px  # of a cell, in pixels of the level
        rows, cols = np.nonzero(self.is_tissue)
        across = -(-plan.width_px // plan.tile_width_px)
        tiles: set[int] = set()
        for down in (0.0, 0.999):
            for right in (0.0, 0.999):
                row = ((rows + down) * scale // plan.tile_height_px).astype(int)
                col = ((cols + right) * scale // plan.tile_width_px).astype(int)
                tiles |= set((row * across + col).tolist())
        began = time.perf_counter()
        for _ in in_order(lambda index: file._decode(plan, index), sorted(tiles), self.threads):
            pass
        seconds = time.perf_counter() - began
        file.close()
        return self.patches / seconds

    def plain_loop(self, most: int = 4000) -> float:
        """On the first patches only, since it is slow."""
        shape, done = self.plain.pictures, 0
        side = shape.side_px if shape else READ_PX
        margin_l0 = shape.margin_px * self.plan.pixel_l0 if shape else 0
        began = time.perf_counter()
        with openslide.OpenSlide(self.job.slide) as slide:
            level = slide.get_best_level_for_downsample(self.plan.pixel_l0 + 0.01)
            for block in self.blocks:
                x, y = self.plan.corner(block.first)
                place = (int(x - margin_l0), int(y - margin_l0))
                picture = slide.read_region(place, level, (side, side)).convert("RGB")
                self._judge_plainly(np.asarray(picture), block.wanted)
                done += int(np.count_nonzero(block.wanted))
                if done >= most:
                    break
        return done / (time.perf_counter() - began)

    def _judge_plainly(self, picture: NDArray[np.uint8], wanted: NDArray[np.bool_]) -> None:
        model, side = self.plain.model, self.plan.patch_px
        if model.pixels is not None and self.plain.pictures:
            with torch.no_grad():
                stain = torch.from_numpy(self.stain[None])
                torch.sigmoid(model.pixels(model.preparation(torch.from_numpy(picture[None].copy()), stain)))
            return
        corners = side * np.argwhere(wanted)
        patches = np.stack([picture[row : row + side, col : col + side] for row, col in corners])
        stains = np.repeat(self.stain[None], len(patches), axis=0)
        extractor = model.network.get_submodule("extractor")
        features = features_of(patches, extractor, model.preparation, torch.device("cpu"), stains)
        if model.centroids is not None:
            nearest(features, model.centroids.numpy())

    def agreement(self) -> float:
        """Share of patches that get the same label as by plain PyTorch."""
        wishes = replace(self.job.model.segmentation, inference="torch")
        slide_work.segment(replace(self.job, name="plain", model=replace(self.job.model, segmentation=wishes)))
        ours, plain = (tifffile.imread(self.job.output / f"{name}_labels.tif", key=0) for name in ("slide", "plain"))
        return float((ours == plain)[self.is_tissue].mean())


def main() -> None:
    arguments = _arguments()
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        slide = arguments.slide or _made(folder / "made.tif", arguments.side_px)
        bench = Bench(slide, _model(arguments, folder), folder, arguments)
        with Workers(arguments.threads) as workers:
            bench.cohort(workers)  # so that every process has its model
            rates = _rates(bench, workers, arguments.rounds)
        model = str(arguments.model or f"preset {arguments.preset}") + " with a second round" * bench.is_refined
        print(
            f"{slide.name}: {bench.patches} patches, {bench.loaded.engine.name}, {arguments.threads} threads, {model}, "
            f"median of {arguments.rounds}"
        )
        limits = [values for name, values in rates.items() if name.startswith(("(b)", "(c)"))]
        slower = [min(both) for both in zip(*limits, strict=True)]
        for name, values in rates.items():
            ratio = statistics.median(value / limit for value, limit in zip(values, slower, strict=True))
            print(f"{name:34}{statistics.median(values):10.0f} patches/s   {ratio:7.2f} of the slower of (b) and (c)")
        print(f"labels that agree with plain PyTorch: {bench.agreement():.4%}")


def _rates(bench: Bench, workers: Workers, rounds: int) -> dict[str, list[float]]:
    rates: dict[str, list[float]] = {}
    for _ in range(rounds):
        rates.setdefault("(a) end to end, one slide", []).append(bench.end_to_end())
        rates.setdefault("    its patches alone", []).append(bench.patches / bench.judging_s)
        rates.setdefault("    end to end, a cohort", []).append(bench.cohort(workers))
        rates.setdefault("(b) bare model", []).append(bench.bare_model())
        decoding = bench.decoding()
        if decoding is not None:
            rates.setdefault("(c) decoding alone", []).append(decoding)
        rates.setdefault("(d) plain loop, one thread", []).append(bench.plain_loop())
    return rates


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("slide", type=Path, nargs="?")
    model = parser.add_mutually_exclusive_group()
    model.add_argument("-m", "--model", type=Path)
    model.add_argument("--second-round", action="store_true", help="a model made here has a network of pixels too")
    parser.add_argument("--preset", choices=PRESETS, default="fast")
    parser.add_argument("--inference", default="auto")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--side-px", type=int, default=16_000)
    return parser.parse_args()


def _made(path: Path, side_px: int) -> Path:
    return make_slide(path, seed=1, size_px=(side_px, side_px), workers=2).path


def _model(arguments: argparse.Namespace, folder: Path) -> Path:
    if arguments.model:
        return arguments.model / model_safetensors.NAME if arguments.model.is_dir() else arguments.model
    settings = PRESETS[arguments.preset]["model"]
    torch.manual_seed(0)
    network = UCC(settings)
    tensors = {NETWORK + name: value for name, value in network.state_dict().items()}
    tensors[CENTROIDS] = torch.stack([torch.full((settings.features,), value) for value in (0.4, 0.6)])
    if arguments.second_round:
        tensors |= {PIXELS + name: value for name, value in network_of_pixels(settings).state_dict().items()}
    card = ModelCard(
        model="ucc",
        supervision="ucc",
        labels=("ucc 1", "ucc 2"),
        settings=settings,
        alpha=0.5,
        mpp=1.0,
        mean=(0.2, 0.3, 0.2),
        std=(0.2, 0.2, 0.2),
        classes=("normal", "metastases"),
        converged=False,
        versions={},
        assign=ASSIGN_PIXELS if arguments.second_round else ASSIGNMENTS[0],
    )
    path = folder / model_safetensors.NAME
    model_safetensors.write(path, card, tensors)
    return path


if __name__ == "__main__":
    main()
