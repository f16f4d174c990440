"""Where tissue is mixed: what the model counts in windows of the slide, and where that contradicts the mask.

Windows are made of *squares*, a quarter of a window wide. What the patches of a square add to a bag is summed once; a
window's bag is the sum over its squares, so that a window around every square costs little more than windows side by
side.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from ucc_path.features.streaming import Band

Floats = NDArray[np.float32]
Sums = NDArray[np.float64]  # (squares, width + 1): what the patches of each add, and how many they are

SQUARES_A_WINDOW = 4  # along its side
_AT_ONCE = 2**13  # patches whose additions are in memory, of a few hundred numbers each
_MIN_SHARE = 0.25  # of a window's patches that must be tissue: fewer are no bag to be judged


class Head(Protocol):
    """What a model says of bags, from the mean of what their patches add."""

    width: int

    def added_by(self, features: Floats) -> Floats: ...

    def probabilities(self, means: Floats) -> Floats: ...

    def mixture(self, probabilities: Floats) -> Floats: ...

    def predicted(self, probabilities: Floats) -> NDArray[np.int64]: ...


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
    """Takes the bands of a slide in order, and judges the window around every square as soon as its last row has come.

    In memory there are the sums of one window's rows of squares.
    """

    def __init__(self, head: Head, shape: tuple[int, int], *, window_cells: int) -> None:
        self._head, self._shape = head, shape
        self._side = max(1, window_cells // SQUARES_A_WINDOW)  # of a square, in cells
        self._window = max(1, window_cells // self._side)  # of a window, in squares
        self._enough = _MIN_SHARE * (self._window * self._side) ** 2
        self._above = self._window // 2
        self._below = self._window - 1 - self._above
        self._rows, self._cols = -(-shape[0] // self._side), -(-shape[1] // self._side)
        self._mixture = np.zeros((self._rows, self._cols), np.uint8)  # by square
        self._row: Sums = self._nothing(self._cols)  # of squares, being filled
        self._last: deque[_Row] = deque()
        self._taken = self._judged = 0  # rows of squares
        self._aside: Sums = self._nothing(-(-self._cols // self._window))  # of windows side by side
        self._found: list[tuple[NDArray[np.int64], NDArray[np.int64]]] = []
        self._waiting: list[tuple[int, NDArray[np.int64], Floats]] = []  # row, squares, means: windows to ask about

    def take(self, band: Band) -> None:
        """Adds a band."""
        # The model is asked for many patches at once, since a call is dear; not for a whole band, which may be large.
        values = band.values[band.is_there]
        parts = (self._head.added_by(values[at : at + _AT_ONCE]) for at in range(0, len(values), _AT_ONCE))
        added = next(parts, None)
        end, first = band.first_row + len(band.values), band.first_row
        while first < end:
            after = min((first // self._side + 1) * self._side, end)  # the part of a row of squares that is in the band
            squares = np.nonzero(band.is_there[first - band.first_row : after - band.first_row])[1] // self._side
            while len(squares) and added is not None:
                count = min(len(squares), len(added))
                self._add(squares[:count], added[:count])
                squares, added = squares[count:], added[count:] if count < len(added) else next(parts, None)
            if after % self._side == 0 or after == self._shape[0]:
                self._close_row()
            first = after
        self._ask()

    def finish(self) -> tuple[NDArray[np.uint8], Windows]:
        """After the last band: 255 * P(mixture) of every cell, (rows, cols), and the windows side by side."""
        while self._judged < self._taken:
            self._judge_next()
        self._ask()
        cells, predicted = ([part[place] for part in self._found] for place in (0, 1))
        windows = Windows(
            np.concatenate([np.zeros((0, 2), np.int64), *cells]),
            self._window * self._side,
            np.concatenate([np.zeros(0, np.int64), *predicted]),
        )
        rows, cols = (np.arange(cells) // self._side for cells in self._shape)
        return self._mixture[rows[:, None], cols], windows

    def _nothing(self, squares: int) -> Sums:
        return np.zeros((squares, self._head.width + 1))

    def _add(self, squares: NDArray[np.int64], added: Floats) -> None:
        """Adds what patches add to the squares of the row that is being filled."""
        if len(squares):
            order = np.argsort(squares, kind="stable")
            places, starts, counts = np.unique(squares[order], return_index=True, return_counts=True)
            self._row[places, :-1] += np.add.reduceat(added[order], starts, axis=0)
            self._row[places, -1] += counts

    def _close_row(self) -> None:
        row = self._row
        self._aside += np.add.reduceat(row, np.arange(0, self._cols, self._window), axis=0)
        has_tissue = row[:, -1] > 0
        self._last.append(_Row(has_tissue, _box_sums(row, self._above, self._below) if has_tissue.any() else None))
        self._row = self._nothing(self._cols)
        self._taken += 1
        if self._taken % self._window == 0 or self._taken == self._rows:
            self._judge_aside()
        if self._taken - self._judged > self._below:
            self._judge_next()

    def _judge_aside(self) -> None:
        places = np.flatnonzero(self._aside[:, -1] >= self._enough)
        if len(places):
            row = (self._taken - 1) // self._window
            cells = np.column_stack([np.full(len(places), row), places]) * (self._window * self._side)
            self._found.append((cells, self._head.predicted(self._head.probabilities(_means(self._aside[places])))))
        self._aside = self._nothing(len(self._aside))

    def _judge_next(self) -> None:
        """The row of squares whose windows are complete, or will have no more rows."""
        first = self._taken - len(self._last)  # number of the first row that is kept
        number, self._judged = self._judged, self._judged + 1
        around = list(self._last)[max(0, number - self._above - first) : number + self._below + 1 - first]
        has_tissue = self._last[number - first].has_tissue
        if has_tissue.any():
            total = self._nothing(self._cols)
            for row in around:
                if row.boxes is not None:
                    total += row.boxes
            places = np.flatnonzero(has_tissue & (total[:, -1] >= self._enough))
            if len(places):
                self._waiting.append((number, places, _means(total[places])))
        for _ in range(self._judged - self._above - first):  # too far above what comes next
            self._last.popleft()

    def _ask(self) -> None:
        """What the model says of the windows that wait."""
        if self._waiting:
            means = np.concatenate([part for _, _, part in self._waiting])
            mixture = np.rint(255 * np.clip(self._head.mixture(self._head.probabilities(means)), 0, 1)).astype(np.uint8)
            first = 0
            for number, places, _ in self._waiting:
                self._mixture[number, places] = mixture[first : first + len(places)]
                first += len(places)
            self._waiting.clear()


class _Row(NamedTuple):
    """A row of squares: which hold tissue, and sums over the columns of the window around each; None without tissue."""

    has_tissue: NDArray[np.bool_]
    boxes: Sums | None


def _means(sums: Sums) -> Floats:
    return np.asarray(sums[:, :-1] / sums[:, -1:], np.float32)


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
