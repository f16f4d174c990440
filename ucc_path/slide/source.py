"""What a slide needs of its file, whatever reads it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Pair = tuple[float, float]


class Source(Protocol):
    """What a slide needs of its file."""

    is_spent: bool  # whether it must be opened anew before it can be read again
    vendor: str
    size_l0: tuple[int, int]
    level_sizes: tuple[tuple[int, int], ...]
    downsamples: tuple[float, ...]
    properties: Mapping[str, str]

    def read_level(
        self, level: int, first_col: int, first_row: int, cols: int, rows: int
    ) -> tuple[NDArray[np.uint8], Pair]:
        """RGB of pixels of a stored level, white beyond its edge.

        And by how many of its pixels they lie right of and below the place asked for.
        """

    def close(self) -> None: ...
