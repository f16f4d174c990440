"""Pixels become what a network takes: floats about zero, on the device."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn


class Preparation(nn.Module):
    """Bytes (..., side, side, channels) become floats (..., channels, side, side), less `mean` and divided by `std`.

    With `colours` "light" that is done to the light, from 0 to 1; with "slide" to its optical density, where each
    slide's own standard, if given, takes the place of mean and std.
    """

    mean: Tensor
    std: Tensor

    def __init__(self, colours: str, mean: Sequence[float], std: Sequence[float]) -> None:
        super().__init__()
        self.colours = colours
        self.variance = sum(value**2 for value in std) / len(std)  # of light or density, the mean of all channels
        self.register_buffer("mean", torch.tensor(mean, dtype=torch.float32))
        self.register_buffer("std", torch.tensor(std, dtype=torch.float32))

    def forward(self, pixels: Tensor, stain: Tensor | None = None) -> Tensor:
        """`stain` is (n, 3, 4) for the n of the first axis: a matrix on optical density, and a shift.

        The result is a view with channels last in memory, which is what convolutions are quickest with.
        """
        if self.colours == "light":
            return ((pixels.float() / 255 - self.mean) / self.std).movedim(-1, -3)
        density = -torch.log10(pixels.float().clamp(min=1) / 255)  # Beer and Lambert: what the stain has taken away
        if stain is None:
            return ((density - self.mean) / self.std).movedim(-1, -3)
        flat = density.flatten(1, -2)  # -> (n, pixels, 3)
        with torch.autocast(pixels.device.type, enabled=False):  # the same pixels, whether to learn from or to judge
            changed = torch.baddbmm(stain[:, None, :, 3], flat, stain[:, :, :3].transpose(1, 2))
        return changed.view_as(density).movedim(-1, -3)
