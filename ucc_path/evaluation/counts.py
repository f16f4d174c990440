"""Predicted against true: how many pixels, or how much area, is of each of the four kinds.

A row of counts is (true positive, false positive, true negative, false negative), tumour being positive. One that is
not known, since not all tumour is outlined, is nan.
"""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
from numpy.typing import NDArray

Counts = NDArray[np.float64]  # (..., 4), columns TP, FP, TN, FN
ByLabel = NDArray[np.int64]  # (labels, 2, 2): label value, whether it is tumour, whether it is tissue

TP, FP, TN, FN = range(4)


def count(predicted: NDArray[np.bool_], truth: NDArray[np.bool_]) -> Counts:
    """The four counts of two masks of one shape.

    >>> count(np.array([True, True, False]), np.array([True, False, False])).tolist()
    [1.0, 1.0, 1.0, 0.0]
    """
    if predicted.shape != truth.shape:
        raise ValueError(f"masks of {predicted.shape} and {truth.shape} cannot be compared")
    both, found, there = (np.count_nonzero(mask) for mask in (predicted & truth, predicted, truth))
    return np.array([both, found - both, truth.size - found - there + both, there - both], np.float64)


def count_by_label(
    labels: NDArray[np.uint8], truth: NDArray[np.bool_], is_tissue: NDArray[np.bool_], *, classes: int
) -> ByLabel:
    """How many pixels have each label value, 0 to `classes`, by truth and by tissue: (classes + 1, 2, 2).

    Which of the labels mean tumour need not be known yet.
    """
    codes = labels.astype(np.intp) * 4 + truth * 2 + is_tissue
    return np.bincount(codes.reshape(-1), minlength=4 * (classes + 1)).reshape(classes + 1, 2, 2)


def counts_of(by_label: ByLabel, tumour_labels: Collection[int], *, tissue_only: bool) -> Counts:
    """The four counts once it is known which labels mean tumour; (..., labels, 2, 2) -> (..., 4)."""
    by_truth = by_label[..., 1] if tissue_only else by_label.sum(axis=-1)  # (..., labels, truth)
    is_tumour = np.isin(np.arange(by_truth.shape[-2]), list(tumour_labels))
    found, rest = by_truth[..., is_tumour, :].sum(axis=-2), by_truth[..., ~is_tumour, :].sum(axis=-2)
    return np.stack([found[..., 1], found[..., 0], rest[..., 0], rest[..., 1]], axis=-1).astype(np.float64)


def confusion(truth: NDArray[np.int64], predicted: NDArray[np.int64], size: int) -> NDArray[np.int64]:
    """How often each of `size` labels (rows) was taken for each (columns)."""
    return np.bincount(truth * size + predicted, minlength=size**2).reshape(size, size)
