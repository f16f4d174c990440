"""Many values become few: the axes along which rows differ most."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits


def principal_axes(rows: NDArray[np.float32], count: int) -> NDArray[np.float32]:
    """The `count` axes along which rows (n, values) of mean 0 are spread most, (values, axes); fewer where it has less.

    >>> principal_axes(np.array([[3.0, 0], [-3, 0], [0, 1], [0, -1]], np.float32), 1).round(6) ** 2
    array([[1.],
           [0.]], dtype=float32)
    """
    with threadpool_limits(1):  # sums in one order
        wide = rows.astype(np.float64)
        _, axes = np.linalg.eigh(wide.T @ wide)  # from the least on
    return np.asarray(axes[:, ::-1][:, :count], np.float32)
