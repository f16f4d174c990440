"""Means over cases and seeds, with intervals from cases, and seeds within a case, drawn again."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

DRAWS = 10_000
CONFIDENCE = 0.95


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean and its interval; without one where there is a single value."""

    mean: float
    low: float
    high: float
    cases: int
    values: int  # of all cases together

    @property
    def has_interval(self) -> bool:
        return self.values > 1


def estimate(by_case: Mapping[str, Sequence[float]], *, draws: int = DRAWS, seed: int = 0) -> Estimate:
    """The mean over cases of the mean over a case's seeds; values that are not finite do not count."""
    finite = [[value for value in by_case[case] if math.isfinite(value)] for case in sorted(by_case)]
    cases = [np.array(values) for values in finite if values]
    if not cases:
        return Estimate(math.nan, math.nan, math.nan, 0, 0)
    rng = np.random.default_rng(seed)
    n = len(cases)
    chosen = rng.integers(n, size=(draws, n))
    means = np.empty((draws, n))
    for place, values in enumerate(cases):
        # Of each case as many means as it may be drawn, each of its seeds drawn again.
        again = values[rng.integers(len(values), size=(draws, n, len(values)))].mean(axis=2)  # (draws, n)
        means = np.where(chosen == place, again, means)
    rest = (1 - CONFIDENCE) / 2
    low, high = np.quantile(means.mean(axis=1), [rest, 1 - rest])
    mean = float(np.mean([values.mean() for values in cases]))
    return Estimate(mean, float(low), float(high), n, sum(len(values) for values in cases))
