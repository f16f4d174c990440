"""The values of cells become their classes: by cluster centres, by what a network says, or by its head.

A decision gives each cell its class, from 1, and how sure that is, from 0 on the boundary between two classes to 1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from ucc_path.clusters import margins
from ucc_path.features.streaming import Band

Floats = NDArray[np.float32]


class Decided(NamedTuple):
    """Of n cells."""

    classes: NDArray[np.int64]  # (n,) from 0
    sure: Floats  # (n,) from 0 to 1


class ClassHead(Protocol):
    """A head that tells classes."""

    width: int

    def added_by(self, features: Floats) -> Floats: ...

    def probabilities(self, means: Floats) -> Floats: ...

    def classes(self, probabilities: Floats) -> Floats: ...


@dataclass(frozen=True, slots=True, eq=False)
class Surroundings:
    """A band with the rows above and below it that a decision looks at; fewer at the edges of the slide."""

    band: Band
    values: Floats  # (above + rows + below, cols, k)
    is_there: NDArray[np.bool_]
    above: int


class Decision(Protocol):
    """How the cells of a band get their classes."""

    @property
    def reach(self) -> int:
        """Rows above and below the band that it looks at."""

    def __call__(self, around: Surroundings) -> Decided:
        """Of the cells of the band that have values, row by row."""


@dataclass(frozen=True, slots=True, eq=False)
class ByCentroids:
    """The class of the nearest of the cluster centres; each is a class by itself, unless `classes` says otherwise."""

    centroids: Floats
    classes: NDArray[np.int64] | None = None  # (centroids,)
    reach: int = 0

    def __call__(self, around: Surroundings) -> Decided:
        return Decided(*margins(around.band.values[around.band.is_there], self.centroids, self.classes))


@dataclass(frozen=True, slots=True, eq=False)
class ByProbability:
    """The likeliest class; `probabilities` makes (n, classes) of (n, k) values."""

    probabilities: Callable[[Floats], Floats]
    reach: int = 0

    def __call__(self, around: Surroundings) -> Decided:
        return likeliest(self.probabilities(around.band.values[around.band.is_there]))


@dataclass(frozen=True, slots=True)
class ByShare:
    """The second of two classes where the first value of a cell, which is its probability, is above a threshold."""

    threshold: float = 0.5
    reach: int = 0

    def __call__(self, around: Surroundings) -> Decided:
        shares = around.band.values[around.band.is_there][:, 0]
        is_second = shares > self.threshold
        # As sure as a probability can be on either side of the threshold.
        ahead = np.where(is_second, shares - self.threshold, self.threshold - shares)
        room = np.where(is_second, 1 - self.threshold, self.threshold)
        return Decided(is_second.astype(np.int64), np.clip(ahead / room, 0, 1).astype(np.float32))


@dataclass(frozen=True, slots=True, eq=False)
class ByHead:
    """What the head says of a bag: the patch and those around it that do not overlap, `neighbours` to each side."""

    head: ClassHead
    neighbours: int
    cells_a_patch: int

    @property
    def reach(self) -> int:
        return self.neighbours * self.cells_a_patch

    def __call__(self, around: Surroundings) -> Decided:
        found = [self._row(around, row) for row in range(len(around.band.values)) if around.band.is_there[row].any()]
        if not found:
            return Decided(np.zeros(0, np.int64), np.zeros(0, np.float32))
        return Decided(*(np.concatenate(part) for part in zip(*found, strict=True)))

    def _row(self, around: Surroundings, row: int) -> Decided:
        steps = self.cells_a_patch * np.arange(-self.neighbours, self.neighbours + 1)
        cols = np.flatnonzero(around.band.is_there[row])
        sums, counts = np.zeros((len(cols), self.head.width)), np.zeros(len(cols))
        for other in around.above + row + steps:
            if not 0 <= other < len(around.values):
                continue
            there = np.flatnonzero(around.is_there[other])
            added = self.head.added_by(around.values[other, there])
            for step in steps:
                # Which of the cells in that row, if any, lies `step` beside each of ours.
                place = np.minimum(np.searchsorted(there, cols + step), max(len(there) - 1, 0))
                is_there = there[place] == cols + step if len(there) else np.zeros(len(cols), np.bool_)
                sums[is_there] += added[place[is_there]]
                counts += is_there
        means = (sums / counts[:, None]).astype(np.float32)
        return likeliest(self.head.classes(self.head.probabilities(means)))


@dataclass(slots=True, eq=False)
class InOrder:
    """Classes that are known already, for all cells that have values, row by row."""

    known: Decided
    reach: int = 0
    _taken: int = 0

    def __call__(self, around: Surroundings) -> Decided:
        first = self._taken
        self._taken += int(np.count_nonzero(around.band.is_there))
        rows = slice(first, self._taken)
        return Decided(self.known.classes[rows], self.known.sure[rows])


def likeliest(probabilities: Floats) -> Decided:
    """The class with the highest of (n, classes), the first of equals; sure by how far it is ahead of the next."""
    classes = probabilities.argmax(axis=1)
    ordered = np.sort(probabilities, axis=1)
    return Decided(classes, np.clip(ordered[:, -1] - ordered[:, -2], 0, 1).astype(np.float32))


def decide(
    bands: Iterable[Band], decision: Decision, shape: tuple[int, int]
) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """Label values (rows, cols), 0 where there is no value, and 255 * how sure each is."""
    labels, sure = np.zeros(shape, np.uint8), np.zeros(shape, np.uint8)
    for around in with_surroundings(bands, decision.reach):
        decided = decision(around)
        rows = slice(around.band.first_row, around.band.first_row + len(around.band.values))
        labels[rows][around.band.is_there] = decided.classes + 1
        sure[rows][around.band.is_there] = np.rint(255 * decided.sure).astype(np.uint8)
    return labels, sure


def with_surroundings(bands: Iterable[Band], reach: int) -> Iterator[Surroundings]:
    """Each band as soon as the rows below it that it needs have come."""
    waiting: list[Band] = []
    above: Band | None = None  # the last rows of what was given away
    for band in bands:
        waiting.append(band)
        while waiting and sum(len(below.values) for below in waiting[1:]) >= reach:
            around, above = _around(above, waiting, reach)
            del waiting[0]
            yield around
    while waiting:
        around, above = _around(above, waiting, reach)
        del waiting[0]
        yield around


def _around(above: Band | None, waiting: list[Band], reach: int) -> tuple[Surroundings, Band | None]:
    """The first of those that wait, with its surroundings, and what will lie above the next one."""
    band = waiting[0]
    if reach == 0:
        return Surroundings(band, band.values, band.is_there, 0), None
    before = [] if above is None else [above]
    values, is_there = (
        np.concatenate([getattr(some, name) for some in (*before, *waiting)]) for name in ("values", "is_there")
    )
    first = 0 if above is None else len(above.values)
    end = first + len(band.values)
    kept = slice(max(0, end - reach), end)
    around = Surroundings(band, values[: end + reach], is_there[: end + reach], first)
    return around, Band(band.first_row, values[kept], is_there[kept])
