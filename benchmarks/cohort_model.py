"""What a cohort costs on paper, and how many workers to give to a GPU: a small model fed with measured rates.

    python benchmarks/cohort_model.py [--preset paper] [--gpus 8] [--storage-mb-s 1000] [--latency-ms 1]

A worker takes a slide, finds its tissue, reads, computes and writes, one after the other; then the next slide. It has a
core of its own; the storage is shared by all workers, a GPU by the workers of that GPU. This is simulated event by
event; tests hold it against known limits. Where `Rates` says assumed, nothing has been measured.
"""

from __future__ import annotations

import argparse
import heapq
from collections import deque
from dataclasses import dataclass, replace
from itertools import count

import numpy as np

PATCH_UM = 32.0  # a patch of 32 px at 1 um/px
PARTS = 16  # of a slide, in the simulation: parts of several slides take turns at the storage and at the GPU
NEAR = 0.9  # of what is possible at best: more workers than that takes are hardly worth their memory
CHOICES = (1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 16, 20, 24, 32)  # workers a GPU
SLIDES_EACH = 12  # of a worker, to see how quick many are
SHARED = ("GPU", "storage")
STORAGES_MB_S = (100, 300, 1_000, 10_000)
NETWORKS_PER_S = (10_000, 30_000, 100_000, 300_000)


@dataclass(frozen=True, slots=True)
class Rates:
    """What one core, one GPU and one storage do. Here: two cores of an AMD EPYC with AVX-512, other work beside."""

    # PERF.md: pread and simplejpeg 280, on stored JPEG tiles in order. OpenSlide, for all other formats, 38 to 42.
    decode_mpix_per_cpu_s: float = 280.0
    # Measured here: 8 runs of `segment` on three oral slides, CPU time without network and decoding, median.
    patch_cpu_us: float = 25.0  # cutting, stain, windows, deciding
    write_cpu_us: float = 5.0  # polygons and files, a patch
    survey_cpu_s: float = 0.05  # measured here: 1.2 CPU-s for a slide of 102,400 px at 0.25 um/px, 0.15 for 59 mm2
    survey_cpu_s_per_mm2: float = 0.0018
    start_s: float = 5.0  # closing note of `segment`; once a worker, not once a slide
    # Measured here: one thread, OpenVINO, in the same runs. An older core (Zen 3): fast 9,000, paper 924 (PERF.md).
    cpu_patches_per_s: float = 34_000.0
    gpu_patches_per_s: float = 300_000.0  # assumed: no GPU was at hand
    # Measured here: level-0 patches of CAMELYON16, averaged to 1 um/px, as JPEG of quality 80 at 4:2:0.
    bytes_per_px: float = 0.34
    # Stored tiles hold glass too. Measured: 1.09 on one round piece, 3.3 to 4.0 on slides of scattered pieces. Assumed:
    stored_px_per_tissue_px: float = 1.3
    tile_px: int = 512  # a read each
    survey_bytes_per_mm2: float = 6_250.0  # 4 um/px, 0.1 B/px: the oral slides, all of a low level
    # Measured here and in the note of `segment`: 8.6 to 13.6 B a patch, and a picture of 0.6 MB.
    output_bytes: float = 600_000.0
    output_bytes_per_patch: float = 10.0


RATES = {"fast": Rates(), "paper": Rates(cpu_patches_per_s=2_560.0, gpu_patches_per_s=100_000.0)}  # GPU: assumed


@dataclass(frozen=True, slots=True)
class Site:
    """Where a cohort is worked on; without GPUs the network is computed by the workers' cores."""

    workers: int
    gpus: int = 0
    storage_mb_per_s: float = 1_000.0  # all workers together
    latency_ms: float = 1.0  # of a read


@dataclass(frozen=True, slots=True)
class Demand:
    """What one slide asks of each part of a site; seconds, but for the bytes."""

    cpu_s: float
    gpu_s: float
    storage_s: float
    latency_s: float
    read_bytes: float
    written_bytes: float

    @property
    def alone_s(self) -> float:
        """A slide with nobody else at work."""
        return self.cpu_s + self.gpu_s + self.storage_s + self.latency_s


