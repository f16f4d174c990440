"""From probabilities to a decision: kept in a file, and decided once the slide's own threshold is known."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ucc_path.features.streaming import Band
from ucc_path.mask.deciding import ByShare
from ucc_path.mask.thresholds import count_normal, threshold_of
from ucc_path.workflows.segment.keeping import kept


@contextmanager
def adapted(bands: Iterable[Band], work: Path, *, strength: float) -> Iterator[tuple[Iterator[Band], ByShare]]:
    """All bands once more, with the first of their values alone, and the decision by this slide's own threshold.

    `strength` is how far the threshold goes along with the slide.
    """
    counts = count_normal(np.zeros(0, np.float32))

    def count(values: NDArray[np.float32]) -> None:
        np.add(counts, count_normal(values[:, 0]), out=counts)

    with kept(bands, work, depth=1, on_values=count) as stored:
        yield stored.bands(), ByShare(threshold_of(counts, strength))
