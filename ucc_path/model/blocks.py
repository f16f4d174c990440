"""The wide-residual blocks that every network here is made of."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional

# A group of one channel would take away how dark a patch is, which is half of what there is to see.
_CHANNELS_OF_GROUP = 4
_MOST_GROUPS = 8


def norm_layer(kind: str, channels: int) -> nn.Module:
    """What comes before each activation: `none`, `batch`, or `group`, which does not look at the rest of the batch."""
    if kind == "batch":
        return nn.BatchNorm2d(channels)
    if kind == "group":
        groups = math.gcd(_MOST_GROUPS, max(1, channels // _CHANNELS_OF_GROUP), channels)
        return nn.GroupNorm(groups, channels)
    return nn.Identity()


class WideBlock(nn.Module):
    """Two 3x3 convolutions, each after norm and ReLU, and a 1x1 shortcut around them.

    `stride` 2 halves the picture; `upsample` doubles it first, each pixel repeated.
    """

    def __init__(
        self, inputs: int, outputs: int, *, stride: int = 1, upsample: bool = False, norm: str = "none"
    ) -> None:
        super().__init__()
        self.upsample = upsample
        self.norm1, self.norm2 = norm_layer(norm, inputs), norm_layer(norm, outputs)
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride=stride, padding=1)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, padding=1)
        self.stride = stride
        self.shortcut = nn.Conv2d(inputs, outputs, 1)

    def forward(self, x: Tensor) -> Tensor:
        """(n, inputs, height, width) -> (n, outputs, height', width')."""
        # What is done to each pixel by itself is done before pixels are repeated, and to a quarter of them.
        active = functional.relu(self.norm1(x))
        first = self._enlarged_conv1(active) if self.upsample else self.conv1(active)
        inner = self.conv2(functional.relu(self.norm2(first)))
        # Pixels are left out here and not by the 1x1 convolution: with a stride and few channels its backward pass in
        # torch 2.13 (channels last, on a CPU) writes beyond its memory.
        shortcut = self._enlarged(self.shortcut(active[..., :: self.stride, :: self.stride]))
        outer: Tensor = inner + shortcut
        return outer

    def _enlarged_conv1(self, x: Tensor) -> Tensor:
        """The first convolution of the enlarged picture, without making that: a pixel's four copies are taken at once.

        Of the nine places that a 3x3 kernel looks at only four differ, so this is half of the work, and several times
        as quick with many channels.
        """
        kernel = _of_repeated(_of_repeated(self.conv1.weight, 2), 3).transpose(0, 1)
        return functional.conv_transpose2d(x, kernel, self.conv1.bias, stride=2, padding=1)

    def _enlarged(self, x: Tensor) -> Tensor:
        return functional.interpolate(x, scale_factor=2, mode="nearest") if self.upsample else x


def _of_repeated(kernel: Tensor, axis: int) -> Tensor:
    """A kernel of three places for a line whose every pixel is repeated, as one that spreads each pixel over four.

    Of two copies the left one sees its neighbour through the first place and itself through the other two, the right
    one itself through the first two and its neighbour through the last.
    """
    left, middle, right = kernel.unbind(axis)
    return torch.stack([right, middle + right, left + middle, left], axis)


def initialise(network: nn.Module) -> None:
    """Glorot's uniform weights and no biases, as in the authors' framework.

    Torch's own are a third as large: without norms three blocks of them leave nothing of the signal, and the loss stays
    where it began.
    """
    for layer in network.modules():
        if isinstance(layer, (nn.Conv2d, nn.Linear)):
            nn.init.xavier_uniform_(layer.weight)
            if layer.bias is not None:
                nn.init.zeros_(layer.bias)