def demand(side_px: float, tissue_share: float, rates: Rates, site: Site, mpp: float = 0.25) -> Demand:
    """Of a square slide of `side_px` level-0 pixels."""
    area_mm2 = (side_px * mpp / 1000) ** 2
    patches = tissue_share * (side_px * mpp / PATCH_UM) ** 2
    stored_px = patches * PATCH_UM**2 * rates.stored_px_per_tissue_px
    network_s = patches / (rates.gpu_patches_per_s if site.gpus else rates.cpu_patches_per_s)
    read_bytes = stored_px * rates.bytes_per_px + area_mm2 * rates.survey_bytes_per_mm2
    written_bytes = rates.output_bytes + patches * rates.output_bytes_per_patch
    cpu_s = rates.survey_cpu_s + area_mm2 * rates.survey_cpu_s_per_mm2
    cpu_s += stored_px / 1e6 / rates.decode_mpix_per_cpu_s
    cpu_s += patches * (rates.patch_cpu_us + rates.write_cpu_us) / 1e6
    return Demand(
        cpu_s=cpu_s + (0.0 if site.gpus else network_s),
        gpu_s=network_s if site.gpus else 0.0,
        storage_s=(read_bytes + written_bytes) / (site.storage_mb_per_s * 1e6),
        latency_s=stored_px / rates.tile_px**2 * site.latency_ms / 1000,
        read_bytes=read_bytes,
        written_bytes=written_bytes,
    )


def limits(asked: Demand, site: Site) -> dict[str, float]:
    """Slides a second that each part of the site would allow if the others were free."""
    return {
        "workers": site.workers / asked.alone_s,
        "GPU": site.gpus / asked.gpu_s if asked.gpu_s else float("inf"),
        "storage": 1 / asked.storage_s if asked.storage_s else float("inf"),
    }


def simulate(slides: list[Demand], site: Site, start_s: float = 0.0) -> float:
    """Seconds until the last of the slides is done; they are taken in the order given."""
    queue, number = deque(slides), count()
    gpu_free_s, storage_free_s = [0.0] * max(1, site.gpus), 0.0
    # An event: when, a number that keeps equal times in order, the worker, its slide, steps done of it.
    events: list[tuple[float, int, int, Demand | None, int]] = [
        (start_s, next(number), worker, None, 0) for worker in range(site.workers)
    ]
    last_s = 0.0
    while events:
        now, _, worker, slide, step = heapq.heappop(events)
        last_s = max(last_s, now) if slide else last_s
        if slide is None or step == 3 * PARTS:
            if not queue:
                continue
            slide, step = queue.popleft(), 0
        if step % 3 == 0:  # reads a part
            storage_free_s = max(now, storage_free_s) + slide.storage_s / PARTS
            then = storage_free_s + slide.latency_s / PARTS
        elif step % 3 == 1:
            then = now + slide.cpu_s / PARTS
        else:
            gpu, then = worker % len(gpu_free_s), now
            if slide.gpu_s:
                then = gpu_free_s[gpu] = max(now, gpu_free_s[gpu]) + slide.gpu_s / PARTS
        heapq.heappush(events, (then, next(number), worker, slide, step + 1))
    return last_s


@dataclass(frozen=True, slots=True)
class Plan:
    """A cohort of square slides at 0.25 um/px that differ in how much tissue they have."""

    rates: Rates
    side_px: float = 100_000
    tissue_share: float = 0.2
    spread: float = 0.6  # of the tissue of slides: its standard deviation as a share of its mean; assumed
    seed: int = 0

    def slide(self, site: Site) -> Demand:
        """The one with the mean tissue."""
        return demand(self.side_px, self.tissue_share, self.rates, site)

    def slides(self, site: Site, number: int) -> list[Demand]:
        """Their shares of tissue are log-normal and have that mean exactly, unless a slide would be more than full."""
        drawn = np.random.default_rng(self.seed).lognormal(0.0, np.sqrt(np.log1p(self.spread**2)), number)
        shares = np.minimum(drawn * self.tissue_share / drawn.mean(), 1.0)
        return [demand(self.side_px, float(share), self.rates, site) for share in shares]


def throughput(plan: Plan, site: Site) -> float:
    """Slides a second where there are many of them, the largest first."""
    slides = plan.slides(site, SLIDES_EACH * site.workers)
    return len(slides) / simulate(sorted(slides, key=lambda slide: -slide.alone_s), site)


def enough_workers(plan: Plan, site: Site) -> int:
    """The fewest workers of a GPU that come near to what GPUs and storage allow."""
    most = limits(plan.slide(site), site)
    wanted = NEAR * min(most[what] for what in SHARED)
    tried = (n for n in CHOICES if throughput(plan, replace(site, workers=n * max(1, site.gpus))) >= wanted)
    return next(tried, CHOICES[-1])


