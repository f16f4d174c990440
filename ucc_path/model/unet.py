"""Networks of pixels: a Unet of the same blocks, which one a model has, and how the cells of a slide are seen by it."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from ucc_path.model.blocks import WideBlock, initialise, norm_layer
from ucc_path.model.lite import LiteUnet
from ucc_path.settings import ModelSettings


class Unet(nn.Module):
    """A tile becomes the logit of tumour at each of its pixels."""

    def __init__(self, settings: ModelSettings = ModelSettings()) -> None:
        super().__init__()
        width, norm = settings.width, settings.norm
        self.stem_stride = settings.stem_stride
        self.stem = nn.Conv2d(settings.channels, width, 3, stride=settings.stem_stride, padding=1)
        self.down1 = WideBlock(width, 2 * width, norm=norm)
        self.down2 = WideBlock(2 * width, 4 * width, stride=2, norm=norm)
        self.down3 = WideBlock(4 * width, 8 * width, stride=2, norm=norm)
        self.up2 = WideBlock(8 * width, 4 * width, upsample=True, norm=norm)
        self.up1 = WideBlock(2 * 4 * width, 2 * width, upsample=True, norm=norm)
        self.last = WideBlock(2 * 2 * width, width, norm=norm)
        self.norm = norm_layer(norm, width)
        self.logit = nn.Conv2d(width, 1, 1)
        initialise(self)

    def forward(self, tiles: Tensor) -> Tensor:
        """(n, channels, side, side) -> (n, side, side); the side is a multiple of the settings' `side_multiple`."""
        full = self.down1(self.stem(tiles))
        half = self.down2(full)
        x = self.up2(self.down3(half))
        x = self.up1(torch.cat([x, half], dim=1))
        x = self.last(torch.cat([x, full], dim=1))
        logits: Tensor = self.logit(functional.relu(self.norm(x)))
        if self.stem_stride > 1:
            logits = functional.interpolate(logits, scale_factor=self.stem_stride, mode="bilinear")
        return logits.squeeze(1)


PixelNetwork = Unet | LiteUnet


def network_of_pixels(settings: ModelSettings) -> PixelNetwork:
    """What draws the mask of a tile; sides of pictures are multiples of the settings' `picture_multiple`."""
    return LiteUnet(is_density=settings.colours == "slide") if settings.encoder == "lite0" else Unet(settings)


class CellShares(nn.Module):
    """A Unet seen by cells: pictures become the mean probability of tumour in each cell of their inner part."""

    def __init__(self, unet: nn.Module, *, margin_px: int, core_px: int, cell_px: int) -> None:
        super().__init__()
        self.unet = unet
        self.margin_px, self.core_px, self.cell_px = margin_px, core_px, cell_px

    def forward(self, pictures: Tensor) -> Tensor:
        """(n, channels, side, side) -> (n, cells, cells, 1)."""
        end = self.margin_px + self.core_px
        logits = self.unet(pictures)[:, self.margin_px : end, self.margin_px : end]
        return functional.avg_pool2d(torch.sigmoid(logits.float()).unsqueeze(1), self.cell_px).movedim(1, -1)


class CellLooks(nn.Module):
    """A Unet seen by small cells: the probability of tumour in each cell of whole pictures, and how it looks."""

    def __init__(self, unet: nn.Module, cell_px: int) -> None:
        super().__init__()
        self.unet, self.cell_px = unet, cell_px

    def forward(self, pictures: Tensor) -> Tensor:
        """(n, channels, side, side) -> (n, side / cell_px, side / cell_px, 1 + channels)."""
        shares = torch.sigmoid(self.unet(pictures).float()).unsqueeze(1)
        means = (functional.avg_pool2d(values, self.cell_px) for values in (shares, pictures.float()))
        return torch.cat(list(means), dim=1).movedim(1, -1)
