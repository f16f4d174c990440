"""How far figures would vary with other images, or other slides: percentiles of figures of images drawn again.

Images of one slide are alike, so that to draw images one by one promises too much; where there are several slides,
whole slides are drawn as well. All models are judged on the same draws.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from ucc_path.evaluation.counts import Counts
from ucc_path.evaluation.scores import AVERAGINGS, FIGURES, Figures, figures_of
from ucc_path.seeding import stream

_WEIGHTS_AT_ONCE = 2**20  # some 32 MB, however many images there are


def intervals(
    tables: Sequence[Counts], groups: NDArray[np.int64], *, resamples: int, confidence: float, seed: int
) -> NDArray[np.float64]:
    """Low and high of every figure of each table: (tables, 2 averagings, 2, 8).

    `tables` are counts (images, 4) of the same images; `groups` (images,) says which are drawn together, from 0.
    """
    drawn = np.concatenate(list(_draws(tables, groups, resamples, seed)))  # (resamples, tables, averagings, 8)
    edges = [(1 - confidence) / 2, (1 + confidence) / 2]
    return np.moveaxis(_percentiles(drawn, edges), 0, 2)


def _draws(tables: Sequence[Counts], groups: NDArray[np.int64], resamples: int, seed: int) -> Iterator[Figures]:
    images, count = len(groups), int(groups.max()) + 1
    columns = np.concatenate([_columns(table) for table in tables], axis=1)
    rng = stream(seed, "intervals")
    at_once = max(1, _WEIGHTS_AT_ONCE // max(images, count))
    for first in range(0, resamples, at_once):
        draws = min(at_once, resamples - first)
        taken = rng.integers(0, count, (draws, count)) + count * np.arange(draws)[:, None]
        times = np.bincount(taken.reshape(-1), minlength=draws * count).reshape(draws, count)
        sums = times[:, groups].astype(np.float64) @ columns
        yield _figures(sums.reshape(draws, len(tables), -1))


def _columns(counts: Counts) -> NDArray[np.float64]:
    """What is to be added up over images: the counts, the figures, and whether each is defined; (images, 20)."""
    figures = figures_of(counts)
    is_defined = np.isfinite(figures)
    return np.concatenate([np.nan_to_num(counts), np.where(is_defined, figures, 0), is_defined], axis=1)


def _figures(sums: NDArray[np.float64]) -> Figures:
    """(..., 20) -> (..., 2 averagings, 8)."""
    width = len(FIGURES)
    counts, figures, defined = np.split(sums, [4, 4 + width], axis=-1)
    means = np.divide(figures, defined, out=np.full(figures.shape, np.nan), where=defined > 0)
    by_averaging = {"image": means, "pooled": figures_of(counts)}
    return np.stack([by_averaging[name] for name in AVERAGINGS], axis=-2)


def _percentiles(drawn: NDArray[np.float64], edges: Sequence[float]) -> NDArray[np.float64]:
    """Of the draws in which a figure is defined; nan where it never is."""
    ordered = np.sort(drawn, axis=0)  # nan comes last
    defined = np.isfinite(drawn).sum(axis=0)
    found = []
    for edge in edges:
        place = edge * np.maximum(defined - 1, 0)
        below = np.floor(place).astype(np.int64)
        above = np.minimum(below + 1, np.maximum(defined - 1, 0))
        low, high = (np.take_along_axis(ordered, at[None], 0)[0] for at in (below, above))
        found.append(low + (place - below) * (high - low))
    return np.stack(found)
