"""Pixels become what a network takes: floats about zero, on the device."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional

_REACH = 2  # of a blur, in widths of its Gaussian; beyond there is a twentieth of it


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


def blurred(images: Tensor, blur_px: Tensor) -> Tensor:
    """Images (n, channels, side, side), each out of focus by a Gaussian of its own width (n,); with 0 as it is.

    The widths are on the CPU: which images are left alone is then known without waiting for a GPU.
    """
    chosen = torch.nonzero(blur_px).flatten()
    if not len(chosen):
        return images
    width_px = blur_px[chosen].unsqueeze(1)
    reach = math.ceil(_REACH * float(width_px.max()))
    kernels = torch.exp(-((torch.arange(-reach, reach + 1) / width_px) ** 2) / 2)
    kernels = (kernels / kernels.sum(1, keepdim=True)).repeat_interleave(images.shape[1], 0).to(images.device)
    chosen = chosen.to(images.device)
    planes = functional.pad(images[chosen].flatten(0, 1).unsqueeze(0), (reach,) * 4, mode="replicate")
    for kernel in (kernels[:, None, :, None], kernels[:, None, None, :]):  # down, then across
        planes = functional.conv2d(planes, kernel, groups=len(kernels))
    images = images.clone()  # laid out in memory as they were
    images[chosen] = planes.view(len(chosen), *images.shape[1:])
    return images
