"""Patches and weights become features."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from ucc_path.model.devices import mixed_precision
from ucc_path.model.preparing import Preparation

BATCH = 256


def features_of(
    patches: NDArray[np.uint8], extractor: nn.Module, preparation: Preparation, device: torch.device
) -> NDArray[np.float32]:
    """(n, side, side, channels) -> (n, features), whatever n is.

    All batches have one shape, the last filled up with zeros: the last digits of a sum depend on the shape, and so a
    patch would otherwise have other features in other company.
    """
    found = [np.empty((0, 0), np.float32)] if not len(patches) else []
    extractor.eval()
    with torch.no_grad(), mixed_precision(device):
        for first in range(0, len(patches), BATCH):
            batch = patches[first : first + BATCH]
            full = np.zeros((BATCH, *batch.shape[1:]), np.uint8)
            full[: len(batch)] = batch
            features = extractor(preparation(torch.from_numpy(full).to(device)))
            found.append(features[: len(batch)].float().cpu().numpy())
    return np.concatenate(found)
