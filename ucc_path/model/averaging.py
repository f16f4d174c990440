"""The mean of a network's weights over its last steps: a steadier judge and a better model than any one step's."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import torch
from torch import Tensor, nn


class Average:
    """A running mean of weights; at each step `share` of it stays. With 0 it is the weights themselves.

    What a batch norm has counted belongs to the weights that it counted under, and is averaged with them.
    """

    def __init__(self, network: nn.Module, share: float) -> None:
        self._share, self._network = share, network
        self._means = [weight.detach().clone() for _, weight in _weights(network)] if share else []

    def update(self, step: int) -> None:
        """Takes in the weights after `step`; early ones count for more, so that the beginning is soon forgotten."""
        if self._means:
            share = min(self._share, step / (step + 10))
            weights = [weight.detach() for _, weight in _weights(self._network)]
            torch._foreach_lerp_(self._means, weights, 1 - share)

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """The network with the mean of its weights, for as long as the block lasts."""
        self._swap()
        try:
            yield
        finally:
            self._swap()

    def state(self) -> dict[str, Tensor]:
        """By the names of the weights."""
        names = [name for name, _ in _weights(self._network)]
        return dict(zip(names, self._means, strict=True)) if self._means else {}

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Goes back to a state; KeyError or RuntimeError if it is not one of this network."""
        for name, mean in self.state().items():
            mean.copy_(state[name])

    def _swap(self) -> None:
        for (_, weight), mean in zip(_weights(self._network), self._means, strict=False):  # without means, none
            before = weight.detach().clone()
            weight.data.copy_(mean)
            mean.copy_(before)


def _weights(network: nn.Module) -> Iterator[tuple[str, Tensor]]:
    yield from network.named_parameters()
    yield from ((name, buffer) for name, buffer in network.named_buffers() if buffer.is_floating_point())
