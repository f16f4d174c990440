"""Where tissue is mixed: what the model counts in windows of the slide, and where that contradicts the mask.

Windows are made of *squares* a patch wide. What the patches of a square add to a bag is summed once; a window's bag is
the sum over its squares, so that a window around every square costs little more than windows side by side.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from ucc_path.features.streaming import Band

Floats = NDArray[np.float32]
Sums = NDArray[np.float64]  # (squares, width + 1): what the patches of each add, and how many they are

_MIN_SHARE = 0.25  # of a window's patches that must be tissue: fewer are no bag to be judged


class Head(Protocol):
    """What a model says of bags, from the mean of what their patches add."""

    width: int
    counts: NDArray[np.int64]

    def added_by(self, features: Floats) -> Floats: ...

    def probabilities(self, means: Floats) -> Floats: ...

    def mixture(self, probabilities: Floats) -> Floats: ...


@dataclass(frozen=True, slots=True, eq=False)
class Windows:
    """Windows side by side in which the model has counted."""

    cells: NDArray[np.int64]  # (n, 2): (row, col) of the first cell of each
    side_cells: int
    predicted: NDArray[np.int64]  # (n,) unique classes


@dataclass(frozen=True, slots=True, eq=False)
class Disagreements:
    """Those of the windows in which the mask does not hold as many classes as the model counts."""

    cells: NDArray[np.int64]
    side_cells: int
    predicted: NDArray[np.int64]
    in_mask: NDArray[np.int64]


class WindowMap:
    """Takes the bands of a slide in order; `mixture` is then the probability of a mixture around every cell.

    In memory there are the sums of one window's rows of squares.
    """

    def __init__(self, head: Head, shape: tuple[int, int], *, cells_a_square: int, squares_a_window: int) -> None:
        self._head, self._side, self._window = head, cells_a_square, squares_a_window
        self._enough = _MIN_SHARE * (squares_a_window * cells_a_square) ** 2
        self._above = squares_a_window // 2
        self._below = squares_a_window - 1 - self._above
        self._rows, self._cols = -(-shape[0] // cells_a_square), -(-shape[1] // cells_a_square)
        self._shape = shape
        self._squares = np.zeros((self._rows, self._cols), np.uint8)
        self._boxes: list[Sums] = []  # of the last rows: sums over the columns of the window around each square
        self._has_tissue: list[NDArray[np.bool_]] = []
        self._taken = self._judged = 0  # rows of squares
        self._aside: Sums = self._nothing(-(-self._cols // squares_a_window))  # of windows side by side
        self._windows: list[tuple[NDArray[np.int64], NDArray[np.int64]]] = []

    def take(self, band: Band) -> None:
        """Adds a band, whose rows must be whole squares unless it is the last."""
        for top in range(0, len(band.values), self._side):
            rows = slice(top, top + self._side)
            sums = self._sums(band.values[rows], band.is_there[rows])
            self._aside += np.add.reduceat(sums, np.arange(0, self._cols, self._window), axis=0)
            self._boxes.append(_box_sums(sums, self._above, self._below))
            self._has_tissue.append(sums[:, -1] > 0)
            self._taken += 1
            if self._taken % self._window == 0 or self._taken == self._rows:
                self._judge_aside()
            if self._taken - self._judged > self._below:
                self._judge_next()

    def finish(self) -> tuple[NDArray[np.uint8], Windows]:
        """After the last band: 255 * P(mixture) of every cell, (rows, cols), and the windows side by side."""
        while self._judged < self._taken:
            self._judge_next()
        cells, predicted = ([part[place] for part in self._windows] for place in (0, 1))
        windows = Windows(
            np.concatenate([np.zeros((0, 2), np.int64), *cells]),
            self._window * self._side,
            np.concatenate([np.zeros(0, np.int64), *predicted]),
        )
        if self._side == 1:
            return self._squares, windows
        every = self._squares.repeat(self._side, axis=0)[: self._shape[0]]
        return every.repeat(self._side, axis=1)[:, : self._shape[1]], windows

    def _nothing(self, squares: int) -> Sums:
        return np.zeros((squares, self._head.width + 1))

    def _sums(self, values: Floats, is_there: NDArray[np.bool_]) -> Sums:
        """A row of squares, from its rows of cells."""
        sums = self._nothing(self._cols)
        cols = np.nonzero(is_there)[1] // self._side
        if len(cols):
            np.add.at(sums[:, -1], cols, 1)
            added = self._head.added_by(values[is_there])
            if self._side == 1:
                sums[cols, :-1] = added
            else:
                np.add.at(sums[:, :-1], cols, added)
        return sums

    def _judge_aside(self) -> None:
        places = np.flatnonzero(self._aside[:, -1] >= self._enough)
        if len(places):
            predicted = self._head.counts[self._probabilities(self._aside[places]).argmax(axis=1)]
            row = (self._taken - 1) // self._window
            cells = np.column_stack([np.full(len(places), row), places]) * (self._window * self._side)
            self._windows.append((cells, predicted))
        self._aside = self._nothing(len(self._aside))

    def _judge_next(self) -> None:
        """The row of squares whose windows are complete, or will have no more rows."""
        first = self._taken - len(self._boxes)  # the row of the first box
        row, self._judged = self._judged, self._judged + 1
        boxes = self._boxes[max(0, row - self._above - first) : row + self._below + 1 - first]
        total = np.sum(boxes, axis=0)
        places = np.flatnonzero(self._has_tissue[row - first] & (total[:, -1] >= self._enough))
        if len(places):
            mixture = self._head.mixture(self._probabilities(total[places]))
            self._squares[row, places] = np.rint(255 * np.clip(mixture, 0, 1)).astype(np.uint8)
        for _ in range(self._judged - self._above - first):  # too far above what comes next
            del self._boxes[0], self._has_tissue[0]

    def _probabilities(self, sums: Sums) -> Floats:
        return self._head.probabilities((sums[:, :-1] / sums[:, -1:]).astype(np.float32))


def _box_sums(sums: Sums, before: int, after: int) -> Sums:
    """For each square of a row the sum from so many before it to so many after it."""
    totals = np.concatenate([np.zeros((1, sums.shape[1])), np.cumsum(sums, axis=0)])
    places = np.arange(len(sums))
    box: Sums = totals[np.minimum(places + after + 1, len(sums))] - totals[np.maximum(places - before, 0)]
    box[:, -1] = np.rint(box[:, -1])
    return box


def disagreements(windows: Windows, labels: NDArray[np.uint8], min_class_share: float) -> Disagreements:
    """Windows for a person to look at; a class counts where it has this share of the window's cells that have one."""
    in_mask = np.empty(len(windows.cells), np.int64)
    for place, (row, col) in enumerate(windows.cells):
        window = labels[row : row + windows.side_cells, col : col + windows.side_cells]
        counts = np.bincount(window.ravel(), minlength=2)[1:]
        in_mask[place] = np.count_nonzero(counts >= np.maximum(1, min_class_share * counts.sum()))
    differ = in_mask != windows.predicted
    return Disagreements(windows.cells[differ], windows.side_cells, windows.predicted[differ], in_mask[differ])
