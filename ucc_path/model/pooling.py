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
            return self.of_bag(self.of_instances(features).mean(dim=1))

    def of_instances(self, features: Tensor) -> Tensor:
        """What an instance adds to its bag: (..., features) -> (..., features * bins)."""
        places = torch.linspace(0, 1, self.bins, device=features.device)
        distance = features.float().unsqueeze(-1) - places  # -> (..., features, bins)
        return torch.exp(distance.square() / (-2 * self.sigma**2)).flatten(-2)

    def of_bag(self, mean: Tensor) -> Tensor:
        """The vector of a bag from the mean of what its instances add: (bags, features * bins) -> the same."""
        density = mean / math.sqrt(2 * math.pi * self.sigma**2)
        if self.normalise:
            samples = density.reshape(*density.shape[:-1], -1, self.bins)
            # A narrow kernel can leave all samples of a value between two of them at zero.
            sums = samples.sum(dim=-1, keepdim=True).clamp(min=torch.finfo(torch.float32).tiny)
            density = (samples / sums).flatten(-2)
        return density

    def width(self, features: int) -> int:
        """How many numbers describe a bag."""
        return features * self.bins


class AveragePooling(nn.Module):
    """The mean of each feature over a bag: all that most multiple-instance models keep of it."""

    def forward(self, features: Tensor) -> Tensor:
        """(bags, instances, features) -> (bags, features)."""
        return self.of_bag(self.of_instances(features).mean(dim=1))

    def of_instances(self, features: Tensor) -> Tensor:
        """What an instance adds to its bag."""
        return features.float()

    def of_bag(self, mean: Tensor) -> Tensor:
        """The vector of a bag from the mean of what its instances add."""
        return mean

    def width(self, features: int) -> int:
        """How many numbers describe a bag."""
        return features
