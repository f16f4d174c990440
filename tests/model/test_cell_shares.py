"""A Unet seen by cells: each cell has the mean probability of its own pixels."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from torch import Tensor, nn

from ucc_path.model import Unet
from ucc_path.model.unet import CellShares
from ucc_path.settings import ModelSettings


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Networks this small are quicker on one."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


class FirstChannel(nn.Module):
    """In place of a Unet: the logit of a pixel is its first channel."""

    def forward(self, pictures: Tensor) -> Tensor:
        return pictures[:, 0]


def logit(share: float) -> float:
    return float(torch.logit(torch.tensor(share)))


@pytest.mark.parametrize(("margin_px", "core_px", "cell_px", "side"), [(5, 12, 4, 24), (0, 8, 8, 8), (3, 6, 1, 16)])
def test_a_cell_has_the_mean_probability_of_its_pixels(margin_px: int, core_px: int, cell_px: int, side: int) -> None:
    pictures = 5 * torch.randn(2, 3, side, side, generator=torch.Generator().manual_seed(0))
    shares = CellShares(FirstChannel(), margin_px=margin_px, core_px=core_px, cell_px=cell_px)
    found = shares(pictures)
    cells = core_px // cell_px
    assert found.shape == (2, cells, cells, 1)
    for row in range(cells):
        for col in range(cells):
            top, left = margin_px + row * cell_px, margin_px + col * cell_px
            pixels = pictures[:, 0, top : top + cell_px, left : left + cell_px]
            torch.testing.assert_close(found[:, row, col, 0], torch.sigmoid(pixels).mean(dim=(1, 2)))


def test_it_is_the_mean_of_probabilities_and_not_the_probability_of_a_mean() -> None:
    """One pixel in four is surely tumour: the cell is a quarter tumour, whatever its logits sum to."""
    pictures = torch.full((1, 1, 2, 2), logit(1e-4))
    pictures[0, 0, 0, 0] = 1000.0
    found = CellShares(FirstChannel(), margin_px=0, core_px=2, cell_px=2)(pictures)
    torch.testing.assert_close(found, torch.full((1, 1, 1, 1), 0.25), atol=1e-4, rtol=0)


def test_the_margin_has_no_say_but_by_what_the_unet_sees() -> None:
    torch.manual_seed(0)
    unet = Unet(ModelSettings(patch_px=16, width=4)).eval()
    shares = CellShares(unet, margin_px=8, core_px=32, cell_px=8)
    pictures = torch.randn(2, 3, 48, 48)
    with torch.no_grad():
        found, whole = shares(pictures), torch.sigmoid(unet(pictures))
    assert found.shape == (2, 4, 4, 1) and found.dtype == torch.float32
    torch.testing.assert_close(found[..., 0], whole[:, 8:40, 8:40].unfold(1, 8, 8).unfold(2, 8, 8).mean(dim=(3, 4)))
    assert found.min() > 0 and found.max() < 1


def test_logits_of_half_precision_are_averaged_in_full() -> None:
    class Half(FirstChannel):
        def forward(self, pictures: Tensor) -> Tensor:
            return super().forward(pictures).bfloat16()

    pictures = torch.zeros(1, 1, 16, 16)
    pictures[0, 0, 0, 0] = 100.0
    found = CellShares(Half(), margin_px=0, core_px=16, cell_px=16)(pictures)
    assert found.dtype == torch.float32
    torch.testing.assert_close(found.squeeze(), torch.tensor((255 * 0.5 + 1) / 256))
