"""What each model is taught by: one function a model, from a batch to the numbers that are minimised and reported.

Losses are computed in float32 whatever the precision of the network.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

MIXED, UNCLEAR = 2, 3
"""Labels of tiles besides the two classes: both of them, or one of them and nobody knows which."""
CLEAR_SHARE = 0.7  # of a tile of one class that a class must have to be it

_AROUND_CELLS = 5  # along a side, the cell itself included: a patch and a little more


class Batch(NamedTuple):
    """Pictures as a network takes them, and what is to be learnt from them."""

    images: Tensor  # float32, (bags, instances, channels, side, side) or (tiles, channels, side, side)
    targets: Tensor  # int64 (bags,), (bags, instances) or (tiles,), or bool (tiles, side, side)
    # What the images were divided by, squared: the error of patches is weighed as that of light or density themselves.
    variance: float = 1.0
    # Where many bags share the instances of one, (bags, instances): which part of each bag each instance is.
    shares: Tensor | None = None
    # Where tiles have a label and no mask, (tiles, cells, cells): which of their cells are tissue.
    tissue: Tensor | None = None
    # And which of their pixels, (tiles, side, side), come from a tile of the other class.
    is_grafted: Tensor | None = None


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


def label_losses(sure_pure: float, sure_mixed: float, sure_rest: float) -> Callable[[nn.Module, Batch, float], Losses]:
    """A network of pixels taught by labels of whole tiles: 0 and 1 are its classes, then MIXED and UNCLEAR.

    A label says how much of a tile is of a class, at least. So the network is taught that the likeliest of its tissue,
    by its own opinion, is: all of a tile of class 0, `sure_pure` of one of class 1, and of a mixture `sure_mixed` is of
    class 1 and `sure_rest` of class 0. Of what is left nothing is said. A cell is ranked together with those around it:
    by itself each would be taught to be what it happens to be a little more than its neighbour, and masks became
    chequered. Where tiles of the two classes have exchanged a part, the class of every pixel is known. A tile of an
    unclear class teaches as soon as the network itself is clear about it.
    """

    def losses(network: nn.Module, batch: Batch, alpha: float) -> Losses:
        assert batch.tissue is not None and batch.is_grafted is not None
        logits = network(batch.images).float()
        cell = logits.shape[-1] // batch.tissue.shape[-1]
        means = functional.avg_pool2d(logits.detach().unsqueeze(1), cell).squeeze(1)
        labels = settled(means, batch.tissue, batch.targets)
        means = around(means, batch.tissue)
        is_taught, is_one = taught_cells(means, batch.tissue, labels, sure_pure, sure_mixed, sure_rest)
        # Of a tile with a part of the other class all is known.
        has_graft = batch.is_grafted.any(2).any(1)[:, None, None]
        weights = _as_pixels(torch.where(has_graft, batch.tissue, is_taught).float(), cell)
        by_part = (batch.targets == 1)[:, None, None] ^ batch.is_grafted
        truth = torch.where(has_graft, by_part.float(), _as_pixels(is_one.float(), cell))
        weights = weights / weights.sum((1, 2), keepdim=True).clamp(min=1)  # tiles count alike
        weights = weights / weights.sum().clamp(min=1)  # of those that teach anything
        each = functional.binary_cross_entropy_with_logits(logits, truth, reduction="none")
        entropy = (each * weights).sum()
        accuracy = (((logits > 0) == (truth > 0)) * weights).sum()
        return Losses(entropy, entropy.detach(), _undefined(entropy), accuracy)

    return losses


def settled(means: Tensor, tissue: Tensor, labels: Tensor) -> Tensor:
    """The labels (tiles,), where those that are UNCLEAR become the class that the network gives most of the tissue.

    `means` are its logits (tiles, cells, cells). A tile of which neither class has CLEAR_SHARE stays as it is.
    """
    share = ((means > 0) & tissue).sum((1, 2)) / tissue.sum((1, 2)).clamp(min=1)
    own = torch.where(share >= CLEAR_SHARE, 1, torch.where(share <= 1 - CLEAR_SHARE, 0, UNCLEAR))
    return torch.where(labels == UNCLEAR, own, labels)


def around(means: Tensor, tissue: Tensor) -> Tensor:
    """The mean (tiles, cells, cells) over each cell and the tissue around it; 0 where there is none."""
    is_there = tissue.to(means.dtype)
    near, there = (
        functional.avg_pool2d(values.unsqueeze(1), _AROUND_CELLS, stride=1, padding=_AROUND_CELLS // 2).squeeze(1)
        for values in (means * is_there, is_there)
    )
    return near / there.clamp(min=torch.finfo(means.dtype).tiny)


def taught_cells(
    means: Tensor, tissue: Tensor, labels: Tensor, sure_pure: float, sure_mixed: float, sure_rest: float
) -> tuple[Tensor, Tensor]:
    """Which cells (tiles, cells, cells) a network is taught about, and which of those are of class 1."""
    flat = tissue.flatten(1)
    count = flat.sum(1, keepdim=True)
    ranks = means.flatten(1).masked_fill(~flat, torch.inf).argsort(dim=1, stable=True).argsort(1)  # of tissue, from 0
    low, high = (
        torch.floor(means.new_tensor(shares)[labels].unsqueeze(1) * count)
        for shares in ((1.0, 0.0, sure_rest, 0.0), (0.0, sure_pure, sure_mixed, 0.0))
    )
    is_zero, is_one = flat & (ranks < low), flat & (ranks >= count - high)
    return (is_zero | is_one).view_as(tissue), is_one.view_as(tissue)


def _as_pixels(cells: Tensor, cell: int) -> Tensor:
    return cells.repeat_interleave(cell, 1).repeat_interleave(cell, 2)


def _undefined(like: Tensor) -> Tensor:
    return torch.full_like(like.detach(), torch.nan)
