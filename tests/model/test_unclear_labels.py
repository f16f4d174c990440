"""Tiles of one class that nobody knows: the network itself says which, once it is clear about most of their tissue."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from ucc_path.model.losses import CLEAR_SHARE, MIXED, UNCLEAR, Batch, label_losses, settled

CELLS, CELL = 10, 4


def opinions(share: float) -> Tensor:
    """Logits of the cells of one tile, of which that share is for class 1."""
    values = torch.full((CELLS * CELLS,), -2.0)
    values[: round(share * CELLS * CELLS)] = 3.0
    return values.view(1, CELLS, CELLS)


def everywhere(tiles: int = 1) -> Tensor:
    return torch.ones(tiles, CELLS, CELLS, dtype=torch.bool)


@pytest.mark.parametrize(
    ("share", "label"), [(1.0, 1), (CLEAR_SHARE, 1), (0.69, UNCLEAR), (0.31, UNCLEAR), (1 - CLEAR_SHARE, 0), (0.0, 0)]
)
def test_an_unclear_tile_is_of_the_class_that_has_most_of_it(share: float, label: int) -> None:
    assert settled(opinions(share), everywhere(), torch.tensor([UNCLEAR])).tolist() == [label]


@pytest.mark.parametrize("label", [0, 1, MIXED])
def test_what_is_known_of_a_tile_stays_whatever_the_network_thinks(label: int) -> None:
    for share in (0.0, 0.5, 1.0):
        assert settled(opinions(share), everywhere(), torch.tensor([label])).tolist() == [label]


def test_glass_has_no_say_in_the_class_of_a_tile() -> None:
    tissue = everywhere()
    tissue[0, 3:] = False  # so that of what is left all is for class 1
    assert settled(opinions(0.3), tissue, torch.tensor([UNCLEAR])).tolist() == [1]


class Opinion(nn.Module):
    def forward(self, images: Tensor) -> Tensor:
        return images[:, 0]


def batch(cells: list[Tensor], labels: list[int]) -> Batch:
    logits = torch.cat(cells).repeat_interleave(CELL, 1).repeat_interleave(CELL, 2).requires_grad_()
    nowhere = torch.zeros(logits.shape, dtype=torch.bool)
    return Batch(logits.unsqueeze(1), torch.tensor(labels), tissue=everywhere(len(labels)), is_grafted=nowhere)


def test_a_tile_that_stays_unclear_teaches_nothing_and_does_not_dilute_what_others_teach() -> None:
    losses = label_losses(0.8, 0.5, 0.4)
    both = losses(Opinion(), batch([opinions(0.2), opinions(0.5)], [0, UNCLEAR]), 1.0)
    alone = losses(Opinion(), batch([opinions(0.2)], [0]), 1.0)
    torch.testing.assert_close((both.total, both.accuracy), (alone.total, alone.accuracy))


def test_a_step_of_unclear_tiles_alone_is_no_loss_and_no_division_by_zero() -> None:
    assert label_losses(0.8, 0.5, 0.4)(Opinion(), batch([opinions(0.5)], [UNCLEAR]), 1.0).total.item() == 0.0


@pytest.mark.parametrize(("share", "label"), [(0.8, 1), (0.2, 0)])
def test_a_tile_that_has_become_clear_teaches_as_one_that_was_known(share: float, label: int) -> None:
    losses = label_losses(0.8, 0.5, 0.4)
    found, known = (losses(Opinion(), batch([opinions(share)], [said]), 1.0) for said in (UNCLEAR, label))
    assert found.total.item() > 0
    torch.testing.assert_close(found.total, known.total)
