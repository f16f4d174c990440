"""Counts become figures: rates, accuracy and overlap. What is not defined, such as the TPR without tumour, is nan."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ucc_path.evaluation.counts import FN, FP, TN, TP, Counts, count

FIGURES = ("TPR", "FPR", "TNR", "FNR", "PA", "balanced", "IoU", "Dice")
"""In the order in which they stand in every table."""

AVERAGINGS = ("image", "pooled")
"""The mean over images of each one's figures, as the paper reports; or the figures of all pixels together."""

Figures = NDArray[np.float64]  # (..., 8), columns as in FIGURES


class Scores(NamedTuple):
    """The paper's figures of one mask."""

    tpr: float
    fpr: float
    tnr: float
    fnr: float
    pa: float


def scores(predicted: NDArray[Any], truth: NDArray[Any]) -> Scores:
    """The figures of a mask against the truth; nonzero is tumour.

    >>> scores(np.array([[1, 1], [0, 0]]), np.array([[1, 0], [0, 0]])).pa
    0.75
    """
    found = figures_of(count(np.asarray(predicted) != 0, np.asarray(truth) != 0))
    return Scores(*found[: len(Scores._fields)].tolist())


def figures_of(counts: Counts) -> Figures:
    """All figures of each row of counts: (..., 4) -> (..., 8)."""
    tp, fp, tn, fn = (counts[..., kind] for kind in (TP, FP, TN, FN))
    tpr, tnr = _ratio(tp, tp + fn), _ratio(tn, tn + fp)
    pa = _ratio(tp + tn, tp + fp + tn + fn)
    overlap, twice = _ratio(tp, tp + fp + fn), _ratio(2 * tp, 2 * tp + fp + fn)
    return np.stack([tpr, 1 - tnr, tnr, 1 - tpr, pa, (tpr + tnr) / 2, overlap, twice], axis=-1)


def average(counts: Counts, averaging: str) -> Figures:
    """The figures of many images, (images, 4) -> (8,); an image for which a figure is not defined is left out of it.

    So is a count that is not known, which is nan.
    """
    if averaging not in AVERAGINGS:
        raise ValueError(f"there is no averaging {averaging!r}")
    if averaging == "pooled":
        return figures_of(np.nansum(counts, axis=0))
    figures = figures_of(counts)
    is_defined = np.isfinite(figures)
    return _ratio(np.where(is_defined, figures, 0).sum(axis=0), is_defined.sum(axis=0))


def _ratio(part: NDArray[np.float64], whole: NDArray[np.float64] | NDArray[np.int64]) -> NDArray[np.float64]:
    found: NDArray[np.float64] = np.divide(
        part, whole, out=np.full(np.shape(part), np.nan), where=np.asarray(whole) > 0
    )
    return found