def main() -> None:
    asked = _arguments()
    own = {"gpu_patches_per_s": asked.gpu_patches_per_s, "decode_mpix_per_cpu_s": asked.decode_mpix_per_s}
    rates = replace(RATES[asked.preset], **{name: value for name, value in own.items() if value})
    plan = Plan(rates, asked.side_px, asked.tissue_share, asked.spread)
    site = Site(1, asked.gpus, asked.storage_mb_s, asked.latency_ms)
    slide = plan.slide(site)
    print(f"A slide of {plan.side_px:,.0f} px at 0.25 um/px, {plan.tissue_share:.0%} of it tissue, {asked.preset}:")
    print(f"  {slide.cpu_s:.2f} s of a core, {slide.gpu_s:.2f} s of a GPU, {slide.latency_s:.2f} s waiting for reads,")
    print(f"  {slide.read_bytes / 1e6:.0f} MB read, {slide.written_bytes / 1e6:.2f} MB written")
    _print_workers(plan, site)
    if site.gpus:
        _print_moves(plan, site)
    workers = asked.workers or max(1, site.gpus) * enough_workers(plan, site)
    _print_cost(plan, replace(site, workers=workers), asked.slides)


def _print_workers(plan: Plan, site: Site) -> None:
    print(f"\n{'workers' + ' a GPU' * bool(site.gpus):>14}{'slides/h':>10}{'GPU busy':>10}{'storage busy':>14}  limit")
    for number in CHOICES:
        here = replace(site, workers=number * max(1, site.gpus))
        rate, most = throughput(plan, here), limits(plan.slide(here), here)
        busy = f"{rate / most['GPU']:10.0%}{rate / most['storage']:14.0%}"
        print(f"{number:14}{3600 * rate:10,.0f}{busy}  {min(most, key=most.__getitem__)}")


def _print_moves(plan: Plan, site: Site) -> None:
    """Where the limit is as storage and network change: workers a GPU that are enough, slides an hour, the limit."""
    print(f"\n{site.gpus} GPUs, each   " + "".join(f"{mb:>22,} MB/s" for mb in STORAGES_MB_S))
    for patches_per_s in NETWORKS_PER_S:
        cells = []
        for storage_mb_s in STORAGES_MB_S:
            quicker = replace(plan, rates=replace(plan.rates, gpu_patches_per_s=patches_per_s))
            here = replace(site, storage_mb_per_s=storage_mb_s)
            number = enough_workers(quicker, here)
            rate = throughput(quicker, replace(here, workers=number * site.gpus))
            most = limits(quicker.slide(here), here)
            cells.append(f"{number}, {3600 * rate:,.0f}/h, {min(SHARED, key=most.__getitem__)}")
        print(f"{patches_per_s:>9,} patches/s" + "".join(f"{cell:>27}" for cell in cells))


def _print_cost(plan: Plan, site: Site, slides: int) -> None:
    drawn = plan.slides(site, 20 * site.workers)
    hours = slides / throughput(plan, site) / 3600
    total = {name: slides * float(np.mean([getattr(one, name) for one in drawn])) for name in Demand.__slots__}
    print(f"\n{slides:,} slides, {site.workers} workers, {site.gpus} GPUs, {site.storage_mb_per_s:,.0f} MB/s:")
    print(f"  reads   {total['read_bytes'] / 1e12:10,.1f} TB, results {total['written_bytes'] / 1e9:,.0f} GB")
    print(f"  cores   {total['cpu_s'] / 3600:10,.0f} h busy of {hours * site.workers:,.0f} h")
    print(f"  GPUs    {total['gpu_s'] / 3600:10,.0f} h busy of {hours * site.gpus:,.0f} h")
    print(f"  time    {hours:10,.1f} h")
    orders = (drawn, sorted(drawn, key=lambda slide: -slide.alone_s))
    listed_s, sorted_s = (simulate(order, site, plan.rates.start_s) for order in orders)
    print(f"The end of {len(drawn):,}: {listed_s:,.0f} s as they come, {sorted_s:,.0f} s the largest first")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--preset", choices=RATES, default="paper")
    parser.add_argument("--slides", type=int, default=100_000)
    parser.add_argument("--side-px", type=float, default=100_000)
    parser.add_argument("--tissue-share", type=float, default=0.2)
    parser.add_argument("--spread", type=float, default=0.6, help="of the tissue of slides, as a share of its mean")
    parser.add_argument("--gpus", type=int, default=8, help="0: the network is computed by the workers' cores")
    parser.add_argument("--workers", type=int, help="of all GPUs, or of the site; as many as are enough unless given")
    parser.add_argument("--storage-mb-s", type=float, default=1_000.0)
    parser.add_argument("--latency-ms", type=float, default=1.0)
    parser.add_argument("--gpu-patches-per-s", type=float, help="of your GPU, instead of what is assumed")
    parser.add_argument("--decode-mpix-per-s", type=float, help="40 for slides that only OpenSlide reads")
    return parser.parse_args()


if __name__ == "__main__":
    main()
