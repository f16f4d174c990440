"""What is known of a slide before its patches are computed, and afterwards."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ucc_path.coverage import Coverage
from ucc_path.features.cells import CellPlan
from ucc_path.mask.windows import Windows


@dataclass(frozen=True, slots=True, eq=False)
class Survey:
    """What is known of a slide before its patches are computed."""

    plan: CellPlan
    tissue: Coverage
    is_tissue: NDArray[np.bool_]  # (rows, cols) of cells
    thumbnail: NDArray[np.uint8]  # small

    @property
    def patches(self) -> int:
        return int(np.count_nonzero(self.is_tissue))


@dataclass(frozen=True, slots=True, eq=False)
class SlideMask:
    """What is known afterwards."""

    labels: NDArray[np.uint8]  # (rows, cols), 0 background
    sure: NDArray[np.uint8]  # 255 sure, 0 on the boundary between classes
    mixture: NDArray[np.uint8] | None  # 255 * P(mixture); None where the model does not count
    windows: Windows | None
    threshold: float | None  # of tumour's probability on this slide; None where that does not decide
    lost: int  # patches that could not be read
