"""What a network of pixels is taught by the labels of whole tiles: the likeliest of their tissue, and no glass."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from torch import Tensor, nn

from ucc_path.model import Unet
from ucc_path.model.losses import Batch, around, label_losses, taught_cells
from ucc_path.settings import ModelSettings

ZERO, ONE, MIXED = 0, 1, 2
CELL = 4


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Networks this small are quicker on one."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def rising(rows: int = 5, cols: int = 4) -> Tensor:
    """Opinions of the cells of one tile, which rise along a shuffled order."""
    order = torch.randperm(rows * cols, generator=torch.Generator().manual_seed(0))
    return (order.float() - 7.5).view(1, rows, cols)


def marked(places: Tensor) -> Tensor:
    return torch.zeros(20, dtype=torch.bool).index_fill(0, places, True)


def taught(
    means: Tensor, label: int, *, tissue: Tensor | None = None, pure: float = 0.8, mixed: float = 0.4
) -> tuple[Tensor, Tensor]:
    there = torch.ones(means.shape, dtype=torch.bool) if tissue is None else tissue
    return taught_cells(means, there, torch.tensor([label]), pure, mixed, mixed)


def test_of_a_tile_of_the_first_class_all_tissue_is_taught_to_be_that() -> None:
    is_taught, is_one = taught(rising(), ZERO)
    assert is_taught.all() and not is_one.any()


@pytest.mark.parametrize(("pure", "count"), [(0.8, 16), (0.5, 10), (0.77, 15), (1.0, 20), (0.0, 0)])
def test_of_a_tile_of_the_second_class_the_likeliest_are_and_of_the_rest_nothing_is_said(
    pure: float, count: int
) -> None:
    means = rising()
    is_taught, is_one = taught(means, ONE, pure=pure)
    assert torch.equal(is_taught, is_one)
    assert torch.equal(is_one.flatten(), marked(means.flatten().argsort()[20 - count :]))


@pytest.mark.parametrize(("mixed", "count"), [(0.4, 8), (0.25, 5), (0.5, 10), (0.27, 5), (0.0, 0)])
def test_of_a_mixture_both_ends_are_taught_and_the_middle_is_not(mixed: float, count: int) -> None:
    means = rising()
    is_taught, is_one = taught(means, MIXED, mixed=mixed)
    ordered = means.flatten().argsort()
    lowest, highest = marked(ordered[:count]), marked(ordered[20 - count :])
    assert torch.equal(is_one.flatten(), highest)
    assert torch.equal(is_taught.flatten(), lowest | highest)


@pytest.mark.parametrize("label", [ZERO, ONE, MIXED])
def test_glass_is_never_taught_and_counts_as_nothing(label: int) -> None:
    means = rising()
    tissue = torch.arange(20).view(1, 5, 4) % 2 == 0
    extreme = torch.where(tissue, means, torch.where(means > 0, 1e6, -1e6))  # the surest opinions are about glass
    is_taught, is_one = taught(extreme, label, tissue=tissue)
    assert not (is_taught & ~tissue).any() and not (is_one & ~tissue).any()
    assert is_taught.sum() == {ZERO: 10, ONE: 8, MIXED: 8}[label]
    alone = taught(means[tissue].view(1, 5, 2), label)  # the same tissue with no glass about it
    assert torch.equal(is_taught[tissue], alone[0].flatten()) and torch.equal(is_one[tissue], alone[1].flatten())


def test_every_tile_is_taught_by_its_own_label() -> None:
    means = rising().repeat(3, 1, 1)
    labels = torch.tensor([MIXED, ZERO, ONE])
    together = taught_cells(means, torch.ones(3, 5, 4, dtype=torch.bool), labels, 0.8, 0.4, 0.4)
    for place, label in enumerate(labels.tolist()):
        for found, alone in zip(together, taught(rising(), label), strict=True):
            assert torch.equal(found[place : place + 1], alone)


class FirstChannel(nn.Module):
    """In place of a Unet: the logit of a pixel is its first channel."""

    def forward(self, pictures: Tensor) -> Tensor:
        return pictures[:, 0]


def batch(logits: Tensor, labels: list[int], tissue: Tensor | None = None) -> Batch:
    cells = torch.ones(len(labels), 2, 2, dtype=torch.bool) if tissue is None else tissue
    return Batch(
        logits.unsqueeze(1), torch.tensor(labels), tissue=cells, is_grafted=torch.zeros_like(logits, dtype=torch.bool)
    )


def test_the_loss_is_the_mean_over_tiles_of_the_mean_over_what_is_taught() -> None:
    logits = torch.arange(-4.0, 6.0).repeat(10, 1).repeat_interleave(CELL, 0).repeat_interleave(CELL, 1)
    tissue = torch.ones(2, 10, 10, dtype=torch.bool)
    tissue[1] = False
    tissue[1, 3, 6] = True
    found = label_losses(0.5, 0.2, 0.1)(
        FirstChannel(), batch(torch.stack([logits, logits]), [MIXED, ZERO], tissue), 0.5
    )
    # Of the mixture the last two columns are taught to be one class and the first the other; of the other tile its
    # one cell.
    first = torch.nn.functional.softplus(torch.tensor([-4.0, -4.0, -5.0])).mean()
    second = torch.nn.functional.softplus(torch.tensor(2.0))
    torch.testing.assert_close(found.total, (first + second) / 2)
    torch.testing.assert_close(found.accuracy, torch.tensor((1.0 + 0.0) / 2))


def test_a_tile_without_tissue_adds_nothing() -> None:
    logits = torch.randn(2, 8, 8, generator=torch.Generator().manual_seed(0)).requires_grad_()
    tissue = torch.stack([torch.ones(2, 2, dtype=torch.bool), torch.zeros(2, 2, dtype=torch.bool)])
    for label in (ZERO, ONE, MIXED):
        logits.grad = None
        found = label_losses(0.8, 0.4, 0.4)(FirstChannel(), batch(logits, [ZERO, label], tissue), 0.5)
        alone = label_losses(0.8, 0.4, 0.4)(FirstChannel(), batch(logits[:1], [ZERO], tissue[:1]), 0.5)
        torch.testing.assert_close((found.total, found.accuracy), (alone.total, alone.accuracy))
        found.total.backward()  # type: ignore[no-untyped-call]
        assert logits.grad is not None
        assert (logits.grad[0] != 0).all() and (logits.grad[1] == 0).all()


def test_which_cells_are_taught_is_no_part_of_what_is_learnt() -> None:
    """The gradient is that of the loss alone: where nothing is said of a cell, nothing pulls at it."""
    logits = torch.linspace(-1, 1, 64).view(1, 8, 8).requires_grad_()
    label_losses(0.25, 0.25, 0.25)(FirstChannel(), batch(logits, [ONE]), 0.5).total.backward()  # type: ignore[no-untyped-call]
    assert logits.grad is not None
    pulled = logits.grad[0] != 0
    assert pulled[4:, 4:].any() and not pulled[:4].any() and not pulled[4:, :4].any()


def make_tiles(seed: int, side: int = 32) -> tuple[Tensor, Tensor]:
    """Two tiles of each label, in which what is of class 1 is brighter; and where it is. It is half of a mixture."""
    rng = torch.Generator().manual_seed(seed)
    is_one = torch.zeros(6, side, side, dtype=torch.bool)
    is_one[2:4] = True
    for place in (4, 5):
        half = torch.arange(side).expand(side, side) < side // 2
        is_one[place] = torch.rot90(half, int(torch.randint(4, (), generator=rng)), (0, 1))
    noise = torch.randn(6, 3, side, side, generator=rng)
    return noise + 1.5 * (is_one.unsqueeze(1).float() - 0.5), is_one


def test_a_network_learns_from_labels_alone_which_half_of_a_mixture_is_which() -> None:
    torch.manual_seed(0)
    network = Unet(ModelSettings(patch_px=16, width=4))
    adam = torch.optim.Adam(network.parameters(), lr=0.01)
    losses, labels = label_losses(0.8, 0.4, 0.4), torch.tensor([ZERO, ZERO, ONE, ONE, MIXED, MIXED])
    tissue = torch.ones(6, 8, 8, dtype=torch.bool)
    for step in range(30):
        found = losses(
            network,
            Batch(make_tiles(step)[0], labels, tissue=tissue, is_grafted=torch.zeros(6, 32, 32, dtype=torch.bool)),
            0.5,
        )
        adam.zero_grad()
        found.total.backward()  # type: ignore[no-untyped-call]
        adam.step()
    images, is_one = make_tiles(99)  # not seen before
    with torch.no_grad():
        right = (network.eval()(images) > 0) == is_one
    assert right[4:].float().mean() > 0.9 and right[:4].float().mean() > 0.95
    assert found.accuracy > 0.95


def test_of_a_mixture_each_class_has_its_own_share() -> None:
    means, tissue = torch.arange(10.0).view(1, 5, 2), torch.ones(1, 5, 2, dtype=torch.bool)
    is_taught, is_one = taught_cells(means, tissue, torch.tensor([MIXED]), 0.8, 0.2, 0.5)
    assert is_taught.flatten().tolist() == [True] * 5 + [False] * 3 + [True] * 2
    assert is_one.flatten().tolist() == [False] * 8 + [True] * 2


def test_of_a_tile_with_a_part_of_the_other_class_every_cell_is_taught() -> None:
    logits = torch.tensor([[2.0, -1.0], [0.5, 3.0]]).repeat_interleave(CELL, 0).repeat_interleave(CELL, 1)
    plain = batch(logits.unsqueeze(0), [ONE])
    part = torch.zeros(1, *logits.shape, dtype=torch.bool)
    part[0, :CELL, :CELL] = True
    found = label_losses(0.25, 0.25, 0.25)(FirstChannel(), plain._replace(is_grafted=part), 0.5)
    wanted = torch.nn.functional.softplus(torch.tensor([2.0, 1.0, -0.5, -3.0])).mean()  # the first cell is of class 0
    torch.testing.assert_close(found.total, wanted)


def test_a_cell_is_ranked_together_with_the_tissue_around_it() -> None:
    means, tissue = torch.zeros(1, 9, 9), torch.ones(1, 9, 9, dtype=torch.bool)
    means[0, 4, 4] = 1.0
    found = around(means, tissue)
    assert torch.allclose(found[0, 2:7, 2:7], torch.full((5, 5), 1 / 25)) and found.sum() == pytest.approx(1.0)
    tissue[0, :, 5:] = False  # glass has no opinion
    means[0, :, 5:] = 100.0
    assert torch.allclose(around(means, tissue)[0, 2:7, 4], torch.full((5,), 1 / 15))
    assert not around(means, torch.zeros_like(tissue)).any()


def test_what_only_differs_from_cell_to_cell_is_not_taught_to_differ_more() -> None:
    """The left half is a little likelier, and every other cell of a chequered tile much more: the half counts."""
    cells = torch.arange(12)
    chequered = ((cells[:, None] + cells) % 2).float() + 0.3 * (cells < 6)
    _, is_one = taught(around(chequered[None], torch.ones(1, 12, 12, dtype=torch.bool)), MIXED)
    assert is_one[0, :, :4].float().mean() > 0.95 and not is_one[0, :, 8:].any()
