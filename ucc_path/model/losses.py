"""What each model is taught by: one function a model, from a batch to the numbers that are minimised and reported.

Losses are computed in float32 whatever the precision of the network.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional


class Batch(NamedTuple):
    """Pictures as a network takes them, and what is to be learnt from them."""

    images: Tensor  # float32, (bags, instances, channels, side, side) or (tiles, channels, side, side)
    targets: Tensor  # int64 (bags,) or (bags, instances), or bool (tiles, side, side)
    # What the images were divided by, squared: the error of patches is weighed as that of light or density themselves.
    variance: float = 1.0
    # Where many bags share the instances of one, (bags, instances): which part of each bag each instance is.
    shares: Tensor | None = None


class Losses(NamedTuple):
    """Means over a batch; NaN where a model has no such number."""

    total: Tensor
    cross_entropy: Tensor
    mse: Tensor
    accuracy: Tensor


def count_losses(network: nn.Module, batch: Batch, alpha: float) -> Losses:
    """The UCC model: alpha * cross-entropy of the bag's label + (1 - alpha) * squared error of the patches."""
    logits, drawn = network(batch.images, batch.shares)
    entropy = functional.cross_entropy(logits.float(), batch.targets)
    accuracy = (logits.argmax(1) == batch.targets).float().mean()
    if drawn is None:
        return Losses(entropy, entropy.detach(), _undefined(entropy), accuracy)
    mse = batch.variance * functional.mse_loss(drawn.float(), batch.images[:, : drawn.shape[1]])
    return Losses(alpha * entropy + (1 - alpha) * mse, entropy.detach(), mse.detach(), accuracy)


def reconstruction_losses(network: nn.Module, batch: Batch, alpha: float) -> Losses:
    """The autoencoder: squared error of the patches."""
    mse = batch.variance * functional.mse_loss(network(batch.images).float(), batch.images)
    return Losses(mse, _undefined(mse), mse.detach(), _undefined(mse))


def patch_losses(network: nn.Module, batch: Batch, alpha: float) -> Losses:
    """The supervised model: cross-entropy of each patch's class."""
    logits = network(batch.images).float().flatten(0, 1)
    targets = batch.targets.flatten()
    entropy = functional.cross_entropy(logits, targets)
    accuracy = (logits.argmax(1) == targets).float().mean()
    return Losses(entropy, entropy.detach(), _undefined(entropy), accuracy)


def mask_losses(network: nn.Module, batch: Batch, alpha: float) -> Losses:
    """The Unet: cross-entropy of each pixel."""
    logits = network(batch.images).float()
    entropy = functional.binary_cross_entropy_with_logits(logits, batch.targets.float())
    accuracy = ((logits > 0) == batch.targets).float().mean()
    return Losses(entropy, entropy.detach(), _undefined(entropy), accuracy)


def _undefined(like: Tensor) -> Tensor:
    return torch.full_like(like.detach(), torch.nan)
