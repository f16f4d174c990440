"""Networks of pixels: a Unet of the same blocks, which one a model has, and how the cells of a slide are seen by it."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from ucc_path.model.blocks import WideBlock, initialise, norm_layer
from ucc_path.model.lite import LiteUnet
from ucc_path.settings import ModelSettings

_PATCHES_AT_ONCE = 256


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


class CellValues(nn.Module):
    """Pictures become, for each cell of their inner part, its share of tumour and then the features of its patch."""

    def __init__(self, shares: CellShares, extractor: nn.Module, patch_px: int) -> None:
        super().__init__()
        self.shares, self.extractor, self.patch_px = shares, extractor, patch_px

    def forward(self, pictures: Tensor) -> Tensor:
        """(n, channels, side, side) -> (n, cells, cells, 1 + features)."""
        share = self.shares(pictures)
        cell_px, patch_px = self.shares.cell_px, self.patch_px
        cells, beyond = self.shares.core_px // cell_px, patch_px - cell_px
        first = self.shares.margin_px - beyond // 2  # a patch lies around its cell
        end = first + self.shares.core_px + beyond
        features = []
        rows_at_once = max(1, _PATCHES_AT_ONCE // (len(pictures) * cells))
        # A few at a time: a fine mask has thousands of patches in a picture, which together are many times its size.
        for row in range(0, cells, rows_at_once):
            top, bottom = (first + cell_px * place for place in (row, min(row + rows_at_once, cells)))
            strip = pictures[:, :, top : bottom + beyond, first:end]
            patches = strip.unfold(2, patch_px, cell_px).unfold(3, patch_px, cell_px).permute(0, 2, 3, 1, 4, 5)
            found = self.extractor(patches.flatten(0, 2))  # (n * rows * cells, channels, patch_px, patch_px) in
            features.append(found.float().view(len(pictures), -1, cells, found.shape[-1]))
        return torch.cat([share, torch.cat(features, dim=1)], dim=-1)
