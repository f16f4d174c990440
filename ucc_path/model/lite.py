"""EfficientNet-Lite0, which has learnt to see from photographs, and a Unet that sees with it.

Tan, Le: EfficientNet, ICML 2019; the Lite variants are Google's. Its norms, as photographs have
left them, are folded into its convolutions: a few tiles a step are too few to count anew. Only its first five stages
are here; what comes after knows whole objects, and made masks of tissue no better.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from ucc_path.model.blocks import initialise

CHANNELS = 3
SIDE_MULTIPLE = 16  # what the side of a picture must be a multiple of

_STEM = 32
_DRAWN = (64, 48, 32, 16)  # channels of the half that draws, from the coarsest on
_PHOTOGRAPHED = (127 / 255, 128 / 255)  # what was taken from the light of photographs, and what that was divided by
# The tissue that is shown: density of (red, green, blue) of a section with haematoxylin and eosin as they often are.
_DENSITY_MEAN, _DENSITY_SPREAD = (0.22, 0.38, 0.24), (0.13, 0.17, 0.12)
_LIGHT_MEAN, _LIGHT_SPREAD = 0.7, 0.2


class Stage(NamedTuple):
    """Blocks of one size of picture."""

    blocks: int
    kernel: int
    stride: int  # of the first block
    widening: int
    outputs: int


STAGES = (
    Stage(1, 3, 1, 1, 16),
    Stage(2, 3, 2, 6, 24),
    Stage(2, 5, 2, 6, 40),
    Stage(3, 3, 2, 6, 80),
    Stage(3, 5, 1, 6, 112),
)
_SKIPS = (4, 2, 1, 0)  # the last stage of each size, from the coarsest on
_KNOWING = (2, 3, 4)  # stages that tell tissues apart; those before see edges and colours


class LiteBlock(nn.Module):
    """A 1x1 convolution that widens, one of each channel by itself, and one that narrows again."""

    def __init__(self, inputs: int, outputs: int, *, kernel: int, stride: int, widening: int) -> None:
        super().__init__()
        inner = inputs * widening
        self.is_residual = inputs == outputs and stride == 1
        self.expand = nn.Conv2d(inputs, inner, 1) if widening > 1 else None
        self.depthwise = _Conv(inner, inner, kernel, stride, groups=inner)
        self.project = nn.Conv2d(inner, outputs, 1)

    def forward(self, x: Tensor) -> Tensor:
        inner = x if self.expand is None else functional.relu6(self.expand(x))
        found: Tensor = self.project(functional.relu6(self.depthwise(inner)))
        return x + found if self.is_residual else found


class LiteEncoder(nn.Module):
    """Pictures become what each stage sees in them.

    It is shown light, as it has learnt to see: where pictures are of density, made alike from slide to slide, that of a
    section stained as most are.
    """

    def __init__(self, *, is_density: bool) -> None:
        super().__init__()
        self.is_density = is_density
        self.stem = _Conv(CHANNELS, _STEM, 3, 2)
        self.stages = nn.ModuleList()
        inputs = _STEM
        for blocks, kernel, stride, widening, outputs in STAGES:
            shape = {"kernel": kernel, "widening": widening}
            first = LiteBlock(inputs, outputs, stride=stride, **shape)
            others = (LiteBlock(outputs, outputs, stride=1, **shape) for _ in range(blocks - 1))
            self.stages.append(nn.Sequential(first, *others))
            inputs = outputs

    def forward(self, pictures: Tensor) -> list[Tensor]:
        """(n, 3, side, side) -> of each stage (n, outputs, side / 2, ...) down to a sixteenth of the side."""
        x = functional.relu6(self.stem(self._photograph(pictures)))
        found = []
        for stage in self.stages:
            x = stage(x)
            found.append(x)
        return found

    def _photograph(self, pictures: Tensor) -> Tensor:
        """Pictures of mean 0 and spread 1 as the light that photographs were given as."""
        if self.is_density:
            mean, spread = (pictures.new_tensor(of).view(-1, 1, 1) for of in (_DENSITY_MEAN, _DENSITY_SPREAD))
            light = torch.exp(-math.log(10) * (mean + spread * pictures).clamp(min=0))
        else:
            light = _LIGHT_MEAN + _LIGHT_SPREAD * pictures
        return (light - _PHOTOGRAPHED[0]) / _PHOTOGRAPHED[1]


class LiteUnet(nn.Module):
    """A tile becomes the logit of tumour at each of its pixels."""

    def __init__(self, *, is_density: bool) -> None:
        super().__init__()
        self.encoder = LiteEncoder(is_density=is_density)
        seen = [STAGES[place].outputs for place in _SKIPS]
        self.narrow = nn.ModuleList(nn.Conv2d(there, drawn, 1) for there, drawn in zip(seen, _DRAWN, strict=True))
        self.join = nn.ModuleList(nn.Conv2d(coarse + fine, fine, 3, padding=1) for coarse, fine in pairwise(_DRAWN))
        self.logit = nn.Conv2d(_DRAWN[-1], 1, 1)
        initialise(self)

    def forward(self, tiles: Tensor) -> Tensor:
        """(n, 3, side, side) -> (n, side, side); the side is a multiple of 16."""
        stages = self.encoder(tiles)
        coarse, *finer = (
            functional.relu(narrow(stages[place])) for narrow, place in zip(self.narrow, _SKIPS, strict=True)
        )
        for join, fine in zip(self.join, finer, strict=True):
            enlarged = functional.interpolate(coarse, scale_factor=2, mode="nearest")
            coarse = functional.relu(join(torch.cat([enlarged, fine], dim=1)))
        logits: Tensor = functional.interpolate(self.logit(coarse), scale_factor=2, mode="bilinear")
        return logits.squeeze(1)


class CellKnowledge(nn.Module):
    """Pictures become, for each cell of their inner part, what the encoder makes of it and its surroundings."""

    def __init__(self, encoder: LiteEncoder, *, margin_px: int, cells: int, cell_px: int) -> None:
        super().__init__()
        self.encoder = encoder
        self.margin_px, self.cells, self.cell_px = margin_px, cells, cell_px

    def forward(self, pictures: Tensor) -> Tensor:
        """(n, 3, side, side) -> (n, cells, cells, values)."""
        stages, found = self.encoder(pictures), []
        for place in _KNOWING:
            shrunk = pictures.shape[-1] // stages[place].shape[-1]
            first, count = self.margin_px // shrunk, -(-self.cells * self.cell_px // shrunk)
            inner = stages[place][:, :, first : first + count, first : first + count]
            found.append(functional.adaptive_avg_pool2d(inner.float(), self.cells))
        return torch.cat(found, dim=1).movedim(1, -1)


class _Conv(nn.Conv2d):
    """A convolution whose stride of 2 begins at the first pixel, as in the framework that the weights come from."""

    def __init__(self, inputs: int, outputs: int, kernel: int, stride: int, *, groups: int = 1) -> None:
        super().__init__(inputs, outputs, kernel, stride=stride, padding=kernel // 2, groups=groups)

    def forward(self, x: Tensor) -> Tensor:
        if self.groups > 1 and x.device.type == "cpu":
            # To learn most of them in bfloat16 takes a CPU two to six times as long.
            with torch.autocast("cpu", enabled=False):
                return self._convolved(x.float())
        return self._convolved(x)

    def _convolved(self, x: Tensor) -> Tensor:
        if self.stride == (1, 1):
            return super().forward(x)
        beyond = self.kernel_size[0] - self.stride[0]
        x = functional.pad(x, (beyond // 2, beyond - beyond // 2) * 2)
        return functional.conv2d(x, self.weight, self.bias, self.stride, groups=self.groups)
