"""What a network begins with, where it has learnt something before: photographs, for one that sees with lite0."""

from __future__ import annotations

from torch import nn

from ucc_path.formats import lite0_pth
from ucc_path.model.lite import LiteEncoder, LiteUnet


def begin(network: nn.Module) -> None:
    """Gives a network what was learnt before, in place; others keep the weights that chance gave them."""
    if isinstance(network, LiteUnet):
        load(network.encoder)


def load(encoder: LiteEncoder) -> None:
    encoder.load_state_dict(lite0_pth.read(lite0_pth.require()))
