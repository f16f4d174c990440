"""A slide as a stream: blocks are read, pictures gathered into full batches, batches computed, all at the same time.

What comes out are bands: all rows of cells of a band with their values, from top to bottom, whatever the number of
threads. In memory there are a few blocks and batches for each thread, and the bands at work.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ucc_path.ahead import in_order
from ucc_path.features.cells import Block, CellPlan
from ucc_path.features.engines import full_batch
from ucc_path.features.reading import Items

Compute = Callable[[NDArray[np.uint8]], NDArray[np.float32]]
"""A full batch of pictures -> values of each: (n, k) for patches, (n, rows, cols, k) for pictures."""


@dataclass(frozen=True, slots=True, eq=False)
class Band:
    """Rows of cells that follow each other."""

    first_row: int
    values: NDArray[np.float32]  # (rows, cols, k)
    is_there: NDArray[np.bool_]  # (rows, cols): cells that have values


@dataclass(frozen=True, slots=True, eq=False)
class _Batch:
    """Pictures as a network takes them, always so many; the last ones of a slide are zeros."""

    pictures: NDArray[np.uint8]
    cells: NDArray[np.int64]  # of the pictures that count
    wanted: NDArray[np.bool_]


def bands(
    plan: CellPlan,
    blocks: Iterable[Block],
    read: Callable[[Block], Items],
    compute: Compute,
    *,
    batch_size: int,
    readers: int,
    threads: int,
    on_read: Callable[[Items], None] = lambda items: None,
) -> Iterator[Band]:
    """The values of all cells of a slide, band by band; bands without tissue are there too, and empty.

    `on_read` is told of what was read before it is computed, in the thread of whoever asks for bands.
    """
    batches = _batches(in_order(read, blocks, readers), batch_size, on_read)
    computed = in_order(lambda batch: (batch, compute(batch.pictures)), batches, threads)
    open_bands = _OpenBands(plan)
    for batch, values in computed:
        yield from open_bands.take(batch, values[: len(batch.cells)])
    yield from open_bands.close()


def _batches(read: Iterator[Items], size: int, on_read: Callable[[Items], None]) -> Iterator[_Batch]:
    waiting: list[Items] = []
    for items in read:
        on_read(items)
        waiting.append(items)
        while sum(len(some.pictures) for some in waiting) >= size:
            batch, waiting = _filled(waiting, size)
            yield batch
    if any(len(some.pictures) for some in waiting):
        yield _filled(waiting, size)[0]


def _filled(waiting: list[Items], size: int) -> tuple[_Batch, list[Items]]:
    """A batch of what waits, and what is left of it."""
    only = waiting[0]
    if len(only.pictures) == size:  # a block full of tissue needs no copy
        return _Batch(only.pictures, only.cells, only.wanted), waiting[1:]
    pictures, cells, wanted = (
        np.concatenate([getattr(some, name) for some in waiting]) for name in ("pictures", "cells", "wanted")
    )
    left = [Items(pictures[size:], cells[size:], wanted[size:], 0)] if len(cells) > size else []
    return _Batch(full_batch(pictures, size), cells[:size], wanted[:size]), left


class _OpenBands:
    """Puts values into their bands; a band is closed when the first value of a later one comes."""

    def __init__(self, plan: CellPlan) -> None:
        self._plan = plan
        self._open: list[Band] = []
        self._next = 0  # number of the first band that is not open yet
        self._depth = 1

    def take(self, batch: _Batch, values: NDArray[np.float32]) -> Iterator[Band]:
        """Fills in a batch; yields the bands that are closed by it."""
        is_of_pictures = batch.wanted.ndim == 3
        self._depth = values.shape[-1]
        numbers = batch.cells[:, 0] // self._plan.band_rows
        for number in np.unique(numbers):
            while self._next <= number:
                self._open.append(self._new())
            while len(self._open) > 1:
                yield self._open.pop(0)
            band, chosen = self._open[0], numbers == number
            cells = batch.cells[chosen] - (band.first_row, 0)
            if is_of_pictures:
                for (row, col), wanted, found in zip(cells, batch.wanted[chosen], values[chosen], strict=True):
                    rows, cols = np.nonzero(wanted)
                    band.values[row + rows, col + cols] = found[rows, cols]
                    band.is_there[row + rows, col + cols] = True
            else:
                band.values[cells[:, 0], cells[:, 1]] = values[chosen]
                band.is_there[cells[:, 0], cells[:, 1]] = True

    def close(self) -> Iterator[Band]:
        """What is left, to the last row of the slide."""
        while self._next * self._plan.band_rows < self._plan.grid.rows:
            self._open.append(self._new())
        yield from self._open

    def _new(self) -> Band:
        grid, first_row = self._plan.grid, self._next * self._plan.band_rows
        self._next += 1
        shape = (min(self._plan.band_rows, grid.rows - first_row), grid.cols)
        return Band(first_row, np.zeros((*shape, self._depth), np.float32), np.zeros(shape, np.bool_))
