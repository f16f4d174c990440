"""The UCC model: patches become features, a bag's features become distributions, and those its unique class count.

Beside the count, a decoder draws the patches again from their features, so that features keep what patches look like.
The networks it is compared with are made of the same two halves.
"""

from __future__ import annotations

import math
from itertools import pairwise

import torch
from torch import Tensor, nn

from ucc_path.model.blocks import WideBlock, initialise, norm_layer
from ucc_path.model.pooling import AveragePooling, KernelDensity
from ucc_path.settings import ModelSettings


class _ToRows(nn.Module):
    """Pictures (n, channels, side, side) become rows of numbers, the channels of a pixel side by side.

    That is how they lie in memory (channels last); another order would have to be copied.
    """

    def forward(self, pictures: Tensor) -> Tensor:
        return pictures.movedim(1, -1).flatten(1)


class _ToPictures(nn.Module):
    """The other way round."""

    def __init__(self, side: int) -> None:
        super().__init__()
        self.side = side

    def forward(self, rows: Tensor) -> Tensor:
        return rows.view(len(rows), self.side, self.side, -1).movedim(-1, 1)


class Extractor(nn.Module):
    """A patch becomes `features` numbers in (0, 1)."""

    def __init__(self, settings: ModelSettings) -> None:
        super().__init__()
        width, norm = settings.width, settings.norm
        self.layers = nn.Sequential(
            nn.Conv2d(settings.channels, width, 3, stride=settings.stem_stride, padding=1),
            WideBlock(width, 2 * width, norm=norm),
            WideBlock(2 * width, 4 * width, stride=2, norm=norm),
            WideBlock(4 * width, 8 * width, stride=2, norm=norm),
            norm_layer(norm, 8 * width),
            nn.ReLU(),
            _ToRows(),
            nn.Linear(8 * width * _inner_side(settings) ** 2, settings.features, bias=False),
            nn.Sigmoid(),
        )

    def forward(self, patches: Tensor) -> Tensor:
        """(n, channels, patch_px, patch_px) -> (n, features)."""
        features: Tensor = self.layers(patches)
        return features


class Decoder(nn.Module):
    """The extractor's mirror: features become a patch."""

    def __init__(self, settings: ModelSettings) -> None:
        super().__init__()
        width, norm, side = settings.width, settings.norm, _inner_side(settings)
        self.layers = nn.Sequential(
            nn.Linear(settings.features, 8 * width * side**2),
            _ToPictures(side),
            WideBlock(8 * width, 4 * width, upsample=True, norm=norm),
            WideBlock(4 * width, 2 * width, upsample=True, norm=norm),
            WideBlock(2 * width, width, norm=norm),
            norm_layer(norm, width),
            nn.ReLU(),
            nn.Upsample(scale_factor=settings.stem_stride, mode="nearest"),
            nn.Conv2d(width, settings.channels, 3, padding=1),
        )

    def forward(self, features: Tensor) -> Tensor:
        """(n, features) -> (n, channels, patch_px, patch_px)."""
        patches: Tensor = self.layers(features)
        return patches


def _inner_side(settings: ModelSettings) -> int:
    return settings.patch_px // settings.side_multiple


def _in_bags(values: Tensor, bags: Tensor) -> Tensor:
    """(bags * instances, ...) -> (bags, instances, ...), as `bags` is."""
    return values.reshape(*bags.shape[:2], *values.shape[1:])


class UCC(nn.Module):
    """Bags of patches become the logits of their unique class count, and the patches drawn again.

    There is an output for each of `settings.ucc_labels`, or as many as `outputs` says. Without a decoder (alpha 1 in
    the paper) the second value is None. With `decode_every` N only the first Nth part of a bag's patches is
    drawn again: their order is chance, so they teach as well, and half of a step's work is the decoder's.
    """

    def __init__(
        self,
        settings: ModelSettings = ModelSettings(),
        *,
        outputs: int | None = None,
        with_decoder: bool = True,
        decode_every: int = 1,
    ) -> None:
        super().__init__()
        self.extractor = Extractor(settings)
        self.pooling: KernelDensity | AveragePooling = (
            KernelDensity(settings.bins, settings.sigma, settings.normalise)
            if settings.pooling == "kde"
            else AveragePooling()
        )
        widths = (self.pooling.width(settings.features), *settings.hidden)
        hidden = [layer for a, b in pairwise(widths) for layer in (nn.Linear(a, b), nn.ReLU())]
        self.head = nn.Sequential(*hidden, nn.Linear(widths[-1], outputs or len(settings.ucc_labels)))
        self.decoder = Decoder(settings) if with_decoder else None
        self.decode_every = decode_every
        initialise(self)

    def forward(self, bags: Tensor, shares: Tensor | None = None) -> tuple[Tensor, Tensor | None]:
        """(bags, instances, channels, side, side) -> logits (bags, outputs), the first patches of `bags`.

        With `shares` (m, instances) there is one bag, a pool of instances, and the logits are those of m bags drawn
        from it: a share is the part of a bag that an instance is. Features are by far the most of the work, so
        that each bag more costs next to nothing.
        """
        features = _in_bags(self.extractor(bags.flatten(0, 1)), bags)  # -> (bags, instances, features)
        logits = self.count(features) if shares is None else self.count_shared(features[0], shares)
        if self.decoder is None:
            return logits, None
        kept = features[:, : math.ceil(features.shape[1] / self.decode_every)]
        return logits, _in_bags(self.decoder(kept.flatten(0, 1)), kept)

    def count(self, features: Tensor) -> Tensor:
        """The logits of bags whose features are known: (bags, instances, features) -> (bags, outputs)."""
        logits: Tensor = self.head(self.pooling(features))
        return logits

    def count_shared(self, features: Tensor, shares: Tensor) -> Tensor:
        """The logits of bags that share instances: (instances, features) and (bags, instances) -> (bags, outputs)."""
        with torch.autocast(features.device.type, enabled=False):  # as in pooling: half precision has too few digits
            means = shares @ self.pooling.of_instances(features)
            logits: Tensor = self.head(self.pooling.of_bag(means))
        return logits


class Autoencoder(nn.Module):
    """Extractor and decoder alone: features from what patches look like, without any label."""

    def __init__(self, settings: ModelSettings = ModelSettings()) -> None:
        super().__init__()
        self.extractor = Extractor(settings)
        self.decoder = Decoder(settings)
        initialise(self)

    def forward(self, bags: Tensor) -> Tensor:
        """(bags, instances, channels, side, side) -> the same, drawn again."""
        return _in_bags(self.decoder(self.extractor(bags.flatten(0, 1))), bags)


class PatchClassifier(nn.Module):
    """The fully supervised counterpart: the same extractor, and the class of every single patch."""

    def __init__(self, settings: ModelSettings = ModelSettings()) -> None:
        super().__init__()
        self.extractor = Extractor(settings)
        self.head = nn.Linear(settings.features, settings.classes)
        initialise(self)

    def forward(self, bags: Tensor) -> Tensor:
        """(bags, instances, channels, side, side) -> logits (bags, instances, classes)."""
        return _in_bags(self.head(self.extractor(bags.flatten(0, 1))), bags)
