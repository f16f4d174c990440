"""What the head of a model says of features that are already known: of windows, of a patch and its neighbours.

The vector of a bag is made from the mean of what its instances add, so that bags of any shape and size cost a sum.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from ucc_path.model.ucc import UCC
from ucc_path.tiles.labelling import CLASSES, UCC_OF_KIND

Floats = NDArray[np.float32]


class CountHead:
    """The head of a UCC model; `labels` are what its outputs mean, and a patch has so many `features`."""

    def __init__(self, network: UCC, labels: Sequence[str], features: int) -> None:
        self._pooling = network.pooling
        self._head = copy.deepcopy(network.head).cpu().eval()  # a few bags at a time: no work for a GPU
        self.width = self._pooling.width(features)
        self.counts = np.array([_count(label) for label in labels], np.int64)  # unique classes, by output
        self._class_outputs = [labels.index(name) for name in CLASSES if name in labels]

    @property
    def tells_classes(self) -> bool:
        """Whether it was taught which class a tile is, and not only how many it holds."""
        return len(self._class_outputs) == len(CLASSES)

    def added_by(self, features: Floats) -> Floats:
        """What each patch adds to the bags it is in: (n, features) -> (n, width)."""
        with torch.no_grad():
            added: Floats = self._pooling.of_instances(torch.from_numpy(features)).numpy()
        return added

    def probabilities(self, means: Floats) -> Floats:
        """Of each label of bags, from the means of what their patches add: (bags, width) -> (bags, labels)."""
        with torch.no_grad():
            logits = self._head(self._pooling.of_bag(torch.from_numpy(np.ascontiguousarray(means, np.float32))))
            found: Floats = torch.softmax(logits, dim=1).numpy()
        return found

    def predicted(self, probabilities: Floats) -> NDArray[np.int64]:
        """The likeliest unique class count: (bags, labels) -> (bags,); labels of one count stand together."""
        counts = np.unique(self.counts)
        sums = np.stack([probabilities[:, self.counts == count].sum(axis=1) for count in counts], axis=1)
        return np.asarray(counts[sums.argmax(axis=1)], np.int64)

    def mixture(self, probabilities: Floats) -> Floats:
        """The probability that there is more than one class: (bags, labels) -> (bags,)."""
        return np.asarray(probabilities[:, self.counts > 1].sum(axis=1), np.float32)

    def classes(self, probabilities: Floats) -> Floats:
        """The probability of each class, given that there is only one: (bags, labels) -> (bags, classes)."""
        pure = probabilities[:, self._class_outputs]
        return np.asarray(pure / np.maximum(pure.sum(axis=1, keepdims=True), np.finfo(np.float32).tiny), np.float32)


def _count(label: str) -> int:
    """The unique class count that an output stands for.

    >>> _count("ucc 2"), _count("mixture")
    (2, 2)
    """
    return UCC_OF_KIND[label] if label in UCC_OF_KIND else int(label.removeprefix("ucc "))
