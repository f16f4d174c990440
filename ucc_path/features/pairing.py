"""Two engines at work on one picture: its cells have what each of them says, the one of pixels and the one of patches.

They are two networks and not one, since of a fine mask a picture has thousands of patches: put into one network, with a
part for every few of them, it would take as much memory as a slide may.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ucc_path.features.engines import Engine, Pictures, Values, full_batch
from ucc_path.features.levels import Table
from ucc_path.features.reading import PictureShape, cut


@dataclass(frozen=True, slots=True)
class PairedEngine:
    """Pictures become, for each cell of their inner part, its share of tumour and then the features of its patch."""

    shares: Engine  # (n, side, side, channels) -> (n, cells, cells, 1)
    features: Engine  # (batch_size, patch_px, patch_px, channels) -> (batch_size, features)
    shape: PictureShape
    patch_px: int
    cell_px: int
    batch_size: int  # of the patches

    @property
    def name(self) -> str:
        """Where one of them can only be computed by another engine than the other, both are named."""
        return " and ".join(dict.fromkeys((self.shares.name, self.features.name)))

    def __call__(self, pictures: Pictures, table: Table) -> Values:
        """(n, side, side, channels) -> (n, cells, cells, 1 + features)."""
        shares = self.shares(pictures, table)
        features = np.stack([self._features(picture, table) for picture in pictures])
        return np.concatenate([shares, features.reshape(*shares.shape[:3], -1)], axis=-1)

    def _features(self, picture: Pictures, table: Table) -> Values:
        """(side, side, channels) -> (cells * cells, features), a batch at a time, the last filled up with zeros."""
        cells = self.shape.core_px // self.cell_px
        before = (self.patch_px - self.cell_px) // 2  # a patch lies around its cell
        rows, cols = np.divmod(np.arange(cells * cells), cells)
        tops, lefts = (self.shape.margin_px - before + self.cell_px * places for places in (rows, cols))
        found = []
        for first in range(0, cells * cells, self.batch_size):
            chosen = slice(first, first + self.batch_size)
            patches = cut(picture, tops[chosen], lefts[chosen], self.patch_px)
            found.append(self.features(full_batch(patches, self.batch_size), table)[: len(patches)])
        return np.concatenate(found)
