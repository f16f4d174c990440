"""The values of a slide's cells in a file, for what can be decided only once all of them are known.

The file lies in the folder that is being written, and is removed in the end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ucc_path.features.streaming import Band

_NAME = "values.f32"


@dataclass(frozen=True, slots=True, eq=False)
class Kept:
    """Bands whose values lie in a file."""

    path: Path
    depth: int  # values of a cell
    places: tuple[tuple[int, NDArray[np.bool_]], ...]  # of each band the first row, and which cells have values

    @property
    def count(self) -> int:
        """Cells that have values."""
        return sum(int(np.count_nonzero(is_there)) for _, is_there in self.places)

    def values(self) -> NDArray[np.float32]:
        """Those of all cells, row by row, mapped into memory: (count, depth)."""
        return np.memmap(self.path, np.float32, "r", shape=(self.count, self.depth))

    def bands(self) -> Iterator[Band]:
        """The bands once more."""
        with self.path.open("rb") as file:
            for first_row, is_there in self.places:
                values = np.zeros((*is_there.shape, self.depth), np.float32)
                count = int(np.count_nonzero(is_there)) * self.depth
                values[is_there] = np.fromfile(file, np.float32, count).reshape(-1, self.depth)
                yield Band(first_row, values, is_there)


@contextmanager
def kept(
    bands: Iterable[Band], work: Path, *, depth: int, on_values: Callable[[NDArray[np.float32]], None] = lambda _: None
) -> Iterator[Kept]:
    """The first `depth` values of each cell, in a file for as long as the block lasts.

    `on_values` is told of those of each band, (n, depth).
    """
    path = work / _NAME
    places: list[tuple[int, NDArray[np.bool_]]] = []
    try:
        with path.open("wb") as file:
            for band in bands:
                values = np.ascontiguousarray(band.values[band.is_there][:, :depth])
                on_values(values)
                file.write(values.data)
                places.append((band.first_row, band.is_there))
        yield Kept(path, depth, tuple(places))
    finally:
        path.unlink(missing_ok=True)
