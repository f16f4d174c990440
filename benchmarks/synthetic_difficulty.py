"""Is the synthetic task worth solving? Colour must not tell tumour from normal tissue; the look of nuclei must.

Makes four slides, reads 32-px patches at 1 um/px that are at least half tissue, and labels each by the truth at its
centre. Each slide in turn is the unseen one; the others train. Prints patch accuracy (PA) of

  empty     nothing is tumour
  k-means   two clusters of raw patches, named by their best match on the training slides
  colour    logistic regression on the mean colour of a patch
  spread    the same on mean and standard deviation (for information)
  CNN       a small network, supervised

Aim: the first three below 0.70, the CNN at 0.95 or more. Run: python benchmarks/synthetic_difficulty.py
"""

from __future__ import annotations

import argparse
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import openslide
import shapely
import torch
from numpy.typing import NDArray
from sklearn.cluster import KMeans
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from torch import nn

from ucc_path.synthetic import SyntheticSlide, make_slide

PATCH_PX = 32
LEVEL = 1  # 1 um/px of a slide at 0.5
SIDE_L0 = PATCH_PX * 2**LEVEL


@dataclass(frozen=True, slots=True)
class Patches:
    rgb: NDArray[np.uint8]  # (n, 32, 32, 3)
    is_tumour: NDArray[np.bool_]

    @classmethod
    def joined(cls, parts: list[Patches]) -> Patches:
        return cls(np.concatenate([p.rgb for p in parts]), np.concatenate([p.is_tumour for p in parts]))


def read_patches(slide: SyntheticSlide) -> Patches:
    """All patches of a slide on a grid that are at least half tissue."""
    corners = [
        (x, y)
        for y in range(0, slide.size_px[1] - SIDE_L0, SIDE_L0)
        for x in range(0, slide.size_px[0] - SIDE_L0, SIDE_L0)
    ]
    x, y = np.array(corners).T
    boxes = shapely.box(x, y, x + SIDE_L0, y + SIDE_L0)
    shapely.prepare(slide.tissue)
    kept = shapely.area(shapely.intersection(boxes, slide.tissue)) >= 0.5 * SIDE_L0**2
    x, y = x[kept], y[kept]
    is_tumour = shapely.contains_xy(slide.tumour, x + SIDE_L0 / 2, y + SIDE_L0 / 2)
    with openslide.OpenSlide(str(slide.path)) as reader:
        level = np.asarray(reader.read_region((0, 0), LEVEL, reader.level_dimensions[LEVEL]).convert("RGB"))
    rgb = [level[b : b + PATCH_PX, a : a + PATCH_PX] for a, b in zip(x // 2**LEVEL, y // 2**LEVEL, strict=True)]
    return Patches(np.stack(rgb), np.asarray(is_tumour))


def kmeans_accuracy(train: Patches, test: Patches) -> float:
    flat = train.rgb.reshape(len(train.rgb), -1).astype(np.float32)
    model = KMeans(2, n_init=3, random_state=0).fit(flat)
    flips = np.mean(model.labels_.astype(bool) == train.is_tumour) < 0.5
    found = model.predict(test.rgb.reshape(len(test.rgb), -1).astype(np.float32)).astype(bool)
    return float(np.mean((found ^ flips) == test.is_tumour))


def colour_accuracy(train: Patches, test: Patches, *, with_spread: bool) -> float:
    def features(patches: Patches) -> NDArray[np.float64]:
        mean, spread = patches.rgb.mean(axis=(1, 2)), patches.rgb.std(axis=(1, 2))
        return np.hstack([mean, spread]) if with_spread else mean

    model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))
    return float(model.fit(features(train), train.is_tumour).score(features(test), test.is_tumour))


def cnn_accuracy(train: Patches, test: Patches, *, steps: int, seed: int) -> float:
    torch.manual_seed(seed)
    layers: list[nn.Module] = []
    for wide, out in ((3, 24), (24, 48), (48, 64)):
        layers += [nn.Conv2d(wide, out, 3, padding=1), nn.BatchNorm2d(out), nn.ReLU(), nn.MaxPool2d(2)]
    model = nn.Sequential(
        *layers, nn.Conv2d(64, 64, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 1)
    )
    images, labels = _tensor(train), torch.from_numpy(train.is_tumour).float()
    optimiser = torch.optim.AdamW(model.parameters(), 2e-3)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, 4e-3, total_steps=steps)
    for _ in range(steps):
        pick = torch.randint(len(images), (128,))
        batch = images[pick] * (0.85 + 0.3 * torch.rand(128, 3, 1, 1))
        batch = batch.flip(-1) if torch.rand(()) < 0.5 else batch.transpose(-1, -2)
        loss = nn.functional.binary_cross_entropy_with_logits(model(batch)[:, 0], labels[pick])
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        schedule.step()
    model.eval()
    with torch.no_grad():
        found = torch.cat([model(part)[:, 0] > 0 for part in _tensor(test).split(1024)]).numpy()
    return float(np.mean(found == test.is_tumour))


def _tensor(patches: Patches) -> torch.Tensor:
    return torch.from_numpy(patches.rgb).permute(0, 3, 1, 2).float() / 127.5 - 1


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, nargs="+", default=[11, 12, 13, 14])
    parser.add_argument("--side-px", type=int, default=6000)
    parser.add_argument("--steps", type=int, default=900)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--tests", type=int, default=4, help="how many of the slides take their turn as the unseen one")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        slides = []
        for n, seed in enumerate(given.seeds):
            share = (0.45, 0.55, 0.5, 0.4, 0.6)[n % 5]
            size = (given.side_px, given.side_px)
            start = time.perf_counter()
            slide = make_slide(
                Path(folder) / f"{seed}.tif", seed=seed, size_px=size, tumour_share=share, workers=given.workers
            )
            slides.append(read_patches(slide))
            print(f"slide {seed}: {len(slides[-1].rgb)} patches, {time.perf_counter() - start:.0f} s", flush=True)
    print(f"{'unseen':>7} {'tumour':>7} {'empty':>7} {'k-means':>8} {'colour':>7} {'spread':>7} {'CNN':>7}")
    for n, seed in list(enumerate(given.seeds))[: given.tests]:
        test = slides[n]
        train = Patches.joined([part for m, part in enumerate(slides) if m != n])
        share = test.is_tumour.mean()
        colour, spread = (colour_accuracy(train, test, with_spread=flag) for flag in (False, True))
        cnn = cnn_accuracy(train, test, steps=given.steps, seed=0)
        found = f"{1 - share:7.3f} {kmeans_accuracy(train, test):8.3f} {colour:7.3f} {spread:7.3f} {cnn:7.3f}"
        print(f"{seed:7d} {share:7.3f} {found}", flush=True)


if __name__ == "__main__":
    main()
