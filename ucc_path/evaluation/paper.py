"""The figures that the paper reports, for reference: on its own crops of CAMELYON16, and on labelled images."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

PAPER: dict[str, dict[str, float]] = {
    "UCC": {"TPR": 0.818, "FPR": 0.149, "TNR": 0.851, "FNR": 0.182, "PA": 0.863},
    "Unet": {"TPR": 0.860, "FPR": 0.126, "TNR": 0.874, "FNR": 0.140, "PA": 0.889},
    "k-means": {"TPR": 0.370, "FPR": 0.271, "TNR": 0.729, "FNR": 0.630, "PA": 0.512},
}
"""On crops of CAMELYON16, other tiles of other slides: the mean over images (Oner, Lee, Sung; ICLR 2020)."""


@dataclass(frozen=True, slots=True)
class Published:
    """A line of the paper's tables on labelled images; nan where it has no such figure."""

    model: str
    ucc_labels: str = ""
    pooling: str = ""
    ucc_accuracy: float = math.nan
    min_js: float = math.nan
    kmeans: float = math.nan
    spectral: float = math.nan
    best: float = math.nan  # the better of the two, which is all that some tables have


def _lines(columns: Sequence[Sequence[float]], raw: Sequence[float]) -> tuple[Published, ...]:
    """The rows of tables 1 and 4 for one data set: the columns JS, ucc, k-means and spectral of its six models."""
    named = ("ucc", "1-4"), ("ucc2+", "2-4"), ("ucc-alpha1", "1-4"), ("ucc2+-alpha1", "2-4")
    lines = [
        Published(model, labels, "kde", ucc_accuracy=ucc, min_js=js, kmeans=means, spectral=graph)
        for (model, labels), js, ucc, means, graph in zip(named, *columns, strict=False)
    ]
    js, _, means, graph = columns
    lines += [
        Published(model, min_js=js[place], kmeans=means[place], spectral=graph[place])
        for place, model in ((4, "autoencoder"), (5, "supervised"))
    ]
    return (*lines, Published("kmeans", kmeans=raw[0]), Published("spectral", spectral=raw[1]))


PUBLISHED: dict[str, tuple[Published, ...]] = {
    "mnist": (
        *_lines(
            (
                (0.222, 0.251, 0.221, 0.023, 0.101, 0.283),
                (1.000, 1.000, 1.000, 0.996),
                (0.979, 0.977, 0.981, 0.881, 0.930, 0.988),
                (0.984, 0.984, 0.984, 0.832, 0.832, 0.106),
            ),
            (0.572, 0.696),
        ),
        Published("ucc", "1-10", "kde", best=0.983),
        Published("ucc2+", "2-10", "kde", best=0.982),
        Published("ucc", "1-4", "average", best=0.987),
        Published("ucc-alpha1", "1-4", "average", best=0.943),
    ),
    "cifar10": (
        *_lines(
            (
                (0.097, 0.005, 0.127, 0.002, 0.004, 0.065),
                (0.972, 0.936, 0.982, 0.920),
                (0.781, 0.545, 0.774, 0.521, 0.241, 0.833),
                (0.680, 0.502, 0.635, 0.463, 0.230, 0.464),
            ),
            (0.229, 0.247),
        ),
        Published("ucc", "1-4", "average", best=0.638),
        Published("ucc-alpha1", "1-4", "average", best=0.508),
    ),
    "cifar100": _lines(
        (
            (0.004, 0.002, 0.003, 0.003, 0.002, 0.019),
            (0.824, 0.814, 0.855, 0.837),
            (0.338, 0.278, 0.317, 0.284, 0.167, 0.563),
            (0.261, 0.225, 0.249, 0.237, 0.140, 0.328),
        ),
        (0.130, 0.136),
    ),
}
"""On labelled images: the test sets of MNIST, CIFAR-10 and CIFAR-100."""
