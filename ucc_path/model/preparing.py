"""Pixels become what a network takes: floats about zero, on the device, with the stain changed where that is asked."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn


class Preparation(nn.Module):
    """Bytes (..., side, side, channels) become floats (..., channels, side, side), (x / 255 - mean) / std."""

    mean: Tensor
    std: Tensor

    def __init__(self, mean: Sequence[float], std: Sequence[float]) -> None:
        super().__init__()
        self.register_buffer("mean", torch.tensor(mean, dtype=torch.float32))
        self.register_buffer("std", torch.tensor(std, dtype=torch.float32))

    def forward(self, pixels: Tensor, stain: Tensor | None = None) -> Tensor:
        """`stain` is (n, channels, channels + 1) for the n of the first axis: a matrix on optical density and a shift.

        The result is a view with channels last in memory, which is what convolutions are quickest with.
        """
        light = pixels.float() / 255
        if stain is not None:
            light = _stained(light, stain)
        return ((light - self.mean) / self.std).movedim(-1, -3)


def _stained(light: Tensor, stain: Tensor) -> Tensor:
    """Light as it would be had the stains been taken up more or less: Beer and Lambert's law."""
    density = -torch.log10(light.clamp(min=1 / 255)).flatten(1, -2)  # -> (n, pixels, channels)
    changed = torch.baddbmm(stain[:, None, :, -1], density, stain[:, :, :-1].transpose(1, 2))
    return torch.pow(10, -changed).clamp(max=1).view_as(light)
