"""From the features of a bag's instances to one vector for the bag, whatever their order and number."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn


class KernelDensity(nn.Module):
    """The distribution of each feature over a bag, sampled at `bins` places on [0, 1].

    The paper's density: the mean over instances of a Gaussian of width `sigma` around each value. With `normalise` each
    feature's samples are divided by their sum, as the authors' published code does. It decomposes: the density of two
    bags together is the mean of theirs, weighted by their sizes.
    """

    def __init__(self, bins: int = 11, sigma: float = 0.1, normalise: bool = False) -> None:
        super().__init__()
        self.bins, self.sigma, self.normalise = bins, sigma, normalise

    def forward(self, features: Tensor) -> Tensor:
        """(bags, instances, features) in [0, 1] -> (bags, features * bins), a feature's bins side by side."""
        # Half precision has too few digits for a mean of Gaussians, so autocast is left here.
        with torch.autocast(features.device.type, enabled=False):
            places = torch.linspace(0, 1, self.bins, device=features.device)
            distance = features.float().unsqueeze(-1) - places  # -> (bags, instances, features, bins)
            kernels = torch.exp(distance.square() / (-2 * self.sigma**2))
            density = kernels.mean(dim=1) / math.sqrt(2 * math.pi * self.sigma**2)  # -> (bags, features, bins)
            if self.normalise:
                # A narrow kernel can leave all samples of a value between two of them at zero.
                density = density / density.sum(dim=-1, keepdim=True).clamp(min=torch.finfo(torch.float32).tiny)
            return density.flatten(1)

    def width(self, features: int) -> int:
        """How many numbers describe a bag."""
        return features * self.bins


class AveragePooling(nn.Module):
    """The mean of each feature over a bag: all that most multiple-instance models keep of it."""

    def forward(self, features: Tensor) -> Tensor:
        """(bags, instances, features) -> (bags, features)."""
        return features.float().mean(dim=1)

    def width(self, features: int) -> int:
        """How many numbers describe a bag."""
        return features
