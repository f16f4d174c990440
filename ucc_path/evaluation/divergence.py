"""How far the features of two classes lie apart: the Jensen-Shannon divergence of their distributions.

The paper does not say how it is taken. Here: of each feature by itself, its kernel density at the model's bins divided
by its sum, natural logarithm, then the mean over features. It runs from 0, alike, to ln 2 = 0.693, nothing in common.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from ucc_path.model.pooling import KernelDensity

Densities = NDArray[np.float64]  # (classes, features, bins)


class ClassDensities:
    """The distribution of each feature in each class, added up patch by patch."""

    def __init__(self, classes: int, features: int, *, bins: int, sigma: float) -> None:
        self._kernel = KernelDensity(bins, sigma)
        self._sums = np.zeros((classes, features, bins))
        self.patches = np.zeros(classes, np.int64)

    def add(self, features: NDArray[np.float32], classes: NDArray[np.int64]) -> None:
        """Patches (n, features), each of a class (n,)."""
        for place in np.unique(classes):
            chosen = features[classes == place]
            with torch.no_grad():
                added = self._kernel.of_instances(torch.from_numpy(chosen)).sum(dim=0, dtype=torch.float64)
            self._sums[place] += added.numpy().reshape(self._sums.shape[1:])
            self.patches[place] += len(chosen)

    def result(self) -> Densities:
        """Densities that add up to 1 over the bins; nan for a class without patches, or with none near a bin."""
        sums = self._sums.sum(axis=2, keepdims=True)
        found: Densities = np.divide(self._sums, sums, out=np.full(self._sums.shape, np.nan), where=sums > 0)
        return found


def jensen_shannon(densities: Densities) -> NDArray[np.float64]:
    """The divergence of each pair of classes, (classes, classes), in nats; nan where one has no patches."""
    classes = len(densities)
    found = np.diag(np.where(np.isfinite(densities).all(axis=(1, 2)), 0.0, np.nan))
    for one in range(classes):
        for other in range(one + 1, classes):
            middle = (densities[one] + densities[other]) / 2
            halves = [_relative_entropy(densities[each], middle) for each in (one, other)]
            found[one, other] = found[other, one] = np.mean(halves)
    return found


def _relative_entropy(p: NDArray[np.float64], q: NDArray[np.float64]) -> NDArray[np.float64]:
    """Of each feature, (features,): where p is 0 nothing is added."""
    logs = np.log(np.divide(p, q, out=np.ones_like(p), where=p > 0))
    return np.asarray((p * logs).sum(axis=1))
