"""Bytes as a network takes them, by a table: of one slide, each level of each channel always becomes the same number.

To look a number up costs a tenth of computing its logarithm, and every engine can do it.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from ucc_path.model.preparing import Preparation

LEVELS = 256

Table = NDArray[np.float32]


def table_of(preparation: Preparation, stain: NDArray[np.float32] | None, channels: int) -> Table:
    """What each level of each channel becomes, (channels * 256,), by what a network was trained with.

    `stain` is the slide's standard (3, 4), which changes each channel by itself.
    """
    every_level = torch.arange(LEVELS, dtype=torch.uint8)[None, :, None, None].expand(1, LEVELS, 1, channels)
    change = None if stain is None else torch.from_numpy(stain)[None]
    with torch.no_grad():
        values: Tensor = preparation.cpu()(every_level, change)  # -> (1, channels, 256, 1)
    return values.reshape(channels * LEVELS).numpy()


class FromLevels(nn.Module):
    """A network that takes bytes (n, side, side, channels) and the table of their slide."""

    offsets: Tensor

    def __init__(self, network: nn.Module, channels: int) -> None:
        super().__init__()
        self.network = network
        self.register_buffer("offsets", LEVELS * torch.arange(channels, dtype=torch.int32))

    def forward(self, pictures: Tensor, table: Tensor) -> Tensor:
        """The view has channels last in memory, which is what convolutions are quickest with."""
        values = torch.index_select(table, 0, (pictures.int() + self.offsets).flatten())
        result: Tensor = self.network(values.view(pictures.shape).movedim(-1, 1))
        return result
