"""Patches and weights become features, whatever the number of patches."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from ucc_path.features.engines import full_batch
from ucc_path.model.devices import mixed_precision
from ucc_path.model.preparing import Preparation

BATCH = 256


def features_of(
    patches: NDArray[np.uint8],
    extractor: nn.Module,
    preparation: Preparation,
    device: torch.device,
    stain: NDArray[np.float32] | None = None,
) -> NDArray[np.float32]:
    """(n, side, side, channels) -> (n, features), whatever n is; `stain` is the standard (n, 3, 4) of each one's slide.

    All batches have one shape, the last filled up with zeros: the last digits of a sum depend on the shape, and so a
    patch would otherwise have other features in other company.
    """
    found = []
    extractor.eval()
    with torch.no_grad(), mixed_precision(device):
        for first in range(0, max(1, len(patches)), BATCH):
            given = slice(first, first + BATCH)
            batch = torch.from_numpy(full_batch(patches[given], BATCH)).to(device)
            change = None if stain is None else torch.from_numpy(full_batch(stain[given], BATCH)).to(device)
            features: torch.Tensor = extractor(preparation(batch, change))
            found.append(features[: len(patches) - first].float().cpu().numpy())
    return np.concatenate(found)
